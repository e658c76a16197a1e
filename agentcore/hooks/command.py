"""A command as a hook: its input on stdin, its bounded output, and the end of all it started when it has ended.

Without `args` the shell runs it; with them it is a program, and `${CLAUDE_PROJECT_DIR}` in its words is filled in.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from agentcore.hooks.handlers import CommandAction
from agentcore.processes import Around, Command, running, unconfined

KEPT_BYTES = 64 * 1024
"""Of stdout and of stderr, each; more than all texts that a hook may give (10,000 characters each)."""
_BASH = Path("/bin/bash")
_PROJECT = "${CLAUDE_PROJECT_DIR}"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    exit_code: int | None
    """Negative for the signal that ended it; None when it took too long."""
    stdout: str
    stderr: str


class _Kept:
    """The first bytes of a stream; the rest is read and forgotten, so that nobody waits for its reader."""

    def __init__(self) -> None:
        self._data = bytearray()

    def take(self, chunk: bytes) -> None:
        self._data += chunk[: KEPT_BYTES - len(self._data)]

    @property
    def text(self) -> str:
        return self._data.decode(errors="replace")


async def run_command(
    action: CommandAction,
    input: bytes,
    cwd: Path,
    project: Path,
    environ: Mapping[str, str],
    timeout_s: float,
    around: Around = unconfined,
) -> Ran:
    """Run it to its end, or end it with all it started after `timeout_s` or when cancelled.

    Raises: OSError, ValueError when it cannot be started.
    """
    out, err = _Kept(), _Kept()
    command = Command(_argv(action, project), cwd, environ, input)
    async with around(command) as started, running(started, out.take, err.take) as child:
        with anyio.move_on_after(timeout_s) as limit:
            await child.wait()
    return Ran(None if limit.cancelled_caught else child.exit_code, out.text, err.text)


def _argv(action: CommandAction, project: Path) -> tuple[str, ...]:
    if action.args is None:
        return (str(_BASH) if _BASH.exists() else "sh", "-c", "--", action.command)
    return tuple(word.replace(_PROJECT, str(project)) for word in (action.command, *action.args))
