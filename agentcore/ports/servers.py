"""Servers that bring tools of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from agentcore.events import (
    Notice,
)
from agentcore.messages import Document, Image, Text
from agentcore.ports.models import ToolDefinition
from agentcore.ports.permission import Asker
from agentcore.ports.tools import Tool, ToolSpec


@dataclass(frozen=True, slots=True)
class Offered:
    """What servers offer, as it was at one time."""

    tools: Mapping[str, Tool] = field(default_factory=lambda: MappingProxyType({}))
    """Those that can be called, by name."""
    definitions: tuple[ToolDefinition, ...] = ()
    """What a model is told of them, sorted by name."""


class Servers(Protocol):
    """What servers outside (MCP) offer one session. It comes and goes while the session is loaded."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools that can be called now, by name, those that stand for others included: looks anew each time."""
        ...

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What a model is told of them, sorted by name: the same object while nothing has changed."""
        ...

    def take_notices(self) -> Sequence[Notice]:
        """What has changed since it was taken last, for people; each once."""
        ...

    async def look(self, within_s: float) -> None:
        """Start what may be used by now and is not there, and wait so long at most for what is starting."""
        ...

    @property
    def awaited(self) -> tuple[str, ...]:
        """The names of those that a `look` waits for now."""
        ...

    def lent(self, has: Callable[[ToolSpec], bool], asker: "Asker | None") -> Offered:
        """What a subagent gets of them, as they are now: the tools that `has` says. `asker` brings their questions to a
        person."""
        ...

    async def read(self, server: str, uri: str) -> tuple[Text | Image | Document, ...] | None:
        """A resource as blocks; None where no server of the session has this name. Raises: ToolError,
        StorageUnavailable."""
        ...

    async def prompt(self, name: str, arguments: str) -> tuple[Text | Image | Document, ...] | None:
        """What a prompt `mcp__server__prompt` comes to; None where there is none of this name. Raises: ToolError,
        StorageUnavailable."""
        ...

    def close(self) -> None:
        """Let go of all of them: the session is closed."""
        ...


class _NoServers:
    tools: Mapping[str, Tool] = MappingProxyType({})
    awaited: tuple[str, ...] = ()

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return ()

    def take_notices(self) -> Sequence[Notice]:
        return ()

    async def look(self, within_s: float) -> None:
        pass

    def lent(self, has: Callable[[ToolSpec], bool], asker: "Asker | None") -> Offered:
        return Offered()

    async def read(self, server: str, uri: str) -> tuple[Text | Image | Document, ...] | None:
        return None

    async def prompt(self, name: str, arguments: str) -> tuple[Text | Image | Document, ...] | None:
        return None

    def close(self) -> None:
        pass


NO_SERVERS: Servers = _NoServers()
