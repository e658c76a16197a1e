"""Work on what a stranger made (a picture, a schema), in a process of its own with bounds on time and memory.

Decoders and validators of hostile input can take gigabytes and minutes, and a thread cannot be stopped. `confined`
runs one function from bytes to bytes in a fresh interpreter, which costs about 0.1 s, and ends it when it takes too
much or when nobody waits for it any more. Promise: the process that asks never waits, grows or dies with it.

Run as `python -I -m agentcore.confined MODULE:FUNCTION MEMORY_BYTES CPU_S` it is the child.
"""

import importlib
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio
from anyio import to_thread

from agentcore.errors import AgentError, Unprocessable

_DONE, _REFUSED = b"+", b"-"  # what the child's answer begins with
_AT_ONCE = 2  # as many as a small machine has cores


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one piece of work may take."""

    memory_bytes: int
    """Of address space; not held on systems that cannot."""
    cpu_s: int
    wall_s: float


class TooMuch(AgentError):
    """The work took more than its bounds, or its process died."""


class Confinement:
    """Runs pieces of one kind of work, two at a time; who comes later waits."""

    def __init__(self, target: str, bounds: Bounds) -> None:
        """`target` is `module:function`, a function from bytes to bytes that may raise Unprocessable."""
        self._target = target
        self._bounds = bounds
        self._at_once = anyio.CapacityLimiter(_AT_ONCE)

    async def run(self, data: bytes) -> bytes:
        """Raises: Unprocessable as the function raised it; TooMuch."""
        async with self._at_once:
            process = await to_thread.run_sync(self._start)
            try:
                answer = await to_thread.run_sync(self._talk, process, data, abandon_on_cancel=True)
            finally:
                with suppress(ProcessLookupError):
                    process.kill()  # ends the thread as well that still waits for it
        if answer.startswith(_DONE):
            return answer[1:]
        if answer.startswith(_REFUSED):
            raise Unprocessable(answer[1:].decode())
        raise TooMuch("It took too much time or memory.")

    def _start(self) -> subprocess.Popen[bytes]:
        bounds = self._bounds
        command = [sys.executable, "-I", "-m", "agentcore.confined", self._target]
        return subprocess.Popen(
            [*command, str(bounds.memory_bytes), str(bounds.cpu_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            cwd="/",
        )

    def _talk(self, process: subprocess.Popen[bytes], data: bytes) -> bytes:
        try:
            answer, _ = process.communicate(data, self._bounds.wall_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return b""
        return answer if process.returncode == 0 else b""


def _limit(memory_bytes: int, cpu_s: int) -> None:
    """Bound this process; what the system does not know stays open."""
    if sys.platform == "win32":
        return
    import resource

    for kind, value in ((resource.RLIMIT_AS, memory_bytes), (resource.RLIMIT_CPU, cpu_s), (resource.RLIMIT_CORE, 0)):
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (value, value))


def _main(target: str, memory_bytes: str, cpu_s: str) -> None:
    module, _, name = target.partition(":")
    function: Callable[[bytes], bytes] = getattr(importlib.import_module(module), name)
    _limit(int(memory_bytes), int(cpu_s))
    data = sys.stdin.buffer.read()
    try:
        answer = _DONE + function(data)
    except Unprocessable as error:
        answer = _REFUSED + str(error).encode()
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    _main(*sys.argv[1:])
