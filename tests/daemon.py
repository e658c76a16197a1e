"""A real `agentcore serve` in a process of its own, started, killed and started again on the same folders; and its
event streams down to the byte.

Nothing here sleeps: a start is waited for by its line on stdout, an end by the exit of the process, an event by
reading the stream; each within a bound.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx
from anyio.abc import SocketStream

from agentcore.encoding import head_of

COMMAND = Path(sys.executable).with_name("agentcore")
START_S = 30.0
WAIT_S = 20.0
"""Bound of every single wait; far beyond what a healthy server takes."""
DISPLAY_ONLY = frozenset({"text_delta", "thinking_delta", "tool_call_delta", "tool_output_delta", "waiting"})
"""Events that the contract keeps out of the journal."""
TOKEN = "daemon-under-test-0123456789abcdef"


@dataclass
class Daemon:
    """One server and its folders; they outlive its process."""

    root: Path
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    token: str = TOKEN
    process: subprocess.Popen[bytes] | None = None
    url: str = ""

    @property
    def cwd(self) -> Path:
        return self.root / "work"

    @property
    def state_dir(self) -> Path:
        return self.root / "state"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    # --- the process ---

    def start(self) -> None:
        """Start the server on its folders and wait for its start line."""
        self.cwd.mkdir(parents=True, exist_ok=True)
        (self.root / "home").mkdir(exist_ok=True)
        home = {"HOME": str(self.root / "home"), "XDG_CONFIG_HOME": str(self.root / "config")}
        own = {"PATH": os.environ["PATH"], "AGENTCORE_TOKEN": self.token, **home, **self.environment}
        with (self.root / "stderr.log").open("ab") as log:
            self.process = subprocess.Popen(
                [COMMAND, "serve", "--port", "0", "--state-dir", self.state_dir, *self.arguments],
                cwd=self.cwd,
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self.url = json.loads(self._start_line())["url"]

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def wait(self) -> int:
        """Wait for the end of the process; return its exit code."""
        assert self.process is not None
        process = self.process
        with anyio.fail_after(WAIT_S):
            return await anyio.to_thread.run_sync(process.wait, WAIT_S, abandon_on_cancel=True)

    def kill(self) -> None:
        """SIGKILL: nothing of the process runs any more when this returns."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(WAIT_S)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def restart(self) -> None:
        """Kill the server and start it again on the same folders."""
        self.kill()
        self.start()

    def log(self) -> str:
        """What was printed on stderr so far, by all its processes."""
        return (self.root / "stderr.log").read_text()

    def _start_line(self) -> bytes:
        assert self.process is not None
        assert self.process.stdout is not None
        line, deadline = b"", time.monotonic() + START_S
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            byte = os.read(self.process.stdout.fileno(), 1) if ready else b""
            assert byte, f"no start line; stderr:\n{self.log()}"
            line += byte
        return line

    # --- what is on its disk ---

    def configure(self, settings: str) -> None:
        """Write the user's settings.toml; read at the next start."""
        file = self.root / "config" / "agentcore" / "settings.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(settings)

    def script(self, name: str, script: dict[str, Any]) -> str:
        """Write a script into the work folder; return the name of the model that plays it."""
        self.cwd.mkdir(parents=True, exist_ok=True)
        (self.cwd / f"{name}.json").write_text(json.dumps(script))
        return f"scripted/{name}.json"

    def journal(self, session: str) -> Path:
        [path] = (self.state_dir / "data" / "sessions").glob(f"*/{session}/journal.jsonl")
        return path

    def lines(self, session: str) -> list[bytes]:
        """Every durable event of the journal, as its bytes."""
        return [line for line in self.journal(session).read_bytes().split(b"\n") if head_of(line) is not None]

    def events(self, session: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines(session)]

    # --- talking to it ---

    def client(self) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=WAIT_S, trust_env=False)

    async def open_stream(
        self, session: str | None, *, after: object = None, query: str = "", method: str = "GET", **headers: str
    ) -> "Stream":
        """Ask for the events of a session, or of all (None); `after` goes into `Last-Event-ID`."""
        given = {"Authorization": f"Bearer {self.token}", **headers}
        if after is not None:
            given["Last-Event-ID"] = str(after)
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items() if value)
        with anyio.fail_after(WAIT_S):
            socket = await anyio.connect_tcp("127.0.0.1", self.port)
            path = "/v1/events" if session is None else f"/v1/sessions/{session}/events"
            path += query
            await socket.send(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        return Stream(socket)

    @asynccontextmanager
    async def stream(self, session: str | None, **options: Any) -> AsyncIterator["Stream"]:
        """An open stream whose head has come."""
        stream = await self.open_stream(session, **options)
        async with stream.socket:
            await stream.read_head()
            yield stream


@contextmanager
def running(root: Path, *arguments: str, **environment: str) -> Iterator[Daemon]:
    """A started server below `root`, killed at the end."""
    daemon = Daemon(root, arguments, environment)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.kill()


@dataclass(frozen=True, slots=True)
class Frame:
    """One block of a stream; a comment has neither event nor data."""

    raw: bytes
    """Without the empty line behind it."""
    id: int | None = None
    event: str = ""
    data: bytes = b""
    place: str | None = None
    """The id of a block that is nothing but one."""

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.data)
        return value


