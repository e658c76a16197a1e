"""Messages on a language server's pipes: a header with the length, an empty line, a body of JSON.

Knows bytes only. Promise: no more is held than one header, one body and one chunk.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

MAX_HEADER_BYTES = 4096
"""Two short lines; more is no header. (Room for a warning that a wrapper prints before the first one.)"""
MAX_BODY_BYTES = 16 * 1024 * 1024
"""The symbols of a large project are below 5 MB; parsing this much blocks the loop for about 0.1 s."""

_LENGTH = re.compile(rb"^content-length:[ \t]*(\d{1,12})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_HEADER_END = b"\r\n\r\n"


class BadFrame(Exception):
    """What came is no message; nothing after it can be read. `str(error)` ends a sentence about the server."""


class FrameReader:
    """Cuts a stream of bytes into bodies."""

    def __init__(self, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self._max_body_bytes = max_body_bytes
        self._held = bytearray()
        self._wanted: int | None = None
        """Length of the body that is on its way; None before its header is whole."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Take bytes, in any cut; give the bodies that are whole now. Raises: BadFrame."""
        self._held += chunk
        while True:
            if self._wanted is None and not self._read_header():
                return
            wanted = self._wanted or 0
            if len(self._held) < wanted:
                return
            body = bytes(self._held[:wanted])
            del self._held[:wanted]
            self._wanted = None
            yield body

    def _read_header(self) -> bool:
        end = self._held.find(_HEADER_END, 0, MAX_HEADER_BYTES)
        if end < 0:
            if len(self._held) >= MAX_HEADER_BYTES:
                raise BadFrame("it prints something that is no message")
            return False
        match = _LENGTH.search(self._held[:end])
        if match is None:
            raise BadFrame("it sent a message without a length")
        length = int(match[1])
        if length > self._max_body_bytes:
            raise BadFrame(f"it sent a message of {length} bytes; {self._max_body_bytes} are taken")
        del self._held[: end + len(_HEADER_END)]
        self._wanted = length
        return True


def framed(message: dict[str, Any]) -> bytes:
    """A message as it goes over the pipe."""
    body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
