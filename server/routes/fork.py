"""A new session with the history of another, up to a place between two runs."""

import base64

from starlette.requests import Request
from starlette.responses import Response

from agentcore.attachments import ATTACHED
from agentcore.events import UserMessage
from agentcore.messages import Document, Image, Text
from agentcore.session import Settings
from server.answers import ForkAnswer
from server.bodies import read_body
from server.routes.context import hub_of, respond
from server.routes.sessions import given_settings
from server.routes.table import Endpoint
from server.schemas import AttachedBlob, AttachedData, ForkBody


async def fork(request: Request) -> Response:
    """Both sessions go their own ways from here. To rewind is to fork just before a prompt, whose text comes back."""
    body, hub = await read_body(request, ForkBody), hub_of(request)
    given = given_settings(body, hub.app)
    hub.app.validate(Settings(**given))
    live, message = await hub.fork(request.path_params["id"], body.at, given)
    state = dict(live.state())
    if message is None:
        return respond(ForkAnswer(**state), 201)
    return respond(ForkAnswer(**state, prompt=message.typed_text, attachments=_attached(message)), 201)


def _attached(message: UserMessage) -> tuple[AttachedBlob | AttachedData, ...]:
    """What went with a prompt, to be attached again; its own text comes last and is none of it."""
    attached: list[AttachedBlob | AttachedData] = []
    if message.display_text is None:
        return ()
    for block in message.content[: -1 if message.typed_text else None]:
        match block:
            case Image(blob=blob) | Document(blob=blob):
                attached.append(AttachedBlob(blob=blob))
            case Text(text=text) if text.startswith(ATTACHED):
                attached.append(AttachedData(media_type="text/plain", data=base64.b64encode(text.encode()).decode()))
            case _:
                pass
    return tuple(attached)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/sessions/{id}/fork",
        fork,
        "Begin a session with a copy of this one's history, up to a message; also of one that is not loaded.",
        {201: ForkAnswer},
        body=ForkBody,
        problems=(
            "not_found",
            "ambiguous_prefix",
            "session_busy",
            "session_closed",
            "mode_not_allowed",
            "unprocessable",
            "journal_damaged",
            "storage_unavailable",
            "draining",
        ),
    ),
)