class Wire:
    """What has come over one connection: head, body without its chunking, and whether it was properly ended."""

    def __init__(self) -> None:
        self.head = b""
        self.is_complete = False
        self._raw = bytearray()
        self._body = bytearray()
        self._left = 0
        """Bytes of the present chunk that are still to come."""

    def feed(self, data: bytes) -> None:
        self._raw += data
        if not self.head:
            head, found, rest = bytes(self._raw).partition(b"\r\n\r\n")
            if not found:
                return
            self.head, self._raw = head, bytearray(rest)
        while self._raw and not self.is_complete:
            if not self._left and not self._begin_chunk():
                return
            part = self._raw[: self._left]
            del self._raw[: len(part)]
            self._left -= len(part)
            self._body += part

    def frames(self) -> list[Frame]:
        """Take the whole blocks that have come; a cut one stays behind."""
        *blocks, rest = bytes(self._body).split(b"\n\n")
        self._body = bytearray(rest)
        return [parse_frame(block) for block in blocks]

    def _begin_chunk(self) -> bool:
        start = 2 if self._raw.startswith(b"\r\n") else 0  # the line end behind the chunk before
        end = self._raw.find(b"\r\n", start)
        if end < 0:
            return False
        self._left = int(self._raw[start:end], 16)
        self.is_complete = self._left == 0
        del self._raw[: end + 2]
        return not self.is_complete


def parse_frame(block: bytes) -> Frame:
    name, event, data = None, "", b""
    for line in block.split(b"\n"):
        field, _, value = line.partition(b": ")
        if field == b"id":
            name = value.decode()
        elif field == b"event":
            event = value.decode()
        elif field == b"data":
            data = value
    if name is None or not data:
        return Frame(block, None, event, data, name)
    return Frame(block, int(name), event, data)


class Stream:
    """A reader of one event stream. Every wait is bounded."""

    def __init__(self, socket: SocketStream) -> None:
        self.socket = socket
        self.wire = Wire()
        self._frames: deque[Frame] = deque()

    @property
    def status(self) -> int:
        return int(self.wire.head.split(b" ", 2)[1])

    @property
    def headers(self) -> dict[str, str]:
        lines = self.wire.head.decode().split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    async def read_head(self) -> None:
        with anyio.fail_after(WAIT_S):
            while not self.wire.head:
                self.wire.feed(await self.socket.receive())

    async def next(self) -> Frame:
        """The next block. Raises: anyio.EndOfStream."""
        with anyio.fail_after(WAIT_S):
            while not self._take_frames():
                if self.wire.is_complete:
                    raise anyio.EndOfStream
                try:
                    self.wire.feed(await self.socket.receive())
                except anyio.BrokenResourceError:
                    raise anyio.EndOfStream from None
        return self._frames.popleft()

    async def until(self, event: str) -> list[Frame]:
        """Everything up to and including the next event of that type."""
        return await self._until(lambda frame: frame.event == event)

    async def until_seq(self, seq: int) -> list[Frame]:
        """Everything up to and including the event of that number."""
        return await self._until(lambda frame: frame.id == seq)

    async def until_idle(self) -> list[Frame]:
        """Everything up to and including the next `status` that is not busy."""
        return await self._until(lambda frame: frame.event == "status" and not frame.json["busy"])

    async def until_place(self, place: str) -> list[Frame]:
        """Everything up to and including the block that says just that."""
        return await self._until(lambda frame: frame.place == place)

    async def to_end(self) -> list[Frame]:
        frames: list[Frame] = []
        with anyio.fail_after(WAIT_S), suppress(anyio.EndOfStream):
            while True:
                frames.append(await self.next())
        return frames

    async def _until(self, is_last: Callable[[Frame], bool]) -> list[Frame]:
        with anyio.fail_after(WAIT_S):  # as a whole: comments come for ever
            frames = [await self.next()]
            while not is_last(frames[-1]):
                frames.append(await self.next())
        return frames

    def _take_frames(self) -> bool:
        self._frames.extend(self.wire.frames())
        return bool(self._frames)


def numbered(frames: list[Frame]) -> list[Frame]:
    """Only the events that have a number."""
    return [frame for frame in frames if frame.id is not None]
