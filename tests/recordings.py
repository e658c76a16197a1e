"""Recorded answers of real model services, and servers on loopback that play them or canned bytes.

The recordings lie outside the repository: at $AGENTCORE_RECORDINGS, or beside the checkout. Tests that need them
carry `needs_recordings` and are skipped, with the reason, where they are absent.
"""

import asyncio
import contextlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(os.environ.get("AGENTCORE_RECORDINGS") or Path(__file__).resolve().parents[2] / "shared" / "recordings")
WHY_ABSENT = "no recordings: set AGENTCORE_RECORDINGS to the folder that holds replay.py"

needs_recordings = pytest.mark.skipif(not (FOLDER / "replay.py").is_file(), reason=WHY_ABSENT)


def names(prefix: str) -> list[str]:
    """The recordings whose name begins so; none where there are no recordings."""
    return sorted(file.stem for file in FOLDER.glob(f"{prefix}*.json"))


@cache
def recording(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return data


@cache
def replay_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("agentcore_recordings_replay", FOLDER / "replay.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def http_answer(status: int, body: bytes, media_type: str = "application/json", *headers: str) -> bytes:
    """The bytes of a whole HTTP answer."""
    lines = [f"HTTP/1.1 {status} Status", f"content-type: {media_type}", f"content-length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def event_stream(*events: dict[str, Any]) -> bytes:
    """The bytes of a whole HTTP answer that streams these events."""
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return http_answer(200, body, "text/event-stream")


class CannedServer:
    """Answers each request with the next canned bytes (none: hangs up); remembers bodies, and counts connections."""

    def __init__(self, answers: Iterable[bytes]) -> None:
        self._answers = iter(answers)
        self.bodies: list[bytes] = []
        self.connections = 0
        self.url = ""
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "CannedServer":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while answer := await self._answer_to(reader):
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer_to(self, reader: asyncio.StreamReader) -> bytes:
        """Read one request; return what it gets. Nothing hangs up."""
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        self.bodies.append(await reader.readexactly(length))
        return next(self._answers, b"")
