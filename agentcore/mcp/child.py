"""The process of a server that is run as a command: two pipes to talk through, and the end of all that it started.

As `agentcore.processes`, but for a process that lives as long as its connection and is spoken to. It carries a mark in
its environment, so that its children are found, and a later server finds it where this one was killed.
"""

import errno
import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import anyio
from anyio import to_thread

from agentcore.marks import MARK, kill_marked, new_mark
from agentcore.mcp.targets import Target
from agentcore.ports.sandbox import Boxed
from agentcore.processes import from_lasting

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
LEAVE_S = 1.0
"""For a server to end by itself when nobody speaks to it any more, and again after it was asked to."""
END_S = 5.0
"""Deadline of the whole clean-up; it is reached only by processes stuck inside the kernel."""
LAST_WORDS_BYTES = 2048
"""Of what it prints besides; the rest is read and forgotten."""


class Child:
    """A started server. Made by `running`, which also ends it."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._mark = mark
        self._in, self._out, self._errors = process.stdin, process.stdout, process.stderr
        self._last_words = b""
        for pipe in (self._in, self._out, self._errors):
            os.set_blocking(pipe.fileno(), False)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def last_words(self) -> str:
        """The last line that it printed to its stderr."""
        with suppress(OSError, ValueError):  # nothing more, or closed already
            self._last_words = (self._last_words + os.read(self._errors.fileno(), CHUNK_BYTES))[-LAST_WORDS_BYTES:]
        lines = self._last_words.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    async def receive(self) -> bytes:
        """Some of what it says; nothing at its end."""
        return await _read(self._out.fileno())

    async def send(self, data: bytes) -> None:
        """Say all of it; waits while it does not read. Raises: OSError when it has gone."""
        left = memoryview(data)
        while left:
            await anyio.wait_writable(self._in.fileno())
            with suppress(BlockingIOError):
                left = left[os.write(self._in.fileno(), left) :]

    async def hear_errors(self) -> None:
        """Read what it prints to its stderr to the end, so that it is never held up there."""
        while chunk := await _read(self._errors.fileno()):
            self._last_words = (self._last_words + chunk)[-LAST_WORDS_BYTES:]

    async def end(self) -> None:
        """End the whole tree and reap it. Call it shielded."""
        self._in.close()
        if not await self._has_left():
            self._signal_group(signal.SIGTERM)  # a sandbox ends with all that it holds at once
            await self._has_left()
        self._signal_group(signal.SIGKILL)
        await to_thread.run_sync(kill_marked, self._mark)
        await self._has_left()
        for pipe in (self._out, self._errors):
            pipe.close()
        if self._process.poll() is None:
            log.error("process %d of an MCP server does not end: it is stuck inside the kernel", self._process.pid)

    async def _has_left(self) -> bool:
        with anyio.move_on_after(LEAVE_S):
            while self._process.poll() is None:  # noqa: ASYNC110 - it is what works on every system; it takes moments
                await anyio.sleep(0.01)
            return True
        return False

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


@asynccontextmanager
async def running(target: Target) -> AsyncIterator[Child]:
    """Start a server's command; end it and all its children on leaving. Raises: OSError, ValueError."""
    mark = new_mark()
    async with _boxed(target) as boxed:
        spawn = partial(_spawn, target, boxed, mark)
        process = await to_thread.run_sync(spawn if target.confined is None else partial(from_lasting, spawn))
        child = Child(process, mark)
        try:
            yield child
        finally:
            with anyio.move_on_after(END_S, shield=True):
                await child.end()
    for remark in boxed.remarks:
        log.info("MCP server %s: %s", target.name, remark)


@asynccontextmanager
async def _boxed(target: Target) -> AsyncIterator[Boxed]:
    """The command as it is to be started. What is to be confined does not run where that cannot be. Raises: OSError."""
    confined = target.confined
    if confined is None:
        yield Boxed(target.argv, target.environ)
        return
    sandbox = confined.sandbox
    await sandbox.probe()
    if sandbox.why_not is not None:
        why = sandbox.why_not.rstrip(".")
        raise OSError(errno.ENOTSUP, f"it is to run in the sandbox, which does not work here ({why})")
    assert target.folder is not None
    async with sandbox.around(target.argv, target.folder, target.environ, confined.profile) as boxed:
        yield boxed


def _spawn(target: Target, boxed: Boxed, mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        boxed.argv,
        cwd=target.folder,
        env={**boxed.environ, MARK: mark},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
        pass_fds=boxed.keep_fds,
    )


async def _read(descriptor: int) -> bytes:
    while True:
        await anyio.wait_readable(descriptor)
        with suppress(BlockingIOError):
            return os.read(descriptor, CHUNK_BYTES)
