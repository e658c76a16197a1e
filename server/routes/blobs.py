"""The bytes of a session's images and documents: uploaded before a prompt names them, and fetched again."""

from starlette.requests import Request
from starlette.responses import Response

from agentcore.attachments import StoredBlob
from agentcore.media import kind_of
from server.problems import Problem
from server.routes.context import hub_of, live_of, respond
from server.routes.table import Endpoint


async def upload_blob(request: Request) -> Response:
    """A picture is made to fit every model first, so what is stored may be other bytes of another media type. The
    same bytes always get the same name."""
    data = await request.body()
    live = await live_of(request)
    hub_of(request).refuse_draining()
    live.refuse_closed()
    if not data:
        raise Problem("bad_request", "The body is empty: send the bytes of the file.")
    return respond(await live.agent.attachments.store(data, request.headers["content-type"]), 201)


async def get_blob(request: Request) -> Response:
    """The bytes, also of a session that is not loaded. Pictures may be shown in place; all else is a download."""
    hub, blob = hub_of(request), request.path_params["blob"]
    session_id = await hub.app.resolve(request.path_params["id"])
    try:
        data = await hub.app.blob(session_id, blob)
    except KeyError:
        raise Problem("not_found", "This session has no such blob.") from None
    media_type = kind_of(data) or "application/octet-stream"
    headers = {"X-Content-Type-Options": "nosniff"}
    if not media_type.startswith("image/"):
        headers["Content-Disposition"] = "attachment"
    return Response(data, 200, headers, media_type)


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/sessions/{id}/blobs",
        upload_blob,
        "Upload a picture, a PDF or a text file of up to 20 MiB, for the attachments of a prompt.",
        {201: StoredBlob},
        raw_body=(
            "image/png",
            "image/jpeg",
            "image/gif",
            "image/webp",
            "application/pdf",
            "application/json",
            "text/*",
        ),
        problems=(
            "not_found",
            "ambiguous_prefix",
            "session_closed",
            "unprocessable",
            "draining",
            "storage_unavailable",
        ),
    ),
    Endpoint(
        "GET",
        "/v1/sessions/{id}/blobs/{blob}",
        get_blob,
        "The bytes of an image or document, also of a session that is not loaded.",
        {200: None},
        media_type="*/*",
        problems=("not_found", "ambiguous_prefix"),
    ),
)
