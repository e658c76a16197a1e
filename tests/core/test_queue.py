"""Prompts that come while a run is going on: they wait for their own run, or cancel the one before them. None is lost,
none runs twice, and between runs that follow one another the session is never idle."""

import errno
import os
import random
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from agentcore.errors import StorageUnavailable
from agentcore.events import NumberedEvent, SessionUpdated
from agentcore.ports.models import TextPart
from agentcore.session import SUBMISSION_KEPT_S, Submission
from agentcore.sessions import journal
from agentcore.sessions.submissions import OPEN
from server.answers import PromptAccepted
from server.live import LiveSession
from server.problems import Problem
from server.queue import QUEUE_CHARS, QUEUE_LIMIT
from server.schemas import WhenBusy
from tests.fakes import FakeClock, House, Turn, call, house, kinds, say, use

pytestmark = pytest.mark.anyio


def of_kind(events: Sequence[NumberedEvent], kind: str) -> list[NumberedEvent]:
    return [event for event in events if event.type == kind]


async def busy(home: House, live: LiveSession, text: str = "first") -> tuple[PromptAccepted, anyio.Event]:
    """A run whose model call goes on until the event is set."""
    gate = anyio.Event()
    home.provider.script(Turn([TextPart("Wait")], say("Waited.").content, holds=gate))
    accepted = live.prompt(text)
    await home.provider.streaming.wait()
    return accepted, gate


