"""Any list of messages is mended in one pass into one that every vendor takes; a sound one is left as it is."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcore.images import MAX_BYTES, MAX_SIDE_PX
from agentcore.media import MAX_FILE_BYTES
from agentcore.messages import Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.validator import (
    LOST_BEGINNING,
    LOST_MESSAGE,
    LOST_RESULT,
    TOO_LARGE,
    Repaired,
    Validator,
    repair,
)
from tests.crash.stories import kinds, of_kind
from tests.fakes import House, call, house, say, use

pytestmark = pytest.mark.anyio

BLOB = "0" * 64


def image(size: int = 10, width: int = 10, height: int = 10) -> Image:
    return Image(blob=BLOB, media_type="image/png", size_bytes=size, width=width, height=height)


def user(name: str, *content: object) -> Message:
    return Message.model_validate({"id": name, "role": "user", "content": content})


def answer(name: str, *content: object) -> Message:
    return Message.model_validate({"id": name, "role": "assistant", "content": content})


def text(said: str = "x") -> Text:
    return Text(text=said)


def use_of(call_id: str) -> ToolCall:
    return ToolCall(id=call_id, name="ls", input={})


def result(call_id: str, said: str = "done") -> ToolResult:
    return ToolResult(call_id=call_id, content=said)


LOST = LOST_RESULT
GO = user("u", text("go"))
END = answer("z", text("end"))

CASES: dict[str, tuple[list[Message], list[Message]]] = {
    "no result at all": (
        [GO, answer("a", use_of("c")), END],
        [
            GO,
            answer("a", use_of("c")),
            user("a-results", lost := ToolResult(call_id="c", content=LOST, is_error=True)),
            END,
        ],
    ),
    "no result, and a person goes on": (
        [GO, answer("a", use_of("c")), user("v", text())],
        [GO, answer("a", use_of("c")), user("v", lost, text())],
    ),
    "the last call is open": (
        [GO, answer("a", use_of("c"))],
        [GO, answer("a", use_of("c")), user("a-results", lost)],
    ),
    "one of several, several times": (
        [GO, answer("a", use_of("c"), use_of("d")), user("r", result("d")), answer("b", use_of("e")), END],
        [
            GO,
            answer("a", use_of("c"), use_of("d")),
            user("r", lost, result("d")),
            answer("b", use_of("e")),
            user("b-results", ToolResult(call_id="e", content=LOST, is_error=True)),
            END,
        ],
    ),
    "results without calls": (
        [user("u", result("x"), text("go")), END, user("v", result("y"))],
        [user("u", text("go")), END, user("v", text(LOST_MESSAGE))],
    ),
    "two results for one call": (
        [GO, answer("a", use_of("c")), user("r", result("c", "1"), result("c", "2"))],
        [GO, answer("a", use_of("c")), user("r", result("c", "1"))],
    ),
    "results in another order, behind what was said": (
        [GO, answer("a", use_of("c"), use_of("d")), user("r", text(), result("d"), result("c"))],
        [GO, answer("a", use_of("c"), use_of("d")), user("r", result("c"), result("d"), text())],
    ),
    "ids of calls used twice": (
        [
            GO,
            answer("a", use_of("c"), use_of("c")),
            user("r", result("c", "1"), result("c", "2")),
            answer("b", use_of("c"), use_of("")),
            user("s", result("c", "3"), result("", "4")),
        ],
        [
            GO,
            answer("a", use_of("c"), use_of("c-2")),
            user("r", result("c", "1"), result("c-2", "2")),
            answer("b", use_of("c-3"), use_of("call")),
            user("s", result("c-3", "3"), result("call", "4")),
        ],
    ),
    "ids of messages used twice": ([GO, answer("u", text())], [GO, answer("u-2", text())]),
    "an answer first": ([END], [user("z-before", text(LOST_BEGINNING)), END]),
    "a person twice": ([GO, user("v", text()), END], [user("v", text("go"), text()), END]),
    "nothing said": (
        [user("u"), answer("a"), user("v", text()), END],
        [user("v", text(LOST_MESSAGE), text()), END],
    ),
    "an empty answer with results behind it": (
        [GO, answer("a"), user("r", result("c")), END],
        [user("r", text("go"), text(LOST_MESSAGE)), END],
    ),
    "blocks in the wrong place": (
        [
            user("u", text("go"), use_of("c"), Thinking(text="t", provider="p", model="m")),
            answer("a", image(), result("c"), text()),
        ],
        [GO, answer("a", text())],
    ),
    "files over the limits": (
        [
            user("u", image(MAX_BYTES + 1), image(width=MAX_SIDE_PX + 1), image(1, 1000, 1), image()),
            answer("a", use_of("c")),
            user("r", ToolResult(call_id="c", content="seen", attachments=(image(), image(height=0)))),
            answer("b", text()),
            user("v", Document(blob=BLOB, media_type="application/pdf", size_bytes=MAX_FILE_BYTES + 1)),
        ],
        [
            user("u", text(TOO_LARGE), text(TOO_LARGE), text(TOO_LARGE), image()),
            answer("a", use_of("c")),
            user("r", ToolResult(call_id="c", content=f"seen\n{TOO_LARGE}", attachments=(image(),))),
            answer("b", text()),
            user("v", text(TOO_LARGE)),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_damage_is_mended_in_one_pass(case: str) -> None:
    damaged, mended = CASES[case]
    assert list(repair(damaged).messages) == mended
    found = Validator().check(damaged)
    assert found is not None
    assert (list(found.messages), found.what) == (mended, repair(damaged).what)
    assert found.what.startswith("The transcript was mended: ")


SOUND = [
    user("u", image(), text("go")),
    answer("a", Thinking(text="t", provider="p", model="m"), text(), use_of("c"), use_of("d")),
    user("r", result("c"), result("d"), text("and by the way")),
    answer("b", Opaque(provider="p", model="m", raw={})),
    answer("c", text("I paused before this.")),
    user("w", text()),
]


def test_a_sound_list_is_left_as_it_is() -> None:
    assert repair(SOUND) == Repaired(tuple(SOUND), repair([]).findings)
    for length in (1, 3, 4, 5, 6):
        assert Validator().check(SOUND[:length]) is None


def test_calls_that_wait_may_stay_open_until_they_are_sent() -> None:
    assert not repair(SOUND[:2], may_be_open=True).findings
    assert Validator().check(SOUND[:2]) is not None


# --- any list whatever ---

NAMES = st.sampled_from(["", "c", "c-2", "d"])
BLOCKS = st.one_of(
    st.builds(Text, text=st.sampled_from(["", "x"])),
    st.builds(ToolCall, id=NAMES, name=st.just("ls"), input=st.just({})),
    st.builds(
        ToolResult,
        call_id=NAMES,
        content=st.sampled_from(["", "1", "2"]),
        attachments=st.lists(st.sampled_from([image(), image(MAX_BYTES + 1)]), max_size=2).map(tuple),
    ),
    st.sampled_from([image(), image(MAX_BYTES + 1), Thinking(text="t", provider="p", model="m")]),
)
MESSAGES = st.lists(
    st.builds(
        Message,
        id=st.sampled_from(["m", "n", "m-results", "m-before", "m-2", ""]),
        role=st.sampled_from(["user", "assistant"]),
        content=st.lists(BLOCKS, max_size=4).map(tuple),
    ),
    max_size=8,
)


def check_sound(messages: Sequence[Message]) -> None:
    """The rules once more, in other words."""
    assert all(message.content for message in messages)
    assert len({message.id for message in messages}) == len(messages)
    calls = [one.id for message in messages for one in message.tool_calls]
    assert len(set(calls)) == len(calls)
    if messages:
        assert messages[0].role == "user"
    for before, after in zip(messages, [*messages[1:], None], strict=False):
        asked = [one.id for one in before.tool_calls]
        answered = [] if after is None else [b.call_id for b in after.content if isinstance(b, ToolResult)]
        assert answered == asked
        if after is not None:
            assert (before.role, after.role) != ("user", "user")
            assert all(isinstance(block, ToolResult) for block in after.content[: len(asked)])


@settings(max_examples=400, deadline=None)
@given(MESSAGES)
def test_whatever_the_damage_one_pass_mends_all_and_a_second_one_nothing(messages: list[Message]) -> None:
    repaired = repair(messages)
    check_sound(repaired.messages)
    assert bool(repaired.findings) == (list(repaired.messages) != messages)
    assert not repair(repaired.messages).findings
    assert Validator().check(repaired.messages) is None
    assert (Validator().check(messages) is None) == (not repaired.findings)


@settings(max_examples=200, deadline=None)
@given(MESSAGES, st.lists(st.integers(0, 8), max_size=5))
def test_looking_again_as_it_grows_finds_the_same(messages: list[Message], cuts: list[int]) -> None:
    validator, sound = Validator(), list(repair(messages).messages)
    for cut in sorted(cuts):
        found = validator.check(sound[:cut])
        assert (found is None) == (not repair(sound[:cut]).findings)
    assert validator.check(sound) is None
    damaged = [*sound, user("end", result("none"))]
    assert validator.check(damaged) is not None


def test_a_check_looks_at_the_new_messages_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentcore import validator as room

    looked, real = [], room.is_sound
    monkeypatch.setattr(room, "is_sound", lambda message, *more: looked.append(message.id) or real(message, *more))
    validator, messages = Validator(), list(SOUND[:1])
    for turn in range(50):
        messages += [answer(f"a{turn}", use_of(f"c{turn}")), user(f"r{turn}", result(f"c{turn}"))]
        looked.clear()
        assert validator.check(messages) is None
        assert len(looked) <= 3
    messages[-1] = user("merged", *messages[-1].content, text())  # what a person says joins the last message
    assert validator.check(messages) is None
    looked.clear()
    assert validator.check([*SOUND[:1], *messages[-2:]]) is None  # a compaction: everything is new
    assert len(looked) == 3


# --- in a session ---


def lines_of(home: House, session: str) -> list[dict[str, Any]]:
    [path] = (home.root / "data" / "sessions").glob(f"*/{session}/journal.jsonl")
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def journal_of(root: Path) -> Path:
    [path] = (root / "data" / "sessions").glob("*/*/journal.jsonl")
    return path


async def story(root: Path) -> str:
    """A session with one run of two commands, done and let go of."""
    async with house(root) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("ls", "c"), call("ls", "d")), say("Done."))
        await home.run(live, "go")
        return live.id


def without(kind: str, name: str = "") -> Any:
    """Take the lines of a kind out, all of them or those with a call id."""
    return lambda line: line["type"] == kind and (not name or line.get("call_id") == name)


HANDMADE = {
    "a result is gone": (without("tool_end", "c"), [LOST_RESULT]),
    "all results are gone": (without("tool_end"), [LOST_RESULT] * 2),
    "the question is gone": (without("user_message"), []),
    "the calls are gone": (lambda line: line["type"] == "assistant_message" and not line["final"], []),
}


@pytest.mark.parametrize("case", HANDMADE)
async def test_a_journal_that_was_damaged_by_hand_is_mended_once_and_goes_on(tmp_path: Path, case: str) -> None:
    session = await story(tmp_path)
    is_out, lost = HANDMADE[case]
    path = journal_of(tmp_path)
    kept = [line for line in path.read_bytes().splitlines(keepends=True) if not is_out(json.loads(line))]
    path.write_bytes(b"".join(kept))
    transcripts = []
    for _ in range(2):
        async with house(tmp_path) as home:
            live = await home.reload(session)
            messages = live.agent.history.transcript.messages
            check_sound(messages)
            told = [block.content for message in messages for block in message.content if isinstance(block, ToolResult)]
            assert told.count(LOST_RESULT) == len(lost)
            transcripts.append(messages)
            lines = lines_of(home, session)
    assert transcripts[0] == transcripts[1]
    repairs = of_kind(lines, "repair")
    assert len(repairs) == 1  # journaled once, and then it holds
    assert [line["code"] for line in of_kind(lines, "notice")] == ["journal_repaired"]
    async with house(tmp_path) as home:
        live = await home.reload(session)
        assert live.agent.history.transcript.messages == transcripts[0]
        home.provider.script(say("It goes on."))
        events = await home.run(live, "more")
        assert [event.stop_reason for event in events if event.type == "done"] == ["end_turn"]
        check_sound(home.provider.requests[0].messages)


async def test_a_result_that_comes_twice_is_taken_once(tmp_path: Path) -> None:
    session = await story(tmp_path)
    path = journal_of(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    end = next(line for line in lines if b'"tool_end"' in line)
    path.write_bytes(b"".join(lines) + end)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        check_sound(live.agent.history.transcript.messages)
        assert kinds(lines_of(home, session)).count("repair") == 1


async def test_what_is_wrong_before_a_model_call_is_mended_told_and_there_again_after_a_reload(tmp_path: Path) -> None:
    """As a bug would leave it: in the memory of the live session alone."""
    session = await story(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        live.agent.history.transcript._messages.append(answer("broken", use_of("c")))
        home.provider.script(say("It goes on."))
        events = await home.run(live, "more")
        [notice] = [event for event in events if event.type == "notice"]
        assert notice.code == "transcript_repaired"
        sent = home.provider.requests[0].messages
        check_sound(sent)
        assert sent[-1].content[-1] == text("more")
        after = live.agent.history.transcript.messages
        home.provider.script(say("And on."))
        await home.run(live, "and more")
        assert kinds(lines_of(home, session)).count("repair") == 1
    async with house(tmp_path) as home:
        live = await home.reload(session)
        assert live.agent.history.transcript.messages[: len(after)] == after


async def test_what_is_wrong_before_a_compaction_is_mended_first(tmp_path: Path) -> None:
    session = await story(tmp_path)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        live.agent.history.transcript._messages.append(answer("broken", use_of("c")))
        home.provider.script(say("<summary>All is well.</summary>"))
        assert await live.compact().wait() == "All is well."
        check_sound(home.provider.requests[0].messages)
        await live.agent.log.sync()
        lines = lines_of(home, session)
    mending = [kind for kind in kinds(lines) if kind in ("repair", "notice", "compaction_start", "compacted")]
    assert mending == ["repair", "notice", "compaction_start", "compacted"]
