"""The event bus of one live session: the last frames, and where each reader stands.

Knows bytes and sequence numbers, nothing about events, HTTP or tasks. All methods that change state are
synchronous. Promise: a reader sees every frame after its cursor, in order, or is told that it cannot; publishing
costs the same for one reader and for five hundred.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

RING_EVENTS = 4096  # the promise of the API
RING_BYTES = 16 * 1024 * 1024  # the contract's default bound per session
LAG_EVENTS = 1024  # the contract's bound: further behind, on a socket that takes nothing, a reader cannot keep up
STALL_S = 2.0  # the contract's patience with a socket that takes nothing
CHUNK_BYTES = 1024 * 1024  # at most so much is joined for one write


class Evicted(Exception):
    """The cursor lies before the oldest frame that is still held."""


@dataclass(slots=True, eq=False)
class Cursor:
    """Where one reader stands."""

    seq: int
    """The last number it has taken."""
    writing_since: float | None = None
    """When its last write began, by the event loop's clock; None while it waits for events."""
    drop: Callable[[], None] = field(default=lambda: None)
    """Ends the reader's connection; the watchdog calls it."""
    is_dropped: bool = False


class Bus:
    """A ring of frames, indexed by number. `head` is the last number published."""

    def __init__(self, head: int, size: int = RING_EVENTS, max_bytes: int = RING_BYTES) -> None:
        self.head = head
        self.oldest = head + 1
        """The first number still held; `head + 1` when there is none."""
        self._size = size
        self._max_bytes = max_bytes
        self._ring: list[bytes | None] = []
        """Made with the first frame: most loaded sessions are idle, and an empty ring takes 32 KiB."""
        self._bytes = 0
        self._taken: tuple[int, bytes, int] | None = None
        """Cursor and answer of the last `take` since the last frame: readers side by side share one chunk."""
        self._moved = anyio.Event()
        self._is_waited_for = False
        self.cursors: set[Cursor] = set()
        """The readers of this moment, for the watchdog."""
        self.is_closed = False
        self.farewell = b""
        """The last bytes for every reader."""

    def publish(self, seq: int, frame: bytes) -> None:
        """Add the frame of the next number and wake the readers."""
        if not self._ring:
            self._ring = [None] * self._size
        slot = seq % self._size
        old = self._ring[slot]
        if old is not None:
            self._bytes -= len(old)
            self.oldest = max(self.oldest, seq - self._size + 1)
        self._ring[slot] = frame
        self._bytes += len(frame)
        self.head = seq
        self._taken = None
        if self._bytes > self._max_bytes:
            self._evict()
        self._wake()

    def take(self, cursor: int) -> tuple[bytes, int]:
        """All frames after `cursor`, joined up to CHUNK_BYTES, and the number of the last. Raises: Evicted."""
        if cursor + 1 < self.oldest:
            raise Evicted
        if cursor >= self.head:
            return b"", self.head
        if self._taken is None or self._taken[0] != cursor:
            self._taken = (cursor, *self._join(cursor + 1, self.head))
        _, chunk, last = self._taken
        return chunk, last

    async def wait_beyond(self, cursor: int) -> None:
        """Return when there is something after `cursor`, or the bus is closed."""
        while cursor >= self.head and not self.is_closed:
            self._is_waited_for = True
            await self._moved.wait()

    def drop_stalled(self, now: float) -> None:
        """End the readers whose sockets take nothing while they are far behind. A burst alone ends nobody."""
        for cursor in tuple(self.cursors):
            since = cursor.writing_since
            is_far_behind = self.head - cursor.seq > LAG_EVENTS or cursor.seq + 1 < self.oldest
            if since is not None and now - since >= STALL_S and is_far_behind:
                cursor.is_dropped = True
                self.cursors.discard(cursor)
                cursor.drop()

    def close(self, farewell: bytes = b"") -> None:
        """Let every reader take what is left, then `farewell`, and end."""
        if not self.is_closed:
            self.is_closed = True
            self.farewell = farewell
            self._is_waited_for = True
            self._wake()

    def _join(self, first: int, last: int) -> tuple[bytes, int]:
        frames = self._frames(first, last)
        total = 0
        for index, frame in enumerate(frames):
            total += len(frame)
            if total > CHUNK_BYTES and index:
                return b"".join(frames[:index]), first + index - 1
        return b"".join(frames), last

    def _frames(self, first: int, last: int) -> list[bytes]:
        low, high = first % self._size, last % self._size
        held = self._ring[low : high + 1] if low <= high else self._ring[low:] + self._ring[: high + 1]
        return [frame for frame in held if frame is not None]

    def _evict(self) -> None:
        """Drop the oldest frames until the ring is within its bytes; the newest always stays."""
        while self._bytes > self._max_bytes and self.oldest < self.head:
            slot = self.oldest % self._size
            frame = self._ring[slot]
            if frame is not None:
                self._bytes -= len(frame)
                self._ring[slot] = None
            self.oldest += 1

    def _wake(self) -> None:
        if self._is_waited_for:
            self._is_waited_for = False
            self._moved.set()
            self._moved = anyio.Event()
