"""Logging in at a server over HTTP (OAuth): a person allows it in a browser, which comes back to an address here.

Only ever on a person's own command. The SDK runs the flow: discovery, registration, PKCE, the check that what comes
back belongs to what was asked. Promise: no token is printed or logged; they are kept by `logins` alone.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio import to_thread
from anyio.abc import ByteStream, SocketAttribute

from agentcore.mcp.connection import Gone, Refused, connected, load_sdk
from agentcore.mcp.logins import Login, Logins
from agentcore.mcp.targets import Target, Unusable
from agentcore.mcp.watched import Watch

if TYPE_CHECKING:
    from mcp.client.auth import OAuthClientProvider

WAIT_S = 300.0
"""For the person in the browser."""
PATH = "/callback"
MAX_REQUEST_BYTES = 16 * 1024
_DONE = "You are logged in, and may close this page."
_FAILED = "The login was not allowed. You may close this page."

Show = Callable[[str], Awaitable[None]]
"""Brings the address of the login page before a person."""


async def log_in(target: Target, logins: Logins, show: Show) -> int:
    """Have a person log in at a server; return how many tools it has. Raises: Unusable, OSError, Unprocessable."""
    await to_thread.run_sync(load_sdk)
    async with _callback() as callback:
        provider = _provider(target, callback, show)
        outcome = await _tried(target, provider)
    if isinstance(outcome, str):
        raise Unusable(outcome)
    login = _login(provider)
    if login is None:
        raise Unusable(f"The MCP server {target.name} asks for no login.")
    await to_thread.run_sync(logins.keep, target.url, login)
    return outcome


async def _tried(target: Target, provider: "OAuthClientProvider") -> int | str:
    """Connect, and have it log in on the way: how many tools there are, or why it failed."""
    from httpx2 import HTTPError

    try:
        with anyio.fail_after(WAIT_S):
            async with connected(target, lambda: None, Watch(), provider) as connection:
                return len(await connection.tools())
    except TimeoutError:
        return f"Nobody logged in within {WAIT_S / 60:g} minutes."
    except Refused as error:
        return f"The MCP server {target.name} refused: {error}."
    except Gone:
        return f"The MCP server {target.name} ended the connection."
    except (ExceptionGroup, HTTPError) as error:  # nothing of it is told that may hold a token
        return f"The login at the MCP server {target.name} failed: {_named(error)}."


def _provider(target: Target, callback: "_Callback", show: Show) -> "OAuthClientProvider":
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientMetadata

    metadata = OAuthClientMetadata.model_validate(
        {
            "client_name": "agentcore",
            "redirect_uris": [callback.url],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
        }
    )
    return OAuthClientProvider(target.url, metadata, _Memory(), show, callback.result)


def _login(provider: "OAuthClientProvider") -> Login | None:
    context = provider.context
    tokens, client, metadata = context.current_tokens, context.client_info, context.oauth_metadata
    if tokens is None or client is None or client.client_id is None:
        return None
    endpoint = None if metadata is None else metadata.token_endpoint
    return Login(
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token,
        expires_at=None if tokens.expires_in is None else time.time() + tokens.expires_in,
        token_endpoint=str(endpoint or f"{context.get_authorization_base_url(context.server_url)}/token"),
        client_id=client.client_id,
        client_secret=client.client_secret,
        scope=tokens.scope,
        resource=None if context.protected_resource_metadata is None else context.get_resource_url(),
    )


class _Memory:
    """What the SDK wants kept during the flow; afterwards `logins` keeps it."""

    def __init__(self) -> None:
        self._tokens: Any = None
        self._client: Any = None

    async def get_tokens(self) -> Any:
        return self._tokens

    async def set_tokens(self, tokens: Any) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> Any:
        return self._client

    async def set_client_info(self, client_info: Any) -> None:
        self._client = client_info


class _Callback:
    """The address on this machine that the browser is sent back to."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}{PATH}"
        self._came = anyio.Event()
        self._said: dict[str, str] = {}

    async def result(self) -> Any:
        from mcp.shared.auth import AuthorizationCodeResult

        await self._came.wait()
        said = self._said
        if "code" not in said:
            raise Unusable(f"it was not allowed ({said.get('error', 'no code')[:80]})")
        return AuthorizationCodeResult(code=said["code"], state=said.get("state"), iss=said.get("iss"))

    async def serve(self, stream: ByteStream) -> None:
        async with stream:
            try:
                with anyio.fail_after(10):
                    await stream.send(self._answer(await _head(stream)))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
                return

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        address = urlsplit(rest.partition(b" ")[0].decode("latin-1"))
        if method != b"GET" or address.path != PATH:
            return _page("404 Not Found", "There is nothing here.")
        said = {name: values[0] for name, values in parse_qs(address.query).items()}
        if not self._came.is_set() and ("code" in said or "error" in said):
            self._said = said
            self._came.set()
        return _page("200 OK", _DONE if "code" in said else _FAILED)


@asynccontextmanager
async def _callback() -> AsyncIterator[_Callback]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    callback = _Callback(listener.extra(SocketAttribute.local_port))  # noqa: S610 - of a socket, not of a query
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, callback.serve)
        yield callback
        tasks.cancel_scope.cancel()


async def _head(stream: ByteStream) -> bytes:
    """The first line of a request."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < MAX_REQUEST_BYTES:
        head += await stream.receive()
    return head.partition(b"\r\n")[0]


def _page(status: str, text: str) -> bytes:
    body = f"<!doctype html><meta charset=utf-8><title>agentcore</title><p>{text}".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + body


def _named(error: BaseException) -> str:
    """What kind of failure it was; of our own and the SDK's login errors the sentence as well."""
    if isinstance(error, BaseExceptionGroup):
        return _named(error.exceptions[0])
    if isinstance(error, Unusable):
        return str(error)
    return type(error).__name__
