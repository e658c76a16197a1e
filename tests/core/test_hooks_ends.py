"""What hooks hear around a person: one is needed, a session ends. And what an answer holds for after a restart."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from agentcore.events import Cleared, PermissionRequest, PermissionResolved, SessionClosed, ToolEnd
from agentcore.messages import ToolCall
from server.hub import IDLE_S
from server.live import LiveSession
from server.problems import Problem
from server.schemas import AnswerBody
from tests.core.test_hooks_runs import LOGGER, logged, of_kind, own, says, script, settings
from tests.fakes import FakeClock, House, Turn, call, house, say, use

pytestmark = pytest.mark.anyio
SLOW = LOGGER + "\nimport time\ntime.sleep(30)\n"


async def until(is_so: Callable[[], object]) -> None:
    with anyio.fail_after(10):
        while not is_so():  # noqa: ASYNC110 - other processes raise no events
            await anyio.sleep(0.01)


# --- the end of a session -----------------------------------------------------------------------------------------


def reasons(root: Path) -> list[tuple[str, str]]:
    return [(one["hook_event_name"], one["reason"]) for one in logged(root)]


Ending = Callable[[House, FakeClock, LiveSession], Awaitable[None]]


async def deleted(home: House, clock: FakeClock, live: LiveSession) -> None:
    async with anyio.create_task_group() as both:  # asked for twice at once, it ends once
        both.start_soon(home.hub.close, live, "deleted")
        both.start_soon(home.hub.close, live, "deleted")


async def unused(home: House, clock: FakeClock, live: LiveSession) -> None:
    home.hub.tidy()
    clock.time += IDLE_S
    home.hub.tidy()
    with pytest.raises(Problem, match="closed"):
        live.prompt("too late")
    await until(lambda: home.hub.find(live.id) is None)


async def stopped(home: House, clock: FakeClock, live: LiveSession) -> None:
    await home.hub.stop(b"")


@pytest.mark.parametrize("end", [deleted, unused, stopped])
async def test_hooks_hear_the_end_of_a_session_once_before_its_journal_is_closed(tmp_path: Path, end: Ending) -> None:
    told = script(tmp_path, "log.py", LOGGER + "\nprint(json.dumps({'systemMessage': 'bye'}))")
    settings(tmp_path, SessionEnd=[{"command": told, "timeout": 10}])
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session()
        await home.run(live, "hello")
        await end(home, clock, live)
        assert reasons(tmp_path) == [("SessionEnd", "other")]
        kinds = [event.type for event in home.events(live)]
        last = ["notice"] if end is stopped else ["notice", "session_closed"]
        assert kinds[-len(last) :] == last  # what the hook said to people has been told
        assert live.bus.is_closed


async def test_hooks_hear_that_a_session_begins_anew(tmp_path: Path) -> None:
    settings(tmp_path, SessionEnd=[{"command": script(tmp_path, "log.py", LOGGER), "timeout": 10}])
    async with house(tmp_path) as home:
        live = await home.session()
        await home.run(live, "hello")
        live.clear()
        assert of_kind(home.events(live), Cleared)
        await until(lambda: logged(tmp_path))
        assert reasons(tmp_path) == [("SessionEnd", "clear")]
        await home.hub.close(live, "deleted")
        assert reasons(tmp_path) == [("SessionEnd", "clear"), ("SessionEnd", "other")]


async def test_an_unfinished_run_outlives_the_end_of_its_session(tmp_path: Path) -> None:
    settings(tmp_path, SessionEnd=[{"command": script(tmp_path, "log.py", LOGGER), "timeout": 10}])
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="touch made")))
        live.prompt("go")
        await home.until_asked(live)
        assert await home.hub.stop(b"") == 1
    assert reasons(tmp_path) == [("SessionEnd", "other")]
    async with house(tmp_path) as home:
        again = await home.reload(live.id)
        assert len(again.requests) == 1


async def test_slow_last_hooks_do_not_hold_up_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.hub.STOPPING_S", 0.5)
    settings(tmp_path, SessionEnd=[{"command": script(tmp_path, "slow.py", SLOW), "timeout": 60}])
    async with house(tmp_path) as home:
        for _ in range(2):
            await home.session()
        with anyio.fail_after(5):
            await home.hub.stop(b"")
        assert list(home.hub) == []


async def test_last_hooks_that_fail_fail_no_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings(tmp_path, SessionEnd=[{"command": script(tmp_path, "log.py", LOGGER)}])

    async def fails(reason: str) -> None:
        raise RuntimeError(reason)

    async with house(tmp_path) as home:
        live = await home.session()
        monkeypatch.setattr(type(live.agent.hooks), "session_ended", lambda self, reason: fails(reason))
        live.clear()
        await home.hub.close(live, "deleted")
        assert isinstance(home.events(live)[-1], SessionClosed)


# --- a person is needed -------------------------------------------------------------------------------------------


def notified(root: Path) -> list[tuple[str, str]]:
    return [(one["notification_type"], one["message"]) for one in logged(root)]


def notifying(root: Path, **more: list[dict[str, object]]) -> None:
    settings(root, Notification=[{"command": script(root, "log.py", LOGGER)}], **more)


IDLE = ("idle_prompt", "The run has ended: the session waits for your next prompt")


async def test_a_person_is_notified_when_nothing_was_next_for_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session()
        heard = list[tuple[str, str]]()
        monkeypatch.setattr(
            type(live.agent.hooks), "notify", lambda hooks, kind, message: heard.append((kind, message))
        )

        def after(seconds: float) -> int:
            """How often a person was told by then."""
            clock.time += seconds
            home.hub.tidy()
            return len(heard)

        opens, holds = anyio.Event(), anyio.Event()
        home.provider.script(Turn(opens=opens), say("two"), say("three"), Turn(opens=holds))
        assert after(100) == 0  # nothing was said in it yet
        live.prompt("first")
        live.prompt("second", when_busy="queue")
        opens.set()
        await home.until_idle(live)
        assert after(59) == 0
        live.prompt("third")  # in time: the minute begins anew
        await home.until_idle(live)
        assert [after(59), after(1), after(100)] == [0, 1, 1]
        live.prompt("fourth")
        assert after(100) == 1
        holds.set()
        await home.until_idle(live)
        assert after(60) == 2
    assert heard == [IDLE, IDLE]


async def test_who_cancels_a_suspended_run_is_not_called_for_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session(unattended="defer")
        heard = list[str]()
        monkeypatch.setattr(type(live.agent.hooks), "notify", lambda hooks, kind, message: heard.append(kind))
        home.provider.script(say("one"), use(call("bash", command="touch made")))
        await home.run(live, "go")
        await home.run(live, "ask me")
        live.cancel()
        clock.time += 100
        home.hub.tidy()
        assert "idle_prompt" not in heard


async def test_a_notification_hook_reads_why_a_person_is_needed(tmp_path: Path) -> None:
    notifying(tmp_path)
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session()
        await home.run(live, "go")
        clock.time += 60
        home.hub.tidy()
        await until(lambda: logged(tmp_path))
    assert notified(tmp_path) == [IDLE]


@pytest.mark.parametrize(
    ("unattended", "is_answered", "told"),
    [
        ("wait", False, ["permission_prompt", "idle_prompt"]),
        ("wait", True, ["idle_prompt"]),  # a hook answers in the person's place
        ("deny", False, []),  # nobody is there
    ],
)
async def test_only_a_person_who_is_really_asked_is_notified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unattended: str, is_answered: bool, told: list[str]
) -> None:
    allow = own("PermissionRequest", decision={"behavior": "allow"})
    hook = says(tmp_path, "allow.py", allow if is_answered else {})
    settings(tmp_path, PermissionRequest=[{"command": hook}])
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session(unattended=unattended)
        heard = list[str]()
        monkeypatch.setattr(type(live.agent.hooks), "notify", lambda hooks, kind, message: heard.append(kind))
        home.provider.script(use(call("bash", command="touch made")), say("ok"))
        await home.run(live, "go", answers=[AnswerBody(allow=True)])
        clock.time += 60
        home.hub.tidy()
        assert heard == told


ANSWERS = {
    "tool": AnswerBody(allow=True),
    "question": AnswerBody(allow=True, answer="blue"),
    "plan": AnswerBody(allow=True),
    "subagent": AnswerBody(allow=True),
}


def asked(kind: str) -> ToolCall:
    """What a person is asked about, by the main agent or for a subagent."""
    calls = {
        "tool": call("bash", command="touch made"),
        "question": call("ask_user", input="What is it called?"),
        "plan": call("exit_plan_mode", plan="1. Do it."),
        "subagent": call("task", description="d", prompt="p", subagent_type="general-purpose"),
        "background": call("bash", "b", command="touch made; sleep 1000", run_in_background=True),
    }
    return calls[kind]


@pytest.mark.parametrize(
    ("kind", "unattended", "mode", "told"),
    [
        ("tool", "wait", "default", ["permission_prompt"]),
        ("question", "wait", "default", ["permission_prompt"]),
        ("plan", "wait", "plan", ["permission_prompt"]),
        ("subagent", "wait", "default", ["permission_prompt"]),
        ("tool", "defer", "default", ["permission_prompt"]),
        ("subagent", "defer", "default", []),  # it cannot wait: it is refused at once
    ],
)
async def test_a_person_is_notified_of_whatever_they_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, unattended: str, mode: str, told: list[str]
) -> None:
    async with house(tmp_path) as home:
        live = await home.session(unattended=unattended, mode=mode)
        heard = list[str]()
        monkeypatch.setattr(type(live.agent.hooks), "notify", lambda hooks, kind, message: heard.append(kind))
        inner = [use(call("bash", "inner", command="touch made")), say("done")] if kind == "subagent" else []
        home.provider.script(use(asked(kind)), *inner, say("ok"))
        await home.run(live, "go", answers=[] if unattended == "defer" else [ANSWERS[kind]])
        assert heard == told


async def test_a_person_is_not_called_while_a_task_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins the next run by itself, or asks by itself."""
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session(mode="yolo")
        heard = list[str]()
        monkeypatch.setattr(type(live.agent.hooks), "notify", lambda hooks, kind, message: heard.append(kind))
        home.provider.script(use(asked("background")), say("It runs."))
        await home.run(live, "go")
        clock.time += 100
        home.hub.tidy()
        assert heard == []
        await live.agent.stop_task("bg-1")
        home.hub.tidy()
        assert heard == ["idle_prompt"]


