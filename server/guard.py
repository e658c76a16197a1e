"""The door: Host, then Origin, then the token, then media type, then size. Nothing behind it sees a refused request.

Pure ASGI around the whole application (a wrapper per request object would cost every SSE chunk). The order is part
of the contract: a foreign web page learns nothing about tokens, and no byte of a body is read before the token is
right. What a body means is `bodies`' matter. Promise: a refusal has the shape of every other problem, and the
connection is usable or closed afterwards.
"""

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from server import origins
from server.origins import Host, values_of
from server.problems import Problem, answer

MAX_BODY_BYTES = 4 * 1024 * 1024  # the promise of the API
DRAINED_BYTES = 64 * 1024 * 1024  # a refused body up to this size is thrown away as it comes; beyond, we hang up
PREFLIGHT_SECONDS = 600

CORS_METHODS = "GET, POST, PATCH, DELETE"
CORS_HEADERS = "Authorization, Content-Type, Last-Event-ID, Idempotency-Key"
CORS_EXPOSED = "Retry-After"

MAX_BLOB_BYTES = 20 * 1024 * 1024  # the promise of the API

_UTF_8 = rb'(\s*;\s*charset=("utf-8"|utf-8))?'
_JSON = re.compile(rb"application/json" + _UTF_8, re.IGNORECASE)
_FILE = re.compile(rb"image/(png|jpeg|gif|webp)|(application/(pdf|json)|text/[\w.+-]+)" + _UTF_8, re.IGNORECASE)
_STREAM = re.compile(r"/v1/sessions/([^/]+)/events")

Redeem = Callable[[str, str], bool]
"""Spend a ticket for the stream of a session; see `tickets.Tickets.redeem`."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Who is let in."""

    token: str = field(repr=False)
    allowed_hosts: frozenset[str] = frozenset()
    """Names besides the loopback ones: `host` or `host:port`, lower case."""
    allow_origins: frozenset[str] = frozenset()
    """Origins besides our own: `https://host[:port]`, lower case."""
    public: frozenset[tuple[str, str]] = frozenset({("GET", "/v1/health")})
    """Method and path of what is answered without a token."""


@dataclass(frozen=True, slots=True)
class Intake:
    """What a path takes as a body."""

    media_types: re.Pattern[bytes]
    limit_bytes: int
    sentence: str
    """What to send instead of another media type."""


JSON_INTAKE = Intake(_JSON, MAX_BODY_BYTES, "Send the body as JSON with 'Content-Type: application/json'.")
BLOB_INTAKE = Intake(
    _FILE,
    MAX_BLOB_BYTES,
    "Send the bytes with their own 'Content-Type': image/png, image/jpeg, image/gif, image/webp, application/pdf, "
    "application/json or text/… in UTF-8.",
)
# `text/plain` alone would let a foreign page post here without a preflight; but the token is a header that no page
# can send without one, and it is asked for first.
INTAKES: tuple[tuple[str, re.Pattern[str], Intake], ...] = (
    ("POST", re.compile(r"/v1/sessions/[^/]+/blobs"), BLOB_INTAKE),
)
"""Method and path of what takes something else than JSON of MAX_BODY_BYTES."""


class Guard:
    """ASGI middleware; refuses or passes on."""

    def __init__(self, app: ASGIApp, admission: Admission, redeem: Redeem) -> None:
        self._app = app
        self._admission = admission
        self._redeem = redeem
        self._token = admission.token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await _refuse_websocket(receive, send)
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: origins.Headers = scope["headers"]
        origin = origins.origin_of(headers)
        intake = _intake_of(scope)
        body = _Body(receive, headers, intake.limit_bytes)
        reply = _Reply(send, body)
        try:
            host = self._check_host(scope)
            is_foreign = self._check_origin(scope, host, origin)
            if origin is not None and is_foreign:
                reply.share_with(origin)
            if origin is not None and _is_preflight(scope):
                await _preflight(headers)(scope, receive, reply)
                return
            self._check_token(scope)
            _check_media_type(headers, intake)
            _check_size(headers, intake)
            await self._app(scope, body, reply)
        except Problem as problem:
            if reply.started:
                return  # the application has already answered it, or is beyond answering
            await answer(problem)(scope, receive, reply)

    def _check_host(self, scope: Scope) -> Host:
        server = scope.get("server")
        host = origins.admitted_host(scope["headers"], server[1] if server else None, self._admission.allowed_hosts)
        if host is None:
            raise Problem(
                "forbidden_host",
                "The Host header must name this server, once, as localhost, 127.0.0.1 or [::1] with its port; "
                "other names are admitted by starting it with --allowed-host.",
            )
        return host

    def _check_origin(self, scope: Scope, host: Host, origin: str | None) -> bool:
        """Refuse requests of foreign pages; say whether the page is one that the operator allowed."""
        own = origins.own_origins(scope["scheme"], host, scope.get("server"))
        if not origins.is_admitted_page(scope["headers"], origin, own | self._admission.allow_origins):
            raise Problem(
                "forbidden_origin",
                "Web pages of other origins may not use this server; one is admitted by starting it "
                "with --allow-origin.",
            )
        return origin not in own

    def _check_token(self, scope: Scope) -> None:
        if self._is_public(scope) or self._is_bearer(scope) or self._is_ticketed(scope):
            return
        raise Problem("unauthorized", "Send the token of the server's start line as 'Authorization: Bearer <token>'.")

    def _is_public(self, scope: Scope) -> bool:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        return (method, scope["path"]) in self._admission.public

    def _is_bearer(self, scope: Scope) -> bool:
        given = values_of(scope["headers"], b"authorization")
        scheme, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)

    def _is_ticketed(self, scope: Scope) -> bool:
        stream = _STREAM.fullmatch(scope["path"])
        # a request with a wrong token does not fall back to its ticket, and spends none
        if stream is None or scope["method"] != "GET" or values_of(scope["headers"], b"authorization"):
            return False
        tickets = [value for name, value in parse_qsl(scope["query_string"].decode("latin-1")) if name == "ticket"]
        return len(tickets) == 1 and self._redeem(tickets[0], stream[1])


