"""One exchange with the server as a value: what to send, how to read the answer. Builds and reads; sends nothing.

Both clients use these same functions, so they cannot differ in what they say on the wire.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

import httpx
from pydantic import BaseModel, JsonValue, ValidationError

from agentcore_client.errors import ApiError

T = TypeVar("T")

CALL_READ_S = 30.0
IDEMPOTENCY = "idempotency"
"""In the `features` of `/v1/info` when the server gives the first answer again for the same `Idempotency-Key`."""
STREAM_READ_S = 45.0  # three times the server's keep-alive of 15 s: after that the connection is dead


class Problem(BaseModel):
    """The body of every refusal."""

    error: str
    code: str
    details: dict[str, JsonValue] | None = None


@dataclass(frozen=True, slots=True)
class File:
    """Bytes and what they are."""

    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Feed:
    """An event stream: where it is, and what it shows."""

    path: str
    query: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request and the reader of its answer."""

    method: str
    path: str
    read: Callable[[bytes], T]
    body: Mapping[str, JsonValue] | None = None
    file: File | None = None
    """Sent as it is, in the place of a body."""
    query: Mapping[str, str | int | None] | None = None
    key: str | None = None
    """Names this submission, so that sending it twice has its effect once."""
    read_s: float | None = CALL_READ_S
    """How long the answer may take; None for as long as it takes."""

    is_harmless_twice: bool = False
    is_own_effect: Callable[[ApiError], bool] = lambda error: False
    """Whether the refusal of a second sending means that the first one had its effect."""

    def is_repeatable(self, error: httpx.TransportError) -> bool:
        """Whether it can be sent again after a broken connection, whatever the server knows about keys."""
        return self.method in ("GET", "PATCH") or self.is_harmless_twice or not may_have_arrived(error)


def may_have_arrived(error: httpx.TransportError) -> bool:
    """Whether the server may have got a request whose connection broke."""
    return not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)


def new_key() -> str:
    return uuid.uuid4().hex


def timeout(read_s: float | None) -> httpx.Timeout:
    """Quick to connect, as the server is near; patient only with the answer."""
    return httpx.Timeout(30.0, connect=5.0, read=read_s)


# Streams hold their connection for hours; a limit would make the next call wait for one of them.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=8)


def http_options(url: str, token: str) -> dict[str, Any]:
    """How both clients set up their connection pool."""
    return {
        "base_url": url if socket_of(url) is None else "http://localhost",
        "headers": {"Authorization": f"Bearer {token}"},
        # The server is on this machine: a proxy or a .netrc of the environment would only get to see the token.
        "trust_env": False,
        "limits": LIMITS,
    }


def socket_of(url: str) -> str | None:
    """The path of the Unix socket that a server's URL names (`http+unix://%2Fpath`); None for a port."""
    path = url.removeprefix("http+unix://")
    return None if path == url else unquote(path)


def request_of(call: Call[Any], http: httpx.Client | httpx.AsyncClient) -> httpx.Request:
    """Build the request of a call."""
    query = {name: value for name, value in (call.query or {}).items() if value is not None}
    headers = {} if call.key is None else {"Idempotency-Key": call.key}
    if call.file is not None:
        headers["Content-Type"] = call.file.media_type
    return http.build_request(
        call.method,
        call.path,
        params=query,
        json=None if call.body is None else dict(call.body),
        content=None if call.file is None else call.file.data,
        headers=headers,
        timeout=timeout(call.read_s),
    )


def answer_of(call: Call[T], response: httpx.Response, *, is_second: bool = False) -> T:
    """Read the answer; `is_second` when an earlier sending may have had its effect already.

    Raises: ApiError for a refusal, or for an answer that makes no sense.
    """
    content = response.content
    if not response.is_success:
        error = refusal(response)
        if not (is_second and call.is_own_effect(error)):
            raise error
        content = b""
    try:
        return call.read(content)
    except ValidationError as error:
        text = f"{call.method} {call.path} got an answer of an unexpected shape: {error.error_count()} errors"
        raise ApiError(response.status_code, "unexpected_answer", text) from error


def refusal(response: httpx.Response) -> ApiError:
    """The error that a (fully read) answer stands for, also when it is not of our making."""
    status = response.status_code
    retry_after_s = _seconds(response.headers.get("Retry-After"))
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        return ApiError(status, f"http_{status}", response.reason_phrase or "refused", retry_after_s=retry_after_s)
    return ApiError(status, problem.code, problem.error, details=problem.details, retry_after_s=retry_after_s)


def is_stream(response: httpx.Response) -> bool:
    """Whether the answer is the event stream that was asked for; if not, read it and raise `no_stream(response)`."""
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip()
    return response.status_code == 200 and media_type == "text/event-stream"


def no_stream(response: httpx.Response) -> ApiError:
    """The error of an answer that is no stream."""
    if response.status_code == 200:
        return ApiError(200, "not_an_event_stream", "whatever answered at this address is not the agent server")
    return refusal(response)


def _seconds(text: str | None) -> float | None:
    """The number in a `Retry-After`; None for a date or nonsense."""
    return float(text) if text is not None and text.isascii() and text.isdecimal() else None
