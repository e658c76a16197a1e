"""Making room in a session's context because somebody asks."""

from starlette.requests import Request
from starlette.responses import Response

from agentcore.errors import AgentError
from server.answers import CompactAnswer
from server.bodies import read_body
from server.problems import Problem
from server.routes.context import hub_of, live_of, respond
from server.routes.table import Endpoint
from server.schemas import Empty


async def compact(request: Request) -> Response:
    """Answer when the summary stands in the place of the conversation, durably."""
    await read_body(request, Empty)
    live = await live_of(request)
    hub_of(request).refuse_draining()
    outcome = await live.compact().wait()
    if outcome is None:
        raise Problem("draining", "The server stops. The conversation is as it was.")
    if isinstance(outcome, AgentError):
        raise outcome
    await live.agent.log.sync()
    return respond(CompactAnswer(summary=outcome))


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/sessions/{id}/compact",
        compact,
        "Let a summary take the place of the conversation; the history stays readable.",
        {200: CompactAnswer},
        body=Empty,
        problems=(
            "not_found",
            "ambiguous_prefix",
            "session_busy",
            "session_closed",
            "draining",
            "unprocessable",
            "provider",
            "storage_unavailable",
        ),
    ),
)
