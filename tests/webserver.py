"""A web server that misbehaves on demand: raw answers by path, over plain TCP or TLS, on loopback."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener

from agentcore.addresses import is_public
from agentcore.tools.web.fetching import Web

CERTIFICATE = Path(__file__).parent / "core" / "right.example.pem"
"""For `right.example`, signed by itself, with its key: made for these tests and worth nothing elsewhere."""

Talk = Callable[[ByteStream], Awaitable[None]]


def answer(
    body: bytes | str = b"", content_type: str | None = "text/plain", status: str = "200 OK", **headers: str
) -> bytes:
    """A whole answer as it goes over the wire."""
    body = body if isinstance(body, bytes) else body.encode()
    fields = {} if content_type is None else {"Content-Type": content_type}
    fields |= {"Content-Length": str(len(body)), **{name.replace("_", "-"): text for name, text in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


def redirect(location: str, status: str = "302 Found") -> bytes:
    return answer(b"elsewhere", status=status, Location=location)


@dataclass
class WebServer:
    """What it answers, what it was asked, and the way to it for a tool."""

    port: int
    pages: dict[str, bytes | Talk] = field(default_factory=dict)
    """By target; a function talks by itself."""
    asked: list[bytes] = field(default_factory=list)
    """The requests, whole."""
    resolved: list[str] = field(default_factory=list)
    """The names that were resolved, in order."""
    addresses: dict[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    """What a name resolves to, by turns; what is not here is this server."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        turns = self.addresses.get(host, [["127.0.0.1"]])
        self.resolved.append(host)
        return turns[min(self.resolved.count(host), len(turns)) - 1]

    def web(self) -> Web:
        """A way to the network that takes this server, and nothing else of this machine, for a public one."""

        def tls() -> ssl.SSLContext:
            return ssl.create_default_context(cafile=CERTIFICATE)

        return Web(self.resolve, lambda address: str(address) == "127.0.0.1" or is_public(address), tls)

    def url(self, path: str = "/", host: str = "site.example", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        return [request.split(b" ")[1].decode() for request in self.asked]

    async def serve(self, stream: ByteStream) -> None:
        async with stream:
            try:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += await stream.receive()
                head, _, body = request.partition(b"\r\n\r\n")
                while len(body) < _length(head):
                    body += await stream.receive()
                self.asked.append(head + b"\r\n\r\n" + body)
                page = self.pages.get(self.paths[-1], answer("not here", status="404 Not Found"))
                await (stream.send(page) if isinstance(page, bytes) else page(stream))
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ssl.SSLError):
                return


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


@asynccontextmanager
async def web_server(*, tls: bool = False) -> AsyncIterator[WebServer]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server = WebServer(listener.extra(SocketAttribute.local_port))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    async with listener, anyio.create_task_group() as tasks:
        serving = TLSListener(listener, context, standard_compatible=False) if tls else listener
        tasks.start_soon(serving.serve, server.serve)
        yield server
        tasks.cancel_scope.cancel()
