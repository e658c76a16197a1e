"""One session in one stream: where its reader stands, and what comes next for it, piece by piece.

A reader takes everything between its cursor and the head of the bus; behind the ring it reads the durable events from
the journal. Promise: every event after the cursor that the view shows, in order, without a hole that no gap tells of.
"""

import logging
from collections.abc import Callable
from typing import Literal

from agentcore.app import App
from agentcore.encoding import head_of
from agentcore.errors import AgentError
from agentcore.events import Gap
from server import frames
from server.bus import Bus, Cursor, Evicted, Writer
from server.live import LiveSession
from server.view import View

logger = logging.getLogger(__name__)


class Strand:
    def __init__(
        self, app: App, live: LiveSession, after: int | None, view: View, writer: Writer, wake: Callable[[], None]
    ) -> None:
        """`after`: the last number that the reader has; None: it wants new events only. `wake` is called when there is
        news for a reader that has taken everything, once for each `rest`."""
        self.id = live.id
        self.bus: Bus = live.bus
        self.cursor = Cursor(self.bus.head if after is None else after, writer)
        self._app = app
        self._live = live
        self._after = after
        self._view = view
        self._wake = wake
        self._is_new = True
        self._resumed_at: int | None = None
        """The first number that the ring held when the journal began to be read."""
        self.bus.cursors.add(self.cursor)

    @property
    def has_more(self) -> bool:
        """Whether there is something to take now."""
        return self._is_new or self._resumed_at is not None or self.cursor.seq < self.bus.head

    def rest(self) -> None:
        """Have the reader woken when there is more. Everything was taken before, in this step."""
        self.bus.sleepers.add(self._wake)

    def leave(self) -> None:
        """Its reader goes, and nothing here holds it: a closed session is freed without the collector."""
        self.bus.cursors.discard(self.cursor)
        self.bus.sleepers.discard(self._wake)
        self._wake = _nobody

    async def step(self) -> bytes:
        """The next piece: the snapshot, a gap, or some events; empty where the view shows none of them."""
        if self._is_new:
            return self._greet()
        if self._resumed_at is not None:
            return await self._from_journal(self._resumed_at)
        try:
            chunk, self.cursor.seq = self.bus.take(self.cursor.seq, self._view)
        except Evicted:
            self._resumed_at = self.bus.oldest
            return self._gap("deltas") if self._view.shows_display_only else b""
        return chunk

    def _greet(self) -> bytes:
        """The snapshot; without a cursor, and with one that is ahead, the events go on from where it stands."""
        self._is_new = False
        greeting = frames.idless("snapshot", self._snapshot())
        if self._after is None:
            self.cursor.seq = self.bus.head
        elif self.cursor.seq > self.bus.head:
            greeting += self._gap_ahead()
        return greeting

    async def _from_journal(self, before: int) -> bytes:
        """The next durable events below number `before`; those of the last piece have been written.

        All of them were journaled before the ring let go of them. What it lets go of meanwhile is a gap of its own.
        """
        try:
            lines = await self._app.lines_after(self.id, self.cursor.seq, before)
        except AgentError as error:
            logger.warning("session %s: a reader goes on without what cannot be read: %s", self.id, error)
            gap = self._gap("events")
            self._join_ring(before)
            return gap
        numbered = [(*head, line) for line in lines if (head := head_of(line)) is not None]
        if not numbered:
            self._join_ring(before)  # what is left out are deltas
            return b""
        self.cursor.seq = numbered[-1][1]
        return self._view([frames.frame(seq, kind, line) for kind, seq, line in numbered])

    def _join_ring(self, first: int) -> None:
        """Go on with this number, from the ring if that still holds it."""
        self._resumed_at, self.cursor.seq = None, first - 1

    def _snapshot(self) -> bytes:
        snapshot = self._live.snapshot()
        if not self._view.shows("text_delta"):
            snapshot = snapshot.model_copy(update={"partial": None})  # nothing would ever be added to it
        return snapshot.model_dump_json(exclude_none=True).encode()

    def _gap(self, missing: Literal["deltas", "events"]) -> bytes:
        assert self._resumed_at is not None
        gap = Gap(reason="evicted", after=self.cursor.seq, resumed_at=self._resumed_at, missing=missing)
        return self._tell(gap)

    def _gap_ahead(self) -> bytes:
        """The cursor is of another life: send every event that is still held."""
        gap = Gap(reason="ahead", after=self.cursor.seq, resumed_at=self.bus.oldest)
        self.cursor.seq = self.bus.oldest - 1
        return self._tell(gap)

    def _tell(self, gap: Gap) -> bytes:
        named = gap.model_copy(update={"session": self.id}) if self._view.is_of_many else gap
        return frames.GAP + frames.control(named)


def _nobody() -> None:
    """Who is woken when the reader is gone."""
