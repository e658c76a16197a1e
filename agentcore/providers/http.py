"""The HTTP client under every adapter, whether an SDK sits on it or not.

Nothing is sent twice and no redirect is followed: a conversation goes to the address that was set up, or nowhere.
An answer that cannot be one is refused here, before anybody reads it: of its body a bounded part is taken, within
bounded time, because it may be endless, silent, or small only until it is decoded.
"""

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from agentcore.providers.answers import CLOSE_S, MAX_DOCUMENT_BYTES
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.faults import Faults
from agentcore.wiretap import Sent, tell

if TYPE_CHECKING:
    import httpx2

CONNECT_S = 10.0
WRITE_S = 60.0  # without any byte taken
IDLE_S = 60.0  # a connection is kept for the next turn, which begins when the tools have run
REFUSAL_S = 5.0  # what a refusal says comes with it; what comes later is left

_WITHOUT_CONTENT = frozenset({204, 205})
_ACCEPTED = "accept-encoding"


def http_options(endpoint: Endpoint, faults: Faults) -> dict[str, Any]:
    """With what an HTTP client is made, of ours or of an SDK.

    No bound on how long an answer may be silent: the loop keeps watch over that, and retries. Connections outlive the
    tools of a turn (5 s otherwise). No proxy leads to this machine.
    """
    import httpx2

    return {
        "timeout": httpx2.Timeout(connect=CONNECT_S, read=None, write=WRITE_S, pool=None),
        "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=IDLE_S),
        "trust_env": not endpoint.is_local,
        "follow_redirects": False,
        "event_hooks": {"request": [_tell], "response": [partial(_refuse, faults)]},
    }


async def _tell(request: "httpx2.Request") -> None:
    """Show what goes out to whoever keeps a trace."""
    address = str(request.url.copy_with(query=None, username=None, password=None))
    tell(lambda: Sent(address, dict(request.headers), request.content))


async def _refuse(faults: Faults, response: "httpx2.Response") -> None:
    """Let through what may be an answer. Raises: ProviderError for the rest, whose connection is closed."""
    import httpx2

    status, headers = response.status_code, response.headers
    if not response.is_success:
        try:
            body = await read_body(response, within_s=REFUSAL_S)
        except httpx2.RequestError:
            body = b""  # it broke off, or cannot be decoded: its status still tells something
        raise faults.of_answer(status, body, headers)
    if status in _WITHOUT_CONTENT:
        raise faults.of("server_error", f"it sent an answer without content (HTTP {status})")
    if unasked := _encodings(headers.get("content-encoding", "")) - _encodings(response.request.headers[_ACCEPTED]):
        raise faults.of("server_error", f"it sent its answer as {', '.join(sorted(unasked))}, which nobody asked for")


def _encodings(value: str) -> set[str]:
    """The names in a header, without their weights."""
    return {name for one in value.lower().split(",") if (name := one.partition(";")[0].strip())} - {"identity"}


async def read_body(
    response: "httpx2.Response", max_bytes: int = MAX_DOCUMENT_BYTES, within_s: float | None = None
) -> bytes:
    """Read a document and close its answer; what is longer, or comes later, is cut. Raises: httpx2.RequestError."""
    body = bytearray()
    try:
        with anyio.move_on_after(within_s):
            async with aclosing(response.aiter_bytes()) as chunks:
                async for chunk in chunks:
                    body += chunk[: max_bytes - len(body)]
                    if len(body) >= max_bytes:
                        break
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await response.aclose()
    return bytes(body)
