"""What servers offer as tools, for a session or for one of its subagents: made anew when they offer others.

Knows no session and not which servers may run. Where there are very many, two tools stand for all of them.
"""

import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agentcore.estimate import tokens_of_fixed
from agentcore.mcp.deferral import CallTool, ToolSearch
from agentcore.mcp.names import tool_names
from agentcore.mcp.offers import Offer
from agentcore.mcp.server import Server
from agentcore.mcp.tool import McpTool, Reach, Scene
from agentcore.ports.models import ToolDefinition
from agentcore.ports.tools import Tool, ToolSpec

MOST_TOOLS = 30
MOST_TOKENS = 6_000
"""The contract's: above either the model is not told of them one by one, but finds them by `tool_search`."""


@dataclass(frozen=True, slots=True)
class Offering:
    """A server as it is at one moment."""

    name: str
    """As it is configured."""
    server: Server
    offer: Offer

    def is_as(self, other: "Offering") -> bool:
        return self.name == other.name and self.server is other.server and self.offer is other.offer


@dataclass(frozen=True, slots=True)
class Making:
    """How tools are made of what is offered, in all of a session."""

    segments: Mapping[str, str]
    """By the name of a server: its part of the names of its tools."""
    is_removed: Callable[[ToolSpec], bool]
    """Whether a rule forbids all that a tool does."""
    still: Callable[[str], Callable[[], Awaitable[bool]]]
    """By the name of a server: whether it may be used still."""

    def tools(
        self, offerings: Sequence[Offering], scene: Scene, reach: Reach, has: Callable[[ToolSpec], bool]
    ) -> dict[str, Tool]:
        """All that are offered and that `has` says, by name, sorted."""
        made = (tool for one in offerings for tool in self._made(one, scene, reach))
        return {tool.spec.name: tool for tool in sorted(made, key=lambda one: one.spec.name) if has(tool.spec)}

    def _made(self, one: Offering, scene: Scene, reach: Reach) -> Iterator[Tool]:
        names = tool_names(self.segments[one.name], one.offer.names)
        for offered in one.offer.tools:
            tool = McpTool(names[offered.name], offered, one.server, reach, scene, self.still(one.name))
            if not self.is_removed(tool.spec):
                yield tool


class Toolset:
    """Give it what is offered before each look at it."""

    def __init__(self, servers: Sequence[str]) -> None:
        """`servers` are all that there may be, by name."""
        self.tools: Mapping[str, Tool] = {}
        """All that can be called, those that stand for others included."""
        self.definitions: tuple[ToolDefinition, ...] = ()
        """What a model is told of them, sorted by name: the same object while nothing has changed."""
        self._made: Mapping[str, Tool] = {}
        self._offerings: tuple[Offering, ...] = ()
        self._is_deferred = False
        self._stand_ins = _stand_ins(self, servers)

    def follow(self, offerings: tuple[Offering, ...], make: Callable[[], Mapping[str, Tool]]) -> None:
        """Have `make` make the tools anew if others are offered than the last time."""
        if len(offerings) == len(self._offerings) and all(
            now.is_as(before) for now, before in zip(offerings, self._offerings, strict=True)
        ):
            return
        self._offerings, self._made = offerings, make()
        definitions = _definitions(self._made)
        # once it has found its tools by searching, a session goes on so: its requests begin the same
        self._is_deferred = self._is_deferred or _are_many(definitions)
        self.tools = {**self._made, **(self._stand_ins if self._is_deferred else {})}
        if self._is_deferred:
            definitions = _definitions(self._stand_ins)
        if definitions != self.definitions:
            self.definitions = definitions

    def has_any_of(self, name: str) -> bool:
        """Whether any tool of a server is among them."""
        return any(tool.server_name == name for tool in self._made.values() if isinstance(tool, McpTool))

    def clear(self) -> None:
        self._offerings, self._made, self.tools = (), {}, {}


def _stand_ins(tools: Toolset, servers: Sequence[str]) -> dict[str, Tool]:
    """The two that stand for all of a set, sorted; they are part of it, and do not keep it alive."""
    held = weakref.ref(tools)

    def made() -> Mapping[str, Tool]:
        there = held()
        return {} if there is None else there._made

    both: tuple[Tool, ...] = (CallTool(), ToolSearch(made, sorted(servers)))
    return {tool.spec.name: tool for tool in both}


def _definitions(tools: Mapping[str, Tool]) -> tuple[ToolDefinition, ...]:
    return tuple(tool.spec.definition() for tool in tools.values())


def _are_many(definitions: Sequence[ToolDefinition]) -> bool:
    return len(definitions) > MOST_TOOLS or tokens_of_fixed("", definitions) > MOST_TOKENS
