"""Going back to what files were before a run, one by one, and only where a file still holds what the agent left.

Every path is judged anew, as if the model had asked for it: inside the roots, not closed, not protected, and no link
on the way. A file is replaced in one step and synced before it counts as restored, so an undo that is killed half way
is gone on with by the next one: what is restored already is as it was before the run.

Files that the run made go first: they, and the folders around them, may be in the place of files that it removed. What
cannot be put back because of something else in its place stays in the vault, and it is told where.
"""

import errno
import os
import stat
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentcore.caps import safe_text
from agentcore.checkpoints.manifest import GONE, Entry, Held, Left, Manifest, decoded_path, digest_of
from agentcore.checkpoints.vault import Vault
from agentcore.events import Skipped, Undone
from agentcore.files import (
    Snapshot,
    find_snapshot,
    open_regular,
    opened_folder,
    remove_file,
    replace_file,
    sync_opened,
)
from agentcore.permissions.protected import is_protected_place
from agentcore.permissions.workspace import OutsideRoots, Workspace
from agentcore.ports.tools import ToolError

CLOSED = "it lies outside of the project or is closed to tools"
PROTECTED = "it is protected: change it by hand"
A_LINK = "the way to it leads through a link or a file now"
NO_FILE = "it is no regular file now"
CHANGED = "it was changed since"
GONE_SINCE = "it was removed since"
BACK_SINCE = "the run removed it, and there is a new one since"
AS_BEFORE = "it is as it was before the run already"
LOST = "what it held before is no longer kept"
WITHHELD = "{}; what it held before is kept for 7 days as checkpoints/{} in the session's folder"
FURTHER = "so many more files were changed by commands and not kept: {}"
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})
"""What a person can mend and try again."""


class _Skip(Exception):
    """Why a path stays as it is."""


class _Blocked(_Skip):
    """Why a path cannot be taken back now, though what it held is known."""


@dataclass(slots=True)
class Report:
    """What an undo did, or would do."""

    restored: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    left: dict[Path, str | None] = field(default_factory=dict)
    """What each path that was taken back holds now: the name of a content, None for no file."""
    withheld: list[Entry] = field(default_factory=list)
    """Whose contents could not be put back and are told to be kept."""
    is_final: bool = True
    """False when the disk failed: the run can be undone again."""

    def event(self) -> Undone:
        return Undone(restored=tuple(self.restored), deleted=tuple(self.deleted), skipped=tuple(self.skipped))

    def left_of(self, manifest: Manifest) -> Manifest | None:
        """What has to stay of a manifest that was undone."""
        if not self.withheld:
            return None
        return Manifest(run=manifest.run, ts=manifest.ts, entries=tuple(self.withheld), is_undone=True)


