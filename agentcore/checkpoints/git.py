"""What git says about a work tree, asked so that nothing of the repository runs.

A repository's own configuration names programs: file system monitors, hooks, filters, transports. All of them are
overridden by what git ranks above it (`GIT_CONFIG_COUNT`): monitors, hooks and bare repositories by name; filters by
listing the keys first, which runs nothing, and emptying each (`repository` remembers them). No transport is allowed,
so that nothing is fetched into a partial clone. The user's global configuration is left out, and with it the drivers of
filters that are installed for the whole account (LFS, say): files whose stored form differs are seen by their size and
not restored from it. Submodules and repositories inside the tree are not looked into. The program `git` is one outside
of the roots.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentcore.checkpoints.prints import Print, settled_print_of
from agentcore.checkpoints.repository import (
    NAMES,
    PLACES,
    KnownRepository,
    Repository,
    config_print_of,
    filters_in,
    place_of,
)
from agentcore.git_environ import QUIET, with_git_settings

_COMPARED = (b"H", b"M")
"""Tags of `git ls-files -v` for files that git compares with the work tree: in the index, or unmerged."""
_LINK_TO_REPOSITORY = b"160000"
_OVERRIDES = {
    **QUIET,
    "core.hooksPath": os.devnull,
    "protocol.allow": "never",
}


class NotCovered(Exception):
    """What a command changes cannot be told; the text says why, for people."""


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self.is_stopped = False

    def stop(self) -> None:
        """It is over now: nobody waits any more."""
        self.is_stopped, self._end = True, 0.0

    def left_s(self) -> float:
        """Seconds that are left. Raises: NotCovered when it has passed."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise NotCovered(f"looking at the repository took longer than {self._seconds:g} s")
        return left


@dataclass(slots=True)
class Listing:
    """The files of a work tree, relative to `top`."""

    top: Path
    tracked: dict[bytes, bytes] = field(default_factory=dict)
    """Each file of the index that git compares with the work tree, and the name of its content there."""
    dirty: list[bytes] = field(default_factory=list)
    """Differ from the index, untracked ones included."""
    closed: set[bytes] = field(default_factory=set)
    """What git does not look at in the work tree: ignored, or a repository of its own; folders without their slash."""
    untold: set[bytes] = field(default_factory=set)
    """What is in the index and not looked at: flagged so, or a repository of its own."""
    index: Print | None = None
    """Of the index's file, before it was read: while it stays equal, what is tracked and untold is the same."""

    def is_closed(self, name: bytes) -> bool:
        """Whether a path lies at or below one that git did not look at."""
        while name:
            if name in self.closed or name in self.untold:
                return True
            name = name.rpartition(b"/")[0]
        return False


