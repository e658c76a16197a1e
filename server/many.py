"""One stream over many sessions: all that are loaded, those that come later included, or some by name.

A browser holds six connections to a server in all, a dashboard more sessions than that. Each session begins with its
snapshot and goes on as in a stream of its own, gaps and all; a block of its own says the place in all of them.
"""

from collections.abc import Collection

from server import frames
from server.hub import Hub
from server.live import LiveSession
from server.places import Places
from server.reader import Reader
from server.strand import Strand
from server.view import View

PLACE_EVERY_S = 0.25
"""The place in a thousand sessions takes 30 KB, and chunks may follow one another every few milliseconds."""


class ManyReader(Reader):
    def __init__(self, hub: Hub, sessions: Collection[str] | None, cursor: str | None, view: View) -> None:
        """`sessions`: ids; None for all. `cursor`: where the reader stands; None: it wants new events only."""
        super().__init__(hub.app, view, PLACE_EVERY_S)
        self._hub = hub
        self._sessions = None if sessions is None else frozenset(sessions)
        self._places = Places(cursor)
        self._knows_place = cursor is not None
        """A session that has no place yet is new to the reader: it has come since."""
        self._must_look = True
        self._looked_around_at = 0.0

    @property
    def farewell(self) -> bytes:
        return self._hub.farewell

    @property
    def _is_over(self) -> bool:
        if self._strands or self._must_look:
            return False
        return self._sessions is not None or bool(self._hub.farewell)

    def leave(self) -> None:
        super().leave()
        self._hub.arrivals.discard(self._arrived)

    def _arrived(self) -> None:
        self._must_look = True
        self._news.set()

    def _look_around(self) -> None:
        if not self._must_look:
            return
        self._must_look = False
        self._looked_around_at = self._app.clock.now()
        for live in self._hub:
            if self._is_wanted(live):
                self._join(live, self._after(live), holds_session=self._sessions is not None)
        self._knows_place = True
        self._places.forget(self._strands.keys())
        self._hub.arrivals.add(self._arrived)

    def _is_wanted(self, live: LiveSession) -> bool:
        """One that was loaded again has to wait for the end of what it was before."""
        is_chosen = self._sessions is None or live.id in self._sessions
        return is_chosen and live.id not in self._strands and not live.bus.is_closed

    def _after(self, live: LiveSession) -> int | None:
        place = self._places.get(live.id)
        if place is not None or not self._knows_place:
            return place
        return 0 if self._places.may_lack(live.loaded_at) else live.bus.origin

    def _moved(self, strand: Strand) -> None:
        self._places.put(strand.id, strand.cursor.seq)

    def _parted(self, strand: Strand) -> None:
        self._places.ended(strand.id)
        self._arrived()  # it may have been loaded again already

    def _place(self) -> bytes:
        replays = {session: strand.cursor.seq - strand.bus.origin for session, strand in self._strands.items()}
        places = self._places.told(replays, self._looked_around_at)
        return frames.place(places) if places else b""
