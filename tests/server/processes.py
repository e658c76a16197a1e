"""Runs `agentcore` with the stub application in a real process."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

STUB = Path(__file__).with_name("stub_serve.py")


@dataclass
class Daemon:
    process: Process
    start: dict[str, Any]
    """The start line."""
    stdout: BufferedByteReceiveStream
    stderr: BufferedByteReceiveStream

    @property
    def url(self) -> str:
        return str(self.start["url"])

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and wait for the exit code."""
        self.process.send_signal(number)
        return await self.process.wait()

    async def rest(self) -> tuple[str, str]:
        """What is still to be read from stdout and stderr."""
        return await _drain(self.stdout), await _drain(self.stderr)


@asynccontextmanager
async def daemon(*arguments: str, state: Path, **environment: str) -> AsyncIterator[Daemon]:
    """Start `agentcore serve` and read its start line; killed at the end if it still runs."""
    process = await anyio.open_process(
        [sys.executable, str(STUB), "serve", "--state-dir", str(state), *arguments],
        env=os.environ | environment,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        stdout = BufferedByteReceiveStream(process.stdout)
        with anyio.fail_after(20):
            line = await stdout.receive_until(b"\n", 1_000_000)
        yield Daemon(process, json.loads(line), stdout, BufferedByteReceiveStream(process.stderr))
    finally:
        if process.returncode is None:
            process.kill()
        await process.aclose()


async def run(*arguments: str, stdin: bytes = b"", **environment: str) -> tuple[int, str, str]:
    """Run the command line to its end; return exit code, stdout, stderr."""
    with anyio.fail_after(20):
        done = await anyio.run_process(
            [sys.executable, str(STUB), *arguments], input=stdin, check=False, env=os.environ | environment
        )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def client(server: Daemon) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, timeout=10)


async def _drain(stream: BufferedByteReceiveStream) -> str:
    parts: list[bytes] = []
    with anyio.fail_after(10):
        try:
            while True:
                parts.append(await stream.receive())
        except anyio.EndOfStream:
            return b"".join(parts).decode()