class Git:
    def __init__(self, binary: str, folder: Path, environ: Mapping[str, str], known: KnownRepository) -> None:
        """`known` outlives it: what was found out about the repository before."""
        self._binary = binary
        self._folder = folder
        self._known = known
        self._environ = {
            **{name: environ[name] for name in ("PATH", "HOME", "XDG_CONFIG_HOME") if name in environ},
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }

    def listing(self, deadline: Deadline, earlier: Listing | None = None) -> Listing:
        """List the work tree; what is tracked is taken from an `earlier` one if it is still so. Raises: NotCovered."""
        repository = self._known.find(self._folder) or self._find(deadline)
        environ = with_git_settings(self._environ, {**_OVERRIDES, **repository.overrides}) | repository.environ
        listing = Listing(repository.top)
        if repository.index is not None:
            listing.index = settled_print_of(repository.index)
        asked = [self._start(environ, *_STATUS)]
        is_known = earlier is not None and listing.index is not None and earlier.index == listing.index
        if not is_known:
            asked.append(self._start(environ, *_INDEX))
        with _ended(asked):
            status, *index = (_answer(process, deadline) for process in asked)
        if earlier is not None and is_known:
            listing.tracked, listing.untold = earlier.tracked, earlier.untold
        else:
            _read_index(listing, index[0])
        _read_status(listing, status)
        return listing

    def _find(self, deadline: Deadline) -> Repository:
        """Ask where the repository is and what its configuration names; that runs nothing. Raises: NotCovered."""
        place = place_of(self._folder)
        seen = None if place is None else config_print_of(place)
        environ = with_git_settings(self._environ, _OVERRIDES)
        asked = [self._start(environ, *NAMES), self._start(environ, *PLACES)]
        with _ended(asked):
            names, places = (_answer(process, deadline) for process in asked)
        top, *others = os.fsdecode(places.removesuffix(b"\n")).split("\n")
        if len(others) != 1:
            raise NotCovered("the path of the repository has a line end in it")
        [git_dir] = others
        if not self._folder.is_relative_to(top):
            raise NotCovered("the repository's work tree is elsewhere")
        set_names = names.split(b"\0")
        repository = Repository(Path(top), tuple(filters_in(set_names)))
        is_there = place is not None and git_dir == str(place)
        return self._known.keep(repository, set_names, Path(git_dir), seen if is_there else None)

    def contents(self, objects: Sequence[bytes], deadline: Deadline) -> dict[bytes, bytes]:
        """The contents of objects, as far as they are there. Raises: NotCovered."""
        if not objects:
            return {}
        process = self._start(
            with_git_settings(self._environ, _OVERRIDES), "cat-file", "--batch", stdin=subprocess.PIPE
        )
        with _ended([process]):
            return dict(_batch(_answer(process, deadline, b"\n".join([*objects, b""]))))

    def _start(
        self, environ: Mapping[str, str], *arguments: str, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [self._binary, "--no-pager", *arguments],
                cwd=self._folder,
                env=dict(environ),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise NotCovered("git cannot be started") from error


_INDEX = ("ls-files", "-z", "-v", "--stage", "--full-name", "--", ":/")
_STATUS = (
    "status",
    "--porcelain=v1",
    "-z",
    "-uall",
    "--no-renames",
    "--ignored=matching",
    "--ignore-submodules=all",
)


def find_git(path: str, roots: Sequence[Path]) -> str | None:
    """The program `git` on a search path, none that lies where the agent may write."""
    folders = [folder for folder in path.split(os.pathsep) if folder and Path(folder).is_absolute()]
    outside = [folder for folder in folders if not _is_below(Path(folder), roots)]
    found = shutil.which("git", path=os.pathsep.join(outside)) if outside else None
    return None if found is None or _is_below(Path(found), roots) else found


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    real = path.resolve()
    return any(real.is_relative_to(root) for root in roots)


@contextmanager
def _ended(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """End git processes on leaving, come what may."""
    try:
        yield
    finally:
        for process in processes:
            if process.poll() is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
            process.wait()


def _answer(process: subprocess.Popen[bytes], deadline: Deadline, said: bytes | None = None) -> bytes:
    try:
        out, _ = process.communicate(said, timeout=deadline.left_s())
    except subprocess.TimeoutExpired:
        deadline.left_s()
        raise NotCovered("git did not answer in time") from None
    if process.returncode != 0:
        raise NotCovered("git cannot tell what is in the work tree")
    return out


def _read_index(listing: Listing, out: bytes) -> None:
    for line in out.split(b"\0"):
        head, _, name = line.partition(b"\t")
        if not name:
            continue
        tag, mode, content, stage = head.split(b" ")
        if tag not in _COMPARED or mode == _LINK_TO_REPOSITORY:
            listing.untold.add(name)
        elif stage == b"0":
            listing.tracked[name] = content


def _read_status(listing: Listing, out: bytes) -> None:
    for line in out.split(b"\0"):
        state, name = line[:2], line[3:]
        if not name:
            continue
        if state == b"!!" or name.endswith(b"/"):
            listing.closed.add(name.removesuffix(b"/"))
        elif state[1:] != b" ":
            listing.dirty.append(name)


def _batch(out: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The answers of `git cat-file --batch`: `<name> blob <size>`, the content, and a line end; or `<name> missing`."""
    start = 0
    while start < len(out):
        end = out.index(b"\n", start)
        words = out[start:end].split(b" ")
        start = end + 1
        if len(words) == 3 and words[1] == b"blob":
            size = int(words[2])
            yield words[0], out[start : start + size]
            start += size + 1
        elif len(words) == 3:
            start += int(words[2]) + 1
