"""What waits for somebody outside: permission requests and deferred calls, and their answers."""

import logging

from starlette.requests import Request
from starlette.responses import Response

from agentcore.errors import AgentError
from server.answers import PermissionGranted, PermissionList
from server.bodies import read_body
from server.hub import Hub
from server.live import LiveSession
from server.routes.context import hub_of, live_of, no_content, respond
from server.routes.table import Endpoint
from server.schemas import AnswerBody, DeferredBody

logger = logging.getLogger(__name__)


async def list_permissions(request: Request) -> Response:
    return respond(PermissionList(permissions=(await live_of(request)).requests.open))


async def answer_permission(request: Request) -> Response:
    """The first answer wins; it is durable before this answers."""
    body = await read_body(request, AnswerBody)
    live = await live_of(request)
    granted = live.answer(request.path_params["request_id"], body)
    await live.agent.log.sync()
    if granted is None:
        return no_content()
    told = PermissionGranted(allowed=True, persisted=False, rule=granted.rule, expires_at=granted.expires_at)
    if body.scope == "session":
        return respond(told)
    told = await _persist(hub_of(request), live, told, for_user=body.scope == "user")
    live.agent.note_written(request.path_params["request_id"])
    return respond(told)


async def answer_deferred(request: Request) -> Response:
    """The result of a deferred call; it is durable before this answers."""
    body, live = await read_body(request, DeferredBody), await live_of(request)
    output = await live.agent.check_output(body.output)  # first: what follows is one step
    live.answer_deferred(request.path_params["token"], output, is_error=body.is_error)
    await live.agent.log.sync()
    return no_content()


async def _persist(hub: Hub, live: LiveSession, told: PermissionGranted, *, for_user: bool) -> PermissionGranted:
    """Write the rule down; when that fails the call stays allowed and the rule lives for the session."""
    try:
        origin = await hub.app.persist(live.agent, told.rule, for_user=for_user, expires_at=told.expires_at)
    except (OSError, AgentError) as error:
        logger.warning("session %s: a rule could not be written: %s", live.id, error)
        text = "The rule could not be written to the settings; it holds for this session only."
        live.agent.notice("warning", "rule_not_persisted", text)
        return told.model_copy(update={"error": text})
    for other in hub:
        if for_user or other.agent.cwd == live.agent.cwd:
            other.agent.adopt(told.rule, origin, told.expires_at)
    return told.model_copy(update={"persisted": True})


_FIND_PROBLEMS = ("not_found", "ambiguous_prefix")

ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/sessions/{id}/permissions",
        list_permissions,
        "The requests that wait for a person, oldest first.",
        {200: PermissionList},
        problems=_FIND_PROBLEMS,
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{id}/permissions/{request_id}",
        answer_permission,
        "Answer a request; the first answer wins. With `always` or a scope wider than once: 200 and what was kept.",
        {200: PermissionGranted, 204: None},
        body=AnswerBody,
        problems=(
            *_FIND_PROBLEMS,
            "already_resolved",
            "stale_request",
            "permission_expired",
            "unprocessable",
            "session_closed",
            "storage_unavailable",
        ),
    ),
    Endpoint(
        "POST",
        "/v1/sessions/{id}/deferred/{token}",
        answer_deferred,
        "Give a deferred call its result; with the last one its run goes on.",
        {204: None},
        body=DeferredBody,
        problems=(*_FIND_PROBLEMS, "already_resolved", "session_closed", "storage_unavailable"),
    ),
)
