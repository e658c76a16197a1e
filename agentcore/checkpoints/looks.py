"""What is kept of a folder before a command runs in it, and what the command turns out to have changed.

Before: the bytes of every file that git calls dirty or untracked, and of those that the run changed already, in a
nameless temporary file; of the clean ones only what `lstat` says, since git has their bytes. After: what `lstat` says
now, and the bytes of what differs. A file that is new was made by the command only if git looked at its place before:
one that had been ignored, say, is not taken for new. One whose content is older than the command was put there from
elsewhere, maybe as the only copy: it counts as made only where the same content is restored somewhere else.

Not told apart from the command: what a person changes while it runs. Not covered: files that git ignores, submodules,
repositories inside the tree, links, and folders that a command makes (they stay, empty).
"""

import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO

from agentcore.checkpoints.git import Deadline, Git, Listing, NotCovered
from agentcore.checkpoints.manifest import GONE, Left, digest_of, left_of
from agentcore.checkpoints.prints import CLOCK_NS, Print, print_of
from agentcore.files import MAX_WHOLE_BYTES, find_snapshot, opened_folder
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import ToolError

MAX_FILE_BYTES = 2 * 1024 * 1024  # the contract's bounds of what is kept for one command
MAX_BYTES = 64 * 1024 * 1024
MAX_FILES = 2_000
MEMORY_BYTES = 1024 * 1024
"""What is kept lies in memory up to here, else in a nameless file."""
BATCH = 256
"""Files between two looks at the time, and contents that are asked of git at once."""
TOO_LARGE = f"a command changed it, and it was larger than {MAX_FILE_BYTES >> 20} MB"
TOO_MUCH = f"a command changed it, and more than {MAX_BYTES >> 20} MB or {MAX_FILES:,} files had to be kept"
NO_FILE = "a command changed it, and it was no regular file (a link, say)"
UNREADABLE = "a command changed it, and it could not be read before"
STORED_OTHERWISE = "a command changed it, and git has it in another form or not at all"
OLDER = "a command put an older file there, maybe the only copy"
NOW_NO_FILE = "a command made it something that is no readable regular file (a link, say)"
NOW_TOO_LARGE = f"a command made it larger than {MAX_WHOLE_BYTES >> 20} MB"


@dataclass(frozen=True, slots=True)
class Known:
    """A path before the command. With neither bytes nor object there was no file, or `why_not` it is not kept."""

    print: Print | None
    place: int | None = None
    """Where its bytes begin in the look's file."""
    object: bytes | None = None
    """Name of its content in git."""
    why_not: str | None = None


@dataclass(slots=True)
class Budget:
    """How much is kept for one command."""

    size: int = MAX_BYTES
    count: int = MAX_FILES

    def takes(self, size: int) -> bool:
        if self.count == 0 or size > self.size:
            return False
        self.size -= size
        self.count -= 1
        return True


@dataclass(slots=True)
class Look:
    """A folder before a command."""

    kept: IO[bytes]
    files: dict[bytes, Known] = field(default_factory=dict)
    """By absolute path, as bytes: there may be tens of thousands."""
    clean: dict[bytes, tuple[Print | None, bytes]] = field(default_factory=dict)
    """Files that are as git has them: what `lstat` says, and the name of the content."""
    listing: Listing | None = None
    """None where git did not tell all in time: then new files cannot be told."""
    why_not: str | None = None
    """Why not all that the command changes is covered."""
    undone: dict[Path, str | None] = field(default_factory=dict)
    """What an undo left meanwhile, where work goes on in the background: contents by name, None for no file."""
    began_ns: int = field(default_factory=time.time_ns)
    budget: Budget = field(default_factory=Budget)
    """Of what is kept beforehand."""
    originals: Budget = field(default_factory=Budget)
    """Of what is taken out of git afterwards."""

    def known(self, path: bytes) -> Known:
        """What is known of a path that was looked at."""
        found = self.files.get(path)
        if found is not None:
            return found
        seen, content = self.clean[path]
        return Known(seen, object=content, why_not=_reason(seen))

    def changed(self) -> list[bytes]:
        """Paths that are not as they were."""
        kept = [path for path, known in self.files.items() if print_of(path) != known.print]
        return kept + [path for path, (seen, _) in self.clean.items() if print_of(path) != seen]

    def is_undo(self, change: "Changed") -> bool:
        """Whether it was an undo that made a change."""
        return change.why_not is None and self.undone.get(change.path, "") == change.left.blob

    def bytes_of(self, known: Known) -> bytes:
        assert known.place is not None
        assert known.print is not None
        self.kept.seek(known.place)
        return self.kept.read(known.print[1])


