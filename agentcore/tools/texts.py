"""Text as it may leave a tool: valid UTF-8 without NUL, and bounded with a visible marker."""

import codecs
from collections.abc import Iterable

from agentcore.caps import safe_text

VISIBLE_BYTES = 28_000  # the loop cuts results above 30 KB; ours, with their markers, stay below


def safe_name(name: str) -> str:
    """A file name as one safe line."""
    return safe_text(name).replace("\n", "\\n").replace("\r", "\\r")


def decode_start(data: bytes | bytearray) -> str:
    """Decode bytes that were cut at their end; a character cut in two is left out."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data)


def decode_end(data: bytes | bytearray) -> str:
    """Decode bytes that were cut at their beginning; a character cut in two is left out."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:].decode(errors="replace")


def bounded_lines(lines: Iterable[str], total: int, advice: str) -> str:
    """Join the first of `total` lines within the visible size; say how many are missing and what to do about it."""
    kept: list[str] = []
    size_bytes = 0
    for line in lines:
        size_bytes += len(line.encode()) + 1
        if size_bytes > VISIBLE_BYTES:
            break
        kept.append(line)
    if left := total - len(kept):
        kept.append(f"[{left} more not shown; {advice}]")
    return "\n".join(kept)
