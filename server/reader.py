"""What one subscriber is sent, chunk by chunk: its strands, woven into one stream.

A reader is woken by the sessions that have news, takes the next piece of each of them, and writes all of it as one
chunk. No reader slows the agent or another reader. `SessionReader` is the stream of one session; the one over many is
in `many`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial

import anyio
import anyio.lowlevel

from agentcore.app import App
from server import frames
from server.bus import CHUNK_BYTES, Cursor, Writer
from server.hub import Hub
from server.live import LiveSession
from server.strand import Strand
from server.view import View

KEEPALIVE_S = 15.0  # the promise of the API
WRITE_SHARE_S = 0.0002  # a write takes some 35 µs: readers together then take under a fifth of the time
MAX_SHARE_S = 0.05  # what a person does not see
TURN_S = 0.01  # how long a reader may gather before others have their turn; a thousand snapshots take 100 ms
MIN_SLEEP_S = 0.001  # below, a timer costs more than it saves


class Reader(ABC):
    """The strands of one stream by the id of their session, and which of them have something to send."""

    def __init__(self, app: App, view: View, place_every_s: float | None) -> None:
        """`place_every_s`: how often the subscriber is told where it stands while chunks follow fast; None: the frames
        say it."""
        self.writer = Writer()
        self._app = app
        self._view = view
        self._place_every_s = place_every_s
        self._strands: dict[str, Strand] = {}
        self._due: dict[str, None] = {}
        """Sessions that have something to send, the one that waits longest first."""
        self._news = anyio.Event()
        self._looked_at = 0.0
        self._wrote_at = 0.0
        self._told = b""
        """The last place that the subscriber was told by a block of its own."""
        self._told_at = -math.inf
        self._owes_place = False
        """Something was sent since."""

    @property
    @abstractmethod
    def farewell(self) -> bytes:
        """The last bytes of a stream that is over."""

    @property
    @abstractmethod
    def _is_over(self) -> bool:
        """Whether nothing more can come."""

    @abstractmethod
    def _place(self) -> bytes:
        """The block that says where the subscriber stands; empty where there is nothing to say yet."""

    def _look_around(self) -> None:  # noqa: B027 - a stream over fixed sessions has nothing to look for
        """Take in the sessions that came since the last look."""

    def _moved(self, strand: Strand) -> None:  # noqa: B027 - of interest where one place is made of many
        """A strand has taken a step."""

    def _parted(self, strand: Strand) -> None:  # noqa: B027 - as `_look_around`
        """A strand is at its end: its session is closed and everything was taken."""

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The bytes of the stream, as much at once as there is."""
        try:
            async with aclosing(self._chunks()) as chunks:
                async for chunk in chunks:
                    self._wrote_at = self.writer.writing_since = anyio.current_time()
                    yield chunk
                    self.writer.writing_since = None
            if self.farewell:
                yield self.farewell
        finally:
            self.leave()

    def leave(self) -> None:
        """The subscriber is gone. May be called twice."""
        for strand in self._strands.values():
            strand.leave()
        self._strands.clear()

    # --- the sessions ---

    def _join(self, live: LiveSession, after: int | None, *, holds_session: bool = True) -> Strand:
        strand = Strand(self._app, live, after, self._view, self.writer, partial(self._wake, live.id))
        strand.cursor.holds_session = holds_session
        self._strands[live.id] = strand
        self._due[live.id] = None
        return strand

    def _wake(self, session: str) -> None:
        self._due[session] = None
        self._news.set()

    def _settle(self, strand: Strand) -> None:
        """After a step: it has more, or its reader waits for that, or it is at its end."""
        self._moved(strand)
        if strand.has_more:
            self._due[strand.id] = None
        elif strand.bus.is_closed:
            strand.leave()
            del self._strands[strand.id]
            self._parted(strand)
        else:
            strand.rest()

    # --- the chunks ---

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        pieces = [frames.CONNECTED]
        while True:
            self._look_around()
            pieces += await self._next_pieces()
            chunk = b"".join(pieces)
            if chunk:
                yield self._with_place(chunk)
            if self._due:
                await anyio.lowlevel.checkpoint()  # neither much that is shown nor much that is not holds up others
            elif not chunk and self._is_over:
                break
            elif not chunk and not await self._wait():
                yield self._owed_place() or frames.KEEPALIVE + self._place_if_moved()
            pieces = []
        if place := self._owed_place():
            yield place

    async def _next_pieces(self) -> list[bytes]:
        """One piece of each session that has something to send, not much more than CHUNK_BYTES and TURN_S together."""
        self._looked_at = anyio.current_time()
        pieces: list[bytes] = []
        size = 0
        for session in tuple(self._due):
            del self._due[session]
            strand = self._strands.get(session)
            if strand is None:
                continue
            pieces.append(await strand.step())
            self._settle(strand)
            size += len(pieces[-1])
            if size >= CHUNK_BYTES or anyio.current_time() - self._looked_at >= TURN_S:
                break
        return pieces

    async def _wait(self) -> bool:
        """Wait for news; False when there is something to say without any.

        With many readers each one looks less often, and takes more at a time: all of them together take no more than a
        part of the server, so that none slows the agent.
        """
        with anyio.move_on_after(self._speaks_at() - anyio.current_time()) as silence:
            await self._news.wait()
        if silence.cancelled_caught:
            return False
        self._news = anyio.Event()
        early_s = self._looked_at + self._share_s() - anyio.current_time()
        if early_s > MIN_SLEEP_S:
            await anyio.sleep(early_s)
        return True

    def _share_s(self) -> float:
        """Seconds between two looks; none where a session has ended: the rest is not held back."""
        buses = [self._strands[session].bus for session in self._due if session in self._strands]
        if any(bus.is_closed for bus in buses):
            return 0.0
        return min(MAX_SHARE_S, WRITE_SHARE_S * max((len(bus.cursors) for bus in buses), default=0))

    # --- the place ---
    #
    # What is read twice after a cut is dropped by its number, so a place may come late. While chunks follow fast it
    # comes now and then, and once behind the last of them: a subscriber that hears nothing knows where it stands.

    def _with_place(self, chunk: bytes) -> bytes:
        self._owes_place = self._place_every_s is not None
        return chunk + self._owed_place() if self._tells_at() <= anyio.current_time() else chunk

    def _owed_place(self) -> bytes:
        if not self._owes_place:
            return b""
        self._told, self._told_at, self._owes_place = self._place(), anyio.current_time(), False
        return self._told

    def _place_if_moved(self) -> bytes:
        """What is not shown moves it as well."""
        before, self._owes_place = self._told, self._place_every_s is not None
        place = self._owed_place()
        return b"" if place == before else place

    def _tells_at(self) -> float:
        """When the place is told that is owed."""
        return self._told_at + (self._place_every_s or 0.0) if self._owes_place else math.inf

    def _speaks_at(self) -> float:
        """When there is something to say without news: the place, or that the stream is still there."""
        return min(self._wrote_at + KEEPALIVE_S, self._tells_at())


class SessionReader(Reader):
    """The stream of one session."""

    def __init__(self, hub: Hub, live: LiveSession, after: int | None, view: View | None = None) -> None:
        view = view or View()
        # where the frames of some numbers are left out, the last number is told behind each chunk
        super().__init__(hub.app, view, None if view.is_whole else 0.0)
        self._strand = self._join(live, after)

    @property
    def cursor(self) -> Cursor:
        return self._strand.cursor

    @property
    def farewell(self) -> bytes:
        return self._strand.bus.farewell

    @property
    def _is_over(self) -> bool:
        return not self._strands

    def _place(self) -> bytes:
        return frames.place(str(self.cursor.seq))
