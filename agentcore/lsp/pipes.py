"""The process of one language server: spawned in a worker thread, fed and read on the event loop, ended as a whole.

Promise: when `spawned` is left, whichever way, nothing that the server started is alive. Launchers are wrappers
(pyright's is Python around node), so its process group gets SIGKILL, and so does all that carries its mark. The mark
also lets the next daemon end it, should this one be killed.
"""

import logging
import os
import signal
import subprocess
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio import to_thread

from agentcore.files import opened_folder
from agentcore.lsp.framing import BadFrame
from agentcore.marks import MARK, kill_marked, new_mark

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""A server that does not read this much is stuck: the largest file it is given has 2 MB."""
MAX_STDERR_BYTES = 4096
"""Its last words, for the log."""
END_S = 5.0
"""Deadline of the clean-up; reached only by processes that are stuck inside the kernel."""


class ServerProcess:
    """A started server. Made by `spawned`, which also ends it."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self._process = process
        self._mark = mark
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._news = anyio.Event()
        self._errors = bytearray()
        self._exit_fd = _exit_descriptor(process.pid)
        for descriptor in self._descriptors():
            os.set_blocking(descriptor, False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, data: bytes) -> None:
        """Put bytes on their way. Raises: BadFrame when the server has not read for too long."""
        if self._unsent_bytes + len(data) > MAX_UNSENT_BYTES:
            raise BadFrame("it does not read what it is sent")
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        self._news.set()

    async def exchange(self, take: Callable[[bytes], None]) -> None:
        """Send and receive until the server has ended or closed its output. Raises: what `take` raises."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._write)
            group.start_soon(self._read, self._fd(self._process.stderr), self._keep_errors)
            group.start_soon(self._wait_exit, group.cancel_scope)
            await self._read(self._fd(self._process.stdout), take)
            group.cancel_scope.cancel()

    def last_words(self) -> str:
        """The end of what it printed as errors."""
        return self._errors.decode(errors="replace").strip()

    async def _write(self) -> None:
        descriptor = self._fd(self._process.stdin)
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            while self._unsent:
                data = self._unsent.popleft()
                try:
                    await _write_all(descriptor, data)
                except OSError:  # it closed its input: that it ends is noticed elsewhere
                    return
                self._unsent_bytes -= len(data)

    async def _read(self, descriptor: int, take: Callable[[bytes], None]) -> None:
        while True:
            await anyio.wait_readable(descriptor)
            try:
                chunk = os.read(descriptor, CHUNK_BYTES)
            except BlockingIOError:
                continue
            if not chunk:
                return
            take(chunk)

    def _keep_errors(self, chunk: bytes) -> None:
        self._errors += chunk
        del self._errors[:-MAX_STDERR_BYTES]

    async def _wait_exit(self, scope: anyio.CancelScope) -> None:
        """End the exchange when the launcher has ended, though a child of it may hold the pipes."""
        if self._exit_fd is None:
            return
        await anyio.wait_readable(self._exit_fd)
        await anyio.sleep(0.1)  # for words still on their way
        scope.cancel()

    async def end(self) -> None:
        """Kill the whole tree, reap. Call it shielded."""
        try:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await to_thread.run_sync(kill_marked, self._mark)
            await to_thread.run_sync(self._reap, abandon_on_cancel=True)
        finally:
            self._release()

    def _reap(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)

    def _release(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        if self._exit_fd is not None:
            os.close(self._exit_fd)
        if self._process.poll() is None:
            log.error("language server %d does not end: it is stuck inside the kernel", self._process.pid)

    def _descriptors(self) -> list[int]:
        return [self._fd(pipe) for pipe in (self._process.stdin, self._process.stdout, self._process.stderr)]

    @staticmethod
    def _fd(pipe: object) -> int:
        return pipe.fileno()  # type: ignore[attr-defined, no-any-return]  # all three were asked for as pipes


async def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        await anyio.wait_writable(descriptor)
        with suppress(BlockingIOError):
            left = left[os.write(descriptor, left[:CHUNK_BYTES]) :]


@asynccontextmanager
async def spawned(argv: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> AsyncIterator[ServerProcess]:
    """Start a server; end it and all its children on leaving. Raises: OSError, ValueError."""
    mark = new_mark()
    with anyio.CancelScope(shield=True):  # a process that nobody knows would stay
        process = await to_thread.run_sync(_spawn, argv, cwd, {**environ, MARK: mark})
    child = ServerProcess(process, mark)
    try:
        yield child
    finally:
        with anyio.move_on_after(END_S, shield=True):
            await child.end()


def _spawn(argv: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with opened_folder(cwd) as folder:
        through = f"/proc/self/fd/{folder}"  # the folder itself, whatever its path leads to by now
        return subprocess.Popen(
            argv,
            cwd=through if os.path.lexists(through) else cwd,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )


def _exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has such."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
