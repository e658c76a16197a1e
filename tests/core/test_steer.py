"""What the user says to a run that is going on: it takes it at its next border, or it becomes a run of its own. Never
both, never neither."""

import os
from pathlib import Path

import anyio
import pytest

from agentcore.batch import SKIPPED
from agentcore.inbox import Inbox
from agentcore.messages import ToolResult
from agentcore.ports.models import TextPart
from agentcore.session import Submission
from agentcore.sessions.records import Prompt
from server.live import LiveSession
from server.schemas import AnswerBody
from tests.core.test_queue import busy, of_kind
from tests.fakes import House, Turn, call, house, say, use

pytestmark = pytest.mark.anyio


async def texts(home: House, request: int) -> list[str]:
    return [message.text for message in home.provider.requests[request].messages]


async def test_a_message_comes_to_the_run_at_its_next_border(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        first, gate = await busy(home, live)
        home.provider.script(say("As you say."))
        steered = live.prompt("look left", when_busy="steer")
        assert steered.disposition == "steering"
        outcomes = [live.outcome_of(one.prompt_id) for one in (first, steered)]
        gate.set()
        await home.until_idle(live)
        assert await texts(home, 1) == ["first", "Waited.", "look left"]
        [_, message] = of_kind(home.events(live), "user_message")
        assert (message.source, message.prompt_id) == ("steer", steered.prompt_id)
        assert [event.prompt_id for event in of_kind(home.events(live), "done")] == [first.prompt_id]
        assert [(await outcome.wait()).text for outcome in outcomes] == ["As you say.", "As you say."]


async def test_calls_that_have_not_started_are_skipped_and_paired(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(
            use(call("bash", "a", command="echo ran; read < wait"), call("bash", "b", command="true"), text="Go."),
            say("Left."),
        )
        os.mkfifo(tmp_path / "work" / "wait")
        live.prompt("first")
        with anyio.fail_after(5):
            while not of_kind(home.events(live), "tool_output_delta"):
                await anyio.lowlevel.checkpoint()
        live.prompt("look left", when_busy="steer")
        (tmp_path / "work" / "wait").write_text("on\n")
        await home.until_idle(live)
        ends = [(event.call_id, event.cancelled, event.output) for event in of_kind(home.events(live), "tool_end")]
        assert ends == [("a", False, "ran\n[exit code 0]"), ("b", True, SKIPPED)]
        last = home.provider.requests[1].messages[-1]
        assert [type(block) for block in last.content] == [ToolResult, ToolResult, type(last.content[-1])]
        assert last.text == "look left"


async def test_a_call_that_waits_for_a_person_is_skipped_and_its_request_cancelled(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", "a", command="true"), call("bash", "b", command="true")), say("Left."))
        live.prompt("first")
        await home.until_asked(live)
        live.prompt("look left", when_busy="steer")
        assert live.requests.open == ()
        await home.until_idle(live)
        assert [event.resolution for event in of_kind(home.events(live), "permission_resolved")] == ["cancelled"]
        assert [event.output for event in of_kind(home.events(live), "tool_end")] == [SKIPPED, SKIPPED]
        assert (await texts(home, 1))[-1] == "look left"


async def test_a_message_before_the_first_step_of_the_run_is_taken_by_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Both."))
        live.prompt("first")
        live.prompt("and this", when_busy="steer")
        await home.until_idle(live)
        assert await texts(home, 0) == ["firstand this"]
        assert len(home.provider.requests) == 1


ENDS = [
    (Turn([TextPart("x")], say("x").content, "max_tokens"), "max_tokens"),
    (Turn([TextPart("x")], say("x").content, "refusal"), "refusal"),
    (Turn([TextPart("x")], breaks=RuntimeError("a bug")), "error"),
]


@pytest.mark.parametrize(("turn", "reason"), ENDS)
async def test_a_message_that_the_run_cannot_take_any_more_has_its_own_run(
    tmp_path: Path, turn: Turn, reason: str
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        turn.holds = gate = anyio.Event()
        home.provider.script(turn, say("Mine."), say("Queued."))
        first = live.prompt("first")
        await home.provider.streaming.wait()
        queued = live.prompt("queued", when_busy="queue")
        steered = live.prompt("look left", when_busy="steer")
        outcome = live.outcome_of(steered.prompt_id)
        gate.set()
        await home.until_idle(live)
        dones = [(event.prompt_id, event.stop_reason) for event in of_kind(home.events(live), "done")]
        assert dones == [
            (first.prompt_id, reason),
            (steered.prompt_id, "end_turn"),
            (queued.prompt_id, "end_turn"),
        ]
        assert (await outcome.wait()).text == "Mine."
        queues = [[one.text for one in event.queue] for event in of_kind(home.events(live), "queue_update")]
        assert queues == [["queued"], ["look left", "queued"], ["queued"], []]


async def test_a_message_to_a_run_that_is_being_cancelled_runs_right_after_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await busy(home, live)
        home.provider.script(say("Mine."), say("Queued."))
        queued = live.prompt("queued", when_busy="queue")
        before = live.prompt("in time", when_busy="steer")
        live.cancel()
        after = live.prompt("too late", when_busy="steer")
        await home.until_idle(live)
        order = [event.prompt_id for event in of_kind(home.events(live), "user_message")]
        assert order[1:] == [before.prompt_id, after.prompt_id, queued.prompt_id]


async def test_the_instant_of_the_end_loses_nothing(tmp_path: Path) -> None:
    """Sent at every step of a run's last moments, a message is taken by it or has its own run."""
    for step in range(60):
        async with house(tmp_path) as home:
            live = await home.session()
            home.provider.script(say("One."), say("Two."))
            live.prompt("first")
            for _ in range(step):
                await anyio.lowlevel.checkpoint()
            steered = live.prompt("second", when_busy="steer")
            await home.until_idle(live)
            said = [event.prompt_id for event in of_kind(home.events(live), "user_message")]
            assert said.count(steered.prompt_id) == 1, step
            assert "second" in (await texts(home, len(home.provider.requests) - 1))[-1], step


def test_a_shut_inbox_refuses_and_still_gives_what_it_has() -> None:
    one, other = (Prompt(prompt_id=name, run_id="r", text=name, ts=0.0) for name in ("one", "other"))
    inbox: Inbox[Prompt] = Inbox()
    assert inbox.put(one)
    inbox.shut()
    assert not inbox.put(other)
    assert inbox.take() == (one,)
    assert len(inbox) == 0


# --- after the process stopped ---


async def stop_with_message(root: Path) -> str:
    async with house(root) as home:
        live = await home.session()
        await busy(home, live)
        live.prompt("look left", when_busy="steer")
        return live.id


async def test_a_message_in_the_inbox_survives_and_the_resumed_run_takes_it(tmp_path: Path) -> None:
    session = await stop_with_message(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        home.provider.script(say("Left."))
        live.resume_run()
        await home.until_idle(live)
        assert await texts(home, 0) == ["firstlook left"]
        assert len(of_kind(home.events(live), "done")) == 1


async def test_a_message_in_the_inbox_of_a_run_that_is_not_gone_on_with_has_its_own_run(tmp_path: Path) -> None:
    session = await stop_with_message(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        live.prompt("new")
        await home.until_idle(live)
        assert [event.content[0].text for event in of_kind(home.events(live), "user_message")] == ["look left", "new"]
        assert len(of_kind(home.events(live), "done")) == 3


async def test_an_answer_whose_message_waits_is_not_the_end_after_a_crash(tmp_path: Path) -> None:
    """Killed between the model's answer and the border at which the message would have been taken."""
    async with house(tmp_path) as home:
        live = await home.session()
        _, gate = await busy(home, live)
        live.prompt("look left", when_busy="steer")
        gate.set()
        await home.until_idle(live)
        journal = next((tmp_path / "data").rglob("journal.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith(b'{"type":"assistant_message"'))
    journal.write_bytes(b"".join(lines[: at + 1]))
    async with house(tmp_path) as home:
        again: LiveSession = await home.reload(live.id)
        home.provider.script(say("Left."))
        again.resume_run()
        await home.until_idle(again)
        assert await texts(home, 0) == ["first", "Waited.", "look left"]


@pytest.mark.parametrize("ending", ["cancel", "prompt", "clear", "resume"])
async def test_who_asks_again_for_a_prompt_that_an_interrupted_run_had_taken_learns_its_end(
    tmp_path: Path, ending: str
) -> None:
    key = Submission(key="k", body_sha256="0" * 64)
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", "a", command="true")), use(call("bash", "b", command="true")))
        live.prompt("first")
        await home.until_asked(live)
        steered = live.prompt("and then", submission=key, when_busy="steer").prompt_id
        with anyio.fail_after(5):
            while not live.requests.open or live.requests.open[0].call_id != "b":
                await anyio.lowlevel.checkpoint()
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Done."), say("Done."))
        if ending == "resume":
            assert live.again(key) is not None
            assert live.is_busy  # who sends it again wants it done
            live.answer("perm-2", AnswerBody(allow=True))
        outcomes = [live.outcome_of(steered), live.outcome_of(live.agent.open_run.prompt.prompt_id)]
        match ending:
            case "cancel":
                live.cancel()
            case "prompt":
                live.prompt("else")
            case "clear":
                live.clear()
        with anyio.fail_after(5):
            results = [await outcome.wait() for outcome in outcomes]
        reason = "end_turn" if ending == "resume" else "interrupted"
        assert [result and result.stop_reason for result in results] == [reason] * 2
        await home.until_idle(live)


async def test_a_prompt_that_is_sent_again_lets_the_run_go_on_that_was_to_take_it(tmp_path: Path) -> None:
    key = Submission(key="k", body_sha256="0" * 64)
    async with house(tmp_path) as home:
        live = await home.session()
        await busy(home, live)
        steered = live.prompt("and then", submission=key, when_busy="steer").prompt_id
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert live.state().interrupted
        home.provider.script(say("Done."))
        assert live.again(key) is not None
        outcome = live.outcome_of(steered)
        with anyio.fail_after(5):
            result = await outcome.wait()
        assert (result and result.text) == "Done."
