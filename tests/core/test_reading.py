"""Reading a journal from the right place, in pieces of bounded size."""

import random
from pathlib import Path

import pytest

from agentcore.encoding import encode, head_of
from agentcore.events import EVENTS, AssistantMessage, ToolEnd, UserMessage
from agentcore.messages import Message, Text, ToolCall
from agentcore.sessions import reading
from agentcore.sessions.display import display
from agentcore.sessions.reading import last_number, read_after, read_lines, whole_size

RECORD = b'{"type":"prompt","text":"no number"}'


def event(seq: int, size: int = 1) -> bytes:
    return b'{"type":"notice","seq":%d,"text":"%s"}' % (seq, b"x" * size)


def all_after(path: Path, seq: int, before: int) -> tuple[list[bytes], int]:
    """Every piece, one after the other; and the size of the largest."""
    lines: list[bytes] = []
    largest = 0
    while piece := read_after(path, seq, before):
        lines += piece
        largest = max(largest, sum(map(len, piece)))
        head = head_of(piece[-1])
        assert head is not None
        seq = head[1]
    return lines, largest


@pytest.mark.parametrize("seed", range(20))
def test_every_event_between_two_numbers_is_read_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    print("seed", seed)
    chance = random.Random(seed)
    monkeypatch.setattr(reading, "PIECE_BYTES", 500)
    monkeypatch.setattr(reading, "_NEAR_BYTES", chance.choice([1, 64, 1000]))
    path, seq, lines = tmp_path / "journal.jsonl", 0, []
    for _ in range(chance.randrange(200)):
        seq += chance.choice([1, 1, 1, 7, 1_000_000])
        lines.append(event(seq, chance.choice([1, 10, 700])) if chance.random() < 0.7 else RECORD)
    path.write_bytes(b"".join(line + b"\n" for line in lines) + chance.choice([b"", event(seq + 1)[:-3]]))
    numbers = [0, *(head[1] for line in lines if (head := head_of(line)))]
    for _ in range(50):
        after = max(0, chance.choice(numbers) + chance.choice([-1, 0, 1]))
        before = chance.choice([after + 1, chance.choice(numbers), seq + 2])
        expected = [line for line in lines if (head := head_of(line)) and after < head[1] < before]
        assert all_after(path, after, before)[0] == expected
    assert last_number(path, whole_size(path)) == numbers[-1]
    assert list(read_lines(path)) == lines


def test_a_piece_is_bounded_and_one_event_at_least(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PIECE_BYTES", 1000)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(event(seq, 100) + b"\n" for seq in range(1, 50)) + event(50, 5000) + b"\n")
    lines, largest = all_after(path, 0, 50)
    assert len(lines) == 49
    assert largest < 1000 + 200
    assert len(read_after(path, 49, 100)) == 1


def test_the_start_is_found_without_reading_what_is_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, heads = tmp_path / "journal.jsonl", []
    path.write_bytes(b"".join(event(seq, 100) + b"\n" for seq in range(1, 50_000)))
    monkeypatch.setattr(reading, "head_of", lambda line: heads.append(line) or head_of(line))
    assert read_after(path, 49_990, 60_000) == [event(seq, 100) for seq in range(49_991, 50_000)]
    assert len(heads) < 300


def test_a_line_that_is_being_written_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(event(1) + b"\n" + event(2))
    assert list(read_lines(path)) == read_after(path, 0, 10) == [event(1)]
    assert (whole_size(path), last_number(path, whole_size(path))) == (len(event(1)) + 1, 1)


def history() -> list[bytes]:
    """Two turns: a batch whose results come in another order, then an answer."""
    calls = tuple(ToolCall(id=name, name="ls", input={}) for name in "ab")
    events = [
        UserMessage(id="u", content=(Text(text="go"),)),
        AssistantMessage(message=Message(id="m", role="assistant", content=calls), final=False),
        ToolEnd(call_id="b", tool_name="ls", output="of b"),
        ToolEnd(call_id="a", tool_name="ls", output="of a"),
        AssistantMessage(message=Message(id="n", role="assistant", content=(Text(text="done"),)), final=True),
    ]
    return [encode(event, seq, "s", 1.0) for seq, event in enumerate(events, 1)]


def test_the_results_of_a_batch_stand_together_in_the_order_of_the_calls() -> None:
    shown = display(history())
    assert [(one.index, one.id, one.seq) for one in shown] == [
        (0, "u", 1),
        (1, "m", 2),
        (2, "m-results", 4),
        (3, "n", 5),
    ]
    assert [block.content for block in shown[2].content] == ["of a", "of b"]
    assert [one.seq for one in display(history()[:3])] == [1, 2, 3]
    assert [(one.index, one.id) for one in display(history(), after_seq=3)] == [(2, "m-results"), (3, "n")]


def test_nothing_is_read_behind_the_limit() -> None:
    lines = iter(history())
    assert [one.id for one in display(lines, limit=2)] == ["u", "m"]
    assert [EVENTS.validate_json(line).seq for line in lines] == [3, 4, 5]
