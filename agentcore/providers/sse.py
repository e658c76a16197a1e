"""Cuts the bytes of an event stream into events: the one splitter under all adapters.

Follows the rules of Server-Sent Events for line ends (LF, CRLF, CR), comments, several data lines and a byte order
mark, and takes the bytes in any pieces. Hands out the data of each event; names, ids and retry times are ignored,
because every vendor repeats in the data what it needs. Knows nothing of JSON, with one exception: see `finish`. A
line `error: …` and a JSON object without `data:` are no events but what services send when they fail; they are handed
out as they stand.
Works on the path of every delta, so the usual event costs one regular expression.
"""

import re

from pydantic_core import from_json

MAX_EVENT_BYTES = 32 * 1024 * 1024  # above the largest answer that a vendor sends in one event (images, documents)

DONE = b"[DONE]"
"""What ends the streams of OpenAI and those who follow it; no JSON."""
BARE_ERROR = b"error:"

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_USUAL_EVENT = re.compile(rb"(?:event:[^\n]*\n)?data: ?([^\n]*)")


class OversizedEvent(ValueError):
    """More than MAX_EVENT_BYTES came without an end of the event."""


class SseSplitter:
    """The state of one stream: bytes that have not become an event yet."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._is_at_start = True
        self._ended_in_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; return the data of each event that they complete. Raises: OversizedEvent."""
        if self._ended_in_cr or b"\r" in chunk:
            chunk = self._with_lf(chunk)
        searched = max(len(self._held) - 1, 0)  # the blank line may lie across two chunks
        self._held += chunk
        if self._held.find(b"\n\n", searched) < 0:
            if len(self._held) > MAX_EVENT_BYTES:
                raise OversizedEvent(f"an event of more than {MAX_EVENT_BYTES} bytes")
            return []
        *blocks, rest = bytes(self._held).split(b"\n\n")
        self._held = bytearray(rest)
        if self._is_at_start:
            self._is_at_start = False
            blocks[0] = blocks[0].removeprefix(_BYTE_ORDER_MARK)
        return [data for block in blocks if (data := _data_of(block))]

    @property
    def is_inside_event(self) -> bool:
        """Whether bytes are held that are more than comments: where the stream ends so, it may have been cut."""
        return any(line and not line.startswith(b":") for line in self._held.split(b"\n"))

    def finish(self) -> bytes | None:
        """Return the data of a last event that lacks its blank line, if it is whole: some servers end so."""
        data = _data_of(bytes(self._held).removeprefix(_BYTE_ORDER_MARK).strip(b"\n"))
        self._held.clear()
        return data if data and _is_whole(data) else None

    def _with_lf(self, chunk: bytes) -> bytes:
        """Write every line end as LF. A CR ends its line at once; an LF that follows in the next chunk is its tail."""
        if self._ended_in_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._ended_in_cr = False
        self._ended_in_cr = chunk.endswith(b"\r") or self._ended_in_cr
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data_of(block: bytes) -> bytes | None:
    """The data of one event, without its final line end; None where the block has none (comments, keep-alives)."""
    if usual := _USUAL_EVENT.fullmatch(block):
        return usual[1]
    lines = block.split(b"\n")
    if error := next((line for line in lines if line.startswith(BARE_ERROR)), None):
        return error
    if (bare := block.strip()).startswith(b"{") and _is_whole(bare):
        return bare
    data = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    return b"\n".join(data) if data else None


def _is_whole(data: bytes) -> bool:
    if data.strip() == DONE or data.startswith(BARE_ERROR):
        return True
    try:
        from_json(data)
    except ValueError:
        return False
    return True
