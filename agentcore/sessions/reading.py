"""Reads a journal that somebody may be writing: line by line, from the right place, never the whole file at once.

A journal is named by the path of its first file, and read through all its files (`segments`), each up to its end.
Knows lines and the numbers at their heads. All of it blocks: call it in a worker. A line without its newline is not
there yet. Numbers grow through the journal; records have none. What a journal's files hold is read without a look at
what it means; OSErrors of the disk, and for what is no regular file, are left to the caller.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic_core import from_json

from agentcore.encoding import head_of
from agentcore.folders import open_regular
from agentcore.sessions.segments import Segment, segments_of

PIECE_BYTES = 512 * 1024  # what one reader may hold, however far behind it is; smaller costs time (measured)
_READ_BYTES = 64 * 1024  # of file at a time
_NEAR_BYTES = 16 * 1024  # closer than this, reading on is quicker than searching


def read_lines(path: Path, end: int | None = None, start: int = 0) -> Iterator[bytes]:
    """The whole lines from byte `start` up to byte `end` (default: all), without their newlines."""
    for segment in segments_of(path):
        if segment.size is not None and start >= segment.start + segment.size:
            continue
        if end is not None and end <= segment.start:
            return
        ends = [size for size in (segment.size, None if end is None else end - segment.start) if size is not None]
        yield from _lines(segment.path, max(0, start - segment.start), min(ends, default=None))


def read_after(path: Path, seq: int, before: int) -> list[bytes]:
    """The next events with numbers above `seq` and below `before`: about PIECE_BYTES, one event at least, or none."""
    piece: list[bytes] = []
    size = 0
    for line in _lines_after(path, seq):
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
    """The line that a session begins with; None when it is not whole or there is no file: then there is no session.

    Raises: OSError for a file that is there and cannot be read.
    """
    try:
        with _opened(path) as file:
            line = file.readline()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return line[:-1] if line.endswith(b"\n") else None


def whole_size(path: Path) -> int:
    """Bytes of whole lines."""
    last = segments_of(path)[-1]
    with _opened(last.path) as file:
        size = os.fstat(file.fileno()).st_size
        return last.start + whole_end(file.fileno(), size, begins_session=last.start == 0)


def whole_end(file: int, size: int, *, begins_session: bool) -> int:
    """Where the whole lines of a file of `size` bytes end.

    A last line that is no JSON is none: a power cut tore it before its newline. The one that a session begins with is
    never torn.
    """
    end = line_start(file, size)
    last = line_start(file, end - 1)
    if begins_session and not last:
        return end
    return end if is_json(os.pread(file, end - last, last)) else last


def last_number(path: Path, end: int) -> int:
    """The number of the last event before byte `end`, where a line ends; 0 when there is none."""
    for segment in reversed(segments_of(path)):
        size = end - segment.start
        number = _last_number(segment.path, size if segment.size is None else min(size, segment.size))
        if number:
            return number
    return 0


def place_of(path: Path, number: int) -> tuple[str, int]:
    """The file that a line is in, and its number there; `number` counts from 1 over the whole journal."""
    segments = segments_of(path)
    for segment in segments[:-1]:
        lines = sum(1 for _ in _lines(segment.path, 0, segment.size))
        if number <= lines:
            return segment.path.name, number
        number -= lines
    return segments[-1].path.name, number


def line_start(file: int, before: int) -> int:
    """Where the line begins that byte `before` belongs to: behind the last newline in front of it."""
    while before > 0:
        start = max(0, before - _READ_BYTES)
        newline = os.pread(file, before - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        before = start
    return 0


def _opened(path: Path) -> BinaryIO:
    """Raises: OSError, also for what is no regular file."""
    return os.fdopen(open_regular(path), "rb", buffering=_READ_BYTES)


def _lines(path: Path, start: int, end: int | None) -> Iterator[bytes]:
    """The whole lines of one file, from byte `start` to byte `end`."""
    with _opened(path) as file:
        file.seek(start)
        for line in file:
            start += len(line)
            if not line.endswith(b"\n") or (end is not None and start > end):
                return
            yield line[:-1]


def _lines_after(path: Path, seq: int) -> Iterator[bytes]:
    """Lines from one at or before the first event above `seq` on."""
    for segment in segments_of(path):
        yield from _lines(segment.path, _start_after(segment, seq), segment.size)


def is_json(line: bytes) -> bool:
    try:
        from_json(line)
    except ValueError:
        return False
    return True


def _last_number(path: Path, end: int) -> int:
    if end <= 0:
        return 0
    with _opened(path) as file:
        while end > 0:
            end = line_start(file.fileno(), end - 1)
            file.seek(end)
            head = head_of(file.readline())
            if head is not None:
                return head[1]
    return 0


def _start_after(segment: Segment, seq: int) -> int:
    """A line at or before the first event above `seq`, found by halving: no event before it is above `seq`."""
    with _opened(segment.path) as file:
        low, high = 0, file.seek(0, os.SEEK_END)
        if segment.size is not None:
            high = min(high, segment.size)
        while high - low > _NEAR_BYTES:
            middle = (low + high) // 2
            start, number = _first_numbered(file, middle)
            if number is not None and number <= seq and start < high:
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
