"""The proxy of the sandbox: which hosts and addresses it lets through, and what it says to the others."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from agentcore.sandbox.proxy import MAX_HEAD_BYTES, MAX_TOLD, Proxy, serving

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfine"
NAMES = {
    "a.example": ["203.0.113.7"],
    "sub.b.example": ["203.0.113.7"],
    "inside.example": ["93.184.216.34", "10.0.0.1"],
}


class Origin:
    """Counts who comes, and keeps what it was asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[bytes] = []

    async def answer(self, client: SocketStream) -> None:
        async with client:
            with suppress(anyio.EndOfStream):
                self.asked.append(await client.receive())
                await client.send(ANSWER)


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    made = Origin(listener.extra(SocketAttribute.local_port))
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, made.answer)
        yield made
        group.cancel_scope.cancel()


async def known(host: str, port: int) -> Sequence[str]:
    if host not in NAMES:
        raise OSError("Name or service not known")
    return NAMES[host]


async def home(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


async def said(proxy: Proxy, request: bytes) -> bytes:
    """What a client is told, to the end."""
    with anyio.fail_after(10):
        async with serving(proxy) as path:
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(request)
            answer = await reader.read()
            writer.close()
    return answer


def status(answer: bytes) -> bytes:
    return answer.split(b" ")[1]


REFUSED = {
    "b.example": b"403",
    "xa.example": b"403",
    "a.example.evil": b"403",
    "bb.example": b"403",
    "example": b"403",
    "203.0.113.9": b"403",
    "[::1]": b"403",
    "169.254.169.254": b"403",
    "0x7f.1": b"400",
    "127.1": b"400",
    "a.example.": b"400",
    "user@a.example": b"400",
    "inside.example": b"502",
    "gone.example": b"502",
}


@pytest.mark.parametrize(("host", "code"), REFUSED.items(), ids=REFUSED)
async def test_other_hosts_and_addresses_are_refused(host: str, code: bytes) -> None:
    domains = ("a.example", "*.b.example", "inside.example", "gone.example", "203.0.113.8")
    proxy = Proxy(domains, known)
    for request in (f"CONNECT {host}:443 HTTP/1.1\r\n\r\n", f"GET http://{host}/ HTTP/1.1\r\n\r\n"):
        assert status(await said(proxy, request.encode())) == code
    assert list(proxy.refused) == ([host.strip("[]")] if code == b"403" else [])


@pytest.mark.parametrize("host", ["a.example", "A.Example", "sub.b.example"])
async def test_allowed_hosts_are_reached(host: str, origin: Origin) -> None:
    proxy = Proxy(("A.example", "*.b.example"), home, allow=lambda address: True)
    request = f"GET http://{host}:{origin.port}/x?y=1 HTTP/1.1\r\nHost: evil\r\nProxy-Authorization: k\r\nA: b\r\n\r\n"
    answer = await said(proxy, request.encode())
    assert answer == ANSWER
    assert origin.asked == [
        f"GET /x?y=1 HTTP/1.1\r\nHost: {host.lower()}:{origin.port}\r\nA: b\r\nConnection: close\r\n\r\n".encode()
    ]


async def test_a_tunnel_brings_bytes_both_ways(origin: Origin) -> None:
    proxy = Proxy(("a.example",), home, allow=lambda address: True)
    answer = await said(proxy, f"CONNECT a.example:{origin.port} HTTP/1.1\r\n\r\nhello".encode())
    assert (answer, origin.asked) == (b"HTTP/1.1 200 Connection established\r\n\r\n" + ANSWER, [b"hello"])


async def test_a_private_address_needs_to_be_listed_as_such(origin: Origin) -> None:
    request = "GET http://{}:{}/ HTTP/1.1\r\n\r\n"
    by_name, by_number = (request.format(host, origin.port).encode() for host in ("a.example", "127.0.0.1"))
    assert status(await said(Proxy(("a.example",), home), by_name)) == b"502"
    assert origin.asked == []
    assert status(await said(Proxy(("127.0.0.1",)), by_number)) == b"200"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET ftp://a.example/ HTTP/1.1\r\n\r\n", b"400"),
        (b"CONNECT a.example:99999 HTTP/1.1\r\n\r\n", b"400"),
        (b"\xff\xfe /\r\n\r\n", b"400"),
        (b"G" * (MAX_HEAD_BYTES + 2), b"431"),
    ],
)
async def test_what_is_no_request_is_told_so(request_: bytes, code: bytes) -> None:
    assert status(await said(Proxy(("a.example",), known), request_)) == code


async def test_a_client_that_leaves_harms_nobody(origin: Origin) -> None:
    proxy = Proxy(("127.0.0.1",))
    async with serving(proxy) as path:
        for request in (b"", b"GET", f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1\r\n\r\n".encode()):
            _, writer = await asyncio.open_unix_connection(path)
            writer.write(request)
            writer.close()
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(f"GET http://127.0.0.1:{origin.port}/ HTTP/1.1\r\n\r\n".encode())
        with anyio.fail_after(5):
            assert await reader.read() == ANSWER
        writer.close()


async def test_what_was_refused_is_told_up_to_a_bound() -> None:
    proxy = Proxy(("a.example",), known)
    assert proxy.words() == []
    for number in range(MAX_TOLD + 5):
        await said(proxy, f"CONNECT x{number}.example:443 HTTP/1.1\r\n\r\n".encode())
    names = ", ".join(f"x{number}.example" for number in range(MAX_TOLD))
    assert proxy.words() == [f"The sandbox let it reach a.example alone, and refused {names}."]


@pytest.mark.parametrize("error", [FileNotFoundError("gone"), ValueError("bad")])
async def test_an_error_of_the_command_comes_out_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        async with serving(Proxy(("a.example",))):
            raise error


async def test_nothing_of_it_is_left() -> None:
    async with serving(Proxy(("a.example",))) as path:
        assert path.is_socket()
        assert path.parent.stat().st_mode & 0o077 == 0
    assert not path.parent.exists()