async def test_queued_prompts_run_in_order_and_the_session_is_not_idle_between_them(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        first, gate = await busy(home, live)
        home.provider.script(say("Two."), say("Three."))
        others = [live.prompt(text, when_busy="queue") for text in ("second", "third")]
        assert [one.disposition for one in (first, *others)] == ["started", "queued", "queued"]
        assert live.state().queued_prompts == 2
        gate.set()
        await home.until_idle(live)
        events = home.events(live)
        assert [event.busy for event in of_kind(events, "status")] == [True, False]
        ids = [first.prompt_id, *(one.prompt_id for one in others)]
        assert [event.prompt_id for event in of_kind(events, "done")] == ids
        assert [event.prompt_id for event in of_kind(events, "user_message")] == ids
        queues = [[one.text for one in event.queue] for event in of_kind(events, "queue_update")]
        assert queues == [["second"], ["second", "third"], ["third"], []]
        assert [message.text for message in home.provider.requests[2].messages] == [
            "first",
            "Waited.",
            "second",
            "Two.",
            "third",
        ]


async def test_a_prompt_that_names_no_way_is_refused_while_a_run_is_going_on(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await busy(home, live)
        with pytest.raises(Problem) as refused:
            live.prompt("second")
        assert refused.value.code == "session_busy"
        assert live.state().queued_prompts == 0


@pytest.mark.parametrize("when_busy", ["queue", "steer", "interrupt"])
async def test_in_an_idle_session_every_prompt_starts(tmp_path: Path, when_busy: WhenBusy) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Hello."))
        assert live.prompt("hi", when_busy=when_busy).disposition == "started"
        await home.until_idle(live)
        assert kinds(home.events(live))[:2] == ["status", "user_message"]


async def test_a_cancel_ends_its_run_and_the_queue_goes_on(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await busy(home, live)
        home.provider.script(say("Two."))
        live.prompt("second", when_busy="queue")
        assert live.cancel()
        await home.until_idle(live)
        reasons = [event.stop_reason for event in of_kind(home.events(live), "done")]
        assert reasons == ["interrupted", "end_turn"]


async def test_a_failed_run_does_not_take_the_queue_with_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        gate = anyio.Event()
        home.provider.script(Turn([TextPart("x")], holds=gate, breaks=RuntimeError("a bug")), say("Two."))
        live.prompt("first")
        await home.provider.streaming.wait()
        live.prompt("second", when_busy="queue")
        gate.set()
        await home.until_idle(live)
        assert [event.stop_reason for event in of_kind(home.events(live), "done")] == ["error", "end_turn"]


async def test_an_interrupting_prompt_is_in_the_journal_before_the_run_is_cancelled_and_runs_next(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await busy(home, live)
        home.provider.script(say("Now."), say("Later."))
        live.prompt("later", when_busy="queue")
        accepted = live.prompt("now", when_busy="interrupt")
        assert accepted.disposition == "started"
        await home.until_idle(live)
        events = home.events(live)
        assert [event.stop_reason for event in of_kind(events, "done")] == ["interrupted", "end_turn", "end_turn"]
        assert [event.content[0].text for event in of_kind(events, "user_message")] == ["first", "now", "later"]
        lines = next((tmp_path / "data").rglob("journal.jsonl")).read_text().splitlines()
        at = next(n for n, line in enumerate(lines) if accepted.prompt_id in line)
        assert not any('"type":"done"' in line for line in lines[:at])


async def test_an_interrupting_prompt_cancels_what_waits_for_a_person(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="true")), say("Else."))
        live.prompt("first")
        await home.until_asked(live)
        live.prompt("else", when_busy="interrupt")
        assert live.requests.open == ()
        await home.until_idle(live)
        assert [event.resolution for event in of_kind(home.events(live), "permission_resolved")] == ["cancelled"]
        assert [event.cancelled for event in of_kind(home.events(live), "tool_end")] == [True]


async def test_each_prompt_is_answered_at_its_own_end_and_a_removed_one_at_once(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        first, gate = await busy(home, live)
        home.provider.script(say("Three."))
        second, third = (live.prompt(text, when_busy="queue") for text in ("second", "third"))
        outcomes = [live.outcome_of(one.prompt_id) for one in (first, second, third)]
        live.queue.remove(second.prompt_id)
        removed = await outcomes[1].wait()
        assert (removed.stop_reason, removed.error.code, removed.turns) == ("interrupted", "prompt_removed", 0)
        assert not outcomes[0].is_resolved
        gate.set()
        with anyio.fail_after(5):
            assert [(await outcome.wait()).text for outcome in outcomes] == ["Waited.", "", "Three."]
        await home.until_idle(live)
        assert len(of_kind(home.events(live), "done")) == 2


@pytest.mark.parametrize("came", ["steer", "interrupt"])
async def test_an_edited_prompt_stays_in_the_queue_whatever_way_it_came(tmp_path: Path, came: WhenBusy) -> None:
    """It was handed to a later run as well, or that run was taken for one that it had interrupted."""
    async with house(tmp_path) as home:
        live = await home.session()
        await busy(home, live)
        edited = live.prompt("second", when_busy=came).prompt_id
        begun = live.prompt("third", when_busy="interrupt").prompt_id
        if came == "interrupt":
            live.queue.reorder([begun])
        home.provider.script(Turn(holds=(hold := anyio.Event())))
        with anyio.fail_after(5):
            while live.agent.open_run is None or live.agent.open_run.prompt.prompt_id != begun:
                await anyio.lowlevel.checkpoint()
        live.queue.edit(edited, "second, changed")
        assert [one.text for one in live.queue.shown()] == ["second, changed"]
        assert len(live.agent.history.inbox) == 0
        assert not live.agent.open_run.is_cancelled
        hold.set()
        await home.until_idle(live)
        texts = [event.content[0].text for event in of_kind(home.events(live), "user_message")]
        assert texts == ["first", "third", "second, changed"]


@pytest.mark.parametrize("is_reloaded", [False, True])
async def test_a_prompt_that_was_removed_answers_its_key_for_ten_minutes_and_pushes_out_no_other(
    tmp_path: Path, is_reloaded: bool
) -> None:
    def key(name: str) -> Submission:
        return Submission(key=name, body_sha256="0" * 64)

    clock = FakeClock()

    def check(live: LiveSession) -> None:
        again = live.again(key("waits"))
        assert again is not None
        assert again[1] is None
        removed = live.again(key(str(OPEN - 1)))
        assert removed is not None
        assert removed[1] is not None
        assert removed[1].error.code == "prompt_removed"
        clock.time += SUBMISSION_KEPT_S + 1
        assert live.again(key(str(OPEN - 1))) is None
        assert live.again(key("waits")) is not None

    async with house(tmp_path, clock=clock) as home:
        live = await home.session()
        await busy(home, live)
        live.prompt("keep me", submission=key("waits"), when_busy="queue")
        for number in range(OPEN):
            accepted = live.prompt("not me", submission=key(str(number)), when_busy="queue")
            live.queue.remove(accepted.prompt_id)
        if not is_reloaded:
            check(live)
    if is_reloaded:
        async with house(tmp_path, clock=clock) as home:
            check(await home.reload(live.id))


async def test_the_queue_can_be_edited_and_reordered_until_a_prompt_begins(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        first, gate = await busy(home, live)
        a, b, c = (live.prompt(text, when_busy="queue").prompt_id for text in "abc")
        live.queue.reorder([c])
        assert live.queue.edit(a, "x" * 600).text == "x" * 600
        shown = live.queue.shown()
        assert [(one.prompt_id, len(one.text), one.is_cut) for one in shown] == [
            (c, 1, False),
            (a, 500, True),
            (b, 1, False),
        ]
        live.queue.remove(b)
        for name in (b, first.prompt_id, "nothing"):
            for change in (
                live.queue.remove,
                lambda name: live.queue.edit(name, "y"),
                lambda name: live.queue.reorder([name]),
            ):
                with pytest.raises(Problem) as refused:
                    change(name)
                assert refused.value.code == "not_found"
        home.provider.script(say("C."), say("A."))
        gate.set()
        await home.until_idle(live)
        said = [event.content[0].text for event in of_kind(home.events(live), "user_message")]
        assert said == ["first", "c", "x" * 600]


async def test_a_full_queue_says_so_and_loses_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await busy(home, live)
        with pytest.raises(Problem) as refused:
            live.prompt("x" * (QUEUE_CHARS + 1), when_busy="queue")
        assert refused.value.code == "session_busy"
        for number in range(QUEUE_LIMIT):
            live.prompt(str(number), when_busy="queue" if number % 2 else "steer")
        for when_busy in ("queue", "steer", "interrupt"):
            with pytest.raises(Problem) as refused:
                live.prompt("one more", when_busy=when_busy)
            assert refused.value.details == {"queued_prompts": QUEUE_LIMIT, "limit": QUEUE_LIMIT}
        assert live.is_busy
        live.queue.clear()
        assert live.queue.shown() == ()


def breaks(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("phase", ["interrupted", "suspended"])
@pytest.mark.parametrize("refused", ["full", "broken"])
async def test_a_prompt_that_is_refused_has_not_ended_the_run_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str, refused: str
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", "a", command="echo a")))
        live.prompt("first")
        await home.until_asked(live)
        for number in range(QUEUE_LIMIT if refused == "full" else 0):
            live.prompt(str(number), when_busy="queue")
        if phase == "suspended":
            live.suspend()
            await home.until_idle(live)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        if refused == "broken":
            monkeypatch.setattr(journal, "_write", breaks)
            with pytest.raises(StorageUnavailable):
                live.update(SessionUpdated(title="new"))
        before = (live.state(), len(home.events(live)))
        for when_busy in ("reject", "queue", "steer", "interrupt"):
            with pytest.raises((Problem, StorageUnavailable)) as told:
                live.prompt("one more", when_busy=when_busy)
            assert told.value.code == ("session_busy" if refused == "full" else "storage_unavailable")
        assert (live.state(), len(home.events(live))) == before
        assert (live.state().interrupted, live.state().suspended) == (phase == "interrupted", phase == "suspended")
        assert [request.call_id for request in live.requests.open] == ["a"]


# --- after the process stopped ---


async def stop_with_queue(root: Path) -> str:
    """A session whose process stopped during a run while two prompts waited, reordered and one of them edited."""
    async with house(root) as home:
        live = await home.session()
        await busy(home, live)
        a, b = (
            live.prompt(text, submission=Submission(key=text, body_sha256="0" * 64), when_busy="queue").prompt_id
            for text in ("a", "b")
        )
        live.queue.reorder([b, a])
        live.queue.edit(a, "a, changed")
        return live.id


async def test_the_queue_is_there_after_a_restart_and_drains_when_the_interrupted_run_ended(tmp_path: Path) -> None:
    session = await stop_with_queue(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        assert [one.text for one in live.snapshot().queue] == ["b", "a, changed"]
        assert not live.is_busy
        home.provider.script(say("First."), say("B."), say("A."))
        live.resume_run()
        await home.until_idle(live)
        asked = [[message.text for message in request.messages][-1] for request in home.provider.requests]
        assert asked == ["first", "b", "a, changed"]


async def test_cancelling_the_interrupted_run_lets_the_queue_go_on(tmp_path: Path) -> None:
    session = await stop_with_queue(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        live.cancel()
        await home.until_idle(live)
        reasons = [event.stop_reason for event in of_kind(home.events(live), "done")]
        assert reasons == ["interrupted", "end_turn", "end_turn"]


async def idle_with_queue(root: Path) -> str:
    """A loaded session without a run whose queue waits: the process stopped in the step in which its run ended."""
    session = await stop_with_queue(root)
    journal = next((root / "data").rglob("journal.jsonl"))
    async with house(root) as home:
        live = await home.reload(session)
        home.provider.script(say("First."))
        live.resume_run()
        with anyio.fail_after(5):
            while not of_kind(home.events(live), "done"):
                await anyio.lowlevel.checkpoint()
    lines = journal.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith(b'{"type":"done"'))
    journal.write_bytes(b"".join(lines[: at + 1]))
    return session


async def test_a_queue_without_a_run_waits_for_a_resume(tmp_path: Path) -> None:
    session = await idle_with_queue(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        assert (live.state().interrupted, live.state().waiting_for) == (False, "queue")
        assert live.resume_run().disposition == "started"
        await home.until_idle(live)
        assert [event.content[0].text for event in of_kind(home.events(live), "user_message")] == ["b", "a, changed"]
        with pytest.raises(Problem) as refused:
            live.resume_run()
        assert refused.value.code == "nothing_to_resume"


async def test_a_prompt_that_is_sent_again_lets_a_queue_without_a_run_go_on(tmp_path: Path) -> None:
    session = await idle_with_queue(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        home.provider.script(say("B."), say("A."))
        again = live.again(Submission(key="a", body_sha256="0" * 64))
        assert again is not None
        outcome = live.outcome_of(again[0].prompt_id)
        with anyio.fail_after(5):
            result = await outcome.wait()
        assert (again[1], result and result.text) == (None, "A.")


@pytest.mark.parametrize(
    ("when_busy", "disposition", "order"),
    [
        ("reject", "queued", ["b", "a, changed", "new"]),
        ("queue", "queued", ["b", "a, changed", "new"]),
        ("interrupt", "started", ["new", "b", "a, changed"]),
    ],
)
async def test_a_prompt_to_a_session_whose_queue_waits_runs_after_it_unless_it_interrupts(
    tmp_path: Path, when_busy: WhenBusy, disposition: str, order: list[str]
) -> None:
    session = await idle_with_queue(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        assert live.prompt("new", when_busy=when_busy).disposition == disposition
        await home.until_idle(live)
        assert [event.content[0].text for event in of_kind(home.events(live), "user_message")] == order


async def test_a_prompt_that_was_accepted_and_never_begun_has_its_own_run_before_the_next(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        accepted = live.prompt("do not lose me")  # the process stops before the supervisor takes its first step
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Kept."), say("New."))
        following = live.prompt("something new")
        assert following.disposition == "queued"
        await home.until_idle(live)
        dones = [(event.prompt_id, event.text) for event in of_kind(home.events(live), "done")]
        assert dones == [(accepted.prompt_id, "Kept."), (following.prompt_id, "New.")]


async def test_a_run_that_was_interrupted_by_a_prompt_is_not_gone_on_with_after_a_crash(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await busy(home, live)
        live.prompt("now", when_busy="interrupt")  # the process stops before the run has noticed
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert (live.state().interrupted, live.state().queued_prompts) == (False, 1)
        home.provider.script(say("Now."))
        live.resume_run()
        await home.until_idle(live)
        assert len(home.provider.requests) == 1
        assert home.events(live)[-2].text == "Now."


async def test_a_stopping_server_begins_no_queued_prompt_and_keeps_them(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        _, gate = await busy(home, live)
        live.prompt("second", when_busy="queue")
        live.pause()
        gate.set()
        await home.until_idle(live)
        assert len(home.provider.requests) == 1
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert [one.text for one in live.queue.shown()] == ["second"]


# --- many at once ---


@pytest.mark.parametrize("seed", range(8))
async def test_of_many_prompts_at_once_none_is_lost_and_none_runs_twice(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        accepted: dict[str, str] = {}
        refused = 0
        outcomes = {}
        for number in range(20):
            home.provider.script(*[use(call("ls", f"c{seed}-{number}"), text="Go."), say("Ok.")])

        async def send(number: int) -> None:
            nonlocal refused
            for _ in range(chance.randrange(40)):
                await anyio.lowlevel.checkpoint()
            way: WhenBusy = chance.choice(["reject", "queue", "steer", "interrupt"])
            try:
                one = live.prompt(f"prompt {number}", when_busy=way)
            except Problem:
                refused += 1
                return
            accepted[one.prompt_id] = f"prompt {number}"
            outcomes[one.prompt_id] = live.outcome_of(one.prompt_id)

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                for number in range(20):
                    group.start_soon(send, number)
            await home.until_idle(live)
            for outcome in outcomes.values():
                await outcome.wait()
        events = home.events(live)
        assert len(accepted) + refused == 20, seed
        said = [(event.prompt_id, event.content[0].text) for event in of_kind(events, "user_message")]
        assert sorted(said) == sorted(accepted.items()), seed
        runs = [event.run_id for event in of_kind(events, "done")]
        assert len(runs) == len(set(runs)), seed
        own = {event.prompt_id for event in of_kind(events, "user_message") if event.source == "prompt"}
        assert {event.prompt_id for event in of_kind(events, "done")} == own, seed
        assert [event.busy for event in of_kind(events, "status")][-1] is False, seed
        assert (len(live.queue), len(live.agent.history.inbox)) == (0, 0), seed
