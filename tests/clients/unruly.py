"""A real HTTP server that misbehaves on purpose: one session, its events in memory, every byte under control.

Speaks to sockets itself, because a proper server would not send half a frame. Each GET of the events takes the next
`Connection` from `script`; when the script is empty, connections behave. Nothing here sleeps: an open stream waits
for the next event on a condition.
"""

import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from agentcore.encoding import encode, type_of
from agentcore.events import Event, PermissionRequest

TOKEN = "the-token"
SESSION = "20260101-000000-abcdef"
STATE = {
    "id": SESSION,
    "title": None,
    "cwd": "/project",
    "model": "scripted/demo",
    "mode": "default",
    "busy": False,
    "last_seq": 1_000_003,
    "created": 1.5,
    "modified": 2.5,
    "newer": {"field": 1},
}
Ending = Literal["eof", "reset", "chunk"]
"""A clean end without a word, a connection reset, or the end in the middle of a chunked body."""


@dataclass(frozen=True)
class Connection:
    """How one GET of the event stream goes."""

    status: int = 200
    cut_at: int | None = None
    """Bytes of the body until the connection ends; None to stay."""
    ending: Ending = "eof"
    overlap: int = 0
    """Events before the cursor that are sent again."""
    line_end: bytes = b"\n"
    write_size: int = 1 << 16
    media_type: str = "text/event-stream"
    goodbye: bytes = b""
    """Sent after the events that are due; then the connection ends."""
    lingers: bool = False
    """Say goodbye and stay."""


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Unruly:
    """The session behind the server, and what was asked of it."""

    frames: list[tuple[int, bytes]] = field(default_factory=list)
    open_requests: dict[str, bytes] = field(default_factory=dict)
    script: list[Connection] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    replies: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """Canned answers by `METHOD path`; taken before anything else."""
    drops: int = 0
    """Calls (not streams) whose connection is closed after they had their effect, before the answer."""
    resolutions: dict[str, str] = field(default_factory=dict)
    """What became of requests that are not open any more."""
    on_prompt: Callable[["Unruly", str], object] = lambda unruly, prompt_id: None
    on_answer: Callable[["Unruly", str, Any], object] = lambda unruly, request_id, body: None
    first_answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    prompts: int = 0
    features: tuple[str, ...] = ("idempotency",)
    stopped: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)
    url: str = ""

    @property
    def last_seq(self) -> int:
        return self.frames[-1][0] if self.frames else 0

    def emit(self, event: Event) -> int:
        """Publish an event under the next number."""
        seq = self.last_seq + 1
        data = encode(event, seq, SESSION, 1.0)
        if isinstance(event, PermissionRequest):
            self.open_requests[event.request_id] = data
        return self.emit_raw(type_of(event), data)

    def emit_raw(self, name: str, data: bytes) -> int:
        """Publish any bytes as an event of the next number."""
        with self.changed:
            seq = self.last_seq + 1
            self.frames.append((seq, b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, name.encode(), data)))
            self.changed.notify_all()
        return seq

    def stop(self) -> None:
        with self.changed:
            self.stopped = True
            self.changed.notify_all()

    def streams(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.path.partition("?")[0].endswith("/events")]

    def body(self, after: int | None, connection: Connection) -> Iterator[bytes]:
        """The bytes of a stream: greeting, snapshot, all that is retained, then what comes."""
        sent = self.last_seq if after is None else max(0, after - connection.overlap)
        yield b": connected\n\n" + self._snapshot()
        while True:
            frames = list(self.frames)
            due = b"".join(frame for seq, frame in frames if seq > sent)
            sent = max([sent, *(seq for seq, _ in frames)])
            if due:
                yield b": keepalive\n\n" + due
            if connection.goodbye:
                yield connection.goodbye
            if connection.goodbye and not connection.lingers:
                return
            with self.changed:
                self.changed.wait_for(lambda: self.stopped or self.last_seq > sent)  # noqa: B023 - called at once
            if self.stopped:
                return

    def _snapshot(self) -> bytes:
        pending = b",".join(self.open_requests.values())
        session = json.dumps({**STATE, "last_seq": self.last_seq}).encode()
        head = b'{"type":"snapshot","newer":1,"last_seq":%d' % self.last_seq
        data = head + b',"session":%s,"permissions":[%s]}' % (session, pending)
        return b"event: snapshot\ndata: %s\n\n" % data


