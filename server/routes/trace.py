"""What happened in a session, as a page to look at."""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agentcore.redaction import Redactor
from server.routes.context import hub_of
from server.routes.table import Endpoint

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


async def trace(request: Request) -> Response:
    hub = hub_of(request)
    session_id = await hub.resolve(request.path_params["id"])
    live = hub.find(session_id)
    redactor: Redactor = request.app.state.redactor
    found = await hub.app.trace(session_id, None if live is None else live.agent.log.size, redactor)
    return StreamingResponse(found.page(), 200, _HEADERS, "text/html")


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/sessions/{id}/trace",
        trace,
        "One page, self-contained: what happened, how long it took, what was sent to the model; secrets redacted.",
        {200: None},
        media_type="text/html",
        problems=("not_found", "ambiguous_prefix", "journal_damaged"),
    ),
)
