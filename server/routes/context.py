"""What the handlers share: the hub behind the request, and how values become answers."""

from typing import TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from server.hub import Hub
from server.live import LiveSession

M = TypeVar("M", bound=BaseModel)


def hub_of(request: Request) -> Hub:
    hub: Hub = request.app.state.hub
    return hub


async def live_of(request: Request) -> LiveSession:
    """The loaded session that the path names. Raises: Problem `not_found`."""
    return await hub_of(request).get(request.path_params["id"])


def respond(value: BaseModel, status: int = 200) -> Response:
    """A value as JSON; absent fields are left out."""
    content = value.model_dump_json(exclude_none=True, by_alias=True).encode()
    return Response(content, status, media_type="application/json")


def no_content() -> Response:
    return Response(status_code=204)
