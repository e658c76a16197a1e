"""Reads a journal that somebody may be writing: line by line, from the right place, never the whole file at once.

Knows lines and the numbers at their heads. All of it blocks: call it in a worker. A line without its newline is not
there yet. Numbers grow through the file; records have none.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from agentcore.encoding import head_of

PIECE_BYTES = 512 * 1024  # what one reader may hold, however far behind it is; smaller costs time (measured)
_READ_BYTES = 64 * 1024  # of file at a time
_NEAR_BYTES = 16 * 1024  # closer than this, reading on is quicker than searching


def read_lines(path: Path, end: int | None = None, start: int = 0) -> Iterator[bytes]:
    """The whole lines from byte `start` up to byte `end` (default: all), without their newlines."""
    with path.open("rb", buffering=_READ_BYTES) as file:
        file.seek(start)
        for line in file:
            start += len(line)
            if not line.endswith(b"\n") or (end is not None and start > end):
                return
            yield line[:-1]


def read_after(path: Path, seq: int, before: int) -> list[bytes]:
    """The next events with numbers above `seq` and below `before`: about PIECE_BYTES, one event at least, or none."""
    piece: list[bytes] = []
    size = 0
    for line in read_lines(path, start=_start_after(path, seq)):
        head = head_of(line)
        if head is None or head[1] <= seq:
            continue
        if head[1] >= before:
            break
        piece.append(line)
        size += len(line)
        if size >= PIECE_BYTES:
            break
    return piece


def first_line(path: Path) -> bytes | None:
    """The line that a session begins with; None when it is not whole or there is no file: then there is no session."""
    try:
        with path.open("rb") as file:
            line = file.readline()
    except OSError:
        return None
    return line[:-1] if line.endswith(b"\n") else None


def whole_size(path: Path) -> int:
    """Bytes of whole lines."""
    with path.open("rb") as file:
        return line_start(file.fileno(), os.fstat(file.fileno()).st_size)


def last_number(path: Path, end: int) -> int:
    """The number of the last event before byte `end`, where a line ends; 0 when there is none."""
    with path.open("rb") as file:
        while end > 0:
            end = line_start(file.fileno(), end - 1)
            file.seek(end)
            head = head_of(file.readline())
            if head is not None:
                return head[1]
    return 0


def line_start(file: int, before: int) -> int:
    """Where the line begins that byte `before` belongs to: behind the last newline in front of it."""
    while before > 0:
        start = max(0, before - _READ_BYTES)
        newline = os.pread(file, before - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        before = start
    return 0


def _start_after(path: Path, seq: int) -> int:
    """A line at or before the first event above `seq`, found by halving: no event before it is above `seq`."""
    with path.open("rb") as file:
        low, high = 0, file.seek(0, os.SEEK_END)
        while high - low > _NEAR_BYTES:
            middle = (low + high) // 2
            start, number = _first_numbered(file, middle)
            if number is not None and number <= seq:
                low = start
            else:
                high = middle
    return low


def _first_numbered(file: BinaryIO, at: int) -> tuple[int, int | None]:
    """Start and number of the first event whose line begins behind byte `at`; no number when there is none."""
    file.seek(at)
    start = at + len(file.readline())
    for line in file:
        head = head_of(line)
        if head is not None:
            return start, head[1]
        start += len(line)
    return start, None
