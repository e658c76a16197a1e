"""The process: its start line, its signals, its streams at the end. Real sockets and real signals."""

import json
import resource
import signal
import socket
import stat
from contextlib import suppress
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from server.daemon import raise_descriptor_limit
from server.listener import DEFAULT_PORT, Address, listen
from server.settings import CannotStart
from tests.server.processes import client, daemon, run

pytestmark = pytest.mark.anyio

STREAMS = 50
BOTH = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])


async def open_stream(port: int, path: str, until: bytes) -> SocketStream:
    """Send a GET and read until `until` has come."""
    stream = await anyio.connect_tcp("127.0.0.1", port)
    await stream.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    received = b""
    while until not in received:
        received += await stream.receive()
    return stream


async def read_to_end(stream: SocketStream) -> bytes:
    received = b""
    try:
        while True:
            received += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return received


async def test_the_listener_answers_when_the_start_line_comes(tmp_path: Path) -> None:
    async with daemon("--port", "0", state=tmp_path) as server, client(server) as http:
        response = await http.get("/v1/health")
    assert (response.status_code, response.json()) == (200, {"ok": True})
    assert "server" not in response.headers


@BOTH
async def test_every_stream_is_told_and_the_exit_code_is_0(number: signal.Signals, tmp_path: Path) -> None:
    farewells: list[bytes] = []

    async with daemon("--port", "0", state=tmp_path) as server:
        streams = [await open_stream(server.port, "/events", b": connected\n\n") for _ in range(STREAMS)]

        async def listen_to(stream: SocketStream) -> None:
            async with stream:
                farewells.append(await read_to_end(stream))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as readers:
                for stream in streams:
                    readers.start_soon(listen_to, stream)
                code = await server.end(number)
        out, err = await server.rest()

    assert code == 0
    assert len(farewells) == STREAMS
    # the last chunk is the farewell and the body is properly ended: nobody was cut off
    assert all(b"event: server_stopping\n" in farewell for farewell in farewells)
    assert all(farewell.endswith(b"0\r\n\r\n") for farewell in farewells)
    assert out == ""
    assert err.count("stopping\n") == 1
    assert "Traceback" not in err


async def test_a_reader_that_stopped_reading_is_cut(tmp_path: Path) -> None:
    async with daemon("--port", "0", state=tmp_path) as server:
        async with await open_stream(server.port, "/flood", b"x"):
            with anyio.fail_after(12):
                code = await server.end()
        _, err = await server.rest()
    assert code == 0
    assert "Cancel" not in err  # its handler saw the disconnect; uvicorn had nothing left to cancel


