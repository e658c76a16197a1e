"""Taking back what the last run did to files."""

from starlette.requests import Request
from starlette.responses import Response

from agentcore.errors import AgentError
from agentcore.events import Undone
from server.answers import UndoAnswer
from server.bodies import read_body
from server.problems import Problem
from server.routes.context import hub_of, live_of, respond
from server.routes.table import Endpoint
from server.schemas import UndoBody


async def undo(request: Request) -> Response:
    """Answer when every file was restored or skipped, durably; with `dry_run` nothing is touched."""
    body = await read_body(request, UndoBody)
    live = await live_of(request)
    if body.dry_run:
        return respond(_told(await live.preview_undo()))
    hub_of(request).refuse_draining()
    outcome = await live.undo().wait()
    if outcome is None:
        raise Problem("draining", "The server stops. Look at the events of the session for what was undone.")
    if isinstance(outcome, AgentError):
        raise outcome
    return respond(_told(outcome))


def _told(undone: Undone) -> UndoAnswer:
    return UndoAnswer(restored=undone.restored, deleted=undone.deleted, skipped=undone.skipped)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/sessions/{id}/undo",
        undo,
        "Take back the file changes of the last run that made some; again for the run before. `dry_run` only lists.",
        {200: UndoAnswer},
        body=UndoBody,
        problems=(
            "not_found",
            "ambiguous_prefix",
            "nothing_to_undo",
            "unprocessable",
            "session_busy",
            "session_closed",
            "session_locked",
            "draining",
            "storage_unavailable",
        ),
    ),
)
