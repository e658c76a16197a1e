"""The order of events within a run, as the contract gives it."""

from pathlib import Path

import pytest

from agentcore.events import PermissionRequest, ToolOutputDelta
from server.schemas import AnswerBody
from tests.fakes import call, house, kinds, say, use

pytestmark = pytest.mark.anyio

STARTED = ["status", "user_message"]
CALLED = ["turn_start", "model_start", "model_end", "usage", "assistant_message"]
ENDED = ["done", "status"]


async def test_a_plain_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("All is well."))
        events = await home.run(live, "How is it?")
    assert kinds(events) == [*STARTED, *CALLED, "turn_end", *ENDED]
    done = events[-2]
    assert (done.type, done.stop_reason, done.text, done.turns) == ("done", "end_turn", "All is well.", 1)


async def test_deltas_stand_between_model_start_and_model_end(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("one two"))
        types = [event.type for event in await home.run(live, "count")]
    start, end = types.index("model_start"), types.index("model_end")
    assert types[start + 1 : end] == ["text_delta", "text_delta"]


async def test_a_call_that_asks_and_is_allowed(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="echo hi")), say("Done."))
        events = await home.run(live, "greet", [AnswerBody(allow=True)])
    called = ["tool_start", "notice", "tool_end", "turn_end"]  # told once: this is no git work tree
    expected = [*STARTED, *CALLED, "permission_request", "permission_resolved", *called]
    assert kinds(events) == [*expected, *CALLED, "turn_end", *ENDED]
    end = next(event for event in events if event.type == "tool_end")
    assert "hi" in end.output
    assert not end.is_error


async def test_a_refused_call_still_gets_a_result(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="rm -r build")), say("Fine, I leave it."))
        events = await home.run(live, "clean up", [AnswerBody(allow=False, reason="not now")])
        results = live.agent.history.transcript.messages[-2].content
    expected = [*STARTED, *CALLED, "permission_request", "permission_resolved", "tool_end", "turn_end"]
    assert kinds(events) == [*expected, *CALLED, "turn_end", *ENDED]
    assert results[0].is_error
    assert "not now" in results[0].content


async def test_reads_run_without_asking_and_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("alpha")
    (tmp_path / "work" / "b.txt").write_text("beta")
    async with house(tmp_path) as home:
        live = await home.session()
        reads = [call("read", f"r{n}", file_path=name) for n, name in enumerate(["a.txt", "b.txt"])]
        home.provider.script(use(*reads), say("Read."))
        events = await home.run(live, "read both")
        results = live.agent.history.transcript.messages[-2].content
    starts = [event for event in events if event.type == "tool_start"]
    assert [(start.group, start.position) for start in starts] == [(0, 0), (0, 1)]
    assert ["alpha" in results[0].content, "beta" in results[1].content] == [True, True]
    assert not any(isinstance(event, PermissionRequest) for event in events)


async def test_a_cancelled_batch_ends_its_calls_before_its_turn(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", "a", command="echo on; sleep 60"), call("bash", "b", command="true")))
        live.prompt("go")
        await home.until(live, ToolOutputDelta)
        assert live.cancel()
        await home.until_idle(live)
        events = home.events(live)
    called = ["tool_start", "tool_end", "tool_end", "turn_end"]
    assert kinds(events) == [*STARTED, *CALLED, *called, *ENDED]
    ends = [(event.call_id, event.cancelled, event.turn) for event in events if event.type == "tool_end"]
    assert ends == [("a", False, 1), ("b", True, 1)]


async def test_numbers_are_contiguous_and_in_order(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("a b c"))
        events = await home.run(live, "go")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