async def test_a_handler_that_does_not_see_the_disconnect_is_cancelled(tmp_path: Path) -> None:
    async with (
        daemon("--port", "0", state=tmp_path) as server,
        await anyio.connect_tcp("127.0.0.1", server.port) as hanging,
    ):
        await hanging.send(b"GET /hang HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with client(server) as http:  # when this is answered, the other request is in its handler
            await http.get("/v1/health")
        with anyio.fail_after(12):
            assert await server.end() == 0


async def test_a_start_that_cannot_be_announced_stops_the_application(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, out, err = await run("serve", "--port", "0", "--state-dir", str(blocked))
    assert (code, out) == (2, "")
    assert [line.partition(":")[0] for line in err.splitlines()] == ["stopping", "agentcore"]


@BOTH
async def test_a_second_signal_ends_the_process_at_once(number: signal.Signals, tmp_path: Path) -> None:
    async with daemon("--port", "0", state=tmp_path, STUB_STOP="hang") as server:
        server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(10):
            await server.stderr.receive_until(b"stopping\n", 100_000)
            code = await server.end(number)
    assert code == 128 + number


async def test_the_listener_answers_while_the_application_stops(tmp_path: Path) -> None:
    async with daemon("--port", "0", state=tmp_path, STUB_STOP="hang") as server, client(server) as http:
        server.process.send_signal(signal.SIGTERM)
        with anyio.fail_after(10):
            await server.stderr.receive_until(b"stopping\n", 100_000)
            response = await http.get("/v1/health")
    assert response.status_code == 200


async def test_a_failing_stop_does_not_keep_the_process(tmp_path: Path) -> None:
    async with daemon("--port", "0", state=tmp_path, STUB_STOP="fail") as server:
        with anyio.fail_after(10):
            code = await server.end()
        _, err = await server.rest()
    assert code == 0
    assert "cannot stop" in err


async def test_hangup_of_the_terminal_is_a_clean_stop(tmp_path: Path) -> None:
    async with daemon("--port", "0", state=tmp_path) as server:
        with anyio.fail_after(10):
            assert await server.end(signal.SIGHUP) == 0
    assert list(tmp_path.glob("servers/*")) == []


async def test_no_log_holds_a_ticket(tmp_path: Path) -> None:
    async with daemon("--port", "0", "--debug", state=tmp_path) as server:
        async with client(server) as http:
            await http.get("/v1/health?ticket=hush-hush")
            await http.get("/nowhere?ticket=hush-hush")
        with anyio.fail_after(10):
            await server.end()
        out, err = await server.rest()
    assert "stopping" in err
    assert "hush-hush" not in out + err


async def test_a_taken_port_that_was_given_is_an_error_which_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code, out, err = await run("serve", "--port", str(port))
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert f"Port {port} is taken" in err
    assert "--port" in err


def test_a_taken_default_port_gives_the_next_free_one() -> None:
    first = listen(Address())
    second = listen(Address())
    try:
        ports = [opened.socket.getsockname()[1] for opened in (first, second)]
    finally:
        first.close()
        second.close()
    assert DEFAULT_PORT <= ports[0] < ports[1]


REFUSED = {
    "any": "0.0.0.0",
    "any6": "::",
    "private": "192.0.2.7",
    "unknown": "no-such-host.invalid",
}


@pytest.mark.parametrize("host", REFUSED.values(), ids=REFUSED.keys())
def test_an_address_that_others_can_reach_is_refused(host: str) -> None:
    with pytest.raises(CannotStart, match=r"127\.0\.0\.1"):
        listen(Address(host, 0))


def test_remote_listening_is_possible_when_asked_for() -> None:
    opened = listen(Address("0.0.0.0", 0, allow_remote=True))
    opened.close()
    assert opened.url.startswith("http://127.0.0.1:")


async def test_a_unix_socket_is_this_users_alone_and_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "a socket"
    async with daemon("--uds", str(path), state=tmp_path) as server:
        assert server.url == f"http+unix://{str(path).replace('/', '%2F').replace(' ', '%20')}"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        transport = httpx.AsyncHTTPTransport(uds=str(path))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            assert (await http.get("/v1/health")).status_code == 200
        with anyio.fail_after(10):
            assert await server.end() == 0
    assert not path.exists()


def test_a_live_unix_socket_is_not_stolen(tmp_path: Path) -> None:
    first = listen(Address(uds=tmp_path / "s"))
    try:
        with pytest.raises(CannotStart, match="already"):
            listen(Address(uds=tmp_path / "s"))
    finally:
        first.close()


def test_a_dead_unix_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    listen(Address(uds=path)).close()
    assert not path.exists()


def test_a_file_in_place_of_the_unix_socket_stays(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(CannotStart, match="not a socket"):
        listen(Address(uds=path))
    assert path.read_text() == "precious"


def test_closing_leaves_a_socket_that_took_the_place(tmp_path: Path) -> None:
    path = tmp_path / "s"
    first = listen(Address(uds=path))
    path.rename(tmp_path / "moved")
    second = listen(Address(uds=path))
    first.close()
    assert path.exists()
    second.close()


BAD_HEADS = {
    "both lengths": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n",
    "no http": b"hello\r\n\r\n",
    "endless header": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000,
    "endless path": b"GET /" + b"x" * 1_000_000,
}


@pytest.mark.parametrize("head", BAD_HEADS.values(), ids=BAD_HEADS.keys())
async def test_a_head_that_is_malformed_or_endless_is_refused_and_the_server_goes_on(
    head: bytes, tmp_path: Path
) -> None:
    async with daemon("--port", "0", state=tmp_path) as server:
        with anyio.fail_after(10):
            async with await anyio.connect_tcp("127.0.0.1", server.port) as stream:
                with suppress(anyio.BrokenResourceError):  # it hangs up while we still send
                    await stream.send(head)
                refusal = await read_to_end(stream)
        async with client(server) as http:
            assert (await http.get("/v1/health")).status_code == 200
    status, _, rest = refusal.partition(b"\r\n")
    assert status == b"HTTP/1.1 400 Bad Request"
    assert json.loads(rest.partition(b"\r\n\r\n")[2])["code"] == "bad_request"


@pytest.mark.parametrize(("token", "is_told"), [("x", True), ("x" * 15, True), ("x" * 16, False)])
async def test_a_token_that_can_be_guessed_is_told(token: str, is_told: bool, tmp_path: Path) -> None:
    async with daemon("--port", "0", state=tmp_path, AGENTCORE_TOKEN=token) as server:
        with anyio.fail_after(10):
            await server.end()
        _, err = await server.rest()
    assert ("the token is short; anyone can guess it" in err) == is_told


LIMITS = {
    "low": (1024, 4096, [(4096, 4096)]),
    "bounded": (1024, 1_000_000, [(65_536, 1_000_000)]),
    "without end": (256, resource.RLIM_INFINITY, [(65_536, resource.RLIM_INFINITY)]),
    "enough": (100_000, 1_000_000, []),
    "no limit": (resource.RLIM_INFINITY, resource.RLIM_INFINITY, []),
}


@pytest.mark.parametrize(("soft", "hard", "changes"), LIMITS.values(), ids=LIMITS.keys())
def test_the_limit_of_open_files_is_raised_up_to_a_bound(
    soft: int, hard: int, changes: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _which, limits: changed.append(limits))
    raise_descriptor_limit()
    assert changed == changes


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="the system does not show a process's limits")
async def test_a_running_server_has_the_raised_limit(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        async with daemon("--port", "0", state=tmp_path) as server:
            limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert int(line.split()[3]) > 512
