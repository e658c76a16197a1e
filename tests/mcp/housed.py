"""A house of `tests.fakes` whose sessions have MCP servers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentcore import factory
from agentcore.mcp.pool import McpServers
from agentcore.mcp.server import Timing
from agentcore.mcp.view import SessionServers
from agentcore.origin import Origin
from agentcore.settings.servers import McpServer
from tests.fakes import House, house
from tests.mcp.serving import ENVIRON, QUICK, WITHIN_S

OWN = Origin("settings.toml", Path("/"))


@dataclass
class Served:
    """The house, and what each session sees of its servers."""

    house: House
    approved: set[str] = field(default_factory=set)
    """Digests."""
    views: list[SessionServers] = field(default_factory=list)

    @property
    def pool(self) -> McpServers:
        assert self.house.app._factory is not None
        return self.house.app._factory.servers


def configured(name: str, argv: tuple[str, ...], origin: Origin = OWN) -> McpServer:
    raw = {"command": argv[0], "args": list(argv[1:])}
    return McpServer(name, origin, "stdio", command=argv[0], args=argv[1:], raw=raw)


@asynccontextmanager
async def served(
    root: Path, monkeypatch: pytest.MonkeyPatch, *servers: McpServer, timing: Timing = QUICK, start_s: float = WITHIN_S
) -> AsyncIterator[Served]:
    """`start_s` is what a run waits for servers at most."""
    monkeypatch.setattr("agentcore.run.SERVERS_START_S", start_s)
    settings = root / "config" / "settings.toml"
    settings.parent.mkdir(exist_ok=True)
    with settings.open("a") as file:
        file.write('\n[mcp_servers.replaced]\ncommand = "by those that are given here"\n')
    async with house(root) as at_home:
        here = Served(at_home)
        monkeypatch.setattr(factory, "McpServers", partial(McpServers, timing=timing))
        monkeypatch.setattr(factory, "SessionServers", partial(_view, here, servers))
        yield here


def _view(here: Served, servers: Sequence[McpServer], pool: McpServers, _: object, scene: Any, *rest: Any) -> Any:
    def is_approved(origin: Origin, digest: str) -> bool:
        return digest in here.approved

    view = SessionServers(pool, servers, scene, ENVIRON, is_approved, rest[-1])
    here.views.append(view)
    return view
