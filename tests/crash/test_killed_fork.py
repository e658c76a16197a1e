"""A fork that is killed half way: it is there whole, or it was never there."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from agentcore.sessions.fold import fold
from agentcore.sessions.reading import read_lines
from agentcore.sessions.store import HALF_MADE_S, SessionStore
from tests.crash.stories import check_journal
from tests.fakes import FakeClock, house, say
from tests.pictures import picture

pytestmark = pytest.mark.anyio


def blobs_of(directory: Path) -> set[str]:
    return {path.name for path in (directory / "blobs").iterdir()}


async def original(root: Path) -> str:
    async with house(root) as home:
        live = await home.session()
        kept = await live.agent.attachments.store(picture(), "image/png")
        home.provider.script(say("A picture."))
        live.prompt("look", (await live.agent.attachments.of_blob(kept.blob),))
        await home.until_idle(live)
        return live.id


async def test_a_fork_that_is_killed_anywhere_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    session = await original(tmp_path)
    sessions, root = tmp_path / "data" / "sessions", (tmp_path / "work").resolve()
    arguments = [sys.executable, "-m", "tests.crash.forks", str(sessions), str(root), session]
    with anyio.fail_after(60):
        ends = (await anyio.run_process(arguments, stderr=subprocess.STDOUT)).stdout.split()
    assert ends == [b"-9"] * (len(ends) - 1) + [b"0"]
    assert len(ends) > 8

    clock = FakeClock()
    store = SessionStore(sessions, (root,), clock)
    [project] = sessions.iterdir()
    made = {path.name: path for path in project.iterdir()}
    listed = {one.id for one in store.summaries()}
    whole = {name for name, path in made.items() if (path / "journal.jsonl").exists()}
    assert listed == whole
    assert len(made) > len(whole) > 1
    expected = store.display(session, None, 0, None)[0]
    for name in whole - {session}:
        text = (made[name] / "journal.jsonl").read_bytes()
        check_journal(text)
        assert fold(read_lines(made[name] / "journal.jsonl")).meta.fork_of == session
        assert [one.content for one in store.display(name, None, 0, None)[0]] == [one.content for one in expected]
        assert blobs_of(made[name]) == blobs_of(made[session])

    for path in made.values():
        os.utime(path, (clock.time - HALF_MADE_S - 1,) * 2)
    store.sweep()
    assert {path.name for path in project.iterdir()} == whole
    store.open(session).log.close()
