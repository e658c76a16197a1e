"""How runs end, and what the model is told on the way."""

from pathlib import Path

import anyio
import pytest

from agentcore.errors import ProviderError
from agentcore.messages import Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import TextPart
from server.problems import Problem
from server.schemas import AnswerBody
from tests.fakes import Turn, call, house, kinds, say, thinking, use

pytestmark = pytest.mark.anyio


async def last_run(root: Path, *turns: Turn, answers: tuple[AnswerBody, ...] = (), **settings: object):
    async with house(root) as home:
        live = await home.session(**settings)
        home.provider.script(*turns)
        events = await home.run(live, "go", answers)
        return events, live.agent.history.transcript.messages, home.provider


STOPS = [
    ("end_turn", "end_turn", None),
    ("stop_sequence", "end_turn", None),
    ("", "end_turn", None),
    ("max_tokens", "max_tokens", None),
    ("refusal", "refusal", None),
    ("tool_use", "error", "missing_tool_call"),
    ("model_context_window_exceeded", "error", "context_window_exceeded"),
    ("surprise", "error", "unexpected_stop_reason"),
]


@pytest.mark.parametrize(("stop", "reason", "code"), STOPS)
async def test_each_stop_reason_ends_the_run_as_the_table_says(
    tmp_path: Path, stop: str, reason: str, code: str | None
) -> None:
    # behind a context that did not fit: its summary, and the second try
    events, messages, _ = await last_run(tmp_path, say("some text", stop), say("Briefly."), say("some text", stop))
    errors = [event.code for event in events if event.type == "error"]
    assert events[-2].stop_reason == reason
    assert errors == ([] if code is None else [code])
    assert messages[-1].text == "some text"


async def test_a_terminating_answer_keeps_its_text_but_not_its_calls(tmp_path: Path) -> None:
    cut = Turn(content=[Text(text="I begin"), ToolCall(id="c", name="bash", input=None)], stop="max_tokens")
    _, messages, _ = await last_run(tmp_path, cut)
    assert messages[-1].content == (Text(text="I begin"),)


async def test_pause_turn_sends_the_paused_message_back_as_it_is(tmp_path: Path) -> None:
    _, messages, provider = await last_run(tmp_path, say("Searching", "pause_turn"), say("Found."))
    assert provider.requests[1].messages[-1].text == "Searching"
    assert [message.role for message in messages] == ["user", "assistant", "assistant"]


async def test_a_failed_model_call_ends_the_run_with_its_kind(tmp_path: Path) -> None:
    failure = ProviderError("overloaded", "The fake model is overloaded. Try again.", retry_after_s=3.0)
    events, messages, _ = await last_run(tmp_path, Turn([TextPart("half")], fails=failure))
    expected = ["turn_start", "model_start", "model_end", "assistant_message", "turn_end", "error", "done", "status"]
    error = events[-3]
    assert kinds(events)[2:] == expected
    assert (error.code, error.retryable, error.retry_after) == ("overloaded", True, 3.0)
    assert next(event for event in events if event.type == "model_end").stop_reason == "failed"
    assert messages[-1].text == "half"


async def test_a_bug_ends_the_run_with_code_internal_and_no_trace_of_it(tmp_path: Path) -> None:
    events, _, _ = await last_run(tmp_path, Turn(breaks=RuntimeError("secret /home/somebody")))
    error = next(event for event in events if event.type == "error")
    assert error.code == "internal"
    assert "secret" not in error.text
    assert kinds(events)[-3:] == ["error", "done", "status"]


async def test_the_session_goes_on_after_a_failed_run(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn(fails=ProviderError("auth", "The key is wrong.")), say("Fine now."))
        await home.run(live, "first")
        events = await home.run(live, "second")
        sent = home.provider.requests[-1].messages
    assert events[-2].stop_reason == "end_turn"
    assert [message.role for message in sent] == ["user"]
    assert sent[0].text == "firstsecond"


async def test_thinking_is_kept_with_its_seal(tmp_path: Path) -> None:
    block = Thinking(text="hm", signature="sealed", provider="fake", model="fake")
    events, messages, _ = await last_run(tmp_path, Turn([thinking("hm")], [block, Text(text="Yes.")]))
    assert messages[-1].content == (block, Text(text="Yes."))
    assert [event.type for event in events].count("thinking_delta") == 1


BAD_CALLS = [
    (call("bsh", command="ls"), "Use one of: bash"),
    (ToolCall(id="c", name="bash", input=None), "complete JSON"),
    (call("bash", cmd="ls"), "command: Field required"),
    (call("read", file_path=["a"]), "file_path"),
    (call("read", file_path="../outside.txt"), "outside the project"),
    (call("read", file_path="/etc/passwd"), "outside the project"),
]


