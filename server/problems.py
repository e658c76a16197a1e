"""What a request is told when it fails: one table from codes to HTTP statuses, one shape for every answer.

The border between typed errors and HTTP: `agentcore` knows codes, only this file knows statuses. Every route goes
through `edge`; what the router itself refuses (404, 405) goes through `HANDLERS`. Promise: the client gets
`{"error", "code", "details"?}` with a sentence it can act on, and never a stack trace; the stack is in the log.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agentcore.errors import AgentError, AmbiguousPrefix, ProviderError

log = logging.getLogger(__name__)

STATUS: Mapping[str, int] = {
    "bad_request": 400,
    "nothing_to_undo": 400,
    "unauthorized": 401,
    "forbidden_host": 403,
    "forbidden_origin": 403,
    "mode_not_allowed": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "already_resolved": 409,
    "ambiguous_prefix": 409,
    "nothing_to_resume": 409,
    "session_busy": 409,
    "session_opening": 409,
    "session_suspended": 409,
    "stale_request": 409,
    "permission_expired": 410,
    "session_closed": 410,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "unprocessable": 422,
    "session_locked": 423,
    "internal": 500,
    "journal_damaged": 500,
    "provider": 502,
    "draining": 503,
    "storage_unavailable": 507,
}
"""Every code that an answer can carry. A code that is not here is answered as `internal`."""

SAME_AS: Mapping[str, str] = {"taken_over": "session_locked"}
"""Codes of the core which are, seen from a client, another one."""

HEADERS: Mapping[str, Mapping[str, str]] = {
    "unauthorized": {"WWW-Authenticate": "Bearer"},
    "draining": {"Retry-After": "5"},
}
"""Headers that belong to a code, whoever raises it."""

INTERNAL = "Something failed inside the server; its log says what."
UNKNOWN_PATH = "There is nothing at this path; GET /openapi.yaml lists what there is."
UNKNOWN_METHOD = "This path does not take that method; the Allow header names those it takes."


class Problem(Exception):
    """A refusal with its code. `str(problem)` is the sentence for a person, `details` are for programs."""

    def __init__(
        self,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details
        self.headers = {**HEADERS.get(code, {}), **(headers or {})}

    @property
    def status(self) -> int:
        return STATUS.get(self.code, 500)


def problem_of(error: Exception) -> Problem:
    """Translate what a route raised. Unexpected errors are logged with their stack and say nothing to the client."""
    if isinstance(error, Problem) and error.code in STATUS:
        return error
    if isinstance(error, HTTPException):
        return _of_router(error)
    if isinstance(error, ClientDisconnect):
        return Problem("bad_request", "The request ended before its body did.")
    if isinstance(error, AgentError) and (code := SAME_AS.get(error.code, error.code)) in STATUS and code != "internal":
        return Problem(code, str(error), _details(error))
    log.error("a request failed unexpectedly", exc_info=error)
    return Problem("internal", INTERNAL)


def answer(problem: Problem) -> Response:
    """Make the response of a problem."""
    body: dict[str, Any] = {"error": problem.message, "code": problem.code}
    if problem.details:
        body["details"] = dict(problem.details)
    # `replace`: a sentence may quote what the client sent, and half a surrogate pair cannot be encoded
    content = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return Response(content, problem.status, dict(problem.headers), "application/json")


def edge(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Wrap a route's handler: whatever it raises becomes an answer."""

    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - the edge of the routes: a barrier
            return answer(problem_of(error))

    return guarded


async def handle(_request: Request, error: Exception) -> Response:
    """Answer what was raised outside of a route; has the signature of a Starlette exception handler."""
    return answer(problem_of(error))


HANDLERS: Mapping[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    HTTPException: handle,
    Problem: handle,
    AgentError: handle,
    Exception: handle,
}
"""For `Starlette(exception_handlers=…)`: unknown paths, wrong methods, and whatever no `edge` caught."""


def _of_router(error: HTTPException) -> Problem:
    if error.status_code == 404:
        return Problem("not_found", UNKNOWN_PATH)
    if error.status_code == 405:
        return Problem("method_not_allowed", UNKNOWN_METHOD, headers=error.headers)
    if error.status_code == 400:
        return Problem("bad_request", error.detail)
    log.error("the router raised a status that the table does not know: %d", error.status_code)
    return Problem("internal", INTERNAL)


def _details(error: AgentError) -> Mapping[str, Any] | None:
    match error:
        case AmbiguousPrefix():
            return {"candidates": error.candidates}
        case ProviderError(retry_after_s=None):
            return {"kind": error.kind}
        case ProviderError():
            return {"kind": error.kind, "retry_after_s": error.retry_after_s}
        case _:
            return None
