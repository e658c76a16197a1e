"""Who gets in, in which order it is decided, and what becomes of the connection of those who do not."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from server.guard import MAX_BODY_BYTES, Admission, Guard
from server.problems import Problem, edge
from tests.server.processes import daemon

pytestmark = pytest.mark.anyio

TOKEN = "the-right-token"
PORT = 4765
PAGE = "https://dash.example"
HOST = ("host", f"127.0.0.1:{PORT}")
BEARER = ("authorization", f"Bearer {TOKEN}")
JSON = ("content-type", "application/json")
CHUNKED = ("transfer-encoding", "chunked")
ADMISSION = Admission(TOKEN, frozenset({"box.example", "named.example:81"}), frozenset({PAGE}))


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    read: int = 0
    """How often the body was asked for."""

    @property
    def code(self) -> str | None:
        return json.loads(self.body)["code"] if self.body.startswith(b'{"error"') else None


async def behind(scope: Scope, receive: Receive, send: Send) -> None:
    """The application: reads the body and says so."""
    body = await Request(scope, receive).body()
    await Response(b"in:%d" % len(body))(scope, receive, send)


async def ask(
    *headers: tuple[str, str],
    method: str = "GET",
    path: str = "/v1/info",
    query: str = "",
    body: tuple[bytes, ...] = (b"",),
    server: tuple[str, int | None] = ("127.0.0.1", PORT),
    guard: Guard | None = None,
) -> Answer:
    answer = Answer()
    pieces = list(body)

    async def receive() -> Message:
        answer.read += 1
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        answer.body += message.get("body", b"")

    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "scheme": "http",
        "server": server,
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
    }
    with anyio.fail_after(5):
        await (guard or Guard(behind, ADMISSION, redeem))(scope, receive, send)
    return answer


def redeem(ticket: str, session: str) -> bool:
    return (ticket, session) == ("good", "s1")


HOSTS_IN = ["localhost", "LocalHost:4765", "127.0.0.1", "127.0.0.1:4765", "127.9.8.7:4765", "[::1]", "[::1]:4765"]
HOSTS_IN += ["[0:0:0:0:0:0:0:1]:4765", "box.example", "box.example:9999", "named.example:81"]
HOSTS_OUT = [
    *("evil.example", "localhost.evil.example", "localhost:80", "127.0.0.1:80", "[::1]:80", "localhost.", ""),
    *("localhost:", "localhost:x", "localhost:4765:4765", "a@localhost", "localhost@evil.example", "127.1"),
    *("2130706433", "0x7f.0.0.1", "127.0.0.01", "0177.0.0.1", "128.0.0.1", "0.0.0.0", "[::2]", "[::]", "::1"),
    *("[::ffff:127.0.0.1]", "[::1", "localhost/", "localhost, evil.example", "local host", "named.example"),
    *(
        "named.example:80",
        "sub.box.example",
        "box.example.evil",
        "localhost\x00",
        "\uff4cocalhost".encode().decode("latin-1"),
    ),
]


@pytest.mark.parametrize("host", HOSTS_IN)
async def test_a_local_or_allowed_host_is_admitted(host: str) -> None:
    assert (await ask(("host", host), BEARER)).status == 200


@pytest.mark.parametrize("host", HOSTS_OUT)
@pytest.mark.parametrize("path", ["/v1/info", "/v1/health"])
async def test_any_other_host_is_refused_also_on_health(host: str, path: str) -> None:
    answer = await ask(("host", host), BEARER, path=path)
    assert (answer.status, answer.code) == (403, "forbidden_host")


@pytest.mark.parametrize("hosts", [(), (HOST, HOST), (HOST, ("host", "evil.example"))], ids=["none", "same", "other"])
async def test_a_request_names_exactly_one_host(hosts: tuple[tuple[str, str], ...]) -> None:
    assert (await ask(*hosts, BEARER)).code == "forbidden_host"


@pytest.mark.parametrize(("host", "status"), [("localhost", 200), ("localhost:99", 200), ("evil.example", 403)])
async def test_a_unix_socket_has_no_port_but_a_host(host: str, status: int) -> None:
    assert (await ask(("host", host), BEARER, server=("/run/s", None))).status == status


def origin(value: str) -> tuple[str, str]:
    return ("origin", value)


def site(value: str) -> tuple[str, str]:
    return ("sec-fetch-site", value)


PAGES_IN = {
    "no browser": (),
    "own": (origin("http://127.0.0.1:4765"),),
    "own, typed in": (site("none"),),
    "own, no origin": (site("same-origin"),),
    "allowed": (origin(PAGE), site("cross-site")),
    "allowed, other case": (origin("HTTPS://Dash.Example"),),
}
PAGES_OUT = {
    "foreign": (origin("https://evil.example"),),
    "null": (origin("null"),),
    "empty": (origin(""),),
    "other port": (origin("http://127.0.0.1:3000"),),
    "other scheme": (origin("https://127.0.0.1:4765"),),
    "other name": (origin("http://localhost:4765"),),
    "allowed, other scheme": (origin("http://dash.example"),),
    "allowed, longer": (origin("https://dash.example.evil"),),
    "two": (origin(PAGE), origin(PAGE)),
    "foreign image": (site("cross-site"),),
    "neighbour image": (site("same-site"),),
    "unknown site": (site("sideways"),),
    "two sites": (site("same-origin"), site("cross-site")),
    "foreign that claims": (origin("https://evil.example"), site("same-origin")),
}


@pytest.mark.parametrize("headers", PAGES_IN.values(), ids=PAGES_IN.keys())
async def test_our_own_and_allowed_pages_are_admitted(headers: tuple[tuple[str, str], ...]) -> None:
    assert (await ask(HOST, *headers, BEARER)).status == 200


@pytest.mark.parametrize("headers", PAGES_OUT.values(), ids=PAGES_OUT.keys())
async def test_other_pages_are_refused_also_with_the_token(headers: tuple[tuple[str, str], ...]) -> None:
    answer = await ask(HOST, *headers, BEARER)
    assert (answer.status, answer.code) == (403, "forbidden_origin")
    assert "access-control-allow-origin" not in answer.headers


async def test_the_origin_is_ours_as_the_host_names_it_and_as_we_listen() -> None:
    for named in ("http://localhost:4765", "http://127.0.0.1:4765", "http://localhost"):
        assert (await ask(("host", "localhost"), origin(named), BEARER)).status == 200


@pytest.mark.parametrize("headers", [(BEARER,), ()], ids=["in", "refused"])
async def test_an_allowed_page_may_read_answers_and_refusals(headers: tuple[tuple[str, str], ...]) -> None:
    answer = await ask(HOST, origin(PAGE), *headers)
    assert (answer.headers["access-control-allow-origin"], answer.headers["vary"]) == (PAGE, "Origin")


async def test_our_own_page_needs_no_permission_to_read() -> None:
    assert "access-control-allow-origin" not in (await ask(HOST, origin("http://127.0.0.1:4765"), BEARER)).headers


ASKED = ("access-control-request-method", "POST")


async def test_a_preflight_of_an_allowed_page_is_answered_without_the_token() -> None:
    answer = await ask(HOST, origin(PAGE), ASKED, ("access-control-request-private-network", "true"), method="OPTIONS")
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, PAGE)
    allowed = set(answer.headers["access-control-allow-headers"].split(", "))
    assert allowed == {"Authorization", "Content-Type", "Last-Event-ID", "Idempotency-Key"}
    assert set(answer.headers["access-control-allow-methods"].split(", ")) == {"GET", "POST", "PATCH", "DELETE"}
    assert answer.headers["access-control-allow-private-network"] == "true"


PREFLIGHTS = {
    "foreign": ((HOST, origin("https://evil.example"), ASKED), "forbidden_origin"),
    "foreign name": ((("host", "evil.example"), origin(PAGE), ASKED), "forbidden_host"),
    "no origin": ((HOST, ASKED), "unauthorized"),
    "no preflight": ((HOST, origin(PAGE)), "unauthorized"),
}


@pytest.mark.parametrize(("headers", "code"), PREFLIGHTS.values(), ids=PREFLIGHTS.keys())
async def test_other_options_requests_are_refused(headers: tuple[tuple[str, str], ...], code: str) -> None:
    assert (await ask(*headers, method="OPTIONS")).code == code


TOKENS_OUT = {
    "none": (),
    "wrong": (("authorization", "Bearer wrong"),),
    "longer": (("authorization", f"Bearer {TOKEN}x"),),
    "shorter": (("authorization", f"Bearer {TOKEN[:-1]}"),),
    "empty": (("authorization", "Bearer "),),
    "bare": (("authorization", TOKEN),),
    "basic": (("authorization", f"Basic {TOKEN}"),),
    "twice": (BEARER, BEARER),
    "not ascii": (("authorization", "Bearer \xff"),),
}


@pytest.mark.parametrize("headers", TOKENS_OUT.values(), ids=TOKENS_OUT.keys())
async def test_without_the_token_nothing_is_told_and_nothing_read(headers: tuple[tuple[str, str], ...]) -> None:
    answer = await ask(HOST, *headers, ("content-length", "2"), method="POST", body=(b"{}",))
    assert (answer.status, answer.code, answer.read) == (401, "unauthorized", 0)
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_has_no_case(scheme: str) -> None:
    assert (await ask(HOST, ("authorization", f"{scheme} {TOKEN}"))).status == 200


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("POST", 401)])
async def test_health_needs_no_token(method: str, status: int) -> None:
    assert (await ask(HOST, method=method, path="/v1/health")).status == status


STREAM = "/v1/sessions/s1/events"
TICKETS: dict[str, tuple[dict[str, str], int]] = {
    "good": ({"path": STREAM, "query": "after=3&ticket=good"}, 200),
    "wrong": ({"path": STREAM, "query": "ticket=bad"}, 401),
    "twice": ({"path": STREAM, "query": "ticket=good&ticket=good"}, 401),
    "none": ({"path": STREAM}, 401),
    "other session": ({"path": "/v1/sessions/s2/events", "query": "ticket=good"}, 401),
    "other path": ({"path": "/v1/sessions/s1/messages", "query": "ticket=good"}, 401),
    "below": ({"path": STREAM + "/x", "query": "ticket=good"}, 401),
    "newline": ({"path": STREAM + "\n", "query": "ticket=good"}, 401),
    "head": ({"path": STREAM, "query": "ticket=good", "method": "HEAD"}, 401),
    "post": ({"path": STREAM, "query": "ticket=good", "method": "POST"}, 401),
}


@pytest.mark.parametrize(("request_", "status"), TICKETS.values(), ids=TICKETS.keys())
async def test_a_ticket_opens_one_stream_and_nothing_else(request_: dict[str, str], status: int) -> None:
    assert (await ask(HOST, **request_)).status == status  # type: ignore[arg-type]  # a table of keywords


async def test_the_token_spends_no_ticket() -> None:
    spent: list[str] = []

    def spend(ticket: str, _session: str) -> bool:
        spent.append(ticket)
        return True

    guard = Guard(behind, ADMISSION, spend)
    assert (await ask(HOST, BEARER, path=STREAM, query="ticket=good", guard=guard)).status == 200
    wrong = ("authorization", "Bearer wrong")
    assert (await ask(HOST, wrong, path=STREAM, query="ticket=good", guard=guard)).status == 401
    assert spent == []


LENGTH = ("content-length", "2")
MEDIA = {
    "json": ((JSON, LENGTH), 200),
    "charset": ((("content-type", "Application/JSON; charset=UTF-8"), LENGTH), 200),
    "quoted": ((("content-type", 'application/json;charset="utf-8"'), LENGTH), 200),
    "no body": ((), 200),
    "empty body": ((("content-length", "0"),), 200),
    "none": ((LENGTH,), 415),
    "text": ((("content-type", "text/plain"), LENGTH), 415),
    "form": ((("content-type", "application/x-www-form-urlencoded"), LENGTH), 415),
    "hidden": ((("content-type", "text/plain; application/json"), LENGTH), 415),
    "longer": ((("content-type", "application/jsonp"), LENGTH), 415),
    "other charset": ((("content-type", "application/json; charset=utf-16"), LENGTH), 415),
    "list": ((("content-type", "application/json, text/plain"), LENGTH), 415),
    "twice": ((JSON, JSON, LENGTH), 415),
    "chunked": ((CHUNKED,), 415),
    "chunked json": ((JSON, CHUNKED), 200),
}


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize(("headers", "status"), MEDIA.values(), ids=MEDIA.keys())
async def test_a_body_is_json_on_every_method(headers: tuple[tuple[str, str], ...], status: int, method: str) -> None:
    answer = await ask(HOST, BEARER, *headers, method=method, body=(b"{}",))
    assert (answer.status, answer.read) == (status, 1 if status == 200 else 0)


async def test_a_body_of_exactly_the_limit_passes() -> None:
    length = ("content-length", str(MAX_BODY_BYTES))
    answer = await ask(HOST, BEARER, JSON, length, method="POST", body=(b"x" * MAX_BODY_BYTES,))
    assert answer.body == b"in:%d" % MAX_BODY_BYTES


async def test_a_larger_body_is_refused_before_it_is_read() -> None:
    length = ("content-length", str(MAX_BODY_BYTES + 1))
    answer = await ask(HOST, BEARER, JSON, length, method="POST", body=(b"x",))
    assert (answer.status, answer.code, answer.read) == (413, "body_too_large", 0)
    assert "connection" not in answer.headers


async def behind_an_edge(scope: Scope, receive: Receive, send: Send) -> None:
    async def handler(request: Request) -> Response:
        return Response(await request.body())

    await (await edge(handler)(Request(scope, receive)))(scope, receive, send)


@pytest.mark.parametrize("app", [behind, behind_an_edge])
async def test_a_body_without_a_length_is_counted(app: Any) -> None:
    pieces = (b"x" * MAX_BODY_BYTES, b"x", b"never read")
    answer = await ask(HOST, BEARER, JSON, CHUNKED, method="POST", body=pieces, guard=Guard(app, ADMISSION, redeem))
    assert (answer.status, answer.code, answer.read) == (413, "body_too_large", 2)
    assert answer.headers["connection"] == "close"


async def test_an_answer_that_has_begun_is_not_answered_again() -> None:
    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise Problem("session_busy", "Too late.")

    answer = await ask(HOST, BEARER, guard=Guard(late, ADMISSION, redeem))
    assert (answer.status, answer.body) == (200, b"")


async def test_a_length_that_is_no_number_is_refused() -> None:
    for length in ("-1", "1e3", "9" * 50):
        assert (await ask(HOST, BEARER, JSON, ("content-length", length), method="POST")).status in (400, 413)


ORDER = [
    ((("host", "evil"), origin("null"), CHUNKED), "forbidden_host"),
    ((HOST, origin("null"), CHUNKED), "forbidden_origin"),
    ((HOST, CHUNKED), "unauthorized"),
    ((HOST, BEARER, ("content-length", "99999999")), "unsupported_media_type"),
    ((HOST, BEARER, JSON, ("content-length", "99999999")), "body_too_large"),
]


@pytest.mark.parametrize(("headers", "code"), ORDER, ids=[code for _, code in ORDER])
async def test_the_checks_come_in_their_order(headers: tuple[tuple[str, str], ...], code: str) -> None:
    assert (await ask(*headers, method="POST")).code == code


async def test_a_websocket_is_refused() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await Guard(behind, ADMISSION, redeem)({"type": "websocket", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_the_token_is_not_in_what_is_printed() -> None:
    assert TOKEN not in repr(ADMISSION)


REFUSED_BODIES = {
    "short, read on": (b"Content-Length: 5\r\n", b"hello", "keep"),
    "large, read on": (b"Content-Length: 5000000\r\n", b"x" * 5_000_000, "keep"),
    "waits for leave": (b"Content-Length: 5\r\nExpect: 100-continue\r\n", b"", "close"),
    "endless": (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n", "close"),
    "enormous": (b"Content-Length: 99999999999\r\n", b"x", "close"),
}


@pytest.mark.parametrize(("headers", "body", "then"), REFUSED_BODIES.values(), ids=REFUSED_BODIES.keys())
async def test_after_a_refusal_the_connection_is_usable_or_closed(
    headers: bytes, body: bytes, then: str, tmp_path: Path
) -> None:
    async with daemon("--port", "0", state=tmp_path) as server:
        with anyio.fail_after(10):
            async with await anyio.connect_tcp("127.0.0.1", server.port) as connection:
                stream = BufferedByteReceiveStream(connection)
                await connection.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n" + body)
                assert (await stream.receive_until(b"\r\n", 1000)).startswith(b"HTTP/1.1 401 ")
                assert b'"unauthorized"' in await stream.receive_until(b"}", 10_000)
                if then == "close":
                    with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                        await stream.receive()
                    return
                await connection.send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await stream.receive_until(b"\r\n", 1000)).startswith(b"HTTP/1.1 200 ")
