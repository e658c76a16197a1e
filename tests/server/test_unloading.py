"""Sessions that nobody uses are unloaded after half an hour; those that anything goes on in are not."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from agentcore.events import SessionClosed
from server.bus import Cursor
from server.hub import IDLE_S
from server.problems import Problem
from tests.fakes import FakeClock, House, Turn, call, house, say, use

pytestmark = pytest.mark.anyio


def pass_by(home: House, clock: FakeClock, seconds: float) -> None:
    home.hub.tidy()
    clock.time += seconds
    home.hub.tidy()


async def test_a_session_that_nobody_uses_is_unloaded_after_half_an_hour_and_says_so(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session()
        await home.run(live, "hello")
        pass_by(home, clock, IDLE_S - 1)
        assert home.hub.find(live.id) is live
        await home.hub.get(live.id)  # any request to it is use
        pass_by(home, clock, IDLE_S - 1)
        assert home.hub.find(live.id) is live
        pass_by(home, clock, 1)
        assert home.hub.find(live.id) is None
        closed = home.events(live)[-1]
        assert isinstance(closed, SessionClosed)
        assert (closed.reason, live.bus.is_closed) == ("idle", True)
        with pytest.raises(Problem, match="not loaded"):
            await home.hub.get(live.id)
        again, was_loaded = await home.hub.load(live.id)
        assert (was_loaded, len(again.agent.history.transcript.messages)) == (False, 2)


async def reading(home: House, session: str) -> None:
    live = await home.hub.get(session)
    live.bus.cursors.add(Cursor(live.bus.head))


async def running(home: House, session: str) -> None:
    home.provider.script(Turn(opens=anyio.Event()))
    (await home.hub.get(session)).prompt("go")


async def asked(home: House, session: str) -> None:
    home.provider.script(use(call("bash", command="make all")))
    live = await home.hub.get(session)
    live.prompt("go")
    await home.until_asked(live)


@pytest.mark.parametrize("use_it", [reading, running, asked])
async def test_a_session_in_use_stays(tmp_path: Path, use_it: Callable[[House, str], object]) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session()
        await use_it(home, live.id)
        pass_by(home, clock, 10 * IDLE_S)
        assert home.hub.find(live.id) is live
        live.bus.cursors.clear()
        live.cancel()
        await home.until_idle(live)
        pass_by(home, clock, IDLE_S)
        assert home.hub.find(live.id) is None


async def test_an_interrupted_run_is_not_ended_by_unloading_its_session(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session()
        await running(home, live.id)
    async with house(tmp_path, clock=clock) as home:
        live = await home.reload(live.id)
        pass_by(home, clock, IDLE_S)
        assert home.hub.find(live.id) is None
        again, _ = await home.hub.load(live.id)
        home.listen(again)
        assert again.state().interrupted
        home.provider.script(say("It goes on."))
        again.resume_run()
        await home.until_idle(again)
