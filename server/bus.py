"""The event bus of one live session: the last frames, and where each reader stands.

Knows bytes and sequence numbers, nothing about events, HTTP or tasks. All methods that change state are
synchronous. Promise: a reader sees every frame after its cursor, in order, or is told that it cannot; publishing
costs the same for one reader and for five hundred.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

RING_EVENTS = 4096  # the promise of the API
RING_BYTES = 16 * 1024 * 1024  # the contract's default bound per session
LAG_EVENTS = 1024  # the contract's bound: further behind, on a socket that takes nothing, a reader cannot keep up
STALL_S = 2.0  # the contract's patience with a socket that takes nothing
CLOSED_STALL_S = 30.0  # that with one that does not take the end of a session, which is kept for it alone
CHUNK_BYTES = 1024 * 1024  # at most so much is joined for one write
KEPT_CHUNKS = 4  # readers mostly join alike; each that does otherwise may keep a chunk until the next frame comes


class Evicted(Exception):
    """The cursor lies before the oldest frame that is still held."""


Join: TypeAlias = Callable[[Sequence[bytes]], bytes]
"""Makes one chunk of frames; readers that join alike share it, so it is to be equal where it does the same."""
_WHOLE: Join = b"".join


@dataclass(slots=True, eq=False)
class Writer:
    """One connection that is written to, as the watchdog sees it; it may stand in several buses."""

    writing_since: float | None = None
    """When its last write began, by the event loop's clock; None while it waits for events."""
    drop: Callable[[], None] = field(default=lambda: None)
    """Ends the connection; the watchdog calls it."""
    dropped_at: int | None = None
    """How many events it was behind when the watchdog ended it."""


@dataclass(slots=True, eq=False)
class Cursor:
    """Where one reader stands."""

    seq: int
    """The last number it has taken."""
    writer: Writer = field(default_factory=Writer)
    holds_session: bool = True
    """Reading counts as use of the session, which then stays loaded."""


class Sleepers:
    """Those who wait for news: each is woken once, and sleeps again only when it is added again."""

    def __init__(self) -> None:
        self._wakes: dict[Callable[[], None], None] = {}

    def __len__(self) -> int:
        return len(self._wakes)

    def add(self, wake: Callable[[], None]) -> None:
        self._wakes[wake] = None

    def discard(self, wake: Callable[[], None]) -> None:
        self._wakes.pop(wake, None)

    def wake(self) -> None:
        if self._wakes:
            wakes, self._wakes = self._wakes, {}
            for wake in wakes:
                wake()


class Bus:
    """A ring of frames, indexed by number. `head` is the last number published."""

    def __init__(self, head: int, size: int = RING_EVENTS, max_bytes: int = RING_BYTES) -> None:
        self.head = head
        self.origin = head
        """The last number before its first frame."""
        self.oldest = head + 1
        """The first number still held; `head + 1` when there is none."""
        self._size = size
        self._max_bytes = max_bytes
        self._ring: list[bytes | None] = []
        """Made with the first frame: most loaded sessions are idle, and an empty ring takes 32 KiB."""
        self._bytes = 0
        self._taken: dict[Join, tuple[int, bytes, int]] = {}
        """Cursor and answer of the last `take` since the last frame: readers side by side share one chunk."""
        self.sleepers = Sleepers()
        """Readers that have taken everything: woken by the next frame, or by the end."""
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
        self._taken.clear()
        if self._bytes > self._max_bytes:
            self._evict()
        self.sleepers.wake()

    def take(self, cursor: int, join: Join = _WHOLE) -> tuple[bytes, int]:
        """All frames after `cursor`, up to CHUNK_BYTES of them, joined, and the number of the last. Raises: Evicted."""
        if cursor + 1 < self.oldest:
            raise Evicted
        if cursor >= self.head:
            return b"", self.head
        taken = self._taken.get(join)
        if taken is None or taken[0] != cursor:
            if len(self._taken) >= KEPT_CHUNKS:
                self._taken.clear()
            frames = self._next_frames(cursor + 1)
            taken = self._taken[join] = (cursor, join(frames), cursor + len(frames))
        return taken[1:]

    @property
    def is_held(self) -> bool:
        """Whether a reader uses the session."""
        return any(cursor.holds_session for cursor in self.cursors)

    def drop_stalled(self, now: float) -> None:
        """End the readers whose sockets take nothing while they are far behind, or for long while the bus is closed. A
        burst alone ends nobody."""
        for cursor in tuple(self.cursors):
            writer, behind = cursor.writer, self.head - cursor.seq
            is_far_behind = behind > LAG_EVENTS or cursor.seq + 1 < self.oldest
            stalled_s = 0.0 if writer.writing_since is None else now - writer.writing_since
            if stalled_s >= (STALL_S if is_far_behind else CLOSED_STALL_S if self.is_closed else math.inf):
                self.cursors.discard(cursor)
                writer.dropped_at = behind
                writer.drop()

    def close(self, farewell: bytes = b"") -> None:
        """Let every reader take what is left, then `farewell`, and end."""
        if not self.is_closed:
            self.is_closed = True
            self.farewell = farewell
            self.sleepers.wake()

    def _next_frames(self, first: int) -> list[bytes]:
        """The frames from number `first` on, up to CHUNK_BYTES, but at least one."""
        frames = self._frames(first, self.head)
        total = 0
        for index, frame in enumerate(frames):
            total += len(frame)
            if total > CHUNK_BYTES and index:
                return frames[:index]
        return frames

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
