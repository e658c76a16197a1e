"""An address as a hook: the input as a POST, the answer's body within bounds. No redirect is followed.

The trust store of the system is read once for all of them, in a worker: that is what makes a client expensive.
"""

import re
from collections.abc import Mapping
from contextlib import aclosing
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from agentcore.hooks.handlers import HttpAction

if TYPE_CHECKING:
    import ssl

    import httpx2

KEPT_BYTES = 64 * 1024
"""Of a body, as of a command's output."""
CLOSE_S = 1.0
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


class NoAnswer(Exception):
    """Nothing that could be read came back; `str(error)` says why, without the address."""


async def post(action: HttpAction, input: bytes, environ: Mapping[str, str], timeout_s: float) -> tuple[int, str]:
    """Send the input; return status and body, of which at most `KEPT_BYTES` are read.

    Raises: NoAnswer; TimeoutError after `timeout_s`.
    """
    await to_thread.run_sync(import_module, "httpx2")  # it takes a moment
    import httpx2

    trust = await to_thread.run_sync(_trust) if action.url.startswith("https:") else False
    is_local = urlsplit(action.url).hostname in _LOCAL
    headers = {**_headers(action, environ), "content-type": "application/json"}
    try:
        with anyio.fail_after(timeout_s):
            async with (
                httpx2.AsyncClient(
                    verify=trust,
                    timeout=None,
                    follow_redirects=False,
                    trust_env=not is_local,  # no proxy leads to this machine
                ) as client,
                client.stream("POST", action.url, content=input, headers=headers) as response,
            ):
                return response.status_code, (await _body(response)).decode(errors="replace")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        raise NoAnswer(type(error).__name__) from error


async def _body(response: "httpx2.Response") -> bytes:
    body = bytearray()
    try:
        async with aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                body += chunk[: KEPT_BYTES - len(body)]
                if len(body) >= KEPT_BYTES:
                    break
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await response.aclose()
    return bytes(body)


@cache
def _trust() -> "ssl.SSLContext":
    import ssl

    return ssl.create_default_context()


def _headers(action: HttpAction, environ: Mapping[str, str]) -> dict[str, str]:
    """The headers with what may be filled in from the environment."""

    def value_of(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return environ.get(name, "") if name in action.variables else ""

    return {name.lower(): _VARIABLE.sub(value_of, value) for name, value in action.headers}
