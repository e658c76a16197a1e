"""The event stream of one session: snapshot, replay, live, farewell.

A subscriber is a cursor into the bus. It takes everything between its cursor and the head and writes it as one
chunk; behind the ring it reads the durable events from the journal. No reader slows the agent or another reader.
"""

from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentcore.encoding import head_of
from agentcore.events import Gap, Lagging
from server import frames
from server.bodies import read_headers, read_query
from server.bus import Bus, Cursor, Evicted
from server.connection import HANG_UP
from server.hub import Hub
from server.live import LiveSession
from server.problems import Problem
from server.routes.context import hub_of, live_of
from server.routes.table import Endpoint
from server.schemas import EventsHeaders, EventsQuery

KEEPALIVE_S = 15.0  # the promise of the API
FAREWELL_S = 0.25
WRITE_SHARE_S = 0.0002  # a write takes some 35 µs: readers together then take under a fifth of the time
MAX_SHARE_S = 0.05  # what a person does not see
MIN_SLEEP_S = 0.001  # below, a timer costs more than it saves
HEADERS = {"Cache-Control": "no-cache, no-transform"}


class EventStream(EventSourceResponse):
    """Sends ready bytes; the hub's watchdog ends the connection of a reader that cannot keep up."""

    def __init__(self, reader: "Reader") -> None:
        super().__init__(reader.chunks(), headers=HEADERS, ping=0, sep="\n")
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cursor, bus = self._reader.cursor, self._reader.bus
        bus.cursors.add(cursor)
        try:
            with anyio.CancelScope() as connection:
                cursor.drop = connection.cancel
                await super().__call__(scope, receive, send)
        finally:
            bus.cursors.discard(cursor)
        if cursor.is_dropped:
            await _let_go(scope, send, frames.control(Lagging(behind=bus.head - cursor.seq)))


async def _let_go(scope: Scope, send: Send, lagging: bytes) -> None:
    """Say why and end in good order where the socket still takes it; else hang up: nobody waits for its buffer."""
    with anyio.move_on_after(FAREWELL_S) as patience:
        await send({"type": "http.response.body", "body": lagging, "more_body": False})
    if patience.cancelled_caught:
        hang_up = scope.get("extensions", {}).get(HANG_UP)
        if hang_up is not None:
            hang_up["now"]()
            await anyio.lowlevel.checkpoint()  # the server notices that the connection is gone


class Reader:
    """What one subscriber is sent."""

    def __init__(self, hub: Hub, live: LiveSession, after: int | None) -> None:
        self._hub = hub
        self._live = live
        self.bus: Bus = live.bus
        self._after = after
        self.cursor = Cursor(self.bus.head if after is None else after)
        self._wrote_at = 0.0

    async def chunks(self) -> AsyncIterator[bytes]:
        """The bytes of the stream, as much at once as there is."""
        cursor, bus = self.cursor, self.bus
        snapshot = frames.CONNECTED + frames.idless("snapshot", self._snapshot())
        if self._after is None:
            cursor.seq = bus.head  # new events only: those behind the snapshot
        elif cursor.seq > bus.head:
            snapshot += self._gap_ahead()
        yield snapshot
        async for chunk in self._replay_and_follow():
            self._wrote_at = cursor.writing_since = anyio.current_time()
            yield chunk
            cursor.writing_since = None
        if bus.farewell:
            yield bus.farewell

    async def _replay_and_follow(self) -> AsyncIterator[bytes]:
        cursor, bus = self.cursor, self.bus
        while True:
            try:
                chunk, cursor.seq = bus.take(cursor.seq)
            except Evicted:
                resumed_at = bus.oldest
                yield self._gap_evicted(resumed_at)
                async for chunk in self._from_journal(resumed_at):
                    yield chunk
                continue
            if chunk:
                yield chunk
            elif bus.is_closed:
                return
            elif not await self._wait():
                yield frames.KEEPALIVE

    async def _wait(self) -> bool:
        """Wait for the next event; False after KEEPALIVE_S without one.

        With many readers each one writes less often, and more at a time: all of them together take no more than a
        part of the server, so that none slows the agent.
        """
        with anyio.move_on_after(KEEPALIVE_S) as silence:
            await self.bus.wait_beyond(self.cursor.seq)
        share_s = min(MAX_SHARE_S, len(self.bus.cursors) * WRITE_SHARE_S)
        early_s = self._wrote_at + share_s - anyio.current_time()
        if early_s > MIN_SLEEP_S and not self.bus.is_closed:
            await anyio.sleep(early_s)
        return not silence.cancelled_caught

    async def _from_journal(self, before: int) -> AsyncIterator[bytes]:
        """Send the durable events between the cursor and number `before`, the next piece when the last is written.

        All of them were journaled before the ring let go of them. What it lets go of meanwhile is a gap of its own.
        """
        cursor, app = self.cursor, self._hub.app
        while lines := await app.lines_after(self._live.id, cursor.seq, before):
            numbered = [(*head, line) for line in lines if (head := head_of(line)) is not None]
            yield b"".join(frames.frame(seq, kind, line) for kind, seq, line in numbered)
            cursor.seq = numbered[-1][1]
        cursor.seq = before - 1  # what is left out are deltas

    def _snapshot(self) -> bytes:
        return self._live.snapshot().model_dump_json(exclude_none=True).encode()

    def _gap_evicted(self, resumed_at: int) -> bytes:
        gap = Gap(reason="evicted", after=self.cursor.seq, resumed_at=resumed_at, missing="deltas")
        return frames.GAP + frames.control(gap)

    def _gap_ahead(self) -> bytes:
        """The cursor is of another life: send every event that is still held."""
        gap = Gap(reason="ahead", after=self.cursor.seq, resumed_at=self.bus.oldest)
        self.cursor.seq = self.bus.oldest - 1
        return frames.GAP + frames.control(gap)


async def events(request: Request) -> Response:
    query, header = read_query(request, EventsQuery), read_headers(request, EventsHeaders)
    live = await live_of(request)
    if live.bus.is_closed:
        raise Problem("session_closed", "The session is closed. Load it again with POST /v1/sessions.")
    cursor = header.last_event_id if header.last_event_id is not None else query.after
    return EventStream(Reader(hub_of(request), live, None if cursor is None else int(cursor)))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/sessions/{id}/events",
        events,
        "The event stream: a snapshot, what came after `Last-Event-ID`, then what happens.",
        {200: None},
        query=EventsQuery,
        headers=EventsHeaders,
        problems=("not_found", "ambiguous_prefix", "session_closed"),
        stream=True,
        media_type="text/event-stream",
    ),
)
