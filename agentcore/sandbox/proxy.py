"""The way to the network for commands that may reach some domains and nothing else: a proxy on a socket in a file.

It runs in the server, for one command; in the sandbox `forward` brings a port of the loopback to it, and the variables
that programs know lead there. It resolves a name itself, checks every address, and connects to the one it checked. A
program that heeds no proxy has no network at all.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, ByteStream, SocketStream, TaskGroup

from agentcore.addresses import Allow, Resolver, checked, is_public, resolve
from agentcore.web_address import WebAddress, parse_address

PORT = 3128
"""Inside, where it is the only one that listens."""
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
MAX_HEAD_BYTES = PIECE_BYTES = 64 * 1024
HEAD_S = 15.0
CONNECT_S = 10.0
MAX_CONNECTIONS = 64
MAX_TOLD = 10
_DROPPED = (b"proxy-", b"connection:", b"host:")
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class Refused(Exception):
    """A sentence for the program that asked."""

    def __init__(self, text: str, status: str = "403 Forbidden") -> None:
        super().__init__(text)
        self.status = status


class Proxy:
    """What one command may reach, and what it tried besides."""

    def __init__(self, domains: Sequence[str], resolver: Resolver = resolve, allow: Allow = is_public) -> None:
        self._domains = frozenset(domain.lower().rstrip(".") for domain in domains)
        self._resolver = resolver
        self._allow = allow
        self._limit = anyio.Semaphore(MAX_CONNECTIONS)
        self.refused: dict[str, None] = {}
        """Hosts, in the order of asking; at most `MAX_TOLD`."""

    async def handle(self, client: ByteStream) -> None:
        """One connection to its end; nothing that happens in it gets out."""
        async with client, self._limit:
            with suppress(*_GONE):
                try:
                    await self._talk(client)
                except Refused as refused:
                    body = f"{refused}\n".encode()
                    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
                    await client.send(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)

    async def _talk(self, client: ByteStream) -> None:
        """Raises: Refused, and what streams raise."""
        try:
            with anyio.fail_after(HEAD_S):
                head, rest = await _head(client)
        except TimeoutError:
            raise Refused("The request did not arrive.", "408 Request Timeout") from None
        line, *headers = head.split(b"\r\n")
        method, address = _asked(line)
        upstream = await self._connected(address)
        async with upstream:
            if method == b"CONNECT":
                await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                await upstream.send(_for_origin(method, address, headers))
            if rest:
                await upstream.send(rest)
            async with anyio.create_task_group() as group:
                group.start_soon(_pump, client, upstream)
                group.start_soon(_pump, upstream, client)

    async def _connected(self, address: WebAddress) -> SocketStream:
        """Raises: Refused."""
        is_literal = self._demand(address)
        try:
            found = await self._resolver(address.host, address.port)
            addresses = checked(found, (lambda one: True) if is_literal else self._allow)
        except (OSError, ValueError) as error:
            raise Refused(f"{address.host} cannot be reached: {error}", "502 Bad Gateway") from None
        for one in addresses:
            with suppress(OSError), anyio.fail_after(CONNECT_S):  # a TimeoutError is one
                return await anyio.connect_tcp(str(one), address.port)
        raise Refused(f"{address.host} does not answer.", "502 Bad Gateway")

    def _demand(self, address: WebAddress) -> bool:
        """Whether the host is an address that was listed as such. Raises: Refused for one that is not allowed."""
        host = address.host
        above = {f"*.{host[index + 1 :]}" for index, letter in enumerate(host) if letter == "."}
        is_literal = ":" in host or host.rpartition(".")[2].isdigit()
        if host not in self._domains and (is_literal or not self._domains & above):
            if len(self.refused) < MAX_TOLD:
                self.refused[host] = None
            raise Refused(f"{host} is not among the domains that commands may reach (sandbox.allowed_domains).")
        return is_literal

    def words(self) -> list[str]:
        """What the model should know of it when the command has ended."""
        if not self.refused:
            return []
        allowed = ", ".join(sorted(self._domains))
        return [f"The sandbox let it reach {allowed} alone, and refused {', '.join(self.refused)}."]


class _Client(ByteStream):
    """A connection through the standard library's streams.

    AnyIO's own ones on sockets in files report an error to the event loop when they are cancelled just as bytes arrive.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def receive(self, max_bytes: int = PIECE_BYTES) -> bytes:
        if chunk := await self._reader.read(max_bytes):
            return chunk
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        self._writer.write(item)
        await self._writer.drain()

    async def send_eof(self) -> None:
        self._writer.write_eof()

    async def aclose(self) -> None:
        self._writer.close()


@asynccontextmanager
async def serving(proxy: Proxy) -> AsyncIterator[Path]:
    """Serve on a socket in a private folder; all connections end when it is left. Raises: OSError."""
    failure: OSError | ValueError | None = None
    with tempfile.TemporaryDirectory(prefix="agentcore-") as folder:
        path = Path(folder) / "proxy"
        async with anyio.create_task_group() as group:
            came = partial(_came, group, proxy)
            async with await asyncio.start_unix_server(came, path):
                try:
                    yield path
                except (OSError, ValueError) as error:  # raised behind the group, which would wrap it
                    failure = error
                finally:
                    group.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _came(group: TaskGroup, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    group.start_soon(proxy.handle, _Client(reader, writer))


def proxy_variables() -> dict[str, str]:
    address = f"http://127.0.0.1:{PORT}"
    own = "localhost,127.0.0.1,::1"
    return dict.fromkeys(VARIABLES, address) | {"no_proxy": own, "NO_PROXY": own}


async def _head(client: ByteStream) -> tuple[bytes, bytes]:
    """The head of a request without its empty line, and what came behind it."""
    data = b""
    while b"\r\n\r\n" not in data:
        if len(data) > MAX_HEAD_BYTES:
            raise Refused("The head of the request is too long.", "431 Request Header Fields Too Large")
        data += await client.receive()
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _asked(line: bytes) -> tuple[bytes, WebAddress]:
    """Method and address of a request line. Raises: Refused."""
    try:
        method, target, _version = line.split(b" ")
        text = target.decode("ascii")
        return method, parse_address(f"https://{text}/" if method == b"CONNECT" else text)
    except ValueError:
        raise Refused("This proxy takes CONNECT, and requests with a whole address.", "400 Bad Request") from None


def _for_origin(method: bytes, address: WebAddress, headers: Sequence[bytes]) -> bytes:
    """The head of a plain request as its origin gets it: one request, to the host that was judged."""
    kept = [header for header in headers if not header.lower().startswith(_DROPPED)]
    first = b"%s %s HTTP/1.1" % (method, address.target.encode())
    return b"\r\n".join((first, b"Host: " + address.authority.encode(), *kept, b"Connection: close", b"", b""))


async def _pump(source: ByteReceiveStream, sink: ByteSendStream) -> None:
    with suppress(*_GONE):
        async for chunk in source:
            await sink.send(chunk)
    with suppress(*_GONE):
        if isinstance(sink, ByteStream):
            await sink.send_eof()
