"""The requests of a session's trace file, each as what differs from the one before it.

One JSON object a line: `at` (Unix seconds), `after_seq` (the last event before it), `agent` (a subagent's label),
`address`, `headers`, `head` and `tail` (characters that it begins and ends with as the request before it to that
address), `text` (what stands between them). So a conversation is kept once, however often it is sent.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from agentcore.folders import open_regular

FILE_NAME = "trace.jsonl"


class Line(BaseModel):
    """A request as it stands in the file."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    at: float
    after_seq: int
    agent: str | None = None
    address: str
    headers: dict[str, str]
    head: int
    tail: int
    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it was sent, credentials taken out."""

    at: float
    after_seq: int
    agent: str | None
    address: str
    headers: dict[str, str]
    body: str


class Deltas:
    """What was sent to each address, told by what differs from the time before."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str | None], str] = {}

    def shorten(self, address: str, agent: str | None, body: str) -> tuple[int, int, str]:
        """How many characters it begins and ends with as the one before it, and what stands between them."""
        before = self._before.get((address, agent), "")
        self._before[address, agent] = body
        head = _same(before, body, min(len(before), len(body)))
        tail = _same(before[::-1], body[::-1], min(len(before), len(body)) - head)
        return head, tail, body[head : len(body) - tail]

    def restore(self, line: Line) -> str:
        before = self._before.get((line.address, line.agent), "")
        body = before[: line.head] + line.text + before[len(before) - line.tail :]
        self._before[line.address, line.agent] = body
        return body


def _same(one: str, other: str, most: int) -> int:
    """How many characters two texts begin with alike, `most` at most; by halving, so that long texts cost little."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def restored(lines: Iterable[Line]) -> Iterator[Request]:
    """The requests that the lines of a file stand for, one at a time: together they may be far larger than the file."""
    deltas = Deltas()
    for line in lines:
        yield Request(line.at, line.after_seq, line.agent, line.address, line.headers, deltas.restore(line))


def read_lines(path: Path) -> Iterator[Line]:
    """All of a file, in order; none where there is no file. One that is cut or broken is left out: whoever wrote behind
    it began anew. Raises: OSError, also for what is no regular file."""
    try:
        file = open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    with os.fdopen(file, "rb") as opened:
        for text in opened:
            with suppress(ValidationError):
                yield Line.model_validate_json(text)
