"""No reader slows another: many that read nothing, one fast writer, and a reader who gets all of it."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from agentcore_selfcheck.server import Server
from agentcore_selfcheck.talking import Frame, asked, is_event, new_session, stream, until
from agentcore_selfcheck.verdicts import Say, demand

_WORDS = 20_000
_STORY = {"turns": [{"text": "word " * _WORDS}]}
_STALLED = 50
_MOST_MB = 100
"""What the flood may add to the server's memory: 50 readers whose share of it were kept would be far above."""


async def flood(folder: Path, say: Say) -> str:
    async with Server.running(folder, _STORY) as server, server.client() as http:
        session = await new_session(http)
        await asked(http, "POST", f"/v1/sessions/{session}/prompt", 202, text="first")
        async with stream(http, session, after=0) as frames:
            await until(frames, is_event("done"), "the end of a run")
        before = _memory_mb(server.pid)
        say(f"{_STALLED} readers that read nothing")
        with ExitStack() as readers:
            for _ in range(_STALLED):
                readers.enter_context(_stalled(server, session))
            async with stream(http, session) as frames:
                await until(frames, is_event("snapshot"), "the snapshot")
                say(f"{_WORDS} pieces to {_STALLED} stalled readers and a good one")
                await asked(http, "POST", f"/v1/sessions/{session}/prompt", 202, text="go")
                seen = await until(frames, is_event("done"), "the end of the flood")
        numbers = [frame.id for frame in seen if frame.id is not None]
        demand(numbers == list(range(numbers[0], numbers[0] + len(numbers))), "the good reader missed something")
        said = "".join(_text(frame) for frame in seen if frame.event == "text_delta")
        demand(said == "word " * _WORDS, "the good reader missed some of the text")
        after = _memory_mb(server.pid)
        if before is None or after is None:
            return f"{_STALLED} stalled readers; the good one got all {len(numbers)} events"
        demand(after - before < _MOST_MB, f"the server's memory grew by {after - before:.0f} MB")
        return f"{_STALLED} stalled readers; the good one got all {len(numbers)} events; {after - before:+.0f} MB"


@contextmanager
def _stalled(server: Server, session: str) -> Iterator[None]:
    address = urlsplit(server.url)
    assert address.hostname is not None
    assert address.port is not None
    with socket.socket() as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect((address.hostname, address.port))
        head = f"GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: {address.netloc}\r\n"
        reader.sendall(f"{head}Authorization: Bearer {server.token}\r\n\r\n".encode())
        yield


def _text(frame: Frame) -> str:
    return str(frame.value["text"])


def _memory_mb(pid: int) -> float | None:
    """Resident; None where the system does not tell it this way."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
