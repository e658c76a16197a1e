"""A loaded session that another process has taken over is, from that moment, not loaded here any more."""

import errno
import os
from pathlib import Path

import anyio
import pytest

from agentcore.errors import SessionLocked, StorageUnavailable, TakenOver
from agentcore.events import Done, SessionClosed, Status
from agentcore.sessions.journal import Journal
from server.live import LiveSession
from server.problems import Problem
from tests.fakes import House, Turn, house, kinds, say

pytestmark = pytest.mark.anyio


def take(home: House, live: LiveSession) -> Journal:
    [directory] = (home.root / "data" / "sessions").glob(f"*/{live.id}")
    return Journal.open(directory, takeover=True)[0]


async def until_closed(home: House, live: LiveSession) -> None:
    with anyio.fail_after(5):
        while home.hub._live.get(live.id) is live:
            home.hub.tidy()
            await anyio.lowlevel.checkpoint()


async def test_it_is_not_found_at_once_and_refuses_to_be_loaded_without_a_takeover(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        owner = take(home, live)
        assert home.hub.find(live.id) is None
        with pytest.raises(Problem, match="not loaded"):
            await home.hub.get(live.id)
        with pytest.raises(TakenOver):
            live.prompt("too late")
        with pytest.raises(SessionLocked):
            await home.hub.load(live.id)
        assert live.bus.is_closed  # the load has let go of it
        again, was_loaded = await home.hub.load(live.id, takeover=True)
        assert (was_loaded, owner.lease.is_lost, home.hub.find(live.id)) == (False, True, again)
        home.listen(again)
        home.provider.script(say("It goes on."))
        assert kinds(await home.run(again, "go on"))[-2:] == ["done", "status"]


@pytest.mark.parametrize("is_running", [True, False])
async def test_its_readers_are_told_and_it_is_unloaded_without_anything_happening(
    tmp_path: Path, is_running: bool
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        if is_running:
            home.provider.script(Turn(opens=anyio.Event()), say("Never said."))
            live.prompt("go")
            live.prompt("and then", when_busy="queue")
            with anyio.fail_after(5):
                while not home.provider.requests:
                    await anyio.lowlevel.checkpoint()
        take(home, live)
        await until_closed(home, live)
        told = home.events(live)
        assert isinstance(told[-1], SessionClosed)
        assert [event.stop_reason for event in told if isinstance(event, Done)] == ["taken_over"] * is_running
        assert [event.busy for event in told if isinstance(event, Status)] == [True, False] * is_running
        assert len(home.provider.requests) == is_running  # what waited is the new owner's


@pytest.mark.parametrize("step", ["create", "load", "append"])
async def test_a_folder_that_cannot_be_written_is_told_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    async with house(tmp_path) as home:
        live = await home.session()
        if step == "load":
            await home.hub.close(live, "test")

        async def prompt() -> None:
            live.prompt("go")

        steps = {"create": home.session, "load": lambda: home.hub.load(live.id), "append": prompt}
        monkeypatch.setattr(*{"create": (Path, "mkdir"), "load": (os, "pwrite"), "append": (os, "write")}[step], refuse)
        with pytest.raises(StorageUnavailable, match=r"Read-only file system.*\."):
            await steps[step]()
        monkeypatch.undo()
        if step == "load":
            await home.hub.load(live.id)  # nothing is held that was not opened
