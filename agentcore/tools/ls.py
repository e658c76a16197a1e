"""The tool `ls`: what is in a folder."""

import os
from pathlib import Path

from pydantic import Field

from agentcore.files import entries_of, opened_folder
from agentcore.permissions.unread import Unread
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.tools.inputs import Plain
from agentcore.tools.texts import bounded_lines, safe_name
from agentcore.tools.threads import failures_told, read_in_thread
from agentcore.values import Value

MAX_ENTRIES = 500


class LsInput(Value):
    path: Plain = Field(default=".", description="Folder to list; the working directory unless set.")


class LsTool:
    spec = ToolSpec(
        name="ls",
        description="List a folder by name. Folders end in a slash, symbolic links show where they lead.",
        input=LsInput,
        read_only=True,
        parallel_safe=True,
        paths=("path",),
    )

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def run(self, input: LsInput, room: ToolRoom) -> Outcome:
        return Outcome(await read_in_thread(self._listed, input.path))

    def preview(self, input: LsInput) -> None:
        return None

    def _listed(self, path: str) -> str:
        with failures_told(path):
            real = self._workspace.resolve(path)
            closed = {str(place) for place in self._workspace.closed_below(real)}
            unread = Unread(self._workspace, self.spec.name, path, real)
            try:
                return _listing(real, closed, unread) or "(the folder is empty)"
            except NotADirectoryError as error:
                raise ToolError(f"{path} is not a folder: use read") from error


def _listing(real: Path, closed: set[str], unread: Unread) -> str:
    with opened_folder(real) as folder, entries_of(folder) as entries:
        shown = (entry for entry in entries if entry.name not in closed and not unread.has(entry.name))
        visible = sorted(shown, key=lambda entry: entry.name)
        lines = (_line(entry, folder) for entry in visible[:MAX_ENTRIES])
        return bounded_lines(lines, len(visible), "use glob to find what you need")


def _line(entry: os.DirEntry[str], folder: int) -> str:
    name = safe_name(entry.name)
    if entry.is_symlink():
        return f"{name} -> {_target(entry, folder)}"
    return f"{name}/" if entry.is_dir(follow_symlinks=False) else name


def _target(entry: os.DirEntry[str], folder: int) -> str:
    try:
        return safe_name(os.readlink(entry.name, dir_fd=folder))
    except OSError:
        return "?"
