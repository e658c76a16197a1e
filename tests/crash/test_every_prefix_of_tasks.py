"""Killed behind every line of a story with background tasks: one ends while its run goes on, one when nothing does, one
is stopped, and one still runs.

Whatever line was the last one: each task that began has one end, and the model is told of it once.
"""

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.ports.models import ModelRequest
from server.live import LiveSession
from tests.core.test_background import in_background, let_go, until_quiet
from tests.crash.stories import check_journal, of_kind
from tests.fakes import FakeProvider, House, call, house, say, use

pytestmark = pytest.mark.anyio

FIRST_LINES = 2  # `meta` and `load`
BEGIN = use(
    in_background("echo quick", "b1"),
    in_background("cat gate; echo slow", "b2"),
    in_background("sleep 60", "b3"),
    in_background("sleep 61", "b4"),
    call("task_output", "o1", task_id="bg-1", block=True),
    call("task_stop", "s1", task_id="bg-3"),
)


class OnceProvider(FakeProvider):
    """Begins the tasks once in a conversation, and ends every other turn."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        has_called = any(message.tool_calls for message in request.messages)
        self.turns = [say("Done.") if has_called else BEGIN]
        async with super().stream(request) as parts:
            yield parts


def scripted(home: House) -> None:
    home.app.providers.provider = OnceProvider()  # type: ignore[attr-defined]


async def tell(home: House) -> LiveSession:
    os.mkfifo(home.root / "work" / "gate")
    live = await home.session(mode="yolo")
    live.prompt("go")
    await home.until_idle(live)
    await let_go(home.root)
    with anyio.fail_after(10):
        while live.is_busy or live.state().running_tasks > 1:
            await anyio.lowlevel.checkpoint()
    return live


async def go_on(home: House, live: LiveSession) -> None:
    if live.state().interrupted:
        live.resume_run()


async def cancel(home: House, live: LiveSession) -> None:
    live.cancel()


async def prompt_instead(home: House, live: LiveSession) -> None:
    live.prompt("something else", when_busy="interrupt")


@pytest.mark.parametrize("way", [go_on, cancel, prompt_instead])
async def test_killed_behind_any_line_each_task_ends_once_and_is_told_once(
    tmp_path: Path, way: Callable[[House, LiveSession], Awaitable[None]]
) -> None:
    async with house(tmp_path) as home:
        scripted(home)
        session = (await tell(home)).id
        [path] = (tmp_path / "data" / "sessions").glob(f"*/{session}/journal.jsonl")
        lines = path.read_bytes().splitlines(keepends=True)  # the last task is alive: what a kill would leave
    (tmp_path / "work" / "gate").unlink()
    (tmp_path / "work" / "gate").touch()  # a call that runs again does not wait
    for count in range(FIRST_LINES, len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        told = f"killed behind line {count}: {lines[count - 1][:80]!r}"
        async with house(tmp_path) as home:
            scripted(home)
            live = await home.reload(session)
            await way(home, live)
            await until_settled(live)
            live.prompt("and now?")  # what was stopped on purpose is told with this
            await until_settled(live)
            assert live.agent.history.tasks.untold == (), told
        async with house(tmp_path) as home:
            scripted(home)
            live = await home.reload(session)
            assert not live.is_busy, told  # nothing is told again
        events = check_journal(path.read_bytes())
        ids = {event["task_id"] for event in of_kind(events, "task_update")}
        ended = {event["task_id"] for event in of_kind(events, "task_update") if event["state"] != "running"}
        named = [name for event in of_kind(events, "user_message") for name in event.get("task_ids", ())]
        assert (ended, sorted(named)) == (ids, sorted(ids)), told


async def until_settled(live: LiveSession) -> None:
    """Until nothing goes on, with an end to what would go on for a minute."""
    with anyio.fail_after(20):
        while live.is_busy or live.state().running_tasks or live.agent.has_news:
            for task in live.agent.tasks:
                if task.state == "running" and "sleep" in task.label:
                    await live.stop_task(task.task_id)
            await anyio.lowlevel.checkpoint()


async def test_a_wake_that_told_nothing_is_none(tmp_path: Path) -> None:
    """Killed between the record of the run and its first message: the next load begins another. No end is missing."""
    async with house(tmp_path) as home:
        scripted(home)
        session = (await tell(home)).id
        [path] = (tmp_path / "data" / "sessions").glob(f"*/{session}/journal.jsonl")
        lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"is_wake":true' in line)
    path.write_bytes(b"".join(lines[: at + 1]))
    async with house(tmp_path) as home:
        scripted(home)
        live = await home.reload(session)
        assert (live.is_busy, live.state().interrupted) == (True, False)
        await until_quiet(home, live)
    wakes = [json.loads(line) for line in path.read_bytes().splitlines() if b'"is_wake":true' in line]
    dones = of_kind(check_journal(path.read_bytes()), "done")
    assert [one["run_id"] for one in dones][1:] == [wakes[1]["run_id"]]
