"""Where in a tree of folders git would see a repository; looked at again and again, at the price of what changed.

A folder whose inode and time of change (`st_ctime`, which no program can set) are as they were has the entries that it
had, so it costs one `lstat`. Follows no link. A look may be bounded: the next one goes on where it was, so that all
folders have their turn. The outermost come first: where there are too many, the deepest are left out.
"""

import os
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAX_FOLDERS = 50_000
"""Looked at. Each costs 4 µs and 0.4 KB; a project with the packages of a large web page has 10 000."""
FRESH_NS = 100_000_000
"""A folder that was changed so short a time before it is read is read again the next time: its time of change has the
grain of a tick of the system's, or of a server's clock."""
_BARE = {"objects", "refs"}


@dataclass(slots=True)
class _Folder:
    path: str
    look: tuple[int, int] | None = None
    """Inode and time of change when it was read; None: it must be read again."""
    below: dict[str, "_Folder"] = field(default_factory=dict)
    git: str | None = None
    """Its `.git`, by the name that it has."""
    is_bare: bool = False


class FolderTree:
    def __init__(self, tops: tuple[Path, ...], closed: tuple[Path, ...] = ()) -> None:
        """`tops` that lie in one another are looked at once; what is in `closed` is not looked into."""
        self._closed = frozenset(map(str, closed))
        self._tops = [
            _Folder(str(top)) for top in tops if not any(top != other and top.is_relative_to(other) for other in tops)
        ]
        self._waiting = deque[_Folder]()
        """Where the next look goes on; empty: at the tops."""
        self._seen = 0
        """Folders, since the tops."""
        self.is_whole = True
        """Whether the last look went from the tops to the end."""
        self.has_too_many = False
        """Whether there are folders that no look comes to."""

    def repositories(self, unchanged: int, until: float) -> Iterator[Path]:
        """Each `.git`, and each folder that git would take for a bare repository, of all folders or of the next ones:
        of so many `unchanged` ones, and `until` some time of `time.monotonic`."""
        self.is_whole = not self._waiting
        if not self._waiting:
            self._waiting, self._seen = deque(self._tops), 0
        yield from self._next_ones(self._waiting, unchanged, until)
        self.is_whole = self.is_whole and not self._waiting

    def _next_ones(self, waiting: deque[_Folder], unchanged: int, until: float) -> Iterator[Path]:
        while waiting and unchanged > 0 and time.monotonic() <= until:
            self._seen += 1
            if self._seen > MAX_FOLDERS:
                self.has_too_many, self.is_whole = True, False
                waiting.clear()
                return
            folder = waiting.popleft()
            before = folder.look
            if folder.path in self._closed or not _look_at(folder):
                continue
            unchanged -= before is not None and folder.look == before
            if folder.git is not None:
                yield Path(folder.path, folder.git)
            if folder.is_bare:
                yield Path(folder.path)
            waiting += folder.below.values()


def _look_at(folder: _Folder) -> bool:
    """Bring what is known of a folder up to date; whether it is there and can be read."""
    try:
        status = os.lstat(folder.path)
        look = status.st_ino, status.st_ctime_ns
        if look != folder.look:
            _read(folder)
            folder.look = look if look[1] < time.time_ns() - FRESH_NS else None
    except OSError:
        return False
    return True


def _read(folder: _Folder) -> None:
    names, below = set[str](), dict[str, _Folder]()
    folder.git = None
    with os.scandir(folder.path) as entries:
        for entry in entries:
            name = entry.name
            names.add(lower := name.lower())  # some disks take upper and lower case for the same
            if lower == ".git":
                folder.git = name
            elif entry.is_dir(follow_symlinks=False):
                below[name] = folder.below.get(name) or _Folder(entry.path)
    folder.below = below
    folder.is_bare = "head" in names and (names >= _BARE or "commondir" in names)
