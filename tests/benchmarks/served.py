"""A real server process under measurement, the model of `model.py` behind it, and a plain reader of its streams."""

import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from tests.benchmarks.model import model
from tests.daemon import Daemon, running

IDLE = b'"busy":false}'
"""How the last event of a run ends."""
WAIT_S = 120.0
_KIB = re.compile(r"^Rss:\s+(\d+)", re.MULTILINE)


class Served:
    """What a benchmark does with a server."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        headers = {"Authorization": f"Bearer {daemon.token}"}
        self.http = httpx.Client(base_url=daemon.url, headers=headers, timeout=WAIT_S, trust_env=False)

    def session(self) -> str:
        return str(self.http.post("/v1/sessions", json={}).raise_for_status().json()["id"])

    def prompt(self, session: str, text: str) -> int:
        """Send a prompt; return the number to read after."""
        answer = self.http.post(f"/v1/sessions/{session}/prompt", json={"text": text}).raise_for_status()
        return int(answer.json()["after_seq"])

    def run(self, session: str, text: str) -> None:
        """Send a prompt and wait for its end."""
        answer = self.http.post(f"/v1/sessions/{session}/prompt", json={"text": text, "wait": True})
        assert answer.raise_for_status().json()["stop_reason"] == "end_turn", answer.text

    def open(self, session: str, after: int | None = None) -> socket.socket:
        """Ask for the session's events; nothing of them is read yet."""
        opened = socket.create_connection(("127.0.0.1", self.daemon.port), timeout=WAIT_S)
        cursor = "" if after is None else f"Last-Event-ID: {after}\r\n"
        head = f"Host: localhost\r\nAuthorization: Bearer {self.daemon.token}\r\n{cursor}\r\n"
        opened.sendall(f"GET /v1/sessions/{session}/events HTTP/1.1\r\n{head}".encode())
        return opened

    def state(self, session: str) -> dict[str, int]:
        found: dict[str, int] = self.http.get(f"/v1/sessions/{session}").raise_for_status().json()
        return found

    @property
    def rss_mb(self) -> float:
        found = _KIB.search((self._proc / "smaps_rollup").read_text())
        assert found is not None
        return int(found[1]) / 1024

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the process so far."""
        fields = (self._proc / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def descriptors(self) -> int:
        return sum(1 for _ in (self._proc / "fd").iterdir())

    @property
    def _proc(self) -> Path:
        assert self.daemon.process is not None
        return Path("/proc") / str(self.daemon.process.pid)


@contextmanager
def served() -> Iterator[Served]:
    """A server whose provider is loaded and has answered once."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        Daemon(folder).configure("auto_compact = false\n")  # floods of words are more than any window holds
        environment = {"ANTHROPIC_API_KEY": "benchmark", "ANTHROPIC_BASE_URL": stack.enter_context(model())}
        found = Served(stack.enter_context(running(folder, **environment)))
        stack.enter_context(found.http)
        found.run(found.session(), "deltas 100")
        yield found


def read_until(stream: socket.socket, mark: bytes) -> int:
    """Read until the mark has come; return the number of bytes. Raises: ConnectionError when the stream ends first."""
    total, tail = 0, b""
    while True:
        data = stream.recv(262144)
        if not data:
            raise ConnectionError(f"the stream ended before {mark!r}; its last bytes: {tail!r}")
        total += len(data)
        tail = tail[-len(mark) :] + data
        if mark in tail:
            return total
        tail = tail[-len(mark) :]
