"""A session as a file to keep, to send or to read."""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agentcore.redaction import Redactor
from server.bodies import read_query
from server.routes.context import hub_of
from server.routes.table import Endpoint
from server.schemas import ExportQuery

_FILES = {
    "jsonl": ("jsonl", "application/x-ndjson"),
    "json": ("json", "application/json"),
    "markdown": ("md", "text/markdown"),
}
"""Ending of the file's name, and media type, by format."""


async def export(request: Request) -> Response:
    """As a download, also of a session that is not loaded; of one with a run, what is there so far. Keys that look
    like such, and this server's own, are replaced by `[redacted]`."""
    query, hub = read_query(request, ExportQuery), hub_of(request)
    session_id = await hub.resolve(request.path_params["id"])
    live = hub.find(session_id)
    size = None if live is None else live.agent.log.size
    redactor: Redactor = request.app.state.redactor
    pieces = await hub.app.export(session_id, size, query.format, redactor)
    ending, media_type = _FILES[query.format]
    headers = {
        "Content-Disposition": f'attachment; filename="agentcore-{session_id}.{ending}"',
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(pieces, 200, headers, media_type)


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/sessions/{id}/export",
        export,
        "The session as a file, secrets redacted: its events, its messages, or a transcript in Markdown.",
        {200: None},
        query=ExportQuery,
        media_type="*/*",
        problems=("not_found", "ambiguous_prefix", "journal_damaged"),
    ),
)
