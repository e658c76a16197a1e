"""One request to the web: to an address that was checked, within bounds of time and size.

The connection goes to exactly the address that was judged: the name is resolved once for each connection, every
answer has to be allowed, and the connection layer is handed the address, while `Host`, the TLS server name and the
check of the certificate use the name. Nothing is taken from the environment: no proxy, no `.netrc`, no cookies.
Knows nothing of tools, pages or caches.
"""

import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread

from agentcore.addresses import Address, Allow, Resolver, checked, is_public, resolve
from agentcore.ports.tools import ToolError
from agentcore.web_address import WebAddress

if TYPE_CHECKING:
    import ssl

    import httpcore2

USER_AGENT = "agentcore-server"
CONNECT_S = 10.0
"""For one address; a name may have several."""
MAX_TRIED = 4
"""Addresses of one name that are tried."""
_GZIP = 16 + zlib.MAX_WBITS
_PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What one answer may take."""

    max_bytes: int = 5 * 1024 * 1024  # the contract's
    """Of the body, unpacked."""
    timeout_s: float = 30.0  # the contract's
    """For everything together."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for."""

    address: WebAddress
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back; a redirect is one like any other."""

    address: WebAddress
    status: int
    headers: Mapping[str, str]
    """Names in lower case; of one given twice the first."""
    body: bytes


class Web:
    """Sends requests. One for all tools of a process; holds no connection from one to the next."""

    def __init__(
        self,
        resolver: Resolver = resolve,
        allow: Allow = is_public,
        tls: "Callable[[], ssl.SSLContext] | None" = None,
    ) -> None:
        """`allow` says which addresses may be connected to. `tls` makes what certificates are checked against."""
        self._resolver = resolver
        self._allow = allow
        self._tls = cache(tls or _system_tls)

    async def send(self, query: Query, limits: Limits) -> Reply:
        """Raises: ToolError with a sentence that names the host; TimeoutError is the caller's to set."""
        import httpcore2

        host = query.address.host
        try:
            return await self._send(query, limits)
        except httpcore2.TimeoutException as error:
            raise ToolError(f"{host} did not answer in time") from error
        except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
            raise ToolError(f"{host} cannot be fetched from: {_why(error)}") from error

    async def _send(self, query: Query, limits: Limits) -> Reply:
        import httpcore2

        address = query.address
        context = await to_thread.run_sync(self._tls) if address.scheme == "https" else None
        pool = httpcore2.AsyncConnectionPool(
            ssl_context=context, network_backend=_pinned(self._resolver, self._allow), max_connections=1
        )
        headers = {
            "Host": address.authority,
            "User-Agent": USER_AGENT,
            "Accept-Encoding": "gzip",
            "Connection": "close",
            **query.headers,
        }
        # In parts, so that nothing reads the address a second time in its own way.
        url = httpcore2.URL(
            scheme=address.scheme.encode(),
            host=address.host.encode(),
            port=address.port,
            target=address.target.encode(),
        )
        timeouts = {"connect": CONNECT_S, "read": limits.timeout_s, "write": limits.timeout_s}
        async with (
            pool,
            pool.stream(
                query.method,
                url,
                headers=[(name.encode(), value.encode()) for name, value in headers.items()],
                content=query.body,
                extensions={"timeout": timeouts},
            ) as response,
        ):
            found = _headers(response.headers)
            body = b"" if _is_redirect(response.status) else await _body(response.aiter_stream(), found, limits)
            return Reply(address, response.status, found, body)


def _is_redirect(status: int) -> bool:
    return status in (301, 302, 303, 307, 308)


def _pinned(resolver: Resolver, allow: Allow) -> "httpcore2.AsyncNetworkBackend":
    """A connection layer that resolves a name once, judges all it finds, and connects to what was judged."""
    import httpcore2

    class Pinned(httpcore2.AnyIOBackend):
        async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
            failure: Exception | None = None
            for address in (await _addresses(host, port, resolver, allow))[:MAX_TRIED]:
                try:
                    return await super().connect_tcp(str(address), port, *args, **kwargs)
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                    failure = error
            assert failure is not None  # there is no name without an address
            raise failure

        async def connect_unix_socket(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
            raise httpcore2.ConnectError("no sockets of this machine")

    return Pinned()


async def _addresses(host: str, port: int, resolver: Resolver, allow: Allow) -> list[Address]:
    """Raises: ToolError."""
    try:
        return checked(await resolver(host, port), allow)
    except OSError as error:
        raise ToolError(f"{host} cannot be found: there is no such name, or no network") from error
    except ValueError as error:
        raise ToolError(f"{host} is not fetched from: {error}") from error


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found


async def _body(pieces: AsyncIterator[bytes], headers: Mapping[str, str], limits: Limits) -> bytes:
    """Read and unpack a body; never holds more than one piece beyond the limit. Raises: ToolError."""
    coding = headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity", "gzip", "x-gzip"):
        raise ToolError(f"the page is packed as {coding[:40]!r}, which was not asked for")
    body = bytearray()
    unpack = _Unpacker() if coding.endswith("gzip") else None
    async for piece in pieces:
        if unpack is None:
            body += piece
        else:
            unpack.feed(piece, body, limits.max_bytes)
        if len(body) > limits.max_bytes:
            raise ToolError(f"it is larger than {limits.max_bytes // 1024 // 1024} MB; fetch a smaller part of it")
        await anyio.lowlevel.checkpoint()  # a fast sender must not hold up everybody else
    if unpack is not None:
        unpack.demand_end()
    return bytes(body)


class _Unpacker:
    """Gzip, unpacked only as far as it is wanted: a small body can stand for gigabytes."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(_GZIP)
        self._has_begun = False

    def feed(self, packed: bytes, out: bytearray, most: int) -> None:
        """Raises: ToolError for what is no gzip."""
        self._has_begun = self._has_begun or bool(packed)
        try:
            while packed and not self._inner.eof and len(out) <= most:
                out += self._inner.decompress(packed, _PIECE_BYTES)
                packed = self._inner.unconsumed_tail
        except zlib.error as error:
            raise ToolError("the page is said to be packed as gzip, and is not") from error

    def demand_end(self) -> None:
        if self._has_begun and not self._inner.eof:
            raise ToolError("the page was cut off on its way")


def _why(error: Exception) -> str:
    """A failure of the network in one line, without what the system adds."""
    text = str(error).partition("\n")[0].strip()
    return text[:200] or type(error).__name__


def _system_tls() -> "ssl.SSLContext":
    """Takes some 50 ms."""
    import httpcore2

    return httpcore2.default_ssl_context()
