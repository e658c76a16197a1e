"""Going back to what files were before a run, one by one, and only where a file still holds what the agent left.

Every path is judged anew, as if the model had asked for it: inside the roots, not closed, not protected, and no link
on the way. A file is replaced in one step and synced before it counts as restored, so an undo that is killed half way
is gone on with by the next one: what is restored already is as it was before the run.
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentcore.caps import safe_text
from agentcore.checkpoints.manifest import Entry, Held, Left, Manifest, decoded_path, digest_of
from agentcore.checkpoints.vault import Vault
from agentcore.events import Skipped, Undone
from agentcore.files import Snapshot, find_snapshot, open_regular, opened_folder, remove_file, replace_file
from agentcore.permissions.protected import is_protected_place
from agentcore.permissions.workspace import OutsideRoots, Workspace
from agentcore.ports import ToolError

CLOSED = "it lies outside of the project or is closed to tools"
PROTECTED = "it is protected: change it by hand"
A_LINK = "the way to it leads through a link or a file now"
NO_FILE = "it is no regular file now"
CHANGED = "it was changed since"
GONE_SINCE = "it was removed since"
BACK_SINCE = "the run removed it, and there is a new one since"
AS_BEFORE = "it is as it was before the run already"
LOST = "what it held before is no longer kept"
FURTHER = "so many more files were changed by commands and not kept: {}"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})
"""What a person can mend and try again."""


class _Skip(Exception):
    """Why a path stays as it is."""


@dataclass(slots=True)
class Report:
    """What an undo did, or would do."""

    restored: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    is_final: bool = True
    """False when the disk failed: the run can be undone again."""

    def event(self) -> Undone:
        return Undone(restored=tuple(self.restored), deleted=tuple(self.deleted), skipped=tuple(self.skipped))


class Undo:
    """Blocking."""

    def __init__(self, vault: Vault, workspace: Workspace) -> None:
        self._vault = vault
        self._workspace = workspace

    def of(self, manifest: Manifest, *, is_dry: bool) -> Report:
        report = Report()
        for entry in manifest.entries:
            if not entry.is_nothing:
                self._undo(entry, report, is_dry=is_dry)
        if manifest.further:
            report.skipped.append(Skipped(path=".", why=FURTHER.format(manifest.further)))
        if not is_dry:
            for folder in reversed(manifest.folders):
                self._remove_folder(decoded_path(folder))
        return report

    def _undo(self, entry: Entry, report: Report, *, is_dry: bool) -> None:
        path = decoded_path(entry.path)
        shown = safe_text(os.path.relpath(path, self._workspace.cwd))
        try:
            change = self._change(entry, path)
            if not is_dry:
                change()
        except _Skip as skip:
            report.skipped.append(Skipped(path=shown, why=str(skip)))
        except ToolError:
            report.skipped.append(Skipped(path=shown, why=CHANGED))
        except OSError as error:
            report.is_final = report.is_final and error.errno not in _FULL
            report.skipped.append(
                Skipped(path=shown, why=f"it cannot be changed: {error.strerror or 'no reason told'}")
            )
        else:
            (report.deleted if entry.before is None else report.restored).append(shown)

    def _change(self, entry: Entry, path: Path) -> Callable[[], None]:
        """What takes a path back. Raises: _Skip when it must stay as it is."""
        if entry.why_not is not None:
            raise _Skip(entry.why_not)
        self._judge(path)
        now = _found(path)
        left = _matching(entry.left, now)
        if left is None:
            raise _Skip(AS_BEFORE if _is_as_before(entry.before, now) else _why_changed(entry, now))
        if entry.before is None:
            if now is None:
                raise _Skip(AS_BEFORE)
            return lambda: _remove(path, now)
        if _is_as_before(entry.before, now):
            raise _Skip(AS_BEFORE)
        data, mode = self._kept(entry.before), _mode(entry.before, left, now)
        return lambda: _replace(path, data, now, mode)

    def _judge(self, path: Path) -> None:
        try:
            real = self._workspace.resolve(str(path))
        except OutsideRoots:
            raise _Skip(CLOSED) from None
        if real != path:
            raise _Skip(A_LINK)
        if is_protected_place(path, self._workspace):
            raise _Skip(PROTECTED)

    def _kept(self, before: Held) -> bytes:
        try:
            return self._vault.get(before.blob)
        except KeyError:
            raise _Skip(LOST) from None

    def _remove_folder(self, path: Path) -> None:
        """Remove a folder that the run made, if nothing is in it."""
        with suppress(_Skip, OSError):
            self._judge(path)
            with opened_folder(path.parent) as folder:
                os.rmdir(path.name, dir_fd=folder)


def _found(path: Path) -> Snapshot | None:
    try:
        with opened_folder(path.parent) as folder:
            return find_snapshot(folder, path.name)
    except FileNotFoundError:
        return None
    except (ToolError, IsADirectoryError):
        raise _Skip(NO_FILE) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _Skip(A_LINK) from None
        raise


def _matching(left: tuple[Left, ...], now: Snapshot | None) -> Left | None:
    """What the agent left and is there still."""
    digest = None if now is None else digest_of(now.data) if now.data is not None else ""
    return next((one for one in left if one.blob == digest), None)


def _is_as_before(before: Held | None, now: Snapshot | None) -> bool:
    if before is None or now is None:
        return before is None and now is None
    return now.data is not None and (digest_of(now.data), _bits(now)) == (before.blob, before.mode)


def _why_changed(entry: Entry, now: Snapshot | None) -> str:
    if now is None:
        return GONE_SINCE
    return BACK_SINCE if all(left.blob is None for left in entry.left) else CHANGED


def _mode(before: Held, left: Left, now: Snapshot | None) -> int:
    """The permission bits to go back to: those before, unless a person changed them since."""
    there = before.mode if left.mode is None else left.mode
    return before.mode if now is None or _bits(now) == there else _bits(now)


def _bits(now: Snapshot) -> int:
    return stat.S_IMODE(now.status.st_mode)


def _remove(path: Path, now: Snapshot) -> None:
    with opened_folder(path.parent) as folder:
        remove_file(folder, path.name, now)


def _replace(path: Path, data: bytes, now: Snapshot | None, mode: int) -> None:
    with opened_folder(path.parent, create=True) as folder:
        replace_file(folder, path.name, data, now, mode)
        with open_regular(folder, path.name) as file:
            os.fsync(file.fileno())
