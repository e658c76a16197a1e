"""Model calls that fail: asked again, handed to the next model, watched for silence; and what they cost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest

from agentcore.errors import RETRYABLE, ProviderError, ProviderErrorKind
from agentcore.events import NumberedEvent
from agentcore.messages import Text, Thinking
from agentcore.ports.models import StreamPart, TextPart, ThinkingPart, ToolCallPart
from agentcore.retry import COOL_DOWN_S, Patience
from agentcore.usage import Usage
from server.live import LiveSession
from server.schemas import AnswerBody
from tests.fakes import FakeClock, FakePause, FakeProvider, House, Turn, call, house, kinds, say, use

pytestmark = pytest.mark.anyio

STARTED = ["status", "user_message", "turn_start"]
ANSWERED = ["model_start", "model_end", "usage", "assistant_message", "turn_end"]
ENDED = ["done", "status"]
FAILED = ["model_start", "model_end"]
DELTAS = {"text_delta", "thinking_delta", "tool_call_delta"}

SHOWN: list[StreamPart] = [TextPart("I"), ThinkingPart("hm"), ToolCallPart("c", "bash", 0)]


def fails(kind: ProviderErrorKind = "overloaded", *parts: StreamPart, retry_after: float | None = None) -> Turn:
    return Turn(parts, fails=ProviderError(kind, f"It is {kind}.", retry_after_s=retry_after))


def refuses(kind: ProviderErrorKind) -> Turn:
    return Turn(refuses=ProviderError(kind, f"It is {kind}."))


@dataclass
class Story:
    """A house in which pauses take no time, with a second model `b/m` and a third `c/m`."""

    home: House
    clock: FakeClock
    pause: FakePause
    b: FakeProvider
    c: FakeProvider

    @property
    def a(self) -> FakeProvider:
        return self.home.provider

    def asked(self) -> list[int]:
        """How often each model was asked."""
        return [len(provider.requests) for provider in (self.a, self.b, self.c)]


@asynccontextmanager
async def story(root: Path, *, models: int = 1, chance: float = 1.0) -> AsyncIterator[Story]:
    clock = FakeClock()
    pause = FakePause(clock)
    others = [FakeProvider("b"), FakeProvider("c")]
    patience = Patience(chance=lambda: chance, wait=pause)
    async with house(root, clock=clock, patience=patience, fallbacks=others[: models - 1]) as home:
        yield Story(home, clock, pause, *others)


def types(events: list[NumberedEvent]) -> list[str]:
    return [event.type for event in events if event.type not in DELTAS]


def of(events: list[NumberedEvent], kind: str) -> list[Any]:
    return [event for event in events if event.type == kind]


def codes(events: list[NumberedEvent]) -> list[str]:
    return [event.code for event in events if event.type in ("notice", "error")]


def answers(events: list[NumberedEvent]) -> tuple[str, str]:
    """The model that answered last, and how the run ended."""
    return of(events, "usage")[-1].model, of(events, "done")[0].stop_reason


async def idle(live: LiveSession) -> None:
    with anyio.fail_after(5):
        while live.is_busy:
            await anyio.lowlevel.checkpoint()


# --- asked again ---


async def test_a_call_that_failed_is_made_again_and_everybody_is_told(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(fails(), refuses("network"), say("Now."))
        events = await tale.home.run(live, "go")
        sent = [request.messages for request in tale.a.requests]
    again = [*FAILED, "notice", "waiting", "waiting"]
    assert types(events) == [*STARTED, *again, *again, *ANSWERED, *ENDED]
    assert [(start.model, start.attempt) for start in of(events, "model_start")] == [
        ("fake/fake", 1),
        ("fake/fake", 2),
        ("fake/fake", 3),
    ]
    assert [end.stop_reason for end in of(events, "model_end")] == ["failed", "failed", "end_turn"]
    assert [(notice.level, notice.code, notice.text) for notice in of(events, "notice")] == [
        (
            "info",
            "model_retry",
            "fake/fake failed (overloaded): It is overloaded. It is asked again in 0.5 s, attempt 2 of 4.",
        ),
        (
            "info",
            "model_retry",
            "fake/fake failed (network): It is network. It is asked again in 1.0 s, attempt 3 of 4.",
        ),
    ]
    assert sent[0] == sent[1] == sent[2]
    assert tale.pause.waited == [0.5, 1.0]
    assert of(events, "done")[0].turns == 1


async def test_a_wait_says_until_when_and_then_that_the_model_is_asked(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(fails("rate_limit", retry_after=42.0), say("Now."))
        began = tale.clock.time
        events = await tale.home.run(live, "go")
    retry, model = of(events, "waiting")
    assert (retry.waiting_for, retry.since, retry.detail.until, retry.detail.model) == (
        "retry",
        began,
        began + 42.0,
        "fake/fake",
    )
    assert (model.waiting_for, model.since, model.detail.until) == ("model", began + 42.0, None)
    assert (retry.turn, model.turn) == (1, 1)


async def test_the_state_tells_of_a_wait_only_while_it_lasts(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(fails(), Turn(holds=anyio.Event()))
        live.prompt("go")
        await tale.a.streaming.wait()
        assert (tale.pause.waited, live.state().waiting_for) == ([0.5], "model")


async def test_waits_are_for_display_and_leave_no_line_in_the_journal(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(fails(), say("Now."))
        events = await tale.home.run(live, "go")
        lines = await tale.home.app.lines_after(live.id, 0, 10**9)
    assert "waiting" in types(events)
    assert not any(b'"waiting"' in line for line in lines)
    assert "waiting" not in kinds(events)


@pytest.mark.parametrize("kind", get_args(ProviderErrorKind))
async def test_after_the_last_attempt_the_error_ends_the_run_and_the_session_goes_on(
    tmp_path: Path, kind: ProviderErrorKind
) -> None:
    attempts = 2 if kind == "stalled" else 4 if kind in RETRYABLE else 1
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(*[fails(kind, retry_after=1.5)] * attempts, say("Fine."))
        events = await tale.home.run(live, "go")
        assert len(tale.a.requests) == attempts
        after = await tale.home.run(live, "again")
        roles = [message.role for message in live.agent.history.transcript.messages]
    [error] = of(events, "error")
    code = "context_window_exceeded" if kind == "context_overflow" else kind
    assert (error.code, error.retryable, error.retry_after) == (code, kind in RETRYABLE, 1.5)
    assert kinds(events)[-4:] == ["turn_end", "error", *ENDED]
    assert codes(events) == ["model_retry"] * (attempts - 1) + [code]
    assert types(after) == [*STARTED, *ANSWERED, *ENDED]
    assert roles == ["user", "assistant"]


@pytest.mark.parametrize("part", SHOWN)
@pytest.mark.parametrize("kind", sorted(RETRYABLE))
async def test_once_something_was_shown_nothing_is_asked_again_and_no_other_model_is(
    tmp_path: Path, kind: ProviderErrorKind, part: StreamPart
) -> None:
    async with story(tmp_path, models=2) as tale:
        live = await tale.home.session()
        tale.a.script(fails(kind, part), say("Fine."))
        events = await tale.home.run(live, "go")
        assert tale.asked() == [1, 0, 0]
        after = await tale.home.run(live, "again")  # nor is the model left alone
    assert codes(events) == [kind]
    assert of(events, "done")[0].stop_reason == "error"
    assert answers(after) == ("fake/fake", "end_turn")


async def test_an_earlier_turn_that_was_shown_does_not_forbid_another_attempt(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(use(call("ls", path=".")), fails(), say("Done."))
        events = await tale.home.run(live, "go")
    assert [(start.turn, start.attempt) for start in of(events, "model_start")] == [(1, 1), (2, 1), (2, 2)]
    assert of(events, "done")[0].turns == 2


async def test_a_vendor_that_asks_for_an_hour_is_not_waited_for(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(fails("rate_limit", retry_after=3600.0))
        events = await tale.home.run(live, "go")
    [error] = of(events, "error")
    assert (tale.pause.waited, error.code, error.retry_after) == ([], "rate_limit", 3600.0)


async def test_a_bug_of_an_adapter_is_not_tried_again(tmp_path: Path) -> None:
    async with story(tmp_path, models=2) as tale:
        live = await tale.home.session()
        tale.a.script(Turn(breaks=RuntimeError("a bug")))
        events = await tale.home.run(live, "go")
    assert (codes(events), tale.asked()) == (["internal"], [1, 0, 0])


# --- the next model ---


async def test_the_next_model_answers_and_is_named(tmp_path: Path) -> None:
    async with story(tmp_path, models=2) as tale:
        live = await tale.home.session()
        tale.a.script(fails("quota"))
        tale.b.script(Turn([TextPart("From b")], [Thinking(text="", provider="b", model="m"), Text(text="From b")]))
        events = await tale.home.run(live, "go")
        sent = tale.a.requests[0], tale.b.requests[0]
    assert types(events) == [*STARTED, *FAILED, "notice", *ANSWERED, *ENDED]
    assert [(start.model, start.attempt) for start in of(events, "model_start")] == [("fake/fake", 1), ("b/m", 2)]
    [notice] = of(events, "notice")
    assert (notice.level, notice.code) == ("warning", "model_failover")
    assert notice.text == "fake/fake failed (quota): It is quota. The run goes on with b/m."
    assert of(events, "usage")[0].model == "b/m"
    assert (sent[0].model, sent[1].model) == ("fake", "m")
    assert (sent[0].messages, sent[0].system, sent[0].tools) == (sent[1].messages, sent[1].system, sent[1].tools)


@pytest.mark.parametrize("kind", get_args(ProviderErrorKind))
async def test_the_next_model_is_asked_after_every_attempt_and_only_where_it_may_help(
    tmp_path: Path, kind: ProviderErrorKind
) -> None:
    attempts = 2 if kind == "stalled" else 4 if kind in RETRYABLE else 1
    async with story(tmp_path, models=2) as tale:
        live = await tale.home.session()
        tale.a.script(*[refuses(kind)] * attempts)
        events = await tale.home.run(live, "go")
    assert tale.asked() == [attempts, 1 if kind in COOL_DOWN_S else 0, 0]
    assert [start.attempt for start in of(events, "model_start")] == list(range(1, sum(tale.asked()) + 1))
    assert of(events, "done")[0].stop_reason == ("end_turn" if kind in COOL_DOWN_S else "error")


async def test_a_run_stays_with_the_model_that_answered_until_that_fails(tmp_path: Path) -> None:
    async with story(tmp_path, models=3) as tale:
        live = await tale.home.session()
        tale.a.script(fails("auth"), say("a is back."))
        tale.b.script(use(call("ls", "1", path=".")), use(call("ls", "2", path=".")), fails("auth"))
        tale.c.script(say("From c."))
        live.prompt("go")
        with anyio.fail_after(5):
            while not tale.b.requests:
                await anyio.lowlevel.checkpoint()
        tale.clock.time += 601  # the first model may be asked again; the run stays all the same
        await idle(live)
        events = tale.home.events(live)
        again = await tale.home.run(live, "again")
    assert [start.model for start in of(events, "model_start")][:4] == ["fake/fake", "b/m", "b/m", "b/m"]
    assert answers(events) == ("fake/fake", "end_turn")  # b failed in its turn: the preferred one again
    assert answers(again) == ("fake/fake", "end_turn")


async def test_a_model_that_cools_down_is_passed_over_and_asked_again_afterwards(tmp_path: Path) -> None:
    async with story(tmp_path, models=2) as tale:
        live, other = await tale.home.session(), await tale.home.session()
        tale.a.script(fails("auth"), say("Back."))
        await tale.home.run(live, "go")
        began = tale.clock.time
        for session in (live, other):  # the cool-down is the whole process's
            tale.b.script(use(call("ls", path=".")), say("b"))
            skipped = await tale.home.run(session, "while it cools down")
            assert codes(skipped) == ["model_cooling_down"]  # once, though the run has two turns
            assert answers(skipped) == ("b/m", "end_turn")
        assert of(skipped, "notice")[0].text == "fake/fake failed a moment ago and is left alone until 08:10:00 UTC."
        tale.clock.time = began + 599
        assert answers(await tale.home.run(other, "still"))[0] == "b/m"
        tale.clock.time = began + 600
        after = await tale.home.run(other, "now")
    assert (codes(after), answers(after)) == ([], ("fake/fake", "end_turn"))


async def test_when_all_cool_down_the_first_is_asked_all_the_same(tmp_path: Path) -> None:
    async with story(tmp_path, models=2) as tale:
        live = await tale.home.session()
        tale.a.script(fails("auth"), fails("auth"), say("Well again."), say("Still well."))
        tale.b.script(fails("quota"))
        both = await tale.home.run(live, "go")
        assert codes(both) == ["model_failover", "auth"]
        tale.clock.time += 300
        assert codes(await tale.home.run(live, "again")) == ["model_cooling_down", "auth"]
        assert answers(await tale.home.run(live, "and again")) == ("fake/fake", "end_turn")
        tale.clock.time += 300  # b may be asked again; the first would cool down for longer, had it not answered
        after = await tale.home.run(live, "well")
    assert (codes(after), answers(after)) == ([], ("fake/fake", "end_turn"))


async def test_when_the_stand_ins_fail_too_the_error_is_that_of_the_model_that_was_chosen(tmp_path: Path) -> None:
    async with story(tmp_path, models=3) as tale:
        live = await tale.home.session()
        tale.a.script(fails("quota", retry_after=7.0))
        tale.b.script(fails("auth"))
        tale.c.script(fails("not_found"))
        [error] = of(await tale.home.run(live, "go"), "error")
    assert (error.code, error.retryable, error.retry_after) == ("quota", False, 7.0)
    assert error.text == "It is quota. Its stand-ins failed too: b/m (auth), c/m (not_found)."


async def test_a_stand_in_that_cannot_take_the_request_does_not_hide_why_it_was_asked(tmp_path: Path) -> None:
    async with story(tmp_path, models=3) as tale:
        live = await tale.home.session()
        tale.a.script(fails("quota"))
        tale.b.script(fails("context_overflow"))
        events = await tale.home.run(live, "go")
        tale.clock.time += 300  # the first is still left alone: then the error is that of the first that was asked
        tale.b.script(fails("auth"))
        tale.c.script(fails("quota"))
        later = await tale.home.run(live, "again")
    assert tale.asked() == [1, 2, 1]
    assert of(events, "error")[0].text == "It is quota. Its stand-ins failed too: b/m (context_overflow)."
    assert of(later, "error")[0].text == "It is auth. Its stand-ins failed too: c/m (quota)."


async def test_a_run_that_went_on_with_a_stand_in_fails_with_the_error_of_the_chosen_model(tmp_path: Path) -> None:
    async with story(tmp_path, models=2) as tale:
        live = await tale.home.session()
        tale.a.script(fails("not_found"), fails("auth"))
        tale.b.script(use(call("ls", path=".")), fails("quota"))
        live.prompt("go")
        with anyio.fail_after(5):
            while not tale.b.requests:
                await anyio.lowlevel.checkpoint()
        tale.clock.time += 601  # the first may be asked again
        await idle(live)
        [error] = of(tale.home.events(live), "error")
    assert (error.code, error.text) == ("auth", "It is auth. Its stand-ins failed too: b/m (quota).")


@pytest.mark.parametrize(
    ("chance", "when"), [(0.0, "at once"), (0.09, "at once"), (0.1, "in 0.1 s"), (1.0, "in 0.5 s")]
)
async def test_a_wait_of_no_time_is_told_as_none(tmp_path: Path, chance: float, when: str) -> None:
    async with story(tmp_path, chance=chance) as tale:
        live = await tale.home.session()
        tale.a.script(fails(), say("Now."))
        [notice] = of(await tale.home.run(live, "go"), "notice")
    assert notice.text.endswith(f"It is asked again {when}, attempt 2 of 4.")


async def test_a_run_is_told_once_of_a_model_that_is_left_alone(tmp_path: Path) -> None:
    async with story(tmp_path, models=3) as tale:
        live = await tale.home.session()
        tale.a.script(fails("auth"))
        await tale.home.run(live, "go")
        tale.b.script(use(call("ls", path=".")), fails("auth"))
        events = await tale.home.run(live, "again")
    assert codes(events) == ["model_cooling_down", "model_failover"]
    assert answers(events) == ("c/m", "end_turn")


async def test_a_fallback_that_is_the_sessions_own_model_is_asked_once(tmp_path: Path) -> None:
    async with story(tmp_path, models=3) as tale:
        live = await tale.home.session(model="b/m")
        tale.b.script(fails("auth"))
        tale.c.script(fails("auth"))
        events = await tale.home.run(live, "go")
    assert [start.model for start in of(events, "model_start")] == ["b/m", "c/m"]


# --- cancelled and stopped ---


async def test_a_cancel_ends_a_pause_at_once(tmp_path: Path) -> None:
    async with story(tmp_path, models=2) as tale:
        live = await tale.home.session()
        tale.a.script(fails(), say("Fine."))
        tale.pause.holds = True
        live.prompt("go")
        await tale.pause.begun.wait()
        assert (live.state().waiting_for, live.state().busy) == ("retry", True)
        assert live.cancel()
        await idle(live)
        events = tale.home.events(live)
        assert types(events) == [*STARTED, *FAILED, "notice", "waiting", "turn_end", *ENDED]
        assert (of(events, "done")[0].stop_reason, tale.asked()) == ("interrupted", [1, 0, 0])
        assert live.state().waiting_for is None
        tale.pause.holds = False
        assert answers(await tale.home.run(live, "again")) == ("fake/fake", "end_turn")


async def test_a_stopping_server_does_not_wait_for_a_pause_and_the_run_goes_on_later(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session(max_turns=1)
        tale.a.script(fails("rate_limit", retry_after=500.0))
        tale.pause.holds = True
        live.prompt("go")
        await tale.pause.begun.wait()
        with anyio.fail_after(2):  # far below the ten seconds for a border
            assert await tale.home.hub.stop(b"") == 1
        events = tale.home.events(live)
    assert kinds(events) == [*STARTED, *FAILED, "notice", "turn_end"]
    await goes_on(tmp_path, live.id)


async def test_a_run_that_was_killed_in_a_pause_goes_on_with_the_same_turn(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session(max_turns=1)
        tale.a.script(fails())
        tale.pause.holds = True
        live.prompt("go")
        await tale.pause.begun.wait()
    await goes_on(tmp_path, live.id)


async def goes_on(root: Path, session: str) -> None:
    """Load a session whose only turn was cut in a pause: its answer is still to come, and still its first turn's."""
    async with story(root) as tale:
        live = await tale.home.reload(session)
        assert live.state().interrupted
        tale.a.script(say("After all."))
        live.resume_run()
        await idle(live)
        events = tale.home.events(live)
        every = await tale.home.app.lines_after(session, 0, 10**9)
    done = of(events, "done")[0]
    assert (done.stop_reason, done.text, done.turns) == ("end_turn", "After all.", 1)
    assert [start.turn for start in of(events, "turn_start")] == [1]
    for start, end in (("turn_start", "turn_end"), ("model_start", "model_end")):
        assert [sum(f'{{"type":"{kind}"'.encode() in line for line in every) for kind in (start, end)] == [2, 2]