@dataclass(frozen=True, slots=True)
class Changed:
    """What a command did to one path."""

    path: Path
    before: tuple[bytes, int] | None = None
    """Bytes and mode; None where there was no file."""
    left: Left = GONE
    why_not: str | None = None
    """Why it cannot be taken back; then at most `before` is known, to be kept for a person."""


class Looker:
    """Looks before and after. Blocking; reads the project and writes nothing into it."""

    def __init__(self, workspace: Workspace, git: Git | str, spool: Path) -> None:
        """`git` is why there is none, where there is none; `spool` a folder for nameless files."""
        self._workspace = workspace
        self._git = git
        self._spool = spool

    def before(self, watched: Iterable[Path], deadline: Deadline) -> Look:
        """Keep what a command may change: what git lists and the `watched` paths. Raises: OSError, and NotCovered when
        it was stopped."""
        look = Look(tempfile.SpooledTemporaryFile(MEMORY_BYTES, dir=str(self._spool)))  # noqa: SIM115 - the look's own
        try:
            for path in watched:
                self._keep(look, os.fsencode(path))
            if isinstance(self._git, str):
                look.why_not = self._git
            else:
                self._keep_listed(look, self._git, deadline)
            if deadline.is_stopped:
                raise NotCovered("nobody waits for it any more")
        except BaseException:
            look.kept.close()
            raise
        return look

    def after(self, look: Look, deadline: Deadline) -> Iterator[Changed]:
        """What has changed since, one by one. Raises: NotCovered, OSError."""
        restored: set[str] = set()
        """Contents that an undo brings back to where they were."""
        changed = look.changed()
        for few in (changed[start : start + BATCH] for start in range(0, len(changed), BATCH)):
            known = [look.known(path) for path in few]
            contents = self._contents(known, deadline)
            for path, one in zip(few, known, strict=True):
                deadline.left_s()
                for change in self._compared(Path(os.fsdecode(path)), one, look, contents):
                    if change.before is not None and change.why_not is None:
                        restored.add(digest_of(change.before[0]))
                    yield change
        for path, is_older in self._new(look, deadline):
            for change in self._told(Path(os.fsdecode(path)), None):
                is_only_copy = is_older and change.left.blob not in restored
                yield Changed(change.path, why_not=OLDER) if is_only_copy else change

    # --- before ---

    def _keep_listed(self, look: Look, git: Git, deadline: Deadline) -> None:
        try:
            listing = git.listing(deadline)
            self._keep_all(look, listing, deadline)
            look.listing = listing
        except NotCovered as reason:
            look.why_not = str(reason)

    def _keep_all(self, look: Look, listing: Listing, deadline: Deadline) -> None:
        is_open = self._judge(listing.top)
        top = os.fsencode(listing.top) + b"/"
        for name in listing.dirty:
            deadline.left_s()
            if is_open(path := top + name):
                self._keep(look, path)
        for number, (name, content) in enumerate(listing.tracked.items()):
            if number % BATCH == 0:
                deadline.left_s()
            path = top + name
            if path not in look.files and is_open(path):
                look.clean[path] = print_of(path), content

    def _keep(self, look: Look, path: bytes) -> None:
        if path in look.files:
            return
        seen = print_of(path)
        why_not = _reason(seen)
        if seen is None or why_not is not None:
            look.files[path] = Known(seen, why_not=why_not)
        elif look.budget.takes(seen[1]):
            look.files[path] = self._kept(look, path, seen)
        else:
            look.files[path] = Known(seen, why_not=TOO_MUCH)

    def _kept(self, look: Look, path: bytes, seen: Print) -> Known:
        try:
            data, mode = _read(Path(os.fsdecode(path)))
        except (OSError, ToolError):
            return Known(seen, why_not=UNREADABLE)
        if data is None or len(data) != seen[1] or mode != stat.S_IMODE(seen[4]):
            return Known(seen, why_not=UNREADABLE)  # changed under our eyes
        place = look.kept.seek(0, os.SEEK_END)
        look.kept.write(data)
        return Known(seen, place=place)

    def _judge(self, top: Path) -> Callable[[bytes], bool]:
        """Which paths below `top` are inside the roots and not closed to tools."""
        roots = _prefixes(root for root in self._workspace.roots if not top.is_relative_to(root))
        closed = _prefixes(closed for closed in self._workspace.hidden if closed.is_relative_to(top))
        is_inside = any(top.is_relative_to(root) for root in self._workspace.roots)
        if is_inside and not closed:
            return lambda path: True
        return lambda path: (is_inside or path.startswith(roots)) and not (path + b"/").startswith(closed)

    # --- after ---

    def _contents(self, known: Sequence[Known], deadline: Deadline) -> dict[bytes, bytes]:
        """What git has of changed files that were clean."""
        objects = [one.object for one in known if one.object is not None and one.why_not is None]
        return {} if isinstance(self._git, str) else self._git.contents(objects, deadline)

    def _compared(self, path: Path, known: Known, look: Look, contents: dict[bytes, bytes]) -> Iterator[Changed]:
        if known.why_not is not None:
            yield Changed(path, why_not=known.why_not)
        elif known.print is None:
            yield from self._told(path, None)
        elif known.object is None:
            yield from self._told(path, (look.bytes_of(known), known.print[4]))
        elif len(data := contents.get(known.object, b"")) != known.print[1]:
            yield Changed(path, why_not=STORED_OTHERWISE)
        elif not look.originals.takes(len(data)):
            yield Changed(path, why_not=TOO_MUCH)
        else:
            yield from self._told(path, (data, known.print[4]))

    def _told(self, path: Path, before: tuple[bytes, int] | None) -> Iterator[Changed]:
        """What a path holds now, when that is a change."""
        try:
            data, mode = _read(path)
        except (FileNotFoundError, NotADirectoryError):
            if before is not None:
                yield Changed(path, before)
            return
        except IsADirectoryError:
            # the file is gone, and an undo sees whether the folder in its place can go as well
            yield Changed(path, before, why_not=NOW_NO_FILE if before is None else None)
            return
        except (OSError, ToolError):
            yield Changed(path, before, why_not=NOW_NO_FILE)
            return
        if data is None:
            yield Changed(path, before, why_not=NOW_TOO_LARGE)
        elif before is None or (data, mode) != (before[0], stat.S_IMODE(before[1])):
            yield Changed(path, before, left_of(data, mode))

    def _new(self, look: Look, deadline: Deadline) -> Iterator[tuple[bytes, bool]]:
        """Files that were not there before; and whether their content is older than the command."""
        if look.listing is None or isinstance(self._git, str):
            return
        now = self._git.listing(deadline, look.listing)
        if now.top != look.listing.top:
            raise NotCovered("the repository is another one now")
        is_open, top = self._judge(now.top), os.fsencode(now.top) + b"/"
        for name in chain(now.dirty, now.tracked.keys() - look.listing.tracked.keys()):
            path = top + name
            if path in look.files or path in look.clean or look.listing.is_closed(name) or not is_open(path):
                continue
            seen = print_of(path)
            if seen is not None:
                yield path, seen[2] < look.began_ns - CLOCK_NS


def _prefixes(folders: Iterable[Path]) -> tuple[bytes, ...]:
    return tuple(os.fsencode(folder) + b"/" for folder in folders)


def _reason(seen: Print | None) -> str | None:
    """Why a file's bytes are not kept, None where they can be."""
    if seen is None:
        return None
    if not stat.S_ISREG(seen[4]):
        return NO_FILE
    return TOO_LARGE if seen[1] > MAX_FILE_BYTES else None


def _read(path: Path) -> tuple[bytes | None, int]:
    """A regular file's bytes, None for a larger one, and its mode. Raises: OSError, ToolError."""
    with opened_folder(path.parent) as folder:
        found = find_snapshot(folder, path.name)
    if found is None:
        raise FileNotFoundError(path)
    return found.data, stat.S_IMODE(found.status.st_mode)
