"""Loading a session again: it goes on from wherever its journal says it stood. (Real kills are in `tests/crash`.)"""

import errno
import json
import os
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from agentcore.encoding import head_of
from agentcore.errors import ModeNotAllowed, StorageUnavailable, Unprocessable
from agentcore.events import EVENTS, SessionUpdated, Status
from agentcore.leftovers import UNKNOWN_OUTCOME
from agentcore.messages import ToolResult
from agentcore.session import Settings
from server.live import LiveSession
from server.problems import Problem
from server.schemas import AnswerBody
from tests.fakes import FakeClock, House, Turn, call, house, kinds, say, use

pytestmark = pytest.mark.anyio


async def idle(live: LiveSession) -> None:
    with anyio.fail_after(5):
        while live.is_busy:
            await anyio.lowlevel.checkpoint()


async def stop_while_asked(
    root: Path,
    *,
    mode: str = "default",
    waiting: str | None = None,
    clock: FakeClock | None = None,
    expires_after_s: float | None = None,
) -> str:
    """A session whose process stopped while its request waited."""
    async with house(root, clock=clock) as home:
        live = await home.session(mode=mode, expires_after_s=expires_after_s)
        home.provider.script(use(call("bash", "c1", command="echo ran")))
        live.prompt("greet")
        await home.until_asked(live)
        if waiting is not None:
            live.prompt(waiting, when_busy="queue")
        return live.id


