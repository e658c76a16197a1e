"""Servers that bring tools of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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
class Elsewhere:
    """A copy of the project that a subagent works in."""

    source: Path
    """The top of what it was made from, resolved."""
    folder: Path
    """Its own top, resolved."""

    def place_of(self, path: Path) -> Path:
        """What is there in the place of a folder of the project; the top, where it is of none."""
        return self.folder / path.relative_to(self.source) if path.is_relative_to(self.source) else self.folder


class Offers(Protocol):
    """Tools that come and go."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Those that can be called now, by name, those that stand for others included: looks anew each time."""
        ...

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What a model is told of them, sorted by name: the same object while nothing has changed."""
        ...


class Lent(Offers, Protocol):
    """What a subagent has of servers, while it runs."""

    async def close(self) -> None:
        """End what was started for it alone. Bounded, and shielded from cancellation."""
        ...


class Servers(Offers, Protocol):
    """What servers outside (MCP) offer one session. It comes and goes while the session is loaded."""

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

    def instructions(self) -> Mapping[str, str]:
        """What those that are there say about the use of their tools, by name of the server: texts of strangers."""
        ...

    def lent(self, has: Callable[[ToolSpec], bool], asker: "Asker | None", elsewhere: Elsewhere | None = None) -> Lent:
        """What a subagent has of them: the tools that `has` says. `asker` brings their questions to a person. In a copy
        of the project (`elsewhere`) commands are run a second time."""
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

    def instructions(self) -> Mapping[str, str]:
        return {}

    def lent(self, has: Callable[[ToolSpec], bool], asker: "Asker | None", elsewhere: Elsewhere | None = None) -> Lent:
        return _NOTHING_LENT

    async def read(self, server: str, uri: str) -> tuple[Text | Image | Document, ...] | None:
        return None

    async def prompt(self, name: str, arguments: str) -> tuple[Text | Image | Document, ...] | None:
        return None

    def close(self) -> None:
        pass


class _NothingLent:
    tools: Mapping[str, Tool] = MappingProxyType({})

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return ()

    async def close(self) -> None:
        pass


_NOTHING_LENT: Lent = _NothingLent()
NO_SERVERS: Servers = _NoServers()
