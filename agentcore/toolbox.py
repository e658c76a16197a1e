"""All tools of an agent as one mapping, though they come from several places and some of them come and go."""

from collections import ChainMap
from collections.abc import Iterator, Mapping

from agentcore.ports.models import ToolDefinition
from agentcore.ports.servers import NO_SERVERS, Offers
from agentcore.ports.tools import Tool


class Toolbox(Mapping[str, Tool]):
    """Looks anew each time: into the agent's own tools first, then into what servers offer now."""

    def __init__(self, own: Mapping[str, Tool], servers: Offers = NO_SERVERS) -> None:
        self.own = own
        self.servers = servers
        self._merged: tuple[object, object, tuple[ToolDefinition, ...]] = (None, None, ())
        """Definitions of its own and of the servers', and what came of both: sorted once, not with each call."""

    def beside(self, added: Mapping[str, Tool]) -> "Toolbox":
        """With some more of its own."""
        return Toolbox({**self.own, **added}, self.servers)

    def definitions(self, own: tuple[ToolDefinition, ...]) -> tuple[ToolDefinition, ...]:
        """What a model is told of its own with what servers offer now, sorted: the same while neither has changed."""
        offered = self.servers.definitions()
        if not offered:
            return own
        if self._merged[0] is not own or self._merged[1] is not offered:
            taken = {tool.name for tool in own}
            more = (tool for tool in offered if tool.name not in taken)
            self._merged = own, offered, tuple(sorted((*own, *more), key=lambda tool: tool.name))
        return self._merged[2]

    def __getitem__(self, name: str) -> Tool:
        found = self.own.get(name)
        return self.servers.tools[name] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(ChainMap(dict(self.own), dict(self.servers.tools)))

    def __len__(self) -> int:
        return len(self.own.keys() | self.servers.tools.keys())
