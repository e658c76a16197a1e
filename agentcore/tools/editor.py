"""One change to one text file: found, checked for freshness, kept for an undo, replaced atomically, shown as a diff.

What `write`, `edit` and `multi_edit` share. Everything here blocks and belongs in a worker thread.

The gate judged the path before; a link swapped in since may lead to a protected place that nobody was shown, or to
one that a rule denies. Such a change is refused, on the folder that was opened; a path that names a protected place
by its words was asked about.
"""

import stat
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from agentcore.files import (
    MAX_WHOLE_BYTES,
    Snapshot,
    find_snapshot,
    opened_folder,
    path_of_opened,
    replace_file,
    version_of,
)
from agentcore.permissions.protected import is_protected_as_given, is_protected_place
from agentcore.permissions.unread import demand_undenied
from agentcore.permissions.workspace import Workspace
from agentcore.ports.checkpoints import Checkpoints, FileChange
from agentcore.ports.tools import ToolError
from agentcore.tools.diffs import unified_diff
from agentcore.tools.threads import failures_told
from agentcore.tools.versions import FileVersions

Rewrite = Callable[[str | None], str]
"""From the text that is there (None: no such file) to the text that shall be; raises ToolError to refuse."""

BOM = "\ufeff"
SNIFFED_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Change:
    path: str
    """As shown to the model."""
    is_new: bool
    diff: str
    """Empty when the text stayed the same."""
    lines: int
    """Of the new text."""
    real: Path
    """Resolved."""


class FileEditor:
    """Shared by the tools of one session that change files."""

    def __init__(self, workspace: Workspace, versions: FileVersions, checkpoints: Checkpoints | None = None) -> None:
        """Without `checkpoints` nothing is kept for an undo."""
        self._workspace = workspace
        self._versions = versions
        self._checkpoints = checkpoints

    def apply(self, tool: str, file_path: str, rewrite: Rewrite, *, create_folders: bool = False) -> Change:
        """Rewrite a file that was read in its present version, or make a new one. Raises: ToolError."""
        with failures_told(file_path):
            real = self._resolve(tool, file_path)
            made: list[Path] = []
            with opened_folder(real.parent, create=create_folders, made=made) as folder:
                self._demand_expected(tool, path_of_opened(folder, real.parent) / real.name, file_path)
                before = find_snapshot(folder, real.name)
                if before is not None:
                    self._versions.demand_fresh(real, before.version, file_path)
                change, data = self._rewritten(real, before, rewrite)
                with self._kept(real, before, data, made):
                    replace_file(folder, real.name, data, before)
                self._versions.remember(real, version_of(data))
                return change

    def preview(self, tool: str, file_path: str, rewrite: Rewrite) -> str | None:
        """The diff that `apply` would make now; None where it would fail. Never raises."""
        try:
            with failures_told(file_path):
                real = self._resolve(tool, file_path)
                return self._rewritten(real, _find(real), rewrite)[0].diff
        except ToolError:
            return None

    def _kept(self, real: Path, before: Snapshot | None, data: bytes, made: list[Path]) -> AbstractContextManager[None]:
        """What must be around every replacement of a file: the one place where the tools change any."""
        held, mode = (None, None) if before is None else (before.data, stat.S_IMODE(before.status.st_mode))
        if self._checkpoints is None or (before is not None and held == data):
            return nullcontext()
        return self._checkpoints.changing(FileChange(real, held, mode, data, tuple(made)))

    def _resolve(self, tool: str, file_path: str) -> Path:
        real = self._workspace.resolve(file_path)
        if not real.name:
            raise IsADirectoryError
        self._demand_expected(tool, real, file_path)
        return real

    def _demand_expected(self, tool: str, real: Path, file_path: str) -> None:
        """Raises: ToolError for a denied place, and where a path that does not name it leads to a protected one."""
        demand_undenied(self._workspace, tool, file_path, real, edits=True)
        if is_protected_place(real, self._workspace) and not is_protected_as_given(file_path, self._workspace):
            raise ToolError(
                f"{file_path} now leads to a protected place; call it again with the real path, "
                f"{self._workspace.shown(real)}"
            )

    def _rewritten(self, real: Path, before: Snapshot | None, rewrite: Rewrite) -> tuple[Change, bytes]:
        shown = self._workspace.shown(real)
        old = None if before is None else decoded(before.data, shown)
        new = rewrite(old)
        if old is not None and old.startswith(BOM) and not new.startswith(BOM):
            new = BOM + new
        data = new.encode(errors="surrogateescape")
        if len(data) > MAX_WHOLE_BYTES:
            raise ToolError(f"{shown} would be larger than {MAX_WHOLE_BYTES} bytes")
        lines = new.count("\n") + (not new.endswith("\n") and bool(new))
        return Change(shown, before is None, unified_diff(old, new, shown), lines, real), data


def _find(real: Path) -> Snapshot | None:
    try:
        with opened_folder(real.parent) as folder:
            return find_snapshot(folder, real.name)
    except FileNotFoundError:
        return None


def is_binary(data: bytes) -> bool:
    """Whether the beginning of a file says that it is not text."""
    return b"\0" in data[:SNIFFED_BYTES] or data.startswith(b"%PDF-")


def decoded(data: bytes | None, shown: str) -> str:
    """A file's text; bytes that are no UTF-8 survive as surrogates until it is encoded again. Raises: ToolError."""
    if data is None:
        raise ToolError(f"{shown} is larger than {MAX_WHOLE_BYTES} bytes: change it with a command in bash")
    if is_binary(data):
        raise ToolError(f"{shown} is a binary file: this tool changes text only")
    return data.decode(errors="surrogateescape")
