"""One command and everything it starts: spawned in a worker thread, read on the event loop, ended as a whole.

Spawning uses the standard library, since uvloop's own takes longer the more memory the server has. Promise: when
`running` is left, whichever way, nothing that the command started is alive: its process group gets SIGKILL, and so
does every process that carries the call's mark in its environment (children that made a session of their own).
What escapes: a process that leaves the group *and* clears its environment, and on systems without /proc one that
leaves the group; the PID namespace of a sandbox (`Command.is_boxed`) holds those.
"""

import logging
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TypeAlias

import anyio
from anyio import to_thread

from agentcore.files import opened_folder
from agentcore.marks import MARK, kill_marked, new_mark, terminate_marked

log = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024
DRAIN_BYTES = 4 * 1024 * 1024
"""More than a pipe holds: what is read at most after the end."""
CLOSE_GRACE_S = 0.1
"""For output still on its way (a `tee` behind the command) when the command itself has ended."""
TERM_GRACE_S = 0.2
"""Between asking a command to end (locks are removed, last words printed) and killing it."""
END_S = 5.0
"""Deadline of the whole clean-up; it is reached only by processes stuck inside the kernel."""

_LASTING = ThreadPoolExecutor(2, thread_name_prefix="spawn")
"""Threads that stay as long as this process, other than worker threads, which leave when they were idle for a while."""

Take = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Command:
    argv: Sequence[str]
    cwd: Path
    """Resolved; entered without following links."""
    environ: Mapping[str, str]
    input: bytes = b""
    """What it can read from its stdin."""
    keep_fds: tuple[int, ...] = ()
    """Descriptors that it inherits."""
    is_boxed: bool = False
    """It is a sandbox around a command: it dies with the thread that starts it, and at once when it is asked to end,
    before what it holds had any time for that."""


Around: TypeAlias = Callable[[Command], AbstractAsyncContextManager[Command]]
"""What is put around a command while it runs: the one to be started in its place. Raises: OSError."""


def unconfined(command: Command) -> AbstractAsyncContextManager[Command]:
    return nullcontext(command)


class _Stream:
    """One pipe that a command prints into."""

    def __init__(self, pipe: IO[bytes], take: Take) -> None:
        self._pipe = pipe
        self._take = take
        self.closed = anyio.Event()
        os.set_blocking(pipe.fileno(), False)

    async def read(self) -> None:
        while True:
            await anyio.wait_readable(self._pipe.fileno())
            if self._read_once() == 0:
                self.closed.set()
                return

    def _read_once(self) -> int | None:
        """Pass on one chunk; return its length, 0 at the end, None when there is nothing yet."""
        try:
            chunk = os.read(self._pipe.fileno(), CHUNK_BYTES)
        except BlockingIOError:
            return None
        if chunk:
            self._take(chunk)
        return len(chunk)

    def drain(self) -> None:
        """Pass on what the pipe still holds, without waiting."""
        left = DRAIN_BYTES
        while left > 0 and (length := self._read_once()):
            left -= length

    def close(self) -> None:
        """Nothing more is passed on. Who took it is let go of: a reader that was cancelled lives on in the traceback of
        its cancellation, until the collector comes."""
        self._pipe.close()
        self._take = _nobody_takes


def _nobody_takes(chunk: bytes) -> None:
    return None


