"""The event log of one session: numbers an event, encodes it once, journals it, hands the bytes on.

The same bytes are the journal line and the `data:` of the SSE frame. Everything is synchronous but `sync`; in the
journal comes first, then the listeners. Promise: numbers never repeat in a session's whole life.
"""

import logging
from collections.abc import Callable
from typing import TypeAlias

import anyio.to_thread

from agentcore.encoding import encode, type_of
from agentcore.errors import StorageUnavailable
from agentcore.events import Event
from agentcore.ports.clock import Clock
from agentcore.sessions.journal import Journal
from agentcore.sessions.records import Record, Reserve, encode_record

logger = logging.getLogger(__name__)

STRIDE = 1_000_000  # the contract's step: a load begins at the next multiple above every number reserved

Listener: TypeAlias = Callable[[int, str, bytes], None]
"""Is told number, type and encoded line of each event; must not block."""


class JournalLog:
    """Satisfies the EventLog port over a journal file."""

    def __init__(self, session: str, journal: Journal, base: int, clock: Clock) -> None:
        """`base` is a multiple of STRIDE whose numbers are reserved already; the first event gets `base + 1`."""
        self.session = session
        self._journal = journal
        self._clock = clock
        self._last = base
        self._reserved = base + STRIDE - 1
        self.last_ts = clock.now()
        """Unix time of the last event."""
        self._listeners: list[Listener] = []
        self._is_closed = False

    @property
    def last_seq(self) -> int:
        return self._last

    @property
    def is_broken(self) -> bool:
        """An earlier write or sync failed; only loading the session again helps."""
        return self._journal.is_broken

    @property
    def is_taken_over(self) -> bool:
        """Another process owns the session now; asked often, so it costs one read (1.5 µs)."""
        return self._journal.lease.is_lost

    @property
    def size(self) -> int:
        """Bytes of the journal: how far a reader may read."""
        return self._journal.size

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` every event from now on; call the result to leave, also while being told."""
        self._listeners.append(listener)

        def leave() -> None:
            if listener in self._listeners:
                self._listeners = [other for other in self._listeners if other is not listener]

        return leave

    def emit(self, event: Event) -> int:
        if not event.durable and not self._is_closed:
            self._journal.check_owner()
        return self._publish(event, journaled=event.durable)

    def say_last(self, event: Event) -> int:
        try:
            return self.emit(event)
        except StorageUnavailable:
            if self._last == self._reserved:
                return self._last  # any further number would be given out again after the next load
            return self._publish(event, journaled=False)

    def trust_page_cache(self) -> None:
        """From here on wait for no disk: what is written survives this process, and not a power failure."""
        self._journal.waits_for_disk = False

    def check_writable(self) -> None:
        """Ask before what is only worth doing where it can be journaled. Raises: StorageUnavailable, TakenOver."""
        self._journal.check_writable()

    def record(self, record: Record) -> None:
        """Journal a side fact. Raises: StorageUnavailable."""
        if not self._is_closed:
            self._journal.append(encode_record(record))

    async def sync(self) -> None:
        self._journal.check_owner()
        if self._journal.needs_sync and not self._is_closed:
            with self._journal.descriptor() as file:
                await anyio.to_thread.run_sync(self._journal.sync, file)
            self._journal.check_owner()  # last: what the caller does next may be an effect

    def close(self) -> None:
        """Take nothing more: what happens after this leaves no trace, as if the process had been killed here."""
        if not self._is_closed:
            self._is_closed = True
            self._journal.close()

    def _publish(self, event: Event, *, journaled: bool) -> int:
        if self._is_closed:
            return self._last
        seq = self._last + 1
        if seq > self._reserved:
            self._reserve()
        now = self._clock.now()
        line = encode(event, seq, self.session, now)
        if journaled:
            self._journal.append(line)
        self._last, self.last_ts = seq, now
        kind = type_of(event)
        for listener in self._listeners:
            try:
                listener(seq, kind, line)
            except Exception:
                logger.exception("a listener of session %s failed at event %d and is left out", self.session, seq)
                self._listeners = [other for other in self._listeners if other is not listener]
        return seq

    def _reserve(self) -> None:
        """Reserve the next million before its first number is given out; once in a million, so it may block."""
        until = self._reserved + STRIDE
        self._journal.append(encode_record(Reserve(until=until)))
        self._journal.sync()
        self._reserved = until