@pytest.mark.parametrize(("bad", "told"), BAD_CALLS)
async def test_a_bad_call_is_answered_and_never_asked_or_started(tmp_path: Path, bad: ToolCall, told: str) -> None:
    events, messages, _ = await last_run(tmp_path, use(bad), say("I see."))
    result = messages[-2].content[0]
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert told in result.content
    assert not {"permission_request", "tool_start"} & set(kinds(events))


async def test_calls_of_the_last_turn_are_closed_without_running(tmp_path: Path) -> None:
    marker = tmp_path / "work" / "ran"
    events, messages, _ = await last_run(tmp_path, use(call("bash", command="touch ran")), mode="yolo", max_turns=1)
    end = next(event for event in events if event.type == "tool_end")
    assert events[-2].stop_reason == "max_turns"
    assert (end.cancelled, end.output.partition(":")[0]) == (True, "turn_budget_exhausted")
    assert not marker.exists()
    assert messages[-1].role == "user"


async def test_repeated_call_ids_are_made_unique(tmp_path: Path) -> None:
    same = [call("ls", "call_0", path="."), call("ls", "call_0", path=".")]
    events, messages, _ = await last_run(tmp_path, use(*same), use(call("ls", "call_0", path=".")), say("Done."))
    for kind in ("tool_call_delta", "tool_start", "tool_end"):
        shown = [event.call_id for event in events if event.type == kind]
        assert sorted(shown) == ["call_0", "call_0-2", "call_0-3"], kind  # those of one batch may end in any order
    ids = [one.id for message in messages for one in message.tool_calls]
    results = [block.call_id for m in messages for block in m.content if isinstance(block, ToolResult)]
    assert ids == results == ["call_0", "call_0-2", "call_0-3"]


async def test_a_failed_call_cancels_no_sibling(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("alpha")
    pair = [call("read", "r1", file_path="missing.txt"), call("read", "r2", file_path="a.txt")]
    _, messages, _ = await last_run(tmp_path, use(*pair), say("Done."))
    results = messages[-2].content
    assert [result.is_error for result in results] == [True, False]


async def test_a_long_result_keeps_head_and_tail(tmp_path: Path) -> None:
    command = "printf 'first\\n'; head -c 200000 /dev/zero | tr '\\0' x; printf '\\nlast'"
    events, _, _ = await last_run(tmp_path, use(call("bash", command=command)), say("Long."), mode="yolo")
    end = next(event for event in events if event.type == "tool_end")
    assert len(end.output.encode()) < 40_000
    assert end.output.startswith("first")
    assert "last" in end.output[-200:]


async def test_what_a_tool_or_listener_does_to_its_copy_stays_there(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("todo_write", todos=[{"content": "a", "status": "pending"}])), say("Noted."))
        heard = await home.run(live, "plan")
        start = next(event for event in heard if event.type == "tool_start")
        start.input["todos"].clear()
        assert live.agent.history.transcript.messages[1].tool_calls[0].input["todos"]


async def test_the_prefix_of_the_requests_is_stable(tmp_path: Path) -> None:
    _, _, provider = await last_run(
        tmp_path, use(call("ls", "a", path=".")), use(call("ls", "b", path=".")), say("Done.")
    )
    first, second, third = provider.requests
    assert first.system == second.system == third.system
    assert first.tools == second.tools == third.tools
    assert [tool.name for tool in first.tools] == sorted(tool.name for tool in first.tools)
    assert third.messages[: len(second.messages)] == second.messages


async def test_clear_begins_a_fresh_context(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("One."), say("Two."))
        await home.run(live, "first")
        live.clear()
        await home.run(live, "second")
        assert [message.text for message in home.provider.requests[1].messages] == ["second"]
        shown, _ = await home.app.display(live.id)
        assert [message.content[0].text for message in shown] == ["first", "One.", "second", "Two."]


async def test_clear_waits_for_no_run_and_ends_one_that_a_crash_left(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="true")))
        live.prompt("first")
        await home.until_asked(live)
        with pytest.raises(Problem) as refused:
            live.clear()
        assert refused.value.code == "session_busy"
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        live.clear()
        ended = ["permission_resolved", "tool_end", "turn_end", "done", "cleared"]
        assert [kind for kind in kinds(home.events(live)) if kind != "status"] == ended
        assert live.agent.history.transcript.messages == ()
        assert (live.state().interrupted, live.requests.open) == (False, ())


