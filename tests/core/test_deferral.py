"""Answers that come later: from a person who is not there, or for a tool that defers. The run ends `suspended` at once,
nothing is run twice, and the last answer makes it go on - whatever was killed in between."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from agentcore.events import SessionUpdated
from agentcore.messages import ToolResult
from agentcore.ports.tools import Deferred, Tool, ToolRoom, ToolSpec
from agentcore.tools.catalogue import builtin_tools
from server.deferred import EXPIRED
from server.live import LiveSession
from server.problems import Problem
from server.schemas import AnswerBody
from tests.core.test_queue import of_kind
from tests.fakes import FakeClock, House, call, house, kinds, say, use

pytestmark = pytest.mark.anyio

RAN = "(no output)\n[exit code 0]"


class Ticket(BaseModel):
    token: str


class FakeDeferringTool:
    """Hands its work to somebody else, under the token that it is told."""

    spec = ToolSpec(name="hand_over", description="Hand over.", input=Ticket, read_only=True)

    def __init__(self) -> None:
        self.runs: list[str] = []

    async def run(self, input: Ticket, room: ToolRoom) -> Deferred:
        self.runs.append(input.token)
        return Deferred(input.token)

    def preview(self, input: Ticket) -> str | None:
        return None


CHANGING = replace(FakeDeferringTool.spec, read_only=False)


@pytest.fixture(autouse=True)
def hand_over(monkeypatch: pytest.MonkeyPatch) -> FakeDeferringTool:
    tool = FakeDeferringTool()

    def with_it(*parts: Any, **named: Any) -> list[Tool]:
        return [*builtin_tools(*parts, **named), tool]

    monkeypatch.setattr("agentcore.makers.builtin_tools", with_it)
    return tool


def code_of(refused: pytest.ExceptionInfo[Problem]) -> str:
    return refused.value.code


async def deferred_by_tool(home: House, **settings: object) -> LiveSession:
    """A run that ended `suspended`: two of its three calls were deferred, the one between them ran."""
    live = await home.session(mode="yolo", **settings)
    home.provider.script(
        use(
            call("hand_over", "a", token="t-a"),
            call("bash", "b", command="echo once >> ran.txt"),
            call("hand_over", "c", token="t-c"),
        ),
        say("Done."),
    )
    live.prompt("first")
    await home.until_idle(live)
    return live


def results(home: House) -> list[tuple[str, str, bool]]:
    blocks = home.provider.requests[-1].messages[-1].content
    return [(block.call_id, block.content, block.is_error) for block in blocks if isinstance(block, ToolResult)]


# --- tools ---


async def test_a_deferred_call_ends_its_run_and_the_last_answer_makes_it_go_on(
    tmp_path: Path, hand_over: FakeDeferringTool
) -> None:
    async with house(tmp_path) as home:
        live = await deferred_by_tool(home)
        state = live.state()
        assert (state.suspended, state.busy, state.waiting_for) == (True, False, "tool")
        assert [call.token for call in state.deferred] == ["t-a", "t-c"]
        assert [event.call_id for event in of_kind(home.events(live), "tool_end")] == ["b"]
        live.answer_deferred("t-c", "C.", is_error=False)
        assert not live.is_busy
        live.answer_deferred("t-a", "It broke.", is_error=True)
        await home.until_idle(live)
        assert results(home) == [("a", "It broke.", True), ("b", RAN, False), ("c", "C.", False)]
        assert [event.stop_reason for event in of_kind(home.events(live), "done")] == ["suspended", "end_turn"]
        assert hand_over.runs == ["t-a", "t-c"]
        turns = [event.type for event in home.events(live) if event.type in ("turn_start", "turn_end")]
        assert turns == ["turn_start", "turn_end"] * 2


@pytest.mark.parametrize("answered", [0, 1, 2])
async def test_deferred_calls_survive_a_restart_and_are_never_run_again(
    tmp_path: Path, hand_over: FakeDeferringTool, answered: int
) -> None:
    answers = [("t-a", "A."), ("t-c", "C.")]
    hand_over.spec = CHANGING
    async with house(tmp_path) as home:
        live = await deferred_by_tool(home)
        for token, output in answers[:answered]:
            live.answer_deferred(token, output, is_error=False)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Done."))
        for token, output in answers[answered:]:
            live.answer_deferred(token, output, is_error=False)
        if answered == len(answers):
            live.resume_run()
        await home.until_idle(live)
        assert [(call_id, output) for call_id, output, _ in results(home)] == [
            ("a", "A."),
            ("b", RAN),
            ("c", "C."),
        ]
        assert home.events(live)[-2].stop_reason == "end_turn"
    assert hand_over.runs == ["t-a", "t-c"]
    assert (tmp_path / "work" / "ran.txt").read_text() == "once\n"


async def test_a_kill_right_behind_a_deferral_leaves_the_call_to_whom_it_was_handed(
    tmp_path: Path, hand_over: FakeDeferringTool
) -> None:
    hand_over.spec = CHANGING
    async with house(tmp_path) as home:
        live = await deferred_by_tool(home)
        journal = next((tmp_path / "data").rglob("journal.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith(b'{"type":"deferred"'))
    journal.write_bytes(b"".join(lines[: at + 1]))
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        live.resume_run()
        await home.until_idle(live)
        assert [one.token for one in live.state().deferred] == ["t-a", "t-c"]
        assert [event.call_id for event in of_kind(home.events(live), "tool_end")] == ["b"]
    assert hand_over.runs == ["t-a", "t-c", "t-c"]


async def test_an_answer_before_the_end_of_the_batch_does_not_even_suspend_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(
            use(call("hand_over", "a", token="t-a"), call("bash", "b", command="echo b")), say("Done.")
        )
        live.prompt("first")
        await home.until_asked(live)
        live.answer_deferred("t-a", "A.", is_error=False)
        live.answer("perm-1", AnswerBody(allow=True))
        await home.until_idle(live)
        assert [event.stop_reason for event in of_kind(home.events(live), "done")] == ["end_turn"]


async def test_an_unknown_token_and_a_second_answer_are_refused(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await deferred_by_tool(home)
        live.answer_deferred("t-a", "A.", is_error=False)
        for token, code in (("t-a", "already_resolved"), ("t-b", "not_found"), ("perm-1", "not_found")):
            with pytest.raises(Problem) as refused:
                live.answer_deferred(token, "again", is_error=False)
            assert code_of(refused) == code


async def test_a_token_that_was_used_before_is_a_failure_of_the_tool(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(
            use(call("hand_over", "a", token="t-a"), call("hand_over", "b", token="t-a")), say("Done.")
        )
        live.prompt("first")
        await home.until_idle(live)
        live.answer_deferred("t-a", "A.", is_error=False)
        await home.until_idle(live)
        assert [(call_id, is_error) for call_id, _, is_error in results(home)] == [("a", False), ("b", True)]


PROMPTS = [
    ("reject", "session_suspended"),
    ("steer", "session_suspended"),
    ("queue", "queued"),
    ("interrupt", "started"),
]


@pytest.mark.parametrize("is_reloaded", [False, True])
@pytest.mark.parametrize(("when_busy", "told"), PROMPTS)
async def test_what_a_prompt_is_told_while_deferred_calls_wait(
    tmp_path: Path, when_busy: Any, told: str, is_reloaded: bool
) -> None:
    async with house(tmp_path) as home:
        live = await deferred_by_tool(home)
        if not is_reloaded:
            await check_prompt(home, live, when_busy, told)
    if is_reloaded:
        async with house(tmp_path) as home:
            await check_prompt(home, await home.reload(live.id), when_busy, told)


async def check_prompt(home: House, live: LiveSession, when_busy: Any, told: str) -> None:
    if told == "session_suspended":
        with pytest.raises(Problem) as refused:
            live.prompt("new", when_busy=when_busy)
        assert code_of(refused) == told
        with pytest.raises(Problem) as refused:
            live.resume_run()
        assert code_of(refused) == told
        return
    assert live.prompt("new", when_busy=when_busy).disposition == told
    if when_busy == "queue":
        assert not live.is_busy
        for token in ("t-a", "t-c"):
            live.answer_deferred(token, "Here.", is_error=False)
    await home.until_idle(live)
    reasons = [event.stop_reason for event in of_kind(home.events(live), "done")]
    assert reasons[-2:] == (["end_turn", "end_turn"] if when_busy == "queue" else ["interrupted", "end_turn"])


async def test_a_cancel_closes_deferred_calls_that_began(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await deferred_by_tool(home)
        assert live.cancel()
        ends = {event.call_id: (event.is_error, event.cancelled) for event in of_kind(home.events(live), "tool_end")}
        assert (ends["a"], ends["c"]) == ((True, False), (True, False))
        with pytest.raises(Problem) as refused:
            live.answer_deferred("t-a", "A.", is_error=False)
        assert code_of(refused) == "already_resolved"
        assert (await home.run(live, "again"))[-2].stop_reason == "end_turn"


async def test_a_grant_is_kept_with_the_deferral_of_its_call(tmp_path: Path, hand_over: FakeDeferringTool) -> None:
    hand_over.spec = CHANGING
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("hand_over", "a", token="t-a")))
        live.prompt("first")
        request = await home.until_asked(live)
        live.answer(request.request_id, AnswerBody(allow=True, scope="session"))
        await home.until_idle(live)
        lines = next((tmp_path / "data").rglob("journal.jsonl")).read_text().splitlines()
    heads = [line.split('"')[3] for line in lines]
    assert heads.index("deferred") < heads.index("grant")


async def test_a_deferred_call_that_nobody_answers_in_time_fails_and_the_run_goes_on(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await deferred_by_tool(home, expires_after_s=60)
        live.answer_deferred("t-a", "A.", is_error=False)
        clock.time += 59
        home.hub.tidy()
        assert live.state().suspended
        clock.time += 2
        home.hub.tidy()
        await home.until_idle(live)
        assert results(home)[-1] == ("c", EXPIRED, True)
        with pytest.raises(Problem) as refused:
            live.answer_deferred("t-c", "too late", is_error=False)
        assert code_of(refused) == "already_resolved"


@pytest.mark.parametrize("noticed_by", ["the clock", "a late answer"])
async def test_a_deferred_call_that_expires_in_an_interrupted_session_lets_its_run_go_on(
    tmp_path: Path, noticed_by: str
) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await deferred_by_tool(home, expires_after_s=60)
        journal = next((tmp_path / "data").rglob("journal.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if line.startswith(b'{"type":"done"'))
    journal.write_bytes(b"".join(lines[:at]))  # killed behind its calls, before the run ended `suspended`
    async with house(tmp_path, clock=clock) as home:
        live = await home.reload(live.id)
        assert live.state().interrupted
        home.provider.script(say("Done."))
        live.answer_deferred("t-a", "A.", is_error=False)
        clock.time += 61
        if noticed_by == "the clock":
            home.hub.tidy()
        else:
            with pytest.raises(Problem) as late:
                live.answer_deferred("t-c", "too late", is_error=False)
            assert code_of(late) == "already_resolved"
        await home.until_idle(live)
        assert results(home) == [("a", "A.", False), ("b", RAN, False), ("c", EXPIRED, True)]
        assert home.events(live)[-2].stop_reason == "end_turn"


async def test_a_late_answer_to_a_request_of_a_suspended_run_lets_it_go_on_as_well(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await unattended(home, expires_after_s=60)
        clock.time += 61
        with pytest.raises(Problem) as late:
            live.answer("perm-1", AnswerBody(allow=True))
        assert code_of(late) == "permission_expired"
        await home.until_idle(live)
        assert home.events(live)[-2].stop_reason == "end_turn"


# --- nobody is there ---


async def unattended(home: House, **settings: object) -> LiveSession:
    live = await home.session(unattended="defer", **settings)
    home.provider.script(
        use(call("bash", "a", command="echo a"), call("ls", "b"), call("bash", "c", command="echo c")), say("Done.")
    )
    live.prompt("first")
    await home.until_idle(live)
    return live


@pytest.mark.parametrize("is_reloaded", [False, True])
async def test_what_nobody_is_there_to_allow_waits_and_the_run_goes_on_with_the_last_answer(
    tmp_path: Path, is_reloaded: bool
) -> None:
    async with house(tmp_path) as home:
        live = await unattended(home)
        assert [event.call_id for event in of_kind(home.events(live), "tool_end")] == ["b"]
        assert (live.state().suspended, live.state().waiting_for) == (True, "permission")
        with pytest.raises(Problem) as refused:
            live.prompt("new")
        assert code_of(refused) == "session_suspended"
        if not is_reloaded:
            await answer_both(home, live)
    if is_reloaded:
        async with house(tmp_path) as home:
            live = await home.reload(live.id)
            home.provider.script(say("Done."))
            await answer_both(home, live)


async def answer_both(home: House, live: LiveSession) -> None:
    live.answer("perm-2", AnswerBody(allow=False, reason="no"))
    assert not live.is_busy
    live.answer("perm-1", AnswerBody(allow=True))
    await home.until_idle(live)
    told = results(home)
    assert [(call_id, is_error) for call_id, _, is_error in told] == [("a", False), ("b", False), ("c", True)]
    assert home.events(live)[-2].stop_reason == "end_turn"
    assert kinds(home.events(live)).count("permission_request") in (0, 2)


async def test_an_answer_while_the_batch_still_runs_is_gone_on_with_at_once(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(unattended="defer")
        home.provider.script(
            use(call("bash", "a", command="echo a"), call("hand_over", "b", token="t-b"), call("ls", "c")),
            say("Done."),
        )
        live.prompt("first")
        with anyio.fail_after(5):
            while not live.agent.history.deferrals:
                await anyio.lowlevel.checkpoint()
        live.answer("perm-1", AnswerBody(allow=True))
        live.answer_deferred("t-b", "B.", is_error=False)
        await home.until_idle(live)
        events = home.events(live)
        assert [event.stop_reason for event in of_kind(events, "done")] == ["suspended", "end_turn"]
        assert [event.busy for event in of_kind(events, "status")] == [True, False]


async def test_a_request_that_expires_lets_the_suspended_run_go_on(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await unattended(home, expires_after_s=60)
        clock.time += 61
        home.hub.tidy()
        await home.until_idle(live)
        assert [event.resolution for event in of_kind(home.events(live), "permission_resolved")] == ["expired"] * 2
        assert "expired" in results(home)[0][1]
        assert home.events(live)[-2].stop_reason == "end_turn"


async def test_once_somebody_is_there_a_prompt_takes_the_place_of_what_was_deferred(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await unattended(home)
        live.update(SessionUpdated(unattended="wait"))
        assert live.prompt("new").disposition == "started"
        await home.until_idle(live)
        assert [event.resolution for event in of_kind(home.events(live), "permission_resolved")] == ["cancelled"] * 2


async def test_a_message_of_the_user_skips_what_was_put_off(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(unattended="defer")
        home.provider.script(
            use(call("bash", "a", command="echo a"), call("hand_over", "b", token="t-b"), call("ls", "c")),
            say("Done."),
        )
        live.prompt("first")
        with anyio.fail_after(5):
            while not live.agent.history.deferrals:
                await anyio.lowlevel.checkpoint()
        live.prompt("look left", when_busy="steer")
        await home.until_idle(live)
        assert live.state().suspended  # what was handed over is still out there
        assert live.requests.open == ()
        live.answer_deferred("t-b", "B.", is_error=False)
        await home.until_idle(live)
        assert home.provider.requests[-1].messages[-1].text == "look left"
        assert [call_id for call_id, _, _ in results(home)] == ["a", "b", "c"]
