"""The event streams, of one session and over many: who may read what, and the HTTP around it."""

import anyio
import anyio.lowlevel
from sse_starlette.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agentcore.events import Lagging
from server import frames
from server.bodies import read_headers, read_query
from server.connection import HANG_UP
from server.many import ManyReader
from server.problems import Problem
from server.reader import Reader, SessionReader
from server.routes.context import hub_of, live_of
from server.routes.table import Endpoint
from server.schemas import AllEventsHeaders, AllEventsQuery, EventsHeaders, EventsQuery
from server.view import view_of

FAREWELL_S = 0.25
HEADERS = {"Cache-Control": "no-cache, no-transform"}


class EventStream(EventSourceResponse):
    """Sends ready bytes; the hub's watchdog ends the connection of a reader that cannot keep up."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader.chunks(), headers=HEADERS, ping=0, sep="\n")
        self._reader = reader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = self._reader.writer
        try:
            with anyio.CancelScope() as connection:
                writer.drop = connection.cancel
                await super().__call__(scope, receive, send)
        finally:
            self._reader.leave()
        if writer.dropped_at is not None:
            await _let_go(scope, send, frames.control(Lagging(behind=writer.dropped_at)))


async def _let_go(scope: Scope, send: Send, lagging: bytes) -> None:
    """Say why and end in good order where the socket still takes it; else hang up: nobody waits for its buffer."""
    with anyio.move_on_after(FAREWELL_S) as patience:
        await send({"type": "http.response.body", "body": lagging, "more_body": False})
    if patience.cancelled_caught:
        hang_up = scope.get("extensions", {}).get(HANG_UP)
        if hang_up is not None:
            hang_up["now"]()
            await anyio.lowlevel.checkpoint()  # the server notices that the connection is gone


async def events(request: Request) -> Response:
    """Behind the snapshot comes every event after the cursor, then what happens: without a hole, or with a `gap` that
    says what is missing.

    `kinds` and `detail` choose what is shown, of what is replayed as well; the numbers stay as they are. Where they
    leave something out, a block with nothing but an `id` says now and then how far the stream has come. `snapshot`,
    `session_closed` and the control events come whatever was chosen."""
    query, header = read_query(request, EventsQuery), read_headers(request, EventsHeaders)
    live = await live_of(request)
    if live.bus.is_closed:
        raise Problem("session_closed", "The session is closed. Load it again with POST /v1/sessions.")
    cursor = header.last_event_id if header.last_event_id is not None else query.after
    view = view_of(query.kinds, query.detail)
    return EventStream(SessionReader(hub_of(request), live, None if cursor is None else int(cursor), view))


async def all_events(request: Request) -> Response:
    """The streams of many sessions on one connection: the same events with the same data, each session behind its own
    `snapshot`. With `sessions`, those alone, which have to be loaded; else all that are loaded, and those that come.

    Events have no `id` here. A block that is nothing but one says the cursor, the last number of each session
    (`a:12,b:90`): behind a chunk, while chunks follow fast at most four times a second, and in any case before the
    stream is silent. So a connection that is cut brings some events again: drop what is not above the last `seq` of its
    `session`. A loaded session that the cursor does not name is new: it comes from the beginning of its load.

    A cursor names at most 1000 sessions (some 30 KB), so that it fits into the head of a request. It leaves out those
    that have come least far since they were loaded: these, too, come from the beginning of their load, and what you
    have is dropped by its number. It then begins with a time (`@:1760000000000000`, in microseconds): sessions that it
    does not name and that were loaded after that come from their very beginning. Send it back as it is.

    `gap` names its session. `kinds` and `detail` as for one session."""
    query, header = read_query(request, AllEventsQuery), read_headers(request, AllEventsHeaders)
    hub = hub_of(request)
    if hub.farewell:
        hub.refuse_draining()
    names = None if query.sessions is None else [(await hub.get(name)).id for name in query.sessions]
    cursor = header.last_event_id if header.last_event_id is not None else query.after
    return EventStream(ManyReader(hub, names, cursor, view_of(query.kinds, query.detail, is_of_many=True)))


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
    Endpoint(
        "GET",
        "/v1/events",
        all_events,
        "One event stream over many sessions, with one cursor for all of them.",
        {200: None},
        query=AllEventsQuery,
        headers=AllEventsHeaders,
        problems=("not_found", "ambiguous_prefix", "draining"),
        stream=True,
        media_type="text/event-stream",
    ),
)
