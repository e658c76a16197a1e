"""All tools of a session as one mapping, though they come from several places and some of them come and go."""

from collections import ChainMap
from collections.abc import Iterator, Mapping

from agentcore.ports.servers import NO_SERVERS, Servers
from agentcore.ports.tools import Tool


class Toolbox(Mapping[str, Tool]):
    """Looks anew each time: into the session's own tools first, then into what servers offer now."""

    def __init__(self, own: Mapping[str, Tool], servers: Servers = NO_SERVERS) -> None:
        self.own = own
        self.servers = servers

    def beside(self, added: Mapping[str, Tool]) -> "Toolbox":
        """With some more of its own."""
        return Toolbox({**self.own, **added}, self.servers)

    def __getitem__(self, name: str) -> Tool:
        found = self.own.get(name)
        return self.servers.tools[name] if found is None else found

    def __iter__(self) -> Iterator[str]:
        return iter(ChainMap(dict(self.own), dict(self.servers.tools)))

    def __len__(self) -> int:
        return len(self.own.keys() | self.servers.tools.keys())
