"""A house of `tests.fakes` whose sessions have MCP servers."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore import factory, makers
from agentcore.events import ToolEnd
from agentcore.mcp.pool import McpServers
from agentcore.mcp.states import Timing
from agentcore.mcp.view import SessionServers
from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.settings.servers import McpServer
from server.schemas import AnswerBody
from tests.fakes import House, house
from tests.mcp.serving import ENVIRON, QUICK, WITHIN_S, odd, sdk

OWN = Origin("settings.toml", Path("/"))
ALLOW = AnswerBody(allow=True)


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


SDK = configured("sdk", sdk().argv)


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
        monkeypatch.setattr(makers, "SessionServers", partial(_view, here, servers))
        yield here


def _view(here: Served, servers: Sequence[McpServer], pool: McpServers, _: object, scene: Any, *rest: Any) -> Any:
    def is_approved(origin: Origin, digest: str) -> bool:
        return digest in here.approved

    view = SessionServers(pool, servers, scene, ENVIRON, is_approved, rest[-1])
    here.views.append(view)
    return view


# --- what tests say and read ---


def odd_server(*habits: str, name: str = "odd") -> McpServer:
    return configured(name, odd(*habits).argv)


def by_name(call_id: str, name: str, input: dict | None = None) -> ToolCall:
    """A call through `call_tool`."""
    return ToolCall(id=call_id, name="call_tool", input={"name": name} | ({} if input is None else {"input": input}))


def ends(events: list) -> list[tuple[str, str, bool]]:
    return [(event.tool_name, event.output, event.is_error) for event in events if isinstance(event, ToolEnd)]


def names_in(request) -> list[str]:
    return [tool.name for tool in request.tools]


async def run(here, live, text: str, answers=()):
    """As `House.run`, with the time that processes take."""
    start = len(here.house.events(live))
    live.prompt(text)
    given = list(answers)
    answered: set[str] = set()
    with anyio.fail_after(WITHIN_S):
        while live.is_busy:
            for request in live.requests.open:
                if given and request.request_id not in answered:
                    answered.add(request.request_id)
                    live.answer(request.request_id, given.pop(0))
            await anyio.sleep(0.001)
    return here.house.events(live)[start:]


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(WITHIN_S):
        while True:
            if condition():
                return
            await anyio.sleep(0.005)