class Running:
    """A started command. Made by `running`, which also ends it."""

    def __init__(
        self, process: subprocess.Popen[bytes], command: Command, mark: str, take: Take, take_errors: Take | None
    ) -> None:
        self._process = process
        self._is_boxed = command.is_boxed
        self._has_exited = False
        self._mark = mark
        pipes = ((process.stdout, take), (process.stderr, take_errors))
        self._streams = [_Stream(pipe, taker) for pipe, taker in pipes if pipe is not None and taker is not None]
        self._exit_fd = _exit_descriptor(process.pid)

    @property
    def pid(self) -> int:
        """Of the process that leads the group, and so of the group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Negative for the signal that ended it; None until `running` is left."""
        return self._process.returncode

    async def wait(self) -> None:
        """Pass on what is printed until the command itself has ended, and for a moment after it."""
        async with anyio.create_task_group() as group:
            for stream in self._streams:
                group.start_soon(stream.read)
            await self._wait_exit()
            with anyio.move_on_after(CLOSE_GRACE_S):
                for stream in self._streams:
                    await stream.closed.wait()
            group.cancel_scope.cancel()

    async def _wait_exit(self) -> None:
        """Return when the command has ended. Where possible without reaping it: until then its group keeps its id."""
        if self._exit_fd is not None:
            await anyio.wait_readable(self._exit_fd)
        else:
            while self._process.poll() is None:  # noqa: ASYNC110 - there is no event to wait for without pidfd
                await anyio.sleep(0.01)
        self._has_exited = True

    async def end(self) -> None:
        """End the whole tree, pass on the last output, reap. Call it shielded."""
        is_all_gone = self._is_boxed and self._has_exited  # it took with it all that was in it
        try:
            await self._ask_to_end()
            self._signal_group(signal.SIGKILL)
            if not is_all_gone:
                await to_thread.run_sync(kill_marked, self._mark)
            await self._wait_exit()
        finally:
            for stream in self._streams:
                stream.drain()
            self._release()

    async def _ask_to_end(self) -> None:
        """Let the command clean up after itself; one that has ended already is not waited for."""
        if self._is_boxed:
            if not self._has_exited:
                await to_thread.run_sync(terminate_marked, self._mark, self._process.pid)
        else:
            self._signal_group(signal.SIGTERM)
        with anyio.move_on_after(TERM_GRACE_S):
            await self._wait_exit()

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _release(self) -> None:
        for stream in self._streams:
            stream.close()
        if self._exit_fd is not None:
            os.close(self._exit_fd)
        if self._process.poll() is None:
            log.error("process %d does not end: it is stuck inside the kernel", self._process.pid)


@asynccontextmanager
async def running(command: Command, take: Take, take_errors: Take | None = None) -> AsyncIterator[Running]:
    """Start a command with its stdout and stderr going to `take`; end it and all its children on leaving.

    With `take_errors` stderr goes there. Both are called on the event loop, for the last time while leaving.
    Raises: OSError, ValueError (a NUL in argv).
    """
    mark = new_mark()
    stderr = subprocess.STDOUT if take_errors is None else subprocess.PIPE
    spawn = partial(_spawn, command, mark, stderr)
    process = await to_thread.run_sync(partial(from_lasting, spawn) if command.is_boxed else spawn)
    child = Running(process, command, mark, take, take_errors)
    try:
        yield child
    finally:
        with anyio.move_on_after(END_S, shield=True):
            await child.end()


def from_lasting(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a process from a thread that stays: a sandbox dies with the thread that started it. Blocking."""
    return _LASTING.submit(start).result()


def _spawn(command: Command, mark: str, stderr: int) -> subprocess.Popen[bytes]:
    with opened_folder(command.cwd) as folder, _readable(command.input) as stdin:
        through = f"/proc/self/fd/{folder}"  # the folder itself, whatever its path leads to by now
        return subprocess.Popen(
            command.argv,
            cwd=through if os.path.lexists(through) else command.cwd,
            env={**command.environ, MARK: mark},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,
            pass_fds=command.keep_fds,
        )


@contextmanager
def _readable(data: bytes) -> Iterator[int]:
    """A descriptor to read `data` from: of a file without a name, in memory where the system has such, so that nobody
    waits for who does not read."""
    if not data:
        yield subprocess.DEVNULL
        return
    in_memory = os.memfd_create("input") if hasattr(os, "memfd_create") else None
    with tempfile.TemporaryFile() if in_memory is None else os.fdopen(in_memory, "w+b") as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def _exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has such."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
