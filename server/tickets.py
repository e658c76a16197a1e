"""Single-use tickets that open one event stream from a browser's `EventSource`, which cannot send a header.

A ticket stands in for the bearer token on `GET /v1/sessions/{id}/events` alone, once, for 30 seconds. Only its
hash is kept, and nothing here logs. All methods are synchronous. Promise: a ticket is spent by the first request
that shows it, also by one that it does not fit.
"""

import hashlib
import secrets
from dataclasses import dataclass, field

from agentcore.ports.clock import Clock

LIFETIME_S = 30.0  # the promise of the API
MAX_OPEN = 256  # when more are open, the oldest is dropped: only holders of the token can make them


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the client gets."""

    value: str = field(repr=False)
    expires_at: float
    """Unix time in seconds."""


@dataclass(frozen=True, slots=True)
class _Row:
    session: str | None
    deadline: float
    """On the clock's monotonic scale."""


class Tickets:
    """The open tickets of one server."""

    def __init__(self, clock: Clock, *, limit: int = MAX_OPEN) -> None:
        self._clock = clock
        self._limit = limit
        self._rows: dict[bytes, _Row] = {}
        """By the hash of the ticket, oldest first, so the time of a lookup says nothing about a ticket."""

    def issue(self, session: str | None = None) -> Ticket:
        """Make a ticket, good for the stream of `session` or, without one, of any session."""
        self._drop_expired()
        if len(self._rows) >= self._limit:
            del self._rows[next(iter(self._rows))]
        value = secrets.token_urlsafe(32)
        self._rows[_key(value)] = _Row(session, self._clock.monotonic() + LIFETIME_S)
        return Ticket(value, self._clock.now() + LIFETIME_S)

    def redeem(self, value: str, session: str) -> bool:
        """Spend a ticket; say whether it opens the stream of `session` (the id as the path has it)."""
        row = self._rows.pop(_key(value), None)
        if row is None or self._clock.monotonic() >= row.deadline:
            return False
        return row.session is None or row.session == session

    def __len__(self) -> int:
        return len(self._rows)

    def _drop_expired(self) -> None:
        now = self._clock.monotonic()
        # every ticket lives equally long, so the oldest ones expire first
        while self._rows and self._rows[oldest := next(iter(self._rows))].deadline <= now:
            del self._rows[oldest]


def _key(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()
