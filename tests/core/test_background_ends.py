"""How background tasks end where something goes wrong: one that does not stop, a guard that fails."""

from pathlib import Path

import anyio
import pytest

from agentcore.background import room
from agentcore.background.room import STOPPED, UNCHECKED
from agentcore.errors import ProviderError, StorageUnavailable, TakenOver
from agentcore.guard.guard import Guard
from agentcore.ports.background import TaskRoom
from agentcore.ports.tools import Outcome
from server.live import LiveSession
from tests.core.test_background import notifications, text_of, until_quiet, updates
from tests.fakes import call, house, say, use
from tests.server.test_why_http import Served, serving

pytestmark = pytest.mark.anyio


class Clinging:
    """The work of a task that does not end when it is stopped."""

    def __init__(self) -> None:
        self.lets_go = anyio.Event()

    async def __call__(self, task: TaskRoom) -> Outcome:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await self.lets_go.wait()
        return Outcome("never")


async def begin(live: LiveSession, work: Clinging) -> str:
    task_id = live.agent._parts.background.start("clings", work, kind="agent")
    await anyio.lowlevel.checkpoint()
    return task_id


async def task_of(served: Served, session: str) -> dict[str, object]:
    [task] = (await served.http.get(f"/v1/sessions/{session}/tasks")).json()["tasks"]
    return dict(task)


async def test_ending_a_task_that_does_not_end_is_answered_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "STOP_S", 0.01)
    async with serving(tmp_path) as served:
        session = await served.create()
        live, work = served.hub.find(session), Clinging()
        assert live is not None
        await begin(live, work)
        with anyio.fail_after(5):
            for _ in range(2):
                assert (await served.http.delete(f"/v1/sessions/{session}/tasks/bg-1")).status_code == 204
        assert (await task_of(served, session))["state"] == "stopping"
        assert (await served.http.get(f"/v1/sessions/{session}")).json()["running_tasks"] == 1
        work.lets_go.set()
        with anyio.fail_after(5):
            while live.state().running_tasks:
                await anyio.lowlevel.checkpoint()
        task = await task_of(served, session)
        assert (task["state"], task["result"]) == ("stopped", STOPPED)


async def test_the_model_learns_that_a_task_has_not_ended_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "STOP_S", 0.01)
    async with house(tmp_path) as home:
        live, work = await home.session(mode="yolo"), Clinging()
        await begin(live, work)
        home.provider.script(use(call("task_stop", "s1", task_id="bg-1")), say("I see."), say("It has ended."))
        events = await home.run(live, "stop it")
        assert [event.output for event in events if event.type == "tool_end"] == ["bg-1: stopping"]
        work.lets_go.set()
        await until_quiet(home, live)
        assert updates(home.events(live)) == [("bg-1", "running"), ("bg-1", "stopping"), ("bg-1", "stopped")]


async def test_what_was_being_stopped_when_the_server_was_killed_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "STOP_S", 0.01)
    async with house(tmp_path) as home:
        live, work = await home.session(), Clinging()
        await begin(live, work)
        await live.stop_task("bg-1")
        live.finish()
        work.lets_go.set()
    async with house(tmp_path) as home:
        again = await home.reload(live.id)
        await until_quiet(home, again)
        [told] = notifications(home.events(again))
        assert 'state="lost"' in text_of(told)


async def broken(*_: object) -> Outcome:
    raise ProviderError("network", "jane@example.com")


@pytest.mark.parametrize("is_error", [False, True])
async def test_a_guard_that_fails_keeps_back_the_result_and_not_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_error: bool
) -> None:
    async def work(task: TaskRoom) -> Outcome:
        return Outcome("jane@example.com", is_error=is_error)

    monkeypatch.setattr(Guard, "check_outcome", broken)
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("I see."), say("Still here."))
        live.agent._parts.background.start("tells", work, kind="agent")
        await until_quiet(home, live)
        [told] = notifications(home.events(live))
        assert updates(home.events(live))[-1] == ("bg-1", "failed" if is_error else "completed")
        assert (UNCHECKED in text_of(told), "jane" in text_of(told)) == (True, False)
        await home.run(live, "still there?")  # and nothing else has ended with it


async def test_a_guard_that_fails_keeps_back_the_last_words_of_a_task_and_not_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(task: TaskRoom) -> Outcome:
        task.take(b"jane@example.com")
        await anyio.sleep_forever()
        return Outcome("never")

    monkeypatch.setattr(Guard, "check_output", broken)
    async with house(tmp_path) as home:
        live = await home.session()
        live.agent._parts.background.start("tells", work, kind="agent")
        await anyio.lowlevel.checkpoint()
        await live.stop_task("bg-1")
        [task] = live.agent.tasks
    assert (task.state, task.result) == ("stopped", STOPPED)


@pytest.mark.parametrize("error", [StorageUnavailable("The disk is full."), TakenOver("Another server has it.")])
async def test_a_task_that_cannot_go_on_says_why_and_is_no_fault_of_the_server(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(task: TaskRoom) -> Outcome:
        raise error

    async with house(tmp_path) as home:
        live = await home.session()
        live.agent._parts.background.start("breaks", work, kind="agent")
        await until_quiet(home, live)
        [task] = live.agent.tasks
    assert (task.state, task.result, caplog.records) == ("failed", str(error), [])


async def test_what_was_done_before_it_was_stopped_is_told_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard still looks at its result: that is no part of the task."""
    checks, goes_on = anyio.Event(), anyio.Event()

    async def slow(guard: Guard, outcome: Outcome) -> Outcome:
        checks.set()
        await goes_on.wait()
        return outcome

    async def work(task: TaskRoom) -> Outcome:
        return Outcome("all of it")

    monkeypatch.setattr(Guard, "check_outcome", slow)
    async with house(tmp_path) as home:
        live = await home.session()
        live.agent._parts.background.start("tells", work, kind="agent")
        await checks.wait()
        async with anyio.create_task_group() as group:
            group.start_soon(live.stop_task, "bg-1")
            await anyio.lowlevel.checkpoint()
            goes_on.set()
        [task] = live.agent.tasks
    assert (task.state, task.result) == ("completed", "all of it")