def _intake_of(scope: Scope) -> Intake:
    for method, path, intake in INTAKES:
        if scope["method"] == method and path.fullmatch(scope["path"]):
            return intake
    return JSON_INTAKE


def _check_media_type(headers: origins.Headers, intake: Intake) -> None:
    if not _has_body(headers):
        return
    given = values_of(headers, b"content-type")
    if len(given) != 1 or intake.media_types.fullmatch(given[0].strip()) is None:
        raise Problem("unsupported_media_type", intake.sentence)


def _check_size(headers: origins.Headers, intake: Intake) -> None:
    if _declared_bytes(headers) > intake.limit_bytes:
        raise _too_large(intake.limit_bytes)


def _has_body(headers: origins.Headers) -> bool:
    return bool(values_of(headers, b"transfer-encoding")) or _declared_bytes(headers) > 0


def _declared_bytes(headers: origins.Headers) -> int:
    """What `Content-Length` says, 0 without one. The HTTP parser has refused contradicting ones."""
    given = values_of(headers, b"content-length")
    if not given:
        return 0
    if not (given[0].isdigit() and len(given[0]) < 20):
        raise Problem("bad_request", "The Content-Length is not a number of bytes.")
    return int(given[0])


def _too_large(limit_bytes: int) -> Problem:
    return Problem("body_too_large", f"The body is larger than {limit_bytes // 1024 // 1024} MiB.")


def _is_preflight(scope: Scope) -> bool:
    return scope["method"] == "OPTIONS" and bool(values_of(scope["headers"], b"access-control-request-method"))


def _preflight(headers: origins.Headers) -> Response:
    allowed = {
        "Access-Control-Allow-Methods": CORS_METHODS,
        "Access-Control-Allow-Headers": CORS_HEADERS,
        "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
    }
    if values_of(headers, b"access-control-request-private-network"):
        allowed["Access-Control-Allow-Private-Network"] = "true"
    return Response(status_code=204, headers=allowed)


async def _refuse_websocket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})


class _Body:
    """`receive` that stops a body at the limit: one without a `Content-Length` is counted as it comes."""

    def __init__(self, receive: Receive, headers: origins.Headers, limit_bytes: int) -> None:
        self._receive = receive
        self._headers = headers
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._is_complete = False

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self._is_complete = not message.get("more_body", False)
            if self._bytes > self._limit_bytes:
                raise _too_large(self._limit_bytes)
        return message

    def may_never_end(self) -> bool:
        """Say whether the rest of the body may not come or not end, so that no other request can follow it.

        Otherwise the server throws the rest away and the connection takes the next request.
        """
        if self._is_complete:
            return False
        # a client that asked for `100 Continue` and was refused sends no body, while the parser still waits for it
        if any(values_of(self._headers, name) for name in (b"transfer-encoding", b"expect")):
            return True
        given = values_of(self._headers, b"content-length")
        return any(not value.isdigit() or len(value) > 19 or int(value) > DRAINED_BYTES for value in given)


class _Reply:
    """`send` that knows whether an answer has begun, and adds what belongs on every one of them."""

    def __init__(self, send: Send, body: _Body) -> None:
        self._send = send
        self._body = body
        self._shared_with: str | None = None
        self.started = False

    def share_with(self, origin: str) -> None:
        """Let the page of this origin read the answer."""
        self._shared_with = origin

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self._complete(MutableHeaders(scope=message))
        await self._send(message)

    def _complete(self, headers: MutableHeaders) -> None:
        if self._body.may_never_end():
            headers["Connection"] = "close"
        if self._shared_with is not None:
            headers["Access-Control-Allow-Origin"] = self._shared_with
            headers["Access-Control-Expose-Headers"] = CORS_EXPOSED
            headers.add_vary_header("Origin")
