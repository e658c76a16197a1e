"""What repositories want to run, and a person's word on it: hooks and MCP servers, pinned to their content."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from server.answers import ApprovalInfo, ApprovalList
from server.bodies import read_body
from server.hub import Hub
from server.problems import Problem
from server.routes.context import hub_of, no_content, respond
from server.routes.table import Endpoint
from server.schemas import ApprovalBody


async def list_approvals(request: Request) -> Response:
    hub = hub_of(request)
    found = await hub.app.find_approvals(_folders(hub))
    return respond(ApprovalList(approvals=tuple(ApprovalInfo(**_told(asdict(one))) for one in found)))


async def decide_approval(request: Request) -> Response:
    """In force at once, for loaded sessions too; durable before this answers."""
    body, hub = await read_body(request, ApprovalBody), hub_of(request)
    approval_id = request.path_params["approval_id"]
    try:
        await hub.app.decide_approval(_folders(hub), approval_id, allow=body.allow)
    except OSError:
        raise Problem("storage_unavailable", "The decision could not be written, so nothing has changed.") from None
    return no_content()


def _told(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in ApprovalInfo.model_fields}


def _folders(hub: Hub) -> list[Path]:
    """Where sessions work now, and where they begin."""
    return [*hub.app.config.roots, *(live.agent.cwd for live in hub)]


ENDPOINTS = (
    Endpoint(
        "GET",
        "/v1/approvals",
        list_approvals,
        "Hooks and MCP servers of the repositories around the roots and the loaded sessions, decided about or not.",
        {200: ApprovalList},
    ),
    Endpoint(
        "POST",
        "/v1/approvals/{approval_id}",
        decide_approval,
        "Let one of them run, or not, until its content changes; a later word takes the place of an earlier one.",
        {204: None},
        body=ApprovalBody,
        problems=("not_found", "unprocessable", "storage_unavailable"),
    ),
)
