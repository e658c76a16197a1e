"""One HTTP connection: uvicorn's, with bounds on what comes before a request is known, and our shape of refusal.

uvicorn's fast parser takes request heads of any length, and waits for them for ever, from anybody who can reach the
port, before the guard sees a request at all. Knows bytes and seconds only. Promise: the head of a request is bounded
in both, a body that stops coming ends the connection, what cannot be parsed is answered like every other problem
before the connection is closed, and no refusal overtakes an answer that is still owed.
"""

from asyncio import Transport  # uvloop's transports have its methods
from asyncio.events import TimerHandle
from enum import Enum, auto

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from server.problems import Problem, answer

HANG_UP = "agentcore.hang_up"
"""Extension of the ASGI scope; its `now` is a function that cuts the connection, with what its buffer still holds."""
MAX_HEAD_BYTES = 64 * 1024  # beyond any cookie or path of ours; the reads in which a head begins may come on top
HEAD_LIMIT_S = 10.0  # from connecting, or from the first byte after an answer, to the end of a head
BODY_LIMIT_S = 30.0  # without a byte of the body


class Part(Enum):
    """Where in a request the last read ended."""

    BETWEEN = auto()
    HEAD = auto()
    BODY = auto()


class Connection(HttpToolsProtocol):
    """The protocol that `daemon` gives to uvicorn."""

    _part = Part.BETWEEN
    _has_moved = False
    """True when the current read brought a new message, the end of one, or a piece of a body."""
    _unmoved_bytes = 0
    """Bytes of the last reads that brought nothing but more of a head (or of trailers, or empty lines)."""
    _is_refused = False
    _awaited: Part | None = None
    """The part whose end `_deadline` waits for; None while the client owes us nothing."""
    _deadline: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_deadline(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._has_moved = False
        super().data_received(data)
        # the parser tells no offsets: a read in which a head began counts nothing, since most may be before it
        self._unmoved_bytes = 0 if self._has_moved else self._unmoved_bytes + len(data)
        if self._unmoved_bytes > MAX_HEAD_BYTES and not self._is_refused:
            self.send_400_response("The path and headers of the request are too long.")
        self._watch()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._part, self._has_moved = Part.HEAD, True

    def on_headers_complete(self) -> None:
        self.scope["extensions"] = {HANG_UP: {"now": self.transport.abort}}
        super().on_headers_complete()
        self._part, self._has_moved = Part.BODY, True

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._has_moved = True

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._part, self._has_moved = Part.BETWEEN, True

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed and read no more; answers that are owed for earlier requests come first."""
        self._is_refused = True
        if self._part is Part.BODY:
            self._refuse_body(msg)
        elif self._owes_response():
            self.cycle.keep_alive = False  # the last one that is owed: uvicorn closes behind it
        else:
            self._refuse(msg)

    def _refuse_body(self, msg: str) -> None:
        """The application has this request already, and may have begun to answer it."""
        if self._owes_response() and not self.cycle.response_started and not self.pipeline:
            self.cycle.disconnected = True  # what the application still says goes nowhere
            self.cycle.message_event.set()
            self._refuse(msg)
        else:
            self.transport.close()

    def _refuse(self, msg: str) -> None:
        refusal = answer(Problem("bad_request", msg, headers={"Connection": "close"}))
        head = [STATUS_LINE[refusal.status_code]]
        for name, value in [*self.server_state.default_headers, *refusal.raw_headers]:
            head += [name, b": ", value, b"\r\n"]
        self.transport.write(b"".join([*head, b"\r\n", bytes(refusal.body)]))
        self.transport.close()

    def _owes_response(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        """Set the deadline for what the client owes us now; costs nothing while that stays the same."""
        awaited = self._find_awaited()
        # bytes of a head do not move its deadline, bytes of a body do
        if awaited is not self._awaited or (awaited is Part.BODY and self._has_moved):
            self._set_deadline(awaited)

    def _find_awaited(self) -> Part | None:
        if self.transport.is_closing():
            return None
        if self._part is Part.BODY:
            return Part.BODY
        # uvicorn's timer is for connections that rest after an answer
        if self._owes_response() or (self._part is Part.BETWEEN and self.timeout_keep_alive_task is not None):
            return None
        return Part.HEAD

    def _set_deadline(self, awaited: Part | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._awaited = awaited
        limit_s = BODY_LIMIT_S if awaited is Part.BODY else HEAD_LIMIT_S
        self._deadline = None if awaited is None else self.loop.call_later(limit_s, self._end_waiting)

    def _end_waiting(self) -> None:
        """Close, unless it is us who do not read: the application is busy, or an earlier answer is being written."""
        if self._awaited is Part.BODY and (self.flow.read_paused or self.pipeline):
            self._set_deadline(Part.BODY)
            return
        self._set_deadline(None)
        self.transport.close()
