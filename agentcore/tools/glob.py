"""The tool `glob`: files by the look of their paths, newest first, without what .gitignore names."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field

from agentcore.environment import command_environ
from agentcore.files import opened_folder
from agentcore.permissions.unread import Unread
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.tools.globs import Glob
from agentcore.tools.inputs import Plain
from agentcore.tools.ripgrep import Found, Place, locate, search
from agentcore.tools.texts import bounded_lines, safe_name
from agentcore.tools.threads import failures_told, read_in_thread
from agentcore.values import Value

MAX_RESULTS = 200


class GlobInput(Value):
    pattern: Plain = Field(
        min_length=1,
        max_length=1000,
        description="Such as `src/**/*.py` or `*.{ts,tsx}`; without a slash it matches names at any depth.",
    )
    path: Plain = Field(default=".", description="Folder to look in; the working directory unless set.")


class GlobTool:
    spec = ToolSpec(
        name="glob",
        description="Find files by a glob pattern, newest first. Leaves out .git and what .gitignore names.",
        input=GlobInput,
        read_only=True,
        parallel_safe=True,
        paths=("path",),
    )

    def __init__(self, workspace: Workspace, environ: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._environ = command_environ(environ)

    async def run(self, input: GlobInput, room: ToolRoom) -> Outcome:
        place = await read_in_thread(locate, self._workspace, input.path)
        if place.name is not None:
            raise ToolError(f"{input.path} is not a folder")
        found = await search(place, self._environ, ("--files",))
        found.demand_success()
        return Outcome(await read_in_thread(self._told, input, place, found))

    def preview(self, input: GlobInput) -> None:
        return None

    def _told(self, input: GlobInput, place: Place, found: Found) -> str:
        with failures_told(input.path):
            unread = Unread(self._workspace, self.spec.name, input.path, place.folder)
            matching = (name for name in _matching(Glob(input.pattern), found.output) if not unread.has(name))
            names = _newest_first(place.folder, matching)
        lines = (safe_name(self._workspace.shown(place.folder / name)) for name in names[:MAX_RESULTS])
        text = bounded_lines(lines, len(names), "narrow the pattern or the path")
        if found.is_partial:
            text += "\n[the listing was stopped early: there may be more]"
        return text or "No files found."


def _matching(glob: Glob, output: bytes) -> Iterator[str]:
    for path in output.split(b"\0")[:-1]:
        name = os.fsdecode(path).removeprefix("./")
        if glob.matches(name):
            yield name


def _newest_first(folder: Path, names: Iterator[str]) -> list[str]:
    """Sort by time of change, then by name; files that are gone by now are left out."""
    aged: list[tuple[int, str]] = []
    with opened_folder(folder) as descriptor:
        for name in names:
            try:
                status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:
                continue
            aged.append((-status.st_mtime_ns, name))
    return [name for _, name in sorted(aged)]
