"""What one connection takes before a request is known: bytes, seconds, and the order of answers. Real sockets."""

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import pytest
import uvicorn
from anyio.abc import SocketStream
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from server import connection, daemon
from server.connection import MAX_HEAD_BYTES, Connection, Part

pytestmark = pytest.mark.anyio

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_HEAD = b"GET / HTTP/1.1\r\nHost: local"
STREAM = GET.replace(b"/", b"/stream", 1)
OK = b"HTTP/1.1 200 OK\r\n"
BAD = b"HTTP/1.1 400 Bad Request\r\n"
SHORT_S = 0.2


def post(length: int, body: bytes, path: bytes = b"/") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (path, length, body)


class App:
    """Answers with the length of the body; `/stream` answers until it is let go, and may not read its body."""

    def __init__(self) -> None:
        self.let_go = anyio.Event()
        self.disconnected = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/stream":
            await self.stream(send)
            return
        try:
            body = b"bytes:%d." % len(await Request(scope, receive).body())
        except ClientDisconnect:
            self.disconnected.set()
            return
        length = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": body})

    async def stream(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun.", "more_body": True})
        await self.let_go.wait()
        await send({"type": "http.response.body", "body": b"ended."})


class Server(uvicorn.Server):
    def __init__(self, app: App) -> None:
        super().__init__(daemon._config(app))
        self.app = app
        self.port = 0

    @property
    def open(self) -> list[Connection]:
        return [found for found in self.server_state.connections if isinstance(found, Connection)]

    async def wait_until(self, is_so: Callable[[list[Connection]], bool]) -> None:
        while not is_so(self.open):
            await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(App())
    server.config.load()
    server.lifespan = server.config.lifespan_class(server.config)
    server.port = listener.getsockname()[1]
    with anyio.fail_after(10):
        await server.startup([listener])
        try:
            yield server
        finally:
            server.app.let_go.set()
            await server.shutdown([listener])


async def read(stream: SocketStream, until: bytes, times: int = 1) -> bytes:
    received = b""
    while received.count(until) < times:
        received += await stream.receive()
    return received


async def read_to_end(stream: SocketStream) -> bytes:
    received = b""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            received += await stream.receive()
    return received


async def connect(server: Server) -> SocketStream:
    return await anyio.connect_tcp("127.0.0.1", server.port)


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_LIMIT_S", SHORT_S)
    monkeypatch.setattr(connection, "BODY_LIMIT_S", SHORT_S)


async def test_a_head_may_begin_in_the_read_that_ends_a_long_body() -> None:
    body = b"x" * (MAX_HEAD_BYTES + 30_000)
    async with serving() as server, await connect(server) as stream:
        await stream.send(post(len(body), body) + HALF_HEAD)
        assert b"bytes:%d." % len(body) in await read(stream, b"bytes:")
        await stream.send(b"host\r\n\r\n")
        assert (await read(stream, b"bytes:0.")).startswith(OK)


async def test_a_half_head_behind_many_requests_costs_no_answer() -> None:
    async with serving() as server, await connect(server) as stream:
        await stream.send(GET * 2_200 + HALF_HEAD)
        answers = await read(stream, b"bytes:0.", 2_200)
        assert (answers.count(OK), answers.count(BAD)) == (2_200, 0)


ENDLESS = {
    "header": HALF_HEAD,
    "path": b"GET /",
    "empty lines": b"\r\n",
}


@pytest.mark.parametrize("begin", ENDLESS.values(), ids=ENDLESS.keys())
async def test_a_head_without_end_is_refused(begin: bytes) -> None:
    filler = b"\r\n" if begin == b"\r\n" else b"xx"
    async with serving() as server, await connect(server) as stream:
        with suppress(anyio.BrokenResourceError):
            await stream.send(begin + filler * 500_000)
        assert (await read_to_end(stream)).startswith(BAD)


async def test_trailers_without_end_are_refused() -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving() as server, await connect(server) as stream:
        with suppress(anyio.BrokenResourceError):
            await stream.send(head + b"1\r\nx\r\n0\r\n" + b"X-More: yes\r\n" * 80_000)
        assert (await read_to_end(stream)).startswith(BAD)
        await server.app.disconnected.wait()


async def test_a_refusal_waits_for_the_answers_that_are_owed() -> None:
    async with serving() as server, await connect(server) as stream:
        await stream.send(STREAM + GET + b"nonsense\r\n\r\n")
        await read(stream, b"begun.")
        server.app.let_go.set()
        answers = await read_to_end(stream)
    assert answers.count(OK) == 1
    assert answers.endswith(b"bytes:0.")
    assert b"connection: close" in answers


async def test_a_refusal_waits_for_a_stream_that_is_being_written() -> None:
    async with serving() as server, await connect(server) as stream:
        await stream.send(STREAM)
        await read(stream, b"begun.")
        await stream.send(b"nonsense\r\n\r\n")
        await server.wait_until(lambda found: found[0]._is_refused)
        await stream.send(GET)  # what comes behind the nonsense is not answered
        server.app.let_go.set()
        rest = await read_to_end(stream)
    assert rest == b"6\r\nended.\r\n0\r\n\r\n"


async def test_a_body_that_is_malformed_ends_an_answer_that_has_begun() -> None:
    head = b"POST /stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving() as server, await connect(server) as stream:
        await stream.send(head)
        await read(stream, b"begun.")
        await stream.send(b"nonsense\r\n")
        assert await read_to_end(stream) == b""


LATE = {
    "nothing": b"",
    "half a head": HALF_HEAD,
    "empty lines": b"\r\n\r\n",
    "half a body": post(5, b"ab"),
    "no body": post(5, b""),
}


@pytest.mark.parametrize("sent", LATE.values(), ids=LATE.keys())
@pytest.mark.usefixtures("short_limits")
async def test_a_request_that_stops_coming_ends_the_connection(sent: bytes) -> None:
    async with serving() as server, await connect(server) as stream:
        if sent:
            await stream.send(sent)
        assert await read_to_end(stream) == b""
        await server.wait_until(lambda found: not found)


@pytest.mark.parametrize("sent", [HALF_HEAD, b"\r\n", post(5, b"ab")], ids=["half a head", "empty line", "half a body"])
@pytest.mark.usefixtures("short_limits")
async def test_a_later_request_that_stops_coming_ends_the_connection(sent: bytes) -> None:
    async with serving() as server, await connect(server) as stream:
        await stream.send(GET)
        await read(stream, b"bytes:0.")
        await stream.send(sent)
        assert await read_to_end(stream) == b""


@pytest.mark.usefixtures("short_limits")
async def test_half_a_head_that_came_before_the_answer_ends_the_connection_after_it() -> None:
    async with serving() as server, await connect(server) as stream:
        await stream.send(GET + HALF_HEAD)
        assert (await read_to_end(stream)).endswith(b"bytes:0.")


@pytest.mark.usefixtures("short_limits")
async def test_bytes_of_a_head_do_not_move_its_deadline() -> None:
    async with serving() as server, await connect(server) as stream:
        sent = 0
        with suppress(anyio.BrokenResourceError):
            await stream.send(HALF_HEAD)
            while server.open:
                await stream.send(b"x")
                sent += 1
                await anyio.sleep(SHORT_S / 10)
    assert sent


@pytest.mark.usefixtures("short_limits")
async def test_bytes_of_a_body_move_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BODY_LIMIT_S", 60.0)
    async with serving() as server, await connect(server) as stream:
        await stream.send(post(3, b"a"))
        await server.wait_until(lambda found: bool(found) and found[0]._awaited is Part.BODY)
        before = server.open[0]._deadline
        await stream.send(b"b")
        await server.wait_until(lambda found: found[0]._deadline is not before)
        assert before is not None
        assert before.cancelled()
        await stream.send(b"c")
        assert b"bytes:3." in await read(stream, b"bytes:")


AROUND = {"alone": STREAM, "half a head behind": STREAM + HALF_HEAD, "half a body behind": STREAM + post(5, b"ab")}


@pytest.mark.parametrize("sent", AROUND.values(), ids=AROUND.keys())
@pytest.mark.usefixtures("short_limits")
async def test_a_stream_is_not_touched(sent: bytes) -> None:
    async with serving() as server, await connect(server) as stream:
        await stream.send(sent)
        await read(stream, b"begun.")
        await anyio.sleep(SHORT_S * 2)
        server.app.let_go.set()
        assert b"ended." in await read(stream, b"ended.")


async def test_a_connection_that_rests_or_ends_keeps_no_deadline() -> None:
    async with serving() as server:
        async with await connect(server) as stream:
            await server.wait_until(bool)
            (served,) = server.open
            first = served._deadline
            assert first is not None
            await stream.send(GET)
            await read(stream, b"bytes:0.")
            assert (served._deadline, first.cancelled()) == (None, True)
            await stream.send(HALF_HEAD)
            await server.wait_until(lambda found: found[0]._deadline is not None)
            second = served._deadline
        await server.wait_until(lambda found: not found)
        assert second is not None
        assert (served._deadline, second.cancelled()) == (None, True)
