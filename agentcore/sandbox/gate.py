"""How a command in bubblewrap begins and ends: let go when its mounts were compared, gone with its first process.

bubblewrap says on one pipe which process is the first of the sandbox. From another one it reads a file as the last of
what it mounts: that pipe is full, so it can be written to again as soon as bubblewrap has come that far, and bubblewrap
waits until it is closed.
"""

import errno
import fcntl
import mmap
import os
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from io import FileIO

import anyio
from anyio import to_thread

from agentcore.sandbox.mount_table import Expected, is_as_expected

CHANGED = "a folder changed while the command was started: call again"
LAST = "/proc/1/begun"
"""The file that is read: where no command looks."""
GONE_S = 5.0
_FIRST_PROCESS = re.compile(rb'"child-pid": ([0-9]+)')


class Gate:
    """Of one command. It is used in the event loop."""

    def __init__(self, told: tuple[FileIO, FileIO], last: tuple[FileIO, FileIO], expected: Expected) -> None:
        """`told` and `last` are pipes: the ends to read and to write."""
        self._told, tells = told
        begins, self._last = last
        self._expected = expected
        self._first: int | None = None
        """A descriptor of the first process in the sandbox."""
        self.flags = ("--info-fd", str(tells.fileno()), "--file", str(begins.fileno()), LAST)
        """The last of the options that mount something."""
        self.keep_fds = (tells.fileno(), begins.fileno())
        self.refusal: str | None = None
        """Why the command did not begin, where that was found out here."""

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Let the command go meanwhile, or end it before it begins."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._let_go)
                try:
                    yield
                finally:
                    group.cancel_scope.cancel()
        except BaseExceptionGroup as failed:
            if len(failed.exceptions) == 1:  # of who started the command, wrapped by the group
                raise failed.exceptions[0] from None
            raise

    async def _let_go(self) -> None:
        await anyio.wait_readable(self._told)
        process = self._know()
        if process is None:
            return
        await anyio.wait_writable(self._last)
        self.refusal = await to_thread.run_sync(self._judge, process)
        if self.refusal is not None:
            self._kill()
        self._last.close()

    def _know(self) -> int | None:
        """Take hold of the first process when bubblewrap says which one it is; None: it did not, or it is gone."""
        with suppress(OSError):
            found = _FIRST_PROCESS.search(os.read(self._told.fileno(), 4096))
            if found is not None:
                self._first = os.pidfd_open(int(found[1]))
                return int(found[1])
        return None

    def _judge(self, process: int) -> str | None:
        try:
            return None if is_as_expected(process, self._expected) else CHANGED
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ESRCH):  # it has ended by itself, and says why
                return None
            return f"what is mounted in the sandbox cannot be looked at: {error.strerror}"

    def _kill(self) -> None:
        if self._first is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._first, signal.SIGKILL)

    async def end(self) -> None:
        """Kill the first process, whatever it has made of itself, and wait until it is gone, and so every one."""
        if self._first is None:
            self._know()
        if self._first is None:
            return
        self._kill()
        with anyio.move_on_after(GONE_S):
            await anyio.wait_readable(self._first)

    def close(self) -> None:
        if self._first is not None:
            os.close(self._first)


@contextmanager
def gate(expected: Expected) -> Iterator[Gate]:
    """Raises: OSError."""
    with _pipe() as told, _pipe() as last:
        os.set_blocking(told[0].fileno(), False)
        _fill(last[1].fileno())
        made = Gate(told, last, expected)
        try:
            yield made
        finally:
            made.close()


@contextmanager
def _pipe() -> Iterator[tuple[FileIO, FileIO]]:
    """Its two ends: to read and to write."""
    reads, writes = os.pipe2(os.O_CLOEXEC)
    with FileIO(reads, "rb") as readable, FileIO(writes, "wb") as writable:
        yield readable, writable


def _fill(writes: int) -> None:
    """So far that nothing more goes in."""
    size = fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, mmap.PAGESIZE)
    os.write(writes, bytes(size))