async def test_a_turn_that_was_answered_before_the_kill_counts(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(use(call("bash", command="true")))
        live.prompt("go")
        await tale.home.until_asked(live)
    async with story(tmp_path) as tale:
        live = await tale.home.reload(live.id)
        tale.a.script(say("Done."))
        live.answer("perm-1", AnswerBody(allow=True))
        await idle(live)
        events = tale.home.events(live)
    assert ([start.turn for start in of(events, "turn_start")], of(events, "done")[0].turns) == ([2], 2)


async def test_a_turn_whose_text_was_kept_counts_though_it_failed(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(fails("overloaded", TextPart("Half")))
        await tale.home.run(live, "go")
        journal = next((tmp_path / "data").rglob("journal.jsonl"))
    whole = journal.read_bytes().splitlines(keepends=True)
    kept = next(n for n, line in enumerate(whole) if line.startswith(b'{"type":"assistant_message"'))
    journal.write_bytes(b"".join(whole[: kept + 1]))
    async with story(tmp_path) as tale:
        live = await tale.home.reload(live.id)
        live.resume_run()
        await idle(live)
        done = of(tale.home.events(live), "done")[0]
        assert (done.stop_reason, done.text, done.turns, tale.asked()) == ("error", "Half", 1, [0, 0, 0])


async def test_the_failed_turn_of_an_earlier_run_does_not_count_for_the_next(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(fails("auth"))
        await tale.home.run(live, "go")
        live.prompt("again")  # the process stops before the supervisor takes its first step
    async with story(tmp_path) as tale:
        live = await tale.home.reload(live.id)
        live.resume_run()
        await idle(live)
        events = tale.home.events(live)
    assert ([start.turn for start in of(events, "turn_start")], of(events, "done")[0].turns) == ([1], 1)


async def test_a_stopping_server_asks_no_other_model(tmp_path: Path) -> None:
    async with story(tmp_path, models=2) as tale:
        live = await tale.home.session()
        holds = anyio.Event()
        tale.a.script(Turn(holds=holds, fails=ProviderError("auth", "No.")))
        live.prompt("go")
        await tale.a.streaming.wait()
        live.pause()
        holds.set()
        await idle(live)
        assert live.agent.open_run is not None
    assert tale.asked() == [1, 0, 0]


# --- the watchdog ---

SILENCE_S = 0.4


@asynccontextmanager
async def watched(root: Path, *, local_s: float = 60.0, others: int = 0) -> AsyncIterator[House]:
    patience = Patience(chance=lambda: 0.0, silence_s=SILENCE_S, local_silence_s=local_s)
    async with house(root, patience=patience, fallbacks=[FakeProvider("b")][:others]) as home:
        yield home


async def test_a_call_that_stays_silent_is_ended_and_made_once_more(tmp_path: Path) -> None:
    async with watched(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn(holds=anyio.Event()), Turn(holds=anyio.Event()), say("Awake."))
        events = await home.run(live, "go")
        assert home.provider.open_streams == 0
        after = await home.run(live, "again")
    [error] = of(events, "error")
    assert (error.code, error.retryable) == ("stalled", True)
    assert error.text == "fake has sent nothing new for 0.4 s and was cut off. Try again."
    assert codes(events) == ["model_retry", "stalled"]
    assert [end.stop_reason for end in of(events, "model_end")] == ["failed", "failed"]
    assert answers(after) == ("fake/fake", "end_turn")


async def test_a_silent_model_is_passed_over_for_the_next(tmp_path: Path) -> None:
    async with watched(tmp_path, others=1) as home:
        live = await home.session()
        home.provider.script(Turn(holds=anyio.Event()), Turn(holds=anyio.Event()))
        events = await home.run(live, "go")
    assert codes(events) == ["model_retry", "model_failover"]
    assert answers(events) == ("b/m", "end_turn")


async def test_the_watch_begins_before_the_stream_is_open(tmp_path: Path) -> None:
    async with watched(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn(opens=anyio.Event()), say("Open."))
        events = await home.run(live, "go")
    assert codes(events) == ["model_retry"]
    assert answers(events) == ("fake/fake", "end_turn")


async def test_text_of_a_call_that_stalled_is_kept_and_the_error_surfaces(tmp_path: Path) -> None:
    async with watched(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn([TextPart("Half")], holds=anyio.Event()))
        events = await home.run(live, "go")
        messages = live.agent.history.transcript.messages
    assert codes(events) == ["stalled"]
    assert messages[-1].text == "Half"


GROWING: list[list[StreamPart]] = [
    [TextPart("a")] * 12,
    [ThinkingPart("a")] * 12,
    [ToolCallPart("c", "bash", size) for size in range(12)],
]
IDLING: list[list[StreamPart]] = [
    [TextPart("")] * 12,
    [ThinkingPart("")] * 12,
    [ToolCallPart("c", "bash", 0)] * 12,
]


@pytest.mark.parametrize("parts", GROWING)
async def test_content_keeps_a_slow_call_alive(tmp_path: Path, parts: list[StreamPart]) -> None:
    async with watched(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn(parts, [Text(text="Slow.")], pace_s=SILENCE_S / 8))  # longer than the silence in all
        events = await home.run(live, "go")
    assert of(events, "done")[0].stop_reason == "end_turn"


@pytest.mark.parametrize("parts", IDLING)
async def test_parts_without_content_do_not(tmp_path: Path, parts: list[StreamPart]) -> None:
    async with watched(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn(parts, [Text(text="Slow.")], pace_s=SILENCE_S / 8))
        events = await home.run(live, "go")
    assert codes(events) == ["stalled"]
    assert len([event for event in events if event.type in DELTAS]) < 12


async def test_a_local_model_is_given_more_time(tmp_path: Path) -> None:
    async with watched(tmp_path) as home:
        live = await home.session()
        home.provider.is_local = True
        home.provider.script(Turn([TextPart("Slow.")], [Text(text="Slow.")], pace_s=2 * SILENCE_S))
        events = await home.run(live, "go")
    assert (codes(events), answers(events)) == ([], ("fake/fake", "end_turn"))


async def test_a_cancel_is_no_stall_even_when_both_come_at_once(tmp_path: Path) -> None:
    async with watched(tmp_path) as home:
        live = await home.session()
        closes = anyio.Event()
        home.provider.script(Turn([TextPart("Half")], holds=anyio.Event(), closes=closes))
        live.prompt("go")
        with anyio.fail_after(5):
            await home.provider.closing.wait()  # it has stalled, and its connection is being closed
        assert live.cancel()
        closes.set()
        await idle(live)
        events = home.events(live)
        assert home.provider.open_streams == 0
    assert of(events, "done")[0].stop_reason == "interrupted"
    assert of(events, "model_end")[0].stop_reason == "interrupted"
    assert of(events, "error") == []


# --- money ---


async def test_costs_add_up_for_run_and_session_and_are_the_same_after_a_reload(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.price_usd = 0.1
        tale.a.script(use(call("ls", path=".")), say("One."), say("Two."))
        first = await tale.home.run(live, "go")
        accepted = live.prompt("again")
        result = await live.outcome_of(accepted.prompt_id).wait()
        assert result is not None
    assert [(usage.spent_usd, usage.cost_usd) for usage in of(first, "usage")] == [(0.1, 0.1), (0.1, 0.2)]
    assert (of(first, "done")[0].cost_usd, result.cost_usd) == (0.2, 0.1)
    async with story(tmp_path) as tale:
        live = await tale.home.reload(live.id)
        assert live.state().cost_usd == 0.3
        tale.a.price_usd = 0.1
        events = await tale.home.run(live, "and again")
    assert (of(events, "usage")[0].cost_usd, of(events, "done")[0].cost_usd) == (0.4, 0.1)


async def test_one_call_without_a_known_price_leaves_the_sums_unknown(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.script(say("Free?"), say("Priced."))
        unknown = await tale.home.run(live, "go")
        tale.a.price_usd = 0.1
        priced = await tale.home.run(live, "again")
    assert (of(unknown, "usage")[0].spent_usd, of(unknown, "done")[0].cost_usd) == (None, None)
    assert (of(priced, "usage")[0].spent_usd, of(priced, "usage")[0].cost_usd) == (0.1, None)
    assert of(priced, "done")[0].cost_usd == 0.1  # all of this run is known
    async with story(tmp_path) as tale:
        assert (await tale.home.reload(live.id)).state().cost_usd is None


async def test_a_call_whose_tokens_are_not_told_has_no_known_price(tmp_path: Path) -> None:
    async with story(tmp_path) as tale:
        live = await tale.home.session()
        tale.a.price_usd = 0.1
        uncounted = say("Free?")
        uncounted.usage = None
        tale.a.script(uncounted)
        events = await tale.home.run(live, "go")
    assert (of(events, "usage")[0].spent_usd, of(events, "done")[0].cost_usd) == (None, None)
    assert of(events, "usage")[0].spent == Usage()


async def test_each_call_is_priced_by_the_model_that_answered_it(tmp_path: Path) -> None:
    async with story(tmp_path, models=2) as tale:
        live = await tale.home.session()
        tale.a.price_usd, tale.b.price_usd = 5.0, 0.25
        tale.a.script(fails("auth"))
        events = await tale.home.run(live, "go")
    assert [(usage.model, usage.spent_usd) for usage in of(events, "usage")] == [("b/m", 0.25)]
