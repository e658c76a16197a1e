"""A context that is nearly full, or too full: a summary takes its place, and what was not answered yet stays."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.compaction import parts, words
from agentcore.compaction.rendering import rendered
from agentcore.compaction.summary import RENDERED_CHARS
from agentcore.encoding import head_of
from agentcore.errors import ProviderError, Unprocessable
from agentcore.events import Compacted, NumberedEvent
from agentcore.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import TextPart
from agentcore.providers.anthropic.body import encode_body
from agentcore.retry import Patience
from agentcore.usage import Usage
from server.live import LiveSession
from tests.fakes import SPENT, FakeClock, FakePause, House, Turn, call, house, kinds, say, use

pytestmark = pytest.mark.anyio

WINDOW = 200_000  # of the fake model
NEARLY_FULL = Usage(input=160_000, output=1)
TOO_LONG = ProviderError("context_overflow", "The prompt is too long.")
SUMMARY = say("I think.\n<summary>\nThe user said hello.\n</summary>")
COMPACTION = ["compaction_start", "model_start", "model_end", "usage", "compacted"]
ANSWERED = ["model_start", "model_end", "usage", "assistant_message"]


def setting(root: Path, **settings: Any) -> None:
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "settings.toml").write_text("\n".join(lines))


def near(turn: Turn, usage: Usage = NEARLY_FULL) -> Turn:
    return replace(turn, usage=usage)


async def talk(home: House, live: LiveSession, runs: int = 2, usage: Usage = NEARLY_FULL) -> None:
    """So many finished runs of one answer each; the last call used that much."""
    for number in range(runs):
        home.provider.script(near(say(f"answer {number}"), usage if number == runs - 1 else SPENT))
        await home.run(live, f"prompt {number}")


def messages_of(live: LiveSession) -> tuple[Message, ...]:
    return live.agent.history.transcript.messages


def codes(events: Sequence[NumberedEvent]) -> list[str]:
    return [event.code for event in events if event.type in ("notice", "error")]


def last(events: Sequence[NumberedEvent]) -> Compacted:
    return [event for event in events if isinstance(event, Compacted)][-1]


def turn_of(events: Sequence[NumberedEvent]) -> list[str]:
    """The durable events between the first `turn_start` and the first `turn_end`."""
    types = kinds(events)
    return types[types.index("turn_start") + 1 : types.index("turn_end")]


# --- by itself ---


async def test_a_nearly_full_context_is_compacted_at_the_head_of_a_turn_and_the_new_prompt_held_aside(
    tmp_path: Path,
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live)
        home.provider.script(SUMMARY, say("answer 2"))
        events = await home.run(live, "prompt 2")
        asked, answered = home.provider.requests[-2:]
        before = home.provider.requests[1]
    assert turn_of(events) == [*COMPACTION, *ANSWERED]
    assert [event.text for event in events if event.type == "text_delta"] == ["answer", "2"]
    # the request for the summary is the conversation itself, so that it hits the cache
    assert (asked.system, asked.tools) == (before.system, before.tools)
    assert tuple(asked.messages[:3]) == before.messages
    assert [message.text for message in asked.messages[:4]] == ["prompt 0", "answer 0", "prompt 1", "answer 1"]
    assert asked.messages[4].text.startswith(words.REQUEST_TAG)
    assert "prompt 2" not in asked.messages[4].text
    # afterwards: one message, with the summary and what was not answered yet
    [begun] = answered.messages
    note, prompt = begun.content
    assert isinstance(note, Text)
    assert "<summary>\nThe user said hello.\n</summary>" in note.text
    assert f"{live.id}/journal*.jsonl" in note.text
    assert words.CONTINUE not in note.text
    assert prompt == Text(text="prompt 2")
    compacted = last(events)
    assert (compacted.ok, compacted.strategy, compacted.summary) == (True, "summarize", "The user said hello.")
    assert compacted.before_tokens > 160_000 > compacted.after_tokens


@pytest.mark.parametrize(
    ("used", "runs", "settings", "compacts"),
    [
        (Usage(input=159_000), 2, {}, False),
        (Usage(input=1_000, cache_read=100_000, cache_write=60_000), 2, {}, True),
        (Usage(input=100_000, output=61_000), 2, {}, True),
        (NEARLY_FULL, 1, {}, False),  # with the new prompt three messages
        (NEARLY_FULL, 2, {"auto_compact": False}, False),
        (Usage(input=110_000), 2, {"compact_at": 0.5}, True),
        (Usage(input=170_000), 2, {"compact_at": 0.9}, False),
        (Usage(), 2, {}, False),  # a vendor that counts nothing
    ],
)
async def test_it_happens_above_a_part_of_the_window_and_with_four_messages(
    tmp_path: Path, used: Usage, runs: int, settings: dict[str, Any], compacts: bool
) -> None:
    setting(tmp_path, **settings)
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, runs, used)
        home.provider.script(say("words"))
        assert ("compacted" in kinds(await home.run(live, "again"))) is compacts


async def test_what_came_since_the_last_call_counts(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, usage=Usage(input=100_000))
        events = await home.run(live, "x" * 300_000)
    [start] = [event for event in events if event.type == "compaction_start"]
    assert (start.trigger, start.estimated_tokens) == ("auto", 100_000 + 75_000)


async def test_in_the_middle_of_a_run_the_model_is_told_to_continue(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("alpha")
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 1, SPENT)
        todo = call("todo_write", todos=[item("read", "completed"), item("write", "in_progress")])
        home.provider.script(use(todo), near(use(call("read", file_path="a.txt"))), SUMMARY, say("Done."))
        events = await home.run(live, "prompt 1")
        asked, answered = home.provider.requests[-2:]
    types = kinds(events)
    third = len(types) - 1 - types[::-1].index("turn_start")
    assert types[third:] == ["turn_start", *COMPACTION, *ANSWERED, "turn_end", "done", "status"]
    result, request = asked.messages[-1].content
    assert isinstance(result, ToolResult)
    assert "alpha" in result.content
    assert isinstance(request, Text)
    [begun] = answered.messages
    assert begun.text.endswith(words.CONTINUE)
    assert "- [in_progress] write" in begun.text
    assert "read" not in begun.text.partition("task list:")[2].partition("Word for word")[0]


def item(content: str, status: str) -> dict[str, str]:
    return {"content": content, "status": status}


async def test_the_same_bytes_begin_the_request_for_the_summary(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live)
        home.provider.script(SUMMARY)
        await home.run(live, "prompt 2")
        sent, asked = (encode_body(request, "anthropic") for request in home.provider.requests[-3:-1])
    mark = b',"cache_control":{"type":"ephemeral"}'
    assert mark in sent
    assert asked.replace(mark, b"").startswith(sent.replace(mark, b"").removesuffix(b"]}"))


# --- failures ---


@pytest.mark.parametrize("strategy", ["summarize", "keep_recent"])
@pytest.mark.parametrize(
    "failing",
    [
        Turn(refuses=ProviderError("auth", "No.")),
        Turn([TextPart("half")], fails=ProviderError("invalid_request", "No.")),
        say(""),
        say("<summary>  </summary>"),
        say("I cannot.", "refusal"),
        use(call("read", file_path="a.txt")),
    ],
)
async def test_without_a_summary_the_run_goes_on_as_it_is_and_says_so(
    tmp_path: Path, strategy: str, failing: Turn
) -> None:
    setting(tmp_path, compaction=strategy)
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 5)
        home.provider.script(failing, near(use(call("ls"))), say("Done."))
        events = await home.run(live, "go on")
        said = [message.text for message in messages_of(live)]
        partial = live.partial()
        # what was encoded for the summary alone is not kept
        assert home.provider.requests[5].encoded is not live.agent.history.transcript.encoded
    assert kinds(events).count("compaction_start") == kinds(events).count("compacted") == 1  # once in a run
    assert (last(events).ok, last(events).message) == (False, None)
    assert codes(events) == ["compaction_failed"]
    assert said[:3] == ["prompt 0", "answer 0", "prompt 1"]
    assert (said[-1], partial) == ("Done.", None)
    assert "half" not in "".join(said)


async def test_calls_beside_the_summary_are_ignored(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live)
        home.provider.script(use(call("bash", command="touch ran"), text="<summary>Short.</summary>"), say("Done."))
        events = await home.run(live, "go on")
    assert last(events).summary == "Short."
    assert "tool_start" not in kinds(events)


async def test_a_summary_is_asked_for_again_though_it_broke_off(tmp_path: Path) -> None:
    broken = Turn([TextPart("half")], fails=ProviderError("network", "Cut."))
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live)
        home.provider.script(broken, SUMMARY, say("Done."))
        events = await home.run(live, "go on")
    starts = [event.attempt for event in events if event.type == "model_start"]
    assert (starts, codes(events)) == ([1, 2, 1], ["model_retry"])
    assert last(events).ok


async def test_what_a_summary_used_counts(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live)
        home.provider.script(near(SUMMARY, Usage(input=7, output=3)), near(say("Done."), Usage(input=100)))
        events = await home.run(live, "go on")
    assert [event.spent.input for event in events if event.type == "usage"] == [7, 100]
    assert (events[-2].usage, events[-2].turns) == (Usage(input=107, output=3), 1)


async def test_a_cancel_ends_a_compaction_at_once_and_nothing_has_changed(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live)
        home.provider.script(replace(SUMMARY, holds=anyio.Event()))
        live.prompt("go on")
        with anyio.fail_after(5):
            await home.provider.streaming.wait()
        assert live.partial() is None
        assert live.cancel()
        await home.until_idle(live)
        events = home.events(live)
        said = [message.text for message in messages_of(live)]
    assert kinds(events)[-5:] == ["model_end", "compacted", "turn_end", "done", "status"]
    assert (last(events).ok, events[-2].stop_reason) == (False, "interrupted")
    assert said == ["prompt 0", "answer 0", "prompt 1", "answer 1", "go on"]


async def test_a_stopping_process_does_not_wait_to_ask_for_a_summary_again(tmp_path: Path) -> None:
    clock = FakeClock()
    pause = FakePause(clock)
    async with house(tmp_path, clock=clock, patience=Patience(wait=pause)) as home:
        live = await home.session()
        await talk(home, live)
        before, pause.holds = messages_of(live), True
        home.provider.script(Turn(refuses=ProviderError("network", "Cut.")))
        outcome = live.compact()
        with anyio.fail_after(5):
            await pause.begun.wait()
            assert live.state().waiting_for == "retry"
            live.pause()
            assert await outcome.wait() is None
        await home.until_idle(live)
        assert (last(home.events(live)).ok, messages_of(live)) == (False, before)


# --- a context that did not fit ---

OVERFLOWS = [
    Turn(refuses=TOO_LONG),
    Turn([TextPart("half an answer")], fails=TOO_LONG),
    say("half an answer", "model_context_window_exceeded"),
]


@pytest.mark.parametrize("overflow", OVERFLOWS)
async def test_a_context_that_does_not_fit_is_compacted_once_and_asked_again(tmp_path: Path, overflow: Turn) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 1, SPENT)
        home.provider.script(overflow, SUMMARY, say("Done."))
        events = await home.run(live, "go on")
        [begun] = home.provider.requests[-1].messages
    [start] = [event for event in events if event.type == "compaction_start"]
    assert (start.trigger, last(events).ok) == ("overflow", True)
    assert (events[-2].stop_reason, events[-2].text, codes(events)) == ("end_turn", "Done.", [])
    assert begun.text.endswith("go on" if overflow.refuses else words.CONTINUE)


@pytest.mark.parametrize("overflow", OVERFLOWS)
async def test_the_second_time_in_a_run_it_ends_it_and_the_text_is_kept(tmp_path: Path, overflow: Turn) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 1, SPENT)
        home.provider.script(overflow, SUMMARY, use(call("ls")), overflow)
        events = await home.run(live, "go on")
        said = messages_of(live)[-1].text
        after = await home.run(live, "and now?")
    assert kinds(events).count("compacted") == 1
    assert (events[-2].stop_reason, codes(events)) == ("error", ["context_window_exceeded"])
    assert overflow.refuses or said == "half an answer"
    assert after[-2].stop_reason == "end_turn"  # the session is not bricked


@pytest.mark.parametrize("overflow", OVERFLOWS)
async def test_off_is_off_where_a_context_does_not_fit_too(tmp_path: Path, overflow: Turn) -> None:
    setting(tmp_path, auto_compact=False)
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 1, SPENT)
        home.provider.script(overflow)
        events = await home.run(live, "go on")
    assert "compaction_start" not in kinds(events)
    assert codes(events) == ["context_window_exceeded"]


async def test_a_conversation_too_long_to_be_summarised_is_told_shorter_and_shorter(tmp_path: Path) -> None:
    refusal, window = Turn(refuses=TOO_LONG), 20_000
    async with house(tmp_path) as home:
        home.provider.window = window
        live = await home.session()
        for number in range(10):  # of each, no more than 4000 characters are told
            home.provider.script(Turn(content=[Text(text="long word " * 400)]))
            await home.run(live, f"prompt {number}")
        home.provider.script(refusal, refusal, refusal, SUMMARY, say("Done."))
        events = await home.run(live, "go on")
        sizes = [len(request.messages[-1].text) for request in home.provider.requests[-3:-1]]
    assert (last(events).ok, events[-2].text) == (True, "Done.")
    told_with = sizes[1] - window // 4  # the request for the summary
    assert 0 < told_with < 2_000
    assert sizes[0] == window + told_with


async def test_without_any_summary_it_ends_the_run_and_says_why_and_the_session_goes_on(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 2, SPENT)
        home.provider.script(*[Turn(refuses=TOO_LONG)] * 4)
        events = await home.run(live, "go on")
        error = events[-3]
        live.clear()
        after = await home.run(live, "anew")
    assert (error.code, "could not be compacted" in error.text) == ("context_window_exceeded", True)
    assert kinds(events).count("compacted") == 1
    assert after[-2].stop_reason == "end_turn"


# --- it makes progress, or stops ---


async def test_a_window_that_prompt_and_tools_fill_alone_ends_the_run_and_names_them(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.window = 2_000
        live = await home.session()
        await talk(home, live, usage=Usage(input=1_900))
        asked = len(home.provider.requests)
        events = await home.run(live, "go on")
        assert len(home.provider.requests) == asked  # nothing is paid for that cannot help
    assert (events[-3].code, "system prompt and tools alone" in events[-3].text) == ("context_window_exceeded", True)


async def test_one_message_that_fills_the_window_alone_ends_the_run_and_is_named(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, usage=Usage(input=1_000))
        asked = len(home.provider.requests)
        events = await home.run(live, "x" * 4 * 170_000)
        assert len(home.provider.requests) == asked
    assert (events[-3].code, "one message alone" in events[-3].text) == ("context_window_exceeded", True)


async def test_a_summary_that_is_too_long_itself_ends_the_run(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live)
        home.provider.script(say("y" * 4 * 170_000))
        events = await home.run(live, "go on")
    assert codes(events) == ["context_window_exceeded"]
    assert kinds(events).count("compaction_start") == 1


async def test_a_context_that_stays_nearly_full_is_not_compacted_for_ever(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live)
        rounds = [near(use(call("ls", f"c{number}"))) for number in range(20)]
        home.provider.script(SUMMARY, *rounds)
        events = await home.run(live, "go on")
    assert kinds(events).count("compaction_start") == 1
    assert (events[-3].code, "system prompt and tools alone" in events[-3].text) == ("context_window_exceeded", True)


# --- keep_recent ---


async def test_keep_recent_keeps_the_last_messages_as_they_are(tmp_path: Path) -> None:
    setting(tmp_path, compaction="keep_recent")
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 6)
        before = messages_of(live)
        home.provider.script(SUMMARY, say("Done."))
        events = await home.run(live, "go on")
        asked, answered = home.provider.requests[-2:]
    [request] = asked.messages
    assert "User: prompt 0\n\nAssistant: answer 0" in request.text
    assert "answer 3" not in request.text
    assert answered.messages[1:-1] == before[-7:]
    assert answered.messages[-1].text == "go on"
    assert (last(events).strategy, len(last(events).kept)) == ("keep_recent", 8)


async def test_keep_recent_does_nothing_where_there_is_no_more_than_it_keeps(tmp_path: Path) -> None:
    setting(tmp_path, compaction="keep_recent")
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 3)
        events = await home.run(live, "go on")
    assert "compaction_start" not in kinds(events)


@pytest.mark.parametrize("trigger", ["auto", "overflow", "request"])
async def test_whether_there_is_more_than_it_keeps_is_asked_of_the_mended_messages(
    tmp_path: Path, trigger: str
) -> None:
    """Messages that no vendor would take count for nothing: mended there may be no more than is kept."""
    setting(tmp_path, compaction="keep_recent")
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 3, NEARLY_FULL if trigger == "auto" else SPENT)
        empty = [Message(id=f"e{n}", role="assistant", content=()) for n in range(4)]
        live.agent.history.transcript._messages.extend(empty)
        if trigger == "request":
            assert isinstance(await live.compact().wait(), Unprocessable)
            await home.until_idle(live)
        else:
            home.provider.script(*([Turn(refuses=TOO_LONG)] if trigger == "overflow" else []), say("Done."))
            await home.run(live, "go on")
        events = home.events(live)
    assert "compaction_start" not in kinds(events)
    assert "transcript_repaired" in codes(events)


async def test_after_keep_recent_an_unfinished_answer_is_continued(tmp_path: Path) -> None:
    setting(tmp_path, compaction="keep_recent")
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 5, SPENT)
        home.provider.script(OVERFLOWS[-1], SUMMARY, say("Done."))
        await home.run(live, "go on")
        messages = home.provider.requests[-1].messages
    assert [messages[-2].text, messages[-1].text] == ["half an answer", words.CONTINUE]


@pytest.mark.parametrize("length", range(1, 24))
def test_calls_and_their_results_stay_together(length: int) -> None:
    messages = [round_of(number)[number % 3] for number in range(length)]
    start = parts.recent(messages)
    kept = messages[start:]
    assert start == 0 or len(kept) >= parts.RECENT
    assert len(kept) <= parts.RECENT + 1
    called = {block.id for message in kept for block in message.content if isinstance(block, ToolCall)}
    answered = {block.call_id for message in kept for block in message.content if isinstance(block, ToolResult)}
    assert answered <= called or start == 0


def round_of(number: int) -> list[Message]:
    """A call, its result together with a prompt, an answer: those of the same round share ids."""
    name = f"c{number // 3}"
    results = (ToolResult(call_id=name, content="r"), Text(text="p"))
    return [
        Message(id=f"m{number}", role="assistant", content=(ToolCall(id=name, name="ls", input={}),)),
        Message(id=f"m{number}", role="user", content=results),
        Message(id=f"m{number}", role="assistant", content=(Text(text="a"),)),
    ]


def test_a_rendering_has_a_bound_and_keeps_beginning_and_end() -> None:
    image = Image(blob="0" * 64, media_type="image/png", size_bytes=1, width=1, height=1)
    first = Message(id="0", role="user", content=(image, Text(text="Begin here.")))
    thought = Thinking(text="secret", provider="p", model="m")
    many = [Message(id=str(n), role="assistant", content=(thought, Text(text=f"{n} " * 3_000))) for n in range(50)]
    results = Message(id="r", role="user", content=(ToolResult(call_id="c", content="r" * 9_000, is_error=True),))
    text = rendered([first, *many, results], RENDERED_CHARS)
    assert len(text) <= RENDERED_CHARS
    assert text.startswith("User showed: a file (image/png)\n\nUser: Begin here.")
    assert "secret" not in text
    assert text.rpartition("Error: ")[2].endswith("r" * 400)


# --- it comes back from the journal ---


@pytest.mark.parametrize("strategy", ["summarize", "keep_recent"])
async def test_after_a_restart_the_model_gets_what_it_got_before(tmp_path: Path, strategy: str) -> None:
    setting(tmp_path, compaction=strategy)
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, 4, SPENT)
        home.provider.script(near(use(call("ls", "c1"))), near(say("answered")))
        await home.run(live, "list")
        home.provider.script(SUMMARY, say("Done."))
        await home.run(live, "go on")
        before = messages_of(live)
        tokens = live.agent.history.transcript.tokens(lambda: 0)
        encoded = live.agent.history.transcript.encoded
    async with house(tmp_path) as home:
        again = await home.reload(live.id)
        assert messages_of(again) == before
        assert again.agent.history.transcript.tokens(lambda: 0) == tokens
        shown = await home.app.display(live.id)
    assert encoded == {}
    assert [message.content[0].text for message in shown[0] if isinstance(message.content[0], Text)][:2] == [
        "prompt 0",
        "answer 0",
    ]


async def test_results_whose_calls_are_gone_leave_the_message_that_is_kept(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(max_turns=1)
        await talk(home, live, 1, SPENT)
        home.provider.script(near(use(call("ls", "c1"))))
        await home.run(live, "list")
        assert isinstance(messages_of(live)[-1].content[0], ToolResult)
        home.provider.script(SUMMARY, say("Done."))
        events = await home.run(live, "go on")
        asked, answered = home.provider.requests[-2:]
        before = messages_of(live)
    assert codes(events) == []  # nothing had to be mended
    results, request = asked.messages[-1].content
    assert isinstance(results, ToolResult)
    assert isinstance(request, Text)
    [begun] = answered.messages
    assert [block.type for block in begun.content] == ["text", "text"]
    assert begun.content[-1] == Text(text="go on")
    async with house(tmp_path) as home:
        assert messages_of(await home.reload(live.id)) == before


@pytest.mark.parametrize("first", [[], [say("partial", "model_context_window_exceeded")]])
async def test_a_compaction_that_the_end_of_the_process_cut_off_changes_nothing(
    tmp_path: Path, first: list[Turn]
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, usage=SPENT if first else NEARLY_FULL)
        home.provider.script(*first, replace(SUMMARY, holds=anyio.Event()))
        live.prompt("go on")
        with anyio.fail_after(5):
            await home.provider.streaming.wait()
        before = messages_of(live)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert messages_of(live) == before
        lines = await home.app.lines_after(live.id, 0, 10**9)
        assert [type_of(line) for line in lines[-3:]] == ["model_end", "compacted", "status"]
    async with house(tmp_path) as home:  # and once more: nothing that was added by the load counts
        live = await home.reload(live.id)
        home.provider.script(*([] if first else [SUMMARY]), say("Done."))
        live.resume_run()
        await home.until_idle(live)
        events = home.events(live)
        said = messages_of(live)[-1].text
    # where the model had answered, its answer was no end; where it had not, the turn begins anew
    assert events[-2].stop_reason == ("error" if first else "end_turn")
    assert codes(events) == (["context_window_exceeded"] if first else [])
    assert said == ("partial" if first else "Done.")
    assert events[-2].turns == 1


def type_of(line: bytes) -> str | None:
    head = head_of(line)
    return None if head is None else head[0]


async def test_a_summary_that_came_to_nothing_is_no_answer_of_the_turn_after_a_restart(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live)
        home.provider.script(near(say(""), Usage(input=7)), Turn(holds=anyio.Event()))
        live.prompt("go on")
        with anyio.fail_after(5):
            await home.provider.streaming.wait()
        tokens = live.agent.history.transcript.tokens(lambda: 0)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert live.agent.history.transcript.tokens(lambda: 0) == tokens
        home.provider.script(SUMMARY, say("Done."))
        live.resume_run()
        await home.until_idle(live)
        assert (home.events(live)[-2].stop_reason, home.events(live)[-2].turns) == ("end_turn", 1)


async def test_a_run_compacts_for_an_overflow_once_though_the_process_was_killed_between(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live, usage=SPENT)
        home.provider.script(Turn(refuses=TOO_LONG), SUMMARY, use(call("ls")), Turn(holds=anyio.Event()))
        live.prompt("go on")
        with anyio.fail_after(5):
            await home.provider.streaming.wait()
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(Turn(refuses=TOO_LONG))
        live.resume_run()
        await home.until_idle(live)
        events = home.events(live)
    assert "compaction_start" not in kinds(events)
    assert codes(events) == ["context_window_exceeded"]


async def test_open_items_of_the_task_list_outlive_a_restart_and_two_compactions(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("todo_write", todos=[item("tidy up", "pending")])))
        await home.run(live, "plan it")
    notes = []
    for _ in range(2):
        async with house(tmp_path) as home:
            live = await home.reload(live.id)
            home.provider.script(say("words"), SUMMARY)
            await home.run(live, "go on")
            with anyio.fail_after(5):
                await live.compact().wait()
            notes.append(messages_of(live)[0].text)
    assert ["- [pending] tidy up" in note for note in notes] == [True, True]


async def test_the_model_can_search_what_was_compacted(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await talk(home, live)
        home.provider.script(SUMMARY)
        await home.run(live, "go on")
        note = messages_of(live)[0].text
        folder = note.partition("is kept in ")[2].partition("/journal*")[0]
        home.provider.script(use(call("grep", pattern="answer 0", path=folder, output_mode="content")), say("Found."))
        events = await home.run(live, "what did you say first?", answers=[])
    [end] = [event for event in events if event.type == "tool_end"]
    assert (end.is_error, "answer 0" in end.output) == (False, True)


async def test_a_call_that_tells_no_tokens_says_nothing_about_the_size_live_or_after_a_reload(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        uncounted = say("Hello to you as well.")
        uncounted.usage = None
        home.provider.script(uncounted)
        live = await home.session()
        await home.run(live, "Hello. " * 200)
        before = live.agent.history.transcript.tokens(lambda: 0)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert live.agent.history.transcript.tokens(lambda: 0) == before > 200