# --- restarts -----------------------------------------------------------------------------------------------------


def rewriting(root: Path, command: str) -> None:
    """A hook that makes this command of every other."""
    rewritten = own("PreToolUse", updatedInput={"command": command}, permissionDecision="ask")
    settings(
        root,
        PreToolUse=[{"command": says(root, "rewrite.py", rewritten)}],
        Notification=[{"matcher": "permission_prompt", "command": script(root, "log.py", LOGGER)}],
    )


async def asked_and_killed(root: Path) -> str:
    """A person is asked about `touch one`, and the server dies."""
    rewriting(root, "touch one")
    async with house(root) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="touch zero")))
        live.prompt("go")
        assert (await home.until_asked(live)).input == {"command": "touch one"}
        await until(lambda: logged(root))
        return live.id


async def until_asked_about(live: LiveSession, command: str) -> PermissionRequest:
    await until(lambda: [one.input for one in live.requests.open] == [{"command": command}])
    return live.requests.open[0]


def made(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "work").iterdir() if path.name != "hooks.log")


async def test_an_answer_holds_after_a_restart_for_what_was_shown(tmp_path: Path) -> None:
    session = await asked_and_killed(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        home.provider.script(say("Done."))
        live.answer("perm-1", AnswerBody(allow=True))
        await home.until_idle(live)
        assert of_kind(home.events(live), PermissionRequest) == []
        assert of_kind(home.events(live), ToolEnd)[0].is_error is False
    assert made(tmp_path) == ["one"]
    assert len(logged(tmp_path)) == 1  # nobody was told twice


@pytest.mark.parametrize("is_answered", [False, True])
async def test_an_answer_does_not_hold_for_another_call_that_a_hook_makes_after_a_restart(
    tmp_path: Path, is_answered: bool
) -> None:
    session = await asked_and_killed(tmp_path)
    rewriting(tmp_path, "touch two")
    async with house(tmp_path) as home:
        live = await home.reload(session)
        if is_answered:
            live.answer("perm-1", AnswerBody(allow=True))
        else:
            live.resume_run()
        assert (await until_asked_about(live, "touch two")).request_id == "perm-2"
        [resolved] = of_kind(home.events(live), PermissionResolved)
        assert (resolved.request_id, resolved.resolution) == ("perm-1", "allowed" if is_answered else "cancelled")
        await until(lambda: len(logged(tmp_path)) == 2)
    assert made(tmp_path) == []
    async with house(tmp_path) as home:  # and once more: the new question is the one that stands
        live = await home.reload(session)
        assert live.agent.history.answered == {}
        live.resume_run()
        assert (await until_asked_about(live, "touch two")).request_id == "perm-2"
        home.provider.script(say("Done."))
        live.answer("perm-2", AnswerBody(allow=True))
        await home.until_idle(live)
        assert of_kind(home.events(live), ToolEnd)[0].is_error is False
    assert made(tmp_path) == ["two"]