async def test_a_pause_beside_calls_answers_them_before_anything_is_sent(tmp_path: Path) -> None:
    paused = use(call("ls", path="."), text="I search")
    paused.stop = "pause_turn"
    events, messages, provider = await last_run(tmp_path, paused, say("Found."))
    assert [message.role for message in provider.requests[1].messages] == ["user", "assistant", "user"]
    assert kinds(events).count("tool_end") == 1
    assert messages[-1].text == "Found."


async def test_a_pause_without_content_is_not_asked_again(tmp_path: Path) -> None:
    events, _, provider = await last_run(tmp_path, Turn(stop="pause_turn"))
    assert len(provider.requests) == 1
    assert [event.code for event in events if event.type == "error"] == ["unexpected_stop_reason"]


async def test_an_unknown_tool_is_told_to_people_too(tmp_path: Path) -> None:
    events, _, _ = await last_run(tmp_path, use(call("bsh", command="ls")), say("I see."))
    assert [event.code for event in events if event.type == "notice"] == ["unknown_tool"]


async def test_a_call_has_a_start_exactly_when_it_was_not_cancelled(tmp_path: Path) -> None:
    calls = [call("bsh", "a"), call("bash", "b"), call("bash", "c", command="rm x"), call("ls", "d", path=".")]
    events, _, _ = await last_run(tmp_path, use(*calls), say("Hm."), answers=(AnswerBody(allow=False),))
    started = {event.call_id for event in events if event.type == "tool_start"}
    ended = {event.call_id: event.cancelled for event in events if event.type == "tool_end"}
    assert ended == {one.id: one.id not in started for one in calls}
    assert started == {"d"}


async def test_a_refusal_is_capped_and_safe_like_any_result(tmp_path: Path) -> None:
    fields = {f"field{n}": 1 for n in range(20_000)}
    _, messages, _ = await last_run(tmp_path, use(call("bash", "a", **fields)), say("Oh."))
    assert len(messages[-2].content[0].content.encode()) < 40_000
    denial = AnswerBody(allow=False, reason="no\0way")
    _, messages, _ = await last_run(tmp_path, use(call("bash", command="x")), say("Oh."), answers=(denial,))
    assert "\0" not in messages[-2].content[0].content


async def test_a_prompt_with_a_nul_poisons_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await home.run(live, "a\0b")
        assert home.provider.requests[0].messages[0].text == "a\N{REPLACEMENT CHARACTER}b"


BREAKS = [
    Turn([TextPart("half")], fails=ProviderError("network", "The line is dead.")),
    Turn([TextPart("half")], breaks=RuntimeError("a bug")),
]


@pytest.mark.parametrize("turn", BREAKS)
async def test_every_start_has_its_end_and_what_was_shown_is_kept(tmp_path: Path, turn: Turn) -> None:
    events, messages, _ = await last_run(tmp_path, turn)
    types = kinds(events)
    assert [types.count(kind) for kind in ("model_start", "model_end", "turn_start", "turn_end", "done")] == [1] * 5
    assert messages[-1].text == "half"


async def test_the_text_of_a_run_is_that_of_its_last_answer(tmp_path: Path) -> None:
    events, _, _ = await last_run(tmp_path, use(call("ls", path="."), text="Let me look."), Turn())
    assert events[-2].text == ""


async def test_a_run_that_cannot_even_be_closed_is_done_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    async with house(tmp_path) as home:
        live = await home.session()
        monkeypatch.setattr("agentcore.leftovers.close_batch", fail)
        home.provider.script(say("Hello."))
        accepted = live.prompt("go")
        with anyio.fail_after(5):
            result = await live.outcome_of(accepted.prompt_id).wait()
        assert (result.stop_reason, result.error.code) == ("error", "internal")
        assert kinds(home.events(live))[-3:] == ["error", "done", "status"]
        monkeypatch.undo()
        assert (await home.run(live, "again"))[-2].stop_reason == "end_turn"


async def test_thousands_of_calls_in_one_message_hold_up_nobody(tmp_path: Path) -> None:
    """Each call costs the same however many there are, and other sessions go on between them."""
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(*(call("nothing", f"c{n}") for n in range(3000))), say("Oh."))
        live.prompt("go")
        steps = 0
        with anyio.fail_after(20):
            while live.is_busy:
                steps += 1
                await anyio.lowlevel.checkpoint()
        assert steps > 3000
        assert len(live.agent.history.transcript.messages[-2].content) == 3000