async def test_a_waiting_request_is_offered_again_and_its_answer_goes_on(tmp_path: Path) -> None:
    session = await stop_while_asked(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        request = live.requests.open[0]
        assert (request.request_id, request.call_id) == ("perm-1", "c1")
        assert (live.state().busy, live.state().waiting_for, live.state().interrupted) == (False, "permission", True)
        home.provider.script(say("It ran."))
        live.answer("perm-1", AnswerBody(allow=True))
        await idle(live)
        expected = ["permission_resolved", "status", "tool_start", "notice", "tool_end", "turn_end"]
        assert kinds(home.events(live))[:6] == expected
        assert home.events(live)[-2].text == "It ran."
        assert len(home.provider.requests) == 1


async def test_an_answer_that_was_given_is_not_asked_again(tmp_path: Path) -> None:
    session = await stop_while_asked(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        live.answer("perm-1", AnswerBody(allow=False, reason="no"))  # stops before the run goes on
    async with house(tmp_path) as home:
        live = await home.reload(session)
        assert live.requests.open == ()
        home.provider.script(say("Then not."))
        live.resume_run()
        await idle(live)
        result = live.agent.history.transcript.messages[-2].content[0]
        assert isinstance(result, ToolResult)
        assert "no" in result.content
        with pytest.raises(Problem) as refused:
            live.answer("perm-1", AnswerBody(allow=True))
        assert (refused.value.code, refused.value.details) == ("already_resolved", {"resolution": "denied"})


@pytest.mark.parametrize("noticed_by", ["the clock", "a late answer"])
async def test_a_request_that_expires_in_an_interrupted_session_lets_its_run_go_on(
    tmp_path: Path, noticed_by: str
) -> None:
    clock = FakeClock()
    session = await stop_while_asked(tmp_path, clock=clock, expires_after_s=60)
    async with house(tmp_path, clock=clock) as home:
        live = await home.reload(session)
        home.provider.script(say("Then not."))
        clock.time += 59
        home.hub.tidy()
        assert (live.state().interrupted, live.state().pending_permissions) == (True, 1)
        clock.time += 2
        if noticed_by == "the clock":
            home.hub.tidy()
        else:
            with pytest.raises(Problem) as late:
                live.answer("perm-1", AnswerBody(allow=True))
            assert late.value.code == "permission_expired"
        await idle(live)
        events = home.events(live)
        assert [event.resolution for event in events if event.type == "permission_resolved"] == ["expired"]
        assert "tool_start" not in kinds(events)
        assert events[-2].text == "Then not."


async def test_an_interrupted_run_in_which_nothing_expired_waits_for_somebody_to_resume_it(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session(expires_after_s=60)
        home.provider.script(Turn(holds=anyio.Event()))
        live.prompt("question")
        await home.provider.streaming.wait()
    async with house(tmp_path, clock=clock) as home:
        live = await home.reload(live.id)
        clock.time += 61
        home.hub.tidy()
        assert live.state().interrupted
        assert home.provider.requests == []


async def test_a_prompt_ends_an_interrupted_run_and_begins_its_own(tmp_path: Path) -> None:
    session = await stop_while_asked(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        home.provider.script(say("Something else."))
        events = await home.run(live, "leave it")
        expected = ["permission_resolved", "tool_end", "turn_end", "done", "status", "user_message"]
        assert kinds(events)[:6] == expected
        assert [event.resolution for event in events if event.type == "permission_resolved"] == ["cancelled"]
        assert [event.stop_reason for event in events if event.type == "done"] == ["interrupted", "end_turn"]
        roles = [message.role for message in home.provider.requests[0].messages]
        assert roles == ["user", "assistant", "user"]


async def test_cancel_ends_an_interrupted_run(tmp_path: Path) -> None:
    session = await stop_while_asked(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        assert live.cancel()
        assert kinds(home.events(live)) == ["permission_resolved", "tool_end", "turn_end", "done"]
        assert not live.state().interrupted


async def test_a_command_that_was_running_has_an_unknown_outcome(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", command="echo on; sleep 60")))
        live.prompt("wait")
        with anyio.fail_after(5):
            while not any(event.type == "tool_output_delta" for event in home.events(live)):
                await anyio.lowlevel.checkpoint()
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("I look first."))
        live.resume_run()
        await idle(live)
        end = next(event for event in home.events(live) if event.type == "tool_end")
        assert (end.output, end.is_error) == (UNKNOWN_OUTCOME, True)
        assert not any(event.type == "tool_start" for event in home.events(live))


async def test_a_run_that_is_cancelled_before_it_goes_on_ends_what_was_cut_and_does_not_claim_to_know_how(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", command="echo on; sleep 60")))
        live.prompt("wait")
        with anyio.fail_after(5):
            while not any(event.type == "tool_output_delta" for event in home.events(live)):
                await anyio.lowlevel.checkpoint()
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        live.resume_run()
        assert live.cancel()
        await idle(live)
        assert kinds(home.events(live)) == ["status", "tool_end", "turn_end", "done", "status"]
        end = next(event for event in home.events(live) if event.type == "tool_end")
        assert (end.output, end.is_error) == (UNKNOWN_OUTCOME, True)


async def test_a_model_call_that_was_cut_is_made_again(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn(holds=anyio.Event()))
        live.prompt("question")
        await home.provider.streaming.wait()
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Answer."))
        live.resume_run()
        await idle(live)
        assert [message.text for message in home.provider.requests[0].messages] == ["question"]
        assert home.events(live)[-2].text == "Answer."


async def test_an_accepted_prompt_that_never_began_is_still_there(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        live.prompt("do not lose me")  # the process stops before the supervisor takes its first step
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Here."))
        live.resume_run()
        await idle(live)
        assert home.provider.requests[0].messages[0].text == "do not lose me"


async def test_an_interrupted_run_goes_on_with_its_recorded_context(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(system_append="Remember the milk.")
        home.provider.script(use(call("bash", command="true")))
        live.prompt("go")
        await home.until_asked(live)
        before = home.provider.requests[0]
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Done."))
        live.answer("perm-1", AnswerBody(allow=True))
        await idle(live)
        after = home.provider.requests[0]
    assert (after.system, after.tools) == (before.system, before.tools)
    assert after.messages[: len(before.messages)] == before.messages


async def test_what_changed_meanwhile_is_no_part_of_the_context_of_an_interrupted_run(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session(system_append="Remember the milk.")
        home.provider.script(use(call("bash", command="true")))
        live.prompt("go")
        await home.until_asked(live)
        before = home.provider.requests[0]
    clock.time += 2 * 86_400.0
    (tmp_path / "work" / "AGENTS.md").write_text("Forget the milk.")
    async with house(tmp_path, clock=clock) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Done."))
        live.answer("perm-1", AnswerBody(allow=True))
        await idle(live)
        assert home.provider.requests[0].system == before.system
        await home.run(live, "and now?")
        assert home.provider.requests[-1].system == before.system
    async with house(tmp_path, clock=clock) as home:
        live = await home.reload(live.id)
        await home.run(live, "anew")
        assert home.provider.requests[0].system != before.system  # so it would have shown


async def test_history_and_totals_come_from_the_journal(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(title="A name")
        home.provider.script(say("One."), say("Two."))
        await home.run(live, "first")
        await home.run(live, "second")
        before = (live.state(), live.agent.history.transcript.messages)
    async with house(tmp_path) as home:
        again = await home.reload(live.id)
        state = again.state()
        kept = ("id", "title", "cwd", "mode", "usage", "created")
        assert [getattr(state, name) for name in kept] == [getattr(before[0], name) for name in kept]
        assert again.agent.history.transcript.messages == before[1]


async def test_times_of_a_session_are_told_to_the_millisecond(tmp_path: Path) -> None:
    async with house(tmp_path, clock=FakeClock(1_800_000_000.123456)) as home:
        live = await home.session()
        await home.run(live, "go")
        fork, _ = await home.hub.fork(live.id, None, {})
        for state in (live.state(), fork.state()):
            assert (state.created, state.modified) == (1_800_000_000.123, 1_800_000_000.123)


async def test_numbers_of_a_load_begin_at_the_next_million(tmp_path: Path) -> None:
    session, seen = "", []
    for _ in range(3):
        async with house(tmp_path) as home:
            live = await (home.reload(session) if session else home.session())
            session = live.id
            home.provider.script(say("Hi."))
            seen.append([event.seq for event in await home.run(live, "hello")])
    assert [numbers[0] for numbers in seen] == [1, 1_000_001, 2_000_001]
    assert all(numbers == sorted(set(numbers)) for numbers in seen)


async def check_reload_is_stable(home: House, session: str) -> None:
    first = await home.app.display(session)
    assert first == await home.app.display(session)


async def test_a_session_grant_survives_only_when_its_call_has_its_result(tmp_path: Path) -> None:
    bash = call("bash", command="echo again")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(bash), say("Ran."))
        await home.run(live, "go", [AnswerBody(allow=True, scope="session")])
        await check_reload_is_stable(home, live.id)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(use(bash), say("Ran."))
        events = await home.run(live, "again")
        assert not any(event.type == "permission_request" for event in events)
    async with house(tmp_path) as home:
        other = await home.session()
        home.provider.script(use(bash))
        other.prompt("go")
        request = await home.until_asked(other)
        other.answer(request.request_id, AnswerBody(allow=True, scope="session"))  # stops before the call ends
    async with house(tmp_path) as home:
        other = await home.reload(other.id)
        other.cancel()
        home.provider.script(use(bash))
        other.prompt("again")
        assert (await home.until_asked(other)).tool_name == "bash"


async def test_a_yolo_session_is_in_default_on_a_server_that_does_not_allow_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = (await home.session(mode="yolo")).id
    async with house(tmp_path, allow_yolo=False) as home:
        live = await home.reload(session)
        assert live.state().mode == "default"
        home.provider.script(use(call("bash", command="true")))
        live.prompt("go")
        assert (await home.until_asked(live)).tool_name == "bash"


@pytest.mark.parametrize(("mode", "key"), [("yolo", "disableBypassPermissionsMode"), ("auto", "disableAutoMode")])
async def test_no_session_is_in_a_mode_that_the_users_own_file_turns_off(tmp_path: Path, mode: str, key: str) -> None:
    file = tmp_path / "home" / ".claude" / "settings.json"
    file.parent.mkdir(parents=True)
    wanted = Settings.model_validate({"mode": mode})
    async with house(tmp_path) as home:
        first = await home.session(mode=mode)
        file.write_text(json.dumps({"permissions": {key: "disable"}}))
        await home.session()  # which reads the file anew
        with pytest.raises(ModeNotAllowed) as refused:
            home.app.validate(wanted)
        await home.hub.close(first, "enough")
        live = await home.reload(first.id)
        assert live.state().mode == "default"
    told = [json.loads(line) for line in journal_lines(tmp_path) if b'"mode_not_allowed"' in line]
    assert [one["text"] for one in told] == [
        f"Mode {mode} is off by ~/.claude/settings.json: the session is in default."
    ]
    assert str(refused.value) == f"Mode {mode} is off: ~/.claude/settings.json turns it off, under `permissions`."
    async with house(tmp_path) as home:
        with pytest.raises(ModeNotAllowed):
            home.app.validate(wanted)


def journal_lines(root: Path) -> list[bytes]:
    return [line for file in (root / "data").rglob("*.jsonl") for line in file.read_bytes().splitlines()]


async def test_a_session_of_another_folder_is_refused_and_stays_free(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    async with house(tmp_path / "a") as home:
        session = (await home.session()).id
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "data").symlink_to(tmp_path / "a" / "data")
    async with house(tmp_path / "b") as other:
        with pytest.raises(Unprocessable, match="outside"):
            await other.hub.load(session)
    async with house(tmp_path / "a") as home:
        await home.reload(session)


MODES = [("accept-edits", False), ("yolo", False), ("plan", True), ("deny", True)]


@pytest.mark.parametrize(("mode", "allow"), MODES)
async def test_an_open_request_stays_the_persons_whatever_the_mode_is_by_now(
    tmp_path: Path, mode: str, allow: bool
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("write", file_path="a.txt", content="x")))
        live.prompt("write")
        await home.until_asked(live)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        live.update(SessionUpdated.model_validate({"mode": mode}))
        home.provider.script(say("So be it."))
        live.answer("perm-1", AnswerBody(allow=allow))
        await idle(live)
        assert (tmp_path / "work" / "a.txt").exists() == allow


async def test_a_call_whose_request_is_open_waits_for_it_though_the_mode_would_allow_it(tmp_path: Path) -> None:
    session = await stop_while_asked(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        live.update(SessionUpdated(mode="yolo"))
        live.resume_run()
        await home.until(live, Status)
        await anyio.wait_all_tasks_blocked()
        assert [request.request_id for request in live.requests.open] == ["perm-1"]
        assert "tool_start" not in kinds(home.events(live))
        live.cancel()
        await idle(live)


async def test_the_status_of_a_killed_process_is_taken_back(tmp_path: Path) -> None:
    session = await stop_while_asked(tmp_path)
    async with house(tmp_path) as home:
        await home.reload(session)
        lines = await home.app.lines_after(session, 0, 10**9)
    statuses = [EVENTS.validate_json(line) for line in lines if line.startswith(b'{"type":"status"')]
    assert [status.busy for status in statuses] == [True, False]


async def test_a_deleted_session_leaves_nothing_open(tmp_path: Path) -> None:
    session = await stop_while_asked(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        await home.hub.close(live, "deleted")
        assert kinds(home.events(live)) == ["permission_resolved", "tool_end", "turn_end", "done", "session_closed"]
    async with house(tmp_path) as home:
        live = await home.reload(session)
        assert (live.requests.open, live.state().interrupted) == ((), False)


STOPS = [
    ("max_tokens", "max_tokens", 0),
    ("refusal", "refusal", 0),
    ("end_turn", "end_turn", 0),
    ("pause_turn", "end_turn", 1),
]


@pytest.mark.parametrize(("stop", "reason", "calls"), STOPS)
async def test_a_run_whose_end_alone_was_missing_ends_as_it_would_have(
    tmp_path: Path, stop: str, reason: str, calls: int
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("The answer", stop), say("And more."))
        await home.run(live, "go")
        journal = next((tmp_path / "data").rglob("journal.jsonl"))
    whole = journal.read_bytes().splitlines(keepends=True)
    first = next(n for n, line in enumerate(whole) if line.startswith(b'{"type":"assistant_message"'))
    journal.write_bytes(b"".join(whole[: first + 1]))
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("And more."))
        live.resume_run()
        await idle(live)
        done = next(event for event in home.events(live) if event.type == "done")
        assert (done.stop_reason, len(home.provider.requests)) == (reason, calls)


async def test_a_model_call_that_a_crash_cut_has_its_end(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn(holds=anyio.Event()))
        live.prompt("question")
        await home.provider.streaming.wait()
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Answer."))
        live.resume_run()
        await idle(live)
        lines = await home.app.lines_after(live.id, 0, 10**9)
    types = [head[0] for line in lines if (head := head_of(line))]
    assert [types.count(kind) for kind in ("model_start", "model_end", "turn_start", "turn_end")] == [2, 2, 2, 2]


async def test_what_is_refused_stays_as_it_was_and_is_not_the_latest_of_another_server(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "b" / "data").symlink_to(tmp_path / "a" / "data")
    (tmp_path / "a" / "data").mkdir()
    async with house(tmp_path / "b") as other:
        ours = (await other.session()).id
    async with house(tmp_path / "a") as home:
        foreign = (await home.session()).id
    journal = next((tmp_path / "a" / "data").rglob(f"{foreign}/journal.jsonl"))
    before = journal.read_bytes()
    async with house(tmp_path / "b") as other:
        with pytest.raises(Unprocessable):
            await other.hub.load(foreign)
        assert (await other.hub.load("latest"))[0].id == ours
    assert journal.read_bytes() == before


async def test_an_answer_in_the_step_of_the_resume_is_the_answer(tmp_path: Path) -> None:
    session = await stop_while_asked(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        home.provider.script(say("It ran."))
        live.resume_run()
        live.answer("perm-1", AnswerBody(allow=True))  # before the resumed call asks again
        await idle(live)
        assert "permission_request" not in kinds(home.events(live))
        assert home.events(live)[-2].text == "It ran."


ENDINGS = ["delete", "cancel", "prompt", "clear"]


@pytest.mark.parametrize("ending", ENDINGS)
async def test_an_interrupted_session_on_a_full_disk_can_be_let_go_and_loaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    session = await stop_while_asked(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        monkeypatch.setattr(os, "write", lambda file, data: 1)
        with suppress(Problem, StorageUnavailable):
            match ending:
                case "delete":
                    await home.hub.close(live, "deleted")
                case "cancel":
                    live.cancel()
                case "prompt":
                    live.prompt("more")
                case _:
                    live.clear()
        monkeypatch.undo()
        again = await home.reload(session)
        assert again is not live
        assert [request.request_id for request in again.requests.open] == ["perm-1"]
        home.provider.script(say("It ran."))
        again.answer("perm-1", AnswerBody(allow=True))
        await idle(again)
        assert home.events(again)[-2].stop_reason == "end_turn"


async def test_a_cancel_on_a_full_disk_says_that_it_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await stop_while_asked(tmp_path, waiting="next")
    async with house(tmp_path) as home:
        live = await home.reload(session)
        monkeypatch.setattr(os, "write", lambda file, data: 1)
        assert live.cancel()
        assert (live.state().interrupted, live.state().busy, live.state().queued_prompts) == (False, False, 1)
        monkeypatch.undo()


@pytest.mark.parametrize("how", ["cancel", "prompt", "resume"])
async def test_a_run_whose_message_was_lost_can_be_ended_and_gone_on_with(tmp_path: Path, how: str) -> None:
    """Its call was open where the message was to follow: it could be neither cancelled nor let go."""
    session = await stop_while_asked(tmp_path)
    journal = next((tmp_path / "data").rglob("journal.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if not line.startswith(b'{"type":"user_message"')))
    async with house(tmp_path) as home:
        live = await home.reload(session)
        home.provider.script(say("Done."), say("Done."))
        match how:
            case "cancel":
                assert live.cancel()
            case "prompt":
                live.prompt("else", when_busy="interrupt")
            case _:
                live.resume_run()
        await idle(live)
        ends = [event.stop_reason for event in home.events(live) if event.type == "done"]
        assert ends == {"cancel": ["interrupted"], "prompt": ["interrupted", "end_turn"]}.get(how, ["end_turn"])
        live.agent.history.transcript.check_closed()


async def test_a_process_without_descriptors_says_so_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("One."), say("Two."))

        def none_left(_file: int) -> int:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        monkeypatch.setattr(os, "dup", none_left)
        live.prompt("go")
        with pytest.raises(StorageUnavailable, match="open files"):
            await live.agent.log.sync()
        await idle(live)
        monkeypatch.undo()
        assert (await home.run(live, "again"))[-2].stop_reason == "end_turn"


async def test_a_run_can_be_ended_whose_calls_are_open_though_its_message_was_never_told(tmp_path: Path) -> None:
    session = await stop_while_asked(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        run = live.agent.open_run
        assert run is not None
        run.has_message = False  # no journal that a load takes says so
        assert live.cancel()
        assert [event.type for event in home.events(live)][-3:] == ["turn_end", "user_message", "done"]
        live.agent.history.transcript.check_closed()
