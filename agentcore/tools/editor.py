"""One change to one text file: found, checked for freshness, replaced atomically, remembered, shown as a diff.

What `write`, `edit` and `multi_edit` share. Everything here blocks and belongs in a worker thread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentcore.permissions.workspace import Workspace
from agentcore.ports import ToolError
from agentcore.tools.diffs import unified_diff
from agentcore.tools.files import (
    MAX_WHOLE_BYTES,
    Snapshot,
    find_snapshot,
    opened_folder,
    replace_file,
    version_of,
)
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


class FileEditor:
    """Shared by the tools of one session that change files."""

    def __init__(self, workspace: Workspace, versions: FileVersions) -> None:
        self._workspace = workspace
        self._versions = versions

    def apply(self, file_path: str, rewrite: Rewrite, *, create_folders: bool = False) -> Change:
        """Rewrite a file that was read in its present version, or make a new one. Raises: ToolError."""
        with failures_told(file_path):
            real = self._resolve(file_path)
            with opened_folder(real.parent, create=create_folders) as folder:
                before = find_snapshot(folder, real.name)
                if before is not None:
                    self._versions.demand_fresh(real, before.version, file_path)
                change, data = self._rewritten(real, before, rewrite)
                replace_file(folder, real.name, data, before)
                self._versions.remember(real, version_of(data))
                return change

    def preview(self, file_path: str, rewrite: Rewrite) -> str | None:
        """The diff that `apply` would make now; None where it would fail. Never raises."""
        try:
            with failures_told(file_path):
                real = self._resolve(file_path)
                return self._rewritten(real, _find(real), rewrite)[0].diff
        except ToolError:
            return None

    def _resolve(self, file_path: str) -> Path:
        real = self._workspace.resolve(file_path)
        if not real.name:
            raise IsADirectoryError
        return real

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
        return Change(shown, before is None, unified_diff(old, new, shown), lines), data


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