class Handler(BaseHTTPRequestHandler):
    """Answers for the `Unruly` of its server."""

    protocol_version = "HTTP/1.1"
    unruly: Unruly

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._take()

    do_POST = do_PATCH = do_DELETE = do_GET

    def _take(self) -> None:
        size = int(self.headers.get("Content-Length", 0))
        raw = self.rfile.read(size)
        is_json = self.headers.get("Content-Type") == "application/json"
        body = json.loads(raw) if is_json and size else raw or None
        path = self.path.partition("?")[0]
        self.unruly.seen.append(Seen(self.command, self.path, dict(self.headers), body))
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._answer(401, {"error": "who are you?", "code": "unauthorized"})
        if path.endswith("/events") and f"GET {path}" not in self.unruly.replies:
            return self._stream(self.unruly.script.pop(0) if self.unruly.script else Connection())
        status, content = self._reply(path, body)
        if self.unruly.drops:
            self.unruly.drops -= 1
            return self._hang_up("reset")
        return self._answer(status, content)

    def _reply(self, path: str, body: Any) -> tuple[int, Any]:
        """The answer to a call; a repeated submission gets the first one."""
        key = self.headers.get("Idempotency-Key")
        if "idempotency" not in self.unruly.features:
            key = None
        if key in self.unruly.first_answers:
            return self.unruly.first_answers[key]
        answer = self.unruly.replies.get(f"{self.command} {path}") or self._effect(path, body)
        if key:
            self.unruly.first_answers[key] = answer
        return answer

    def _effect(self, path: str, body: Any) -> tuple[int, Any]:
        if path.endswith("/prompt"):
            after = self.unruly.last_seq
            self.unruly.prompts += 1
            prompt_id = f"prompt_{self.unruly.prompts}"
            self.unruly.on_prompt(self.unruly, prompt_id)
            accepted = {"session": SESSION, "prompt_id": prompt_id, "after_seq": after, "disposition": "started"}
            return 202, {**accepted, "newer": True}
        if match := re.search(r"/permissions/([^/]+)$", path):
            return self._answered(match[1], body)
        if path == "/v1/info":
            return 200, {"version": "1", "cwd": "/project", "roots": ["/project"], "features": self.unruly.features}
        return 404, {"error": "no such thing", "code": "not_found"}

    def _answered(self, request_id: str, body: Any) -> tuple[int, Any]:
        if self.unruly.open_requests.pop(request_id, None) is None:
            details = {"resolution": self.unruly.resolutions.get(request_id, "denied")}
            return 409, {"error": "somebody was faster", "code": "already_resolved", "details": details}
        self.unruly.resolutions[request_id] = "allowed" if body["allow"] else "denied"
        self.unruly.on_answer(self.unruly, request_id, body)
        return 204, None

    def _answer(self, status: int, content: Any) -> None:
        data = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        if content is not None:
            self.send_header("Content-Type", "application/json")
        if status == 503:
            self.send_header("Retry-After", "5")
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, connection: Connection) -> None:
        if connection.status != 200:
            return self._answer(connection.status, {"error": "not now", "code": "internal"})
        is_chunked = connection.ending == "chunk"
        self.send_response(200)
        self.send_header("Content-Type", connection.media_type)
        self.send_header(*(("Transfer-Encoding", "chunked") if is_chunked else ("Connection", "close")))
        self.end_headers()
        after = self.headers.get("Last-Event-ID")
        written = 0
        with suppress(OSError):  # the reader went away
            for piece in self._pieces(_number_in(after), connection):
                rest = piece if connection.cut_at is None else piece[: connection.cut_at - written]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(rest), rest) if is_chunked and rest else rest)
                written += len(rest)
                if written == connection.cut_at:
                    break
        return self._hang_up(connection.ending)

    def _pieces(self, after: int | None, connection: Connection) -> Iterator[bytes]:
        is_of_many = self.path.startswith("/v1/events")
        for text in map(_of_many if is_of_many else bytes, self.unruly.body(after, connection)):
            whole = text.replace(b"\n", connection.line_end)
            for start in range(0, len(whole), connection.write_size):
                yield whole[start : start + connection.write_size]

    def _hang_up(self, ending: Ending) -> None:
        self.close_connection = True
        if ending == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()  # with no time to linger, closing resets


def _of_many(piece: bytes) -> bytes:
    """As the stream over many sessions has it, of which there is one: a place behind it, and no other ids."""
    numbers = re.findall(rb"^id: (\d+)\n", piece, re.MULTILINE)
    place = b"id: %s:%s\n\n" % (SESSION.encode(), numbers[-1]) if numbers else b""
    return re.sub(rb"^id: \d+\n", b"", piece, flags=re.MULTILINE) + place


def _number_in(cursor: str | None) -> int | None:
    """Of a cursor in one session, or in many that are one; an empty one knows no session."""
    return None if cursor is None else int(cursor.rpartition(":")[2] or 0)


class QuietServer(ThreadingHTTPServer):
    """Threads that a forgotten connection cannot keep alive, and no tracebacks for readers that leave."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextmanager
def running(unruly: Unruly) -> Iterator[Unruly]:
    """Serve it on a free port of the loopback."""
    handler = type("BoundHandler", (Handler,), {"unruly": unruly})
    with QuietServer(("127.0.0.1", 0), handler) as server:
        unruly.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield unruly
        finally:
            unruly.stop()
            server.shutdown()
            thread.join()
