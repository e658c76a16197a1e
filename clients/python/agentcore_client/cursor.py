"""Where the reader of a stream stands: in one session, or in many. No I/O.

The one rule: the number moves when an event has been *handled*, so whoever breaks off in the middle of one gets it
again. What the reader has handled is never handed out twice.
"""

from typing import Protocol

from agentcore.events import Gap, Lagging, ServerStopping, SessionClosed
from agentcore_client.frames import Snapshot, StreamEvent, seq_of, session_of

RESUME = "Last-Event-ID"
MAX_PLACES = 1000  # what the server tells at most: with much more, it would refuse the head of the request


class Position(Protocol):
    """What a transport asks of a cursor, and tells it."""

    @property
    def is_closed(self) -> bool:
        """Nothing more will come, on no connection."""
        ...

    def headers(self) -> dict[str, str]:
        """What makes the server go on after the last handled event."""
        ...

    def connected(self) -> None:
        """The server has accepted the connection."""
        ...

    def arrived(self, event: StreamEvent) -> bool:
        """Take note of an event that came in; False when it was handled before and must be dropped."""
        ...

    def handled(self, event: StreamEvent) -> None:
        """The reader has done its work with the event."""
        ...

    def passed(self, place: str) -> None:
        """The server said where the stream stands, behind events that were handled."""
        ...


class Cursor:
    """The last handled number, and where the session stood when this connection began."""

    def __init__(self, seq: int | None) -> None:
        self.seq = seq
        """None until something told us where we are: the stream then begins with new events."""
        self.head = 0
        """Last number when the connection began: up to it events are history, after it they are news."""
        self.is_closed = False

    def headers(self) -> dict[str, str]:
        return {} if self.seq is None else {RESUME: str(self.seq)}

    def connected(self) -> None:
        pass

    def passed(self, place: str) -> None:
        if place.isascii() and place.isdecimal():
            self.seq = max(int(place), self.seq or 0)

    def arrived(self, event: StreamEvent) -> bool:
        if isinstance(event, Snapshot):
            self.head = event.last_seq
        seq = seq_of(event)
        return not seq or self.seq is None or seq > self.seq

    def handled(self, event: StreamEvent) -> None:
        match event:
            case Snapshot(last_seq=last_seq):
                if self.seq is None:
                    self.seq = last_seq
            case Gap(reason="ahead", resumed_at=resumed_at):
                self.seq = max(0, resumed_at - 1)  # our number is from another life of the session: start over
            case _:
                self.seq = seq_of(event) or self.seq
        if isinstance(event, SessionClosed) and event.seq > self.head:
            self.is_closed = True  # an older one is history: the session was loaded again since


class ManyCursor:
    """Where the reader of many sessions stands: the last handled number of each, `a:12,b:90` in one string.

    A snapshot moves nothing here: the events of a session that has come since begin before it. What the stream begins
    with is told by its first place; cut before that, it begins again with all that the loaded sessions still have. In
    very many sessions the string leaves some out (and a time stands in front), which come again from the beginning of
    their load: what was handled is remembered beside it, and dropped.
    """

    def __init__(self, text: str | None, *, is_named: bool) -> None:
        """`is_named`: of sessions that were named, so that it is over when all of them are closed."""
        self._places = None if text is None else _read_places(text)
        """What is sent back; None until something told us where we are: the stream then begins with new events."""
        self._handled = dict(self._places or {})
        """Last number of each session that was ever heard of."""
        self._is_named = is_named
        self._heads: dict[str, int] = {}
        """Last number of each session that is open, when it came to this connection."""
        self._has_closed = False
        self._told = ""

    @property
    def text(self) -> str | None:
        if self._places is None:
            return None
        return ",".join(f"{session}:{seq}" for session, seq in self._places.items())

    @property
    def is_closed(self) -> bool:
        return self._is_named and self._has_closed and not self._heads

    def headers(self) -> dict[str, str]:
        return {} if self.text is None else {RESUME: self.text}

    def connected(self) -> None:
        self._heads, self._has_closed = {}, False
        if self._places is None:
            self._places = {}  # from now on a session that we do not know has come since

    def passed(self, place: str) -> None:
        if place != self._told:  # a comment repeats the last one, and we may be further by now
            self._told, self._places = place, _read_places(place)
            self._handled.update(self._places)

    def arrived(self, event: StreamEvent) -> bool:
        session = session_of(event)
        if isinstance(event, Snapshot):
            self._heads[session] = event.last_seq
        seq = seq_of(event)
        return not seq or seq > self._handled.get(session, 0)

    def handled(self, event: StreamEvent) -> None:
        session = session_of(event)
        match event:
            case Gap(reason="ahead", resumed_at=resumed_at):
                self._stand(session, max(0, resumed_at - 1))
            case _ if seq := seq_of(event):
                self._stand(session, seq)
            case _:
                pass
        if isinstance(event, SessionClosed) and event.seq > self._heads.get(session, event.seq):
            del self._heads[session]
            self._has_closed = True

    def _stand(self, session: str, seq: int) -> None:
        assert self._places is not None, "nothing comes before the connection"
        self._handled[session] = seq
        if session in self._places or len(self._places) < MAX_PLACES:
            self._places[session] = seq


def _read_places(text: str) -> dict[str, int]:
    places = (place.rpartition(":") for place in text.split(",") if place)
    return {session: int(seq) for session, _, seq in places}


def ends_connection(event: StreamEvent) -> bool:
    """Whether the server said that it stops sending here, and that coming back is welcome."""
    return isinstance(event, Lagging | ServerStopping)