class Undo:
    """Of one run, once. Blocking."""

    def __init__(self, vault: Vault, workspace: Workspace) -> None:
        self._vault = vault
        self._workspace = workspace
        self._gone: set[Path] = set()
        """Files that were removed, or would be."""
        self._changed: set[Path] = set()
        """Folders in which names were made or removed."""

    def of(self, manifest: Manifest, *, is_dry: bool) -> Report:
        report = Report()
        for entry in sorted(manifest.entries, key=lambda entry: entry.before is not None):
            if not entry.is_nothing:
                self._undo(entry, report, is_dry=is_dry)
        if manifest.further:
            report.skipped.append(Skipped(path=".", why=FURTHER.format(manifest.further)))
        if not is_dry:
            for folder in reversed(manifest.folders):
                self._remove_folder(decoded_path(folder))
            self._sync(report)
        return report

    def _undo(self, entry: Entry, report: Report, *, is_dry: bool) -> None:
        path = decoded_path(entry.path)
        shown = safe_text(os.path.relpath(path, self._workspace.cwd))
        try:
            change = self._change(entry, path)
            if not is_dry:
                change()
        except _Blocked as skip:
            self._withhold(entry, shown, str(skip), report)
        except _Skip as skip:
            report.skipped.append(Skipped(path=shown, why=str(skip)))
        except ToolError:
            report.skipped.append(Skipped(path=shown, why=CHANGED))
        except OSError as error:
            report.is_final = report.is_final and error.errno not in _FULL
            self._withhold(entry, shown, f"it cannot be changed: {error.strerror or 'no reason told'}", report)
        else:
            (report.deleted if entry.before is None else report.restored).append(shown)
            report.left[path] = None if entry.before is None else entry.before.blob
            if entry.before is None:
                self._gone.add(path)

    def _withhold(self, entry: Entry, shown: str, why: str, report: Report) -> None:
        """Leave a path as it is, and keep what it held before for a person to fetch."""
        if entry.before is not None:
            try:
                self._kept(entry.before)
            except _Skip as lost:
                why = f"{why}; {lost}"
            else:
                report.withheld.append(entry)
                why = WITHHELD.format(why, entry.before.blob)
        report.skipped.append(Skipped(path=shown, why=why))

    def _change(self, entry: Entry, path: Path) -> Callable[[], None]:
        """What takes a path back. Raises: _Skip when it must stay as it is."""
        if entry.why_not is not None:
            raise _Blocked(entry.why_not)
        self._judge(path)
        now = self._found(path, is_coming_back=entry.before is not None and GONE in entry.left)
        left = _matching(entry.left, now)
        if left is None:
            raise _Skip(AS_BEFORE if _is_as_before(entry.before, now) else _why_changed(entry, now))
        if entry.before is None:
            if now is None:
                raise _Skip(AS_BEFORE)
            return lambda: self._remove(path, now)
        if _is_as_before(entry.before, now):
            raise _Skip(AS_BEFORE)
        data, mode = self._kept(entry.before), _mode(entry.before, left, now)
        return lambda: self._replace(path, data, now, mode)

    def _judge(self, path: Path) -> None:
        try:
            real = self._workspace.resolve(str(path))
        except OutsideRoots:
            raise _Blocked(CLOSED) from None
        if real != path:
            raise _Blocked(A_LINK)
        if is_protected_place(path, self._workspace):
            raise _Skip(PROTECTED)

    def _kept(self, before: Held) -> bytes:
        try:
            return self._vault.get(before.blob)
        except KeyError:
            raise _Skip(LOST) from None

    def _found(self, path: Path, *, is_coming_back: bool) -> Snapshot | None:
        """What is there now; None also where there is nothing but what goes before a removed file is put back."""
        if not self._gone.isdisjoint(path.parents):
            return None
        try:
            with opened_folder(path.parent) as folder:
                return find_snapshot(folder, path.name)
        except FileNotFoundError:
            return None
        except IsADirectoryError:
            if is_coming_back and _is_hollow(path, self._gone):
                return None
            raise _Blocked(NO_FILE) from None
        except ToolError:
            raise _Blocked(NO_FILE) from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _Blocked(A_LINK) from None
            raise

    def _remove(self, path: Path, now: Snapshot) -> None:
        with opened_folder(path.parent) as folder:
            remove_file(folder, path.name, now)
        self._changed.add(path.parent)

    def _replace(self, path: Path, data: bytes, now: Snapshot | None, mode: int) -> None:
        if now is None and path.is_dir():
            _remove_hollow(path)
        made: list[Path] = []
        with opened_folder(path.parent, create=True, made=made) as folder:
            replace_file(folder, path.name, data, now, mode)
            with open_regular(folder, path.name) as file:
                os.fsync(file.fileno())
        self._changed.update((path.parent, *(folder.parent for folder in made)))

    def _remove_folder(self, path: Path) -> None:
        """Remove a folder that the run made, if nothing is in it."""
        with suppress(_Skip, OSError):
            self._judge(path)
            with opened_folder(path.parent) as folder:
                os.rmdir(path.name, dir_fd=folder)
            self._changed.add(path.parent)

    def _sync(self, report: Report) -> None:
        """Make it durable that names were made and removed; where that fails, the run is undone again."""
        for path in self._changed:
            try:
                with opened_folder(path) as folder:
                    sync_opened(folder)
            except (FileNotFoundError, NotADirectoryError):
                continue  # it was removed itself, and the folder around it is synced
            except OSError:
                report.is_final = False


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


def _is_hollow(folder: Path, gone: Set[Path]) -> bool:
    """Whether there is nothing but folders in a folder, and files that are `gone`."""
    for top, folders, files in os.walk(folder):
        if any(Path(top, name) not in gone for name in files) or any(Path(top, name).is_symlink() for name in folders):
            return False
    return True


def _remove_hollow(folder: Path) -> None:
    """Remove a folder with the folders in it. Raises: OSError where anything else is in one of them."""
    for top, _, _ in os.walk(folder, topdown=False):
        with opened_folder(Path(top).parent) as opened:
            os.rmdir(Path(top).name, dir_fd=opened)
