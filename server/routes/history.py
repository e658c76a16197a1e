"""The messages of a session, loaded or not."""

from starlette.requests import Request
from starlette.responses import Response

from server.answers import Messages
from server.bodies import read_query
from server.routes.context import hub_of, respond
from server.routes.table import Endpoint
from server.schemas import MessagesQuery


async def messages(request: Request) -> Response:
    """The whole history; of a loaded session the marks are taken in one step, and the file is read up to them."""
    query, hub = read_query(request, MessagesQuery), hub_of(request)
    session_id = await hub.app.resolve(request.path_params["id"])
    live = hub.find(session_id)
    if live is None:
        shown, last_seq = await hub.app.display(session_id, None, query.after_seq, query.limit)
        return respond(Messages(messages=tuple(shown), last_seq=last_seq))
    size, last_seq, partial = live.agent.log.size, live.bus.head, live.partial()
    shown, _ = await hub.app.display(session_id, size, query.after_seq, query.limit)
    return respond(Messages(messages=tuple(shown), last_seq=last_seq, partial=partial))


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/sessions/{id}/messages",
        messages,
        "The history for display, also of a session that is not loaded.",
        {200: Messages},
        query=MessagesQuery,
        problems=("not_found", "ambiguous_prefix", "journal_damaged"),
    ),
)
