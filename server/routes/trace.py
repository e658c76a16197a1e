"""What happened in a session, as a page to look at."""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agentcore.redaction import Redactor
from server.bodies import read_query
from server.routes.context import hub_of
from server.routes.table import Endpoint
from server.schemas import TraceQuery

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}


async def trace(request: Request) -> Response:
    query, hub = read_query(request, TraceQuery), hub_of(request)
    session_id = await hub.resolve(request.path_params["id"])
    live = hub.find(session_id)
    redactor: Redactor = request.app.state.redactor
    found = await hub.app.trace(session_id, None if live is None else live.agent.log.size, redactor)
    if query.format == "jsonl":
        return StreamingResponse(found.sent(), 200, _HEADERS, "application/x-ndjson")
    return StreamingResponse(found.page(), 200, _HEADERS, "text/html")


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/sessions/{id}/trace",
        trace,
        "What happened, how long it took and what was sent to the model, as one self-contained page; or the requests to"
        " the model alone, as they were sent (404 where they were not kept). Secrets are redacted.",
        {200: None},
        query=TraceQuery,
        media_type="*/*",
        problems=("not_found", "ambiguous_prefix", "journal_damaged"),
    ),
)
