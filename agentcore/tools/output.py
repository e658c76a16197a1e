"""What a command prints: shown while it runs at a bounded rate and length, kept as head and tail in bounded memory."""

import codecs
from collections.abc import Callable

import anyio

from agentcore.caps import safe_text
from agentcore.tools.texts import VISIBLE_BYTES, decode_end, decode_start

SHOW_EVERY_S = 0.05  # at most 20 deltas a second
MAX_SHOWN_BYTES = 256 * 1024
"""What is shown live; of what comes later the tail is shown when the command ends."""
KEPT_BYTES = VISIBLE_BYTES // 2
"""Of the head and of the tail, each."""


class HeadTail:
    """The first and the last bytes of a stream, and how much there was in all."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self._total_lines = 0
        self.total_bytes = 0

    def add(self, chunk: bytes) -> None:
        self.total_bytes += len(chunk)
        self._total_lines += chunk.count(b"\n")
        taken = chunk[: self._kept_bytes - len(self._head)]
        self._head += taken
        self._tail += chunk[len(taken) :][-self._kept_bytes :]
        if len(self._tail) > 2 * self._kept_bytes:
            del self._tail[: -self._kept_bytes]

    def last(self, size_bytes: int) -> bytes:
        """The last bytes, as far as they were kept as the tail."""
        return bytes(self._tail[-self._kept_bytes :][-size_bytes:])

    def text(self) -> str:
        """All of it, or its head and tail with a marker of what is missing between them."""
        tail = self._tail[-self._kept_bytes :]
        left_out = self.total_bytes - len(self._head) - len(tail)
        if not left_out:
            return _clipped(safe_text((self._head + tail).decode(errors="replace")), 2 * self._kept_bytes)
        lines = self._total_lines - self._head.count(b"\n") - tail.count(b"\n")
        start = _clipped(safe_text(decode_start(self._head)), self._kept_bytes)
        end = _clipped(safe_text(decode_end(tail)), self._kept_bytes)
        return f"{start}\n[… {left_out} bytes, {lines} lines not shown …]\n{end}"


def _clipped(text: str, max_bytes: int) -> str:
    """Cut out the middle where replacement characters made more bytes of text than were printed."""
    data = text.encode()
    if len(data) <= max_bytes:
        return text
    half = max_bytes // 2
    return f"{decode_start(data[:half])}\n[… binary output not shown …]\n{decode_end(data[-half:])}"


class LiveOutput:
    """Takes a command's output as it comes; `say` gets it in pieces, the result gets its head and tail.

    Promise: after `close` everything taken was said, up to `MAX_SHOWN_BYTES`, and then the tail.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unsaid: list[str] = []
        self._taken_bytes = 0
        self._news = anyio.Event()
        self.kept = HeadTail()

    def take(self, chunk: bytes) -> None:
        self.kept.add(chunk)
        if shown := chunk[: MAX_SHOWN_BYTES - self._taken_bytes]:
            self._taken_bytes += len(shown)
            self._unsaid.append(self._decoder.decode(shown))
            self._news.set()

    async def show(self) -> None:
        """Say what is new, at most once in `SHOW_EVERY_S`; runs until it is cancelled."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            self._flush()
            await anyio.sleep(SHOW_EVERY_S)

    def close(self) -> None:
        """Say what is left, and let go of who hears it; call it once, when nothing more comes."""
        self._unsaid.append(self._decoder.decode(b"", final=True))
        if unseen := self.kept.total_bytes - self._taken_bytes:
            tail = self.kept.last(unseen)
            if unseen > len(tail):
                self._unsaid.append(f"\n[… {unseen - len(tail)} bytes not shown …]\n")
            self._unsaid.append(decode_end(tail))
        self._flush()
        self._say = _nobody_hears  # a `show` that was cancelled lives on in its traceback, until the collector comes

    def _flush(self) -> None:
        text = safe_text("".join(self._unsaid))
        self._unsaid.clear()
        if text:
            self._say(text)


def _nobody_hears(text: str) -> None:
    return None
