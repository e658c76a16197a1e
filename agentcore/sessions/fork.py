"""Where a conversation can be forked, and the lines that its fork begins with.

Knows lines, not files. A fork gets what was said and done: messages, calls and results, compactions, how runs ended.
It does not get what was spent, granted, asked or queued, nor anything that could be undone: a copy never widens
rights, and nothing that waited for an answer waits twice. Promise: transcript and display history of the fork are
those of the original up to the point. One thing is its own: where a compacted context says that its journal lies.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from agentcore.encoding import escape_separators, head_of, renumbered
from agentcore.errors import BadRequest
from agentcore.events import EVENTS, UserMessage
from agentcore.session import HistoryMessage
from agentcore.sessions.display import messages_of
from agentcore.sessions.log import STRIDE
from agentcore.sessions.records import Load, Meta, Reserve, encode_record
from agentcore.sessions.segments import pattern_of

COPIED = frozenset(
    {
        "assistant_message",
        "cleared",
        "compacted",
        "compaction_start",
        "done",
        "error",
        "model_end",
        "model_start",
        "notice",
        "todo",
        "tool_end",
        "tool_start",
        "turn_end",
        "turn_start",
        "user_message",
    }
)
_NOTE, _MENDED = b'{"type":"note",', b'{"type":"repair",'
_SAID = frozenset({"user_message", "assistant_message", "tool_end"})


@dataclass(frozen=True, slots=True)
class ForkPoint:
    seq: int
    """Of the last event before it, in the original; 0: before everything."""
    message: UserMessage | None = None
    """The prompt that comes next in the original, where the fork is just before one."""


def find_point(lines: Sequence[bytes], at: str | int | None) -> ForkPoint:
    """The place that `at` names: a message by id or index, or the end.

    A message that begins a run stands for the place before it, the last message of a finished run for the one behind.
    Raises: BadRequest when there is no such message, or no run begins or ends there.
    """
    if at is None:
        return _end(lines)
    count = 0
    for message in messages_of(lines):
        if at in (message.id, message.index):
            return _border(lines, message)
        count = message.index + 1
    if at == count:
        return _end(lines)
    raise BadRequest(f"`at` names no message of this session; it has {count}. GET …/messages lists them.")


@dataclass(frozen=True, slots=True)
class Move:
    """From the directory of the original to that of the fork."""

    old: Path
    new: Path

    def in_line(self, line: bytes) -> bytes:
        """Let a text for the model name the journal of the fork, which alone the model may read."""
        return line.replace(_quoted(pattern_of(self.old)), _quoted(pattern_of(self.new)))


def fork_lines(meta: Meta, lines: Iterable[bytes], point: ForkPoint, move: Move) -> Iterator[bytes]:
    """The journal of the fork: the events up to the point as events of its own, and a load above their numbers."""
    number, reserved = 0, STRIDE - 1
    yield encode_record(meta)
    yield encode_record(Load(base=0, ts=meta.created))
    for line in lines:
        head = head_of(line)
        if head is None:
            yield from [move.in_line(line)] if _is_for_the_model(line) else []
            continue
        if head[1] > point.seq:
            break
        if head[0] not in COPIED:
            continue
        number += 1
        if number > reserved:
            reserved += STRIDE
            yield encode_record(Reserve(until=reserved))
        yield renumbered(move.in_line(line) if head[0] == "compacted" else line, number, meta.session)
    yield encode_record(Load(base=reserved + 1, ts=meta.created))


def _quoted(text: str) -> bytes:
    """A text as it stands in a line, without its quotes."""
    return escape_separators(json.dumps(text, ensure_ascii=False).encode(errors="surrogateescape"))[1:-1]


def _is_for_the_model(line: bytes) -> bool:
    """Whether a record says what the model is told: a note, or a transcript that was mended."""
    if line.startswith(_MENDED):
        return from_json(line).get("messages") is not None
    return line.startswith(_NOTE)


class _Runs:
    """Follows the runs of the main agent through the lines."""

    def __init__(self) -> None:
        self.is_open = False
        self.said = 0
        """Number of the last message or result."""

    def follow(self, kind: str, seq: int, line: bytes) -> None:
        if kind not in _SAID and kind != "done":
            return
        fields = from_json(line)
        if fields.get("agent") is not None:
            return
        if kind == "done":
            self.is_open = fields["stop_reason"] == "suspended"  # it goes on, and may have open calls
        else:
            self.is_open, self.said = True, seq


def _border(lines: Iterable[bytes], message: HistoryMessage) -> ForkPoint:
    """The place before or behind a message. Raises: BadRequest."""
    runs = _Runs()
    for kind, seq, line in _events(lines):
        if seq == message.seq and kind == "user_message" and not runs.is_open:
            event = EVENTS.validate_json(line, extra="ignore")
            is_prompt = isinstance(event, UserMessage) and event.source == "prompt"
            return ForkPoint(seq - 1, event if isinstance(event, UserMessage) and is_prompt else None)
        runs.follow(kind, seq, line)
        if kind == "done" and runs.said == message.seq and not runs.is_open:
            return ForkPoint(seq)
    raise BadRequest(
        "`at` is in the middle of a run: name the message that begins one, or the last one of a finished run."
    )


def _end(lines: Iterable[bytes]) -> ForkPoint:
    """The place behind everything. Raises: BadRequest while a run has no end."""
    runs, last = _Runs(), 0
    for kind, last, line in _events(lines):
        runs.follow(kind, last, line)
    if runs.is_open:
        raise BadRequest("The last run of this session has not ended: name a message before it in `at`.")
    return ForkPoint(last)


def _events(lines: Iterable[bytes]) -> Iterator[tuple[str, int, bytes]]:
    for line in lines:
        head = head_of(line)
        if head is not None:
            yield *head, line
