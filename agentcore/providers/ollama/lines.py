"""Cuts the bytes of an answer into lines, one JSON object each.

Takes the bytes in any pieces, line ends as LF or CRLF; blank lines are passed over. Knows nothing of JSON, with one
exception: see `finish`.
"""

from pydantic_core import from_json

from agentcore.providers.sse import MAX_EVENT_BYTES, OversizedEvent


class LineSplitter:
    """The state of one answer: bytes that have not become a line yet."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes; return the lines that they complete. Raises: OversizedEvent."""
        self._held += chunk
        if b"\n" not in chunk:
            if len(self._held) > MAX_EVENT_BYTES:
                raise OversizedEvent(f"a line of more than {MAX_EVENT_BYTES} bytes")
            return []
        *lines, rest = bytes(self._held).split(b"\n")
        self._held = bytearray(rest)
        return [line for line in map(bytes.strip, lines) if line]

    def finish(self) -> bytes | None:
        """Return a last line that lacks its end, if its JSON is whole: an answer in one piece has none."""
        line = bytes(self._held).strip()
        self._held.clear()
        try:
            from_json(line)
        except ValueError:
            return None
        return line
