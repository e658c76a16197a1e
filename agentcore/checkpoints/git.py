"""What git says about a work tree, asked so that nothing of the repository runs.

A repository's own configuration names programs: file system monitors, hooks, filters, transports. All of them are
overridden by what git ranks above it (`GIT_CONFIG_COUNT`): monitors, hooks and bare repositories by name; filters by
listing the keys first, which runs nothing, and emptying each. No transport is allowed, so that nothing is fetched into
a partial clone. The user's global configuration is left out, and with it the drivers of filters that are installed
for the whole account (LFS, say): files whose stored form differs are seen by their size and not restored from it.
Submodules and repositories inside the tree are not looked into. The program `git` is one outside of the roots.
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

_COMPARED = (b"H", b"M")
"""Tags of `git ls-files -v` for files that git compares with the work tree: in the index, or unmerged."""
_LINK_TO_REPOSITORY = b"160000"
_OVERRIDES = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "safe.bareRepository": "explicit",
    "protocol.allow": "never",
}
_FILTER_KEYS = (b".clean", b".smudge", b".process", b".required")


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
    """What git does not look at: ignored, flagged so, or a repository of its own; folders without their slash."""

    def is_closed(self, name: bytes) -> bool:
        """Whether a path lies at or below one that git did not look at."""
        while name:
            if name in self.closed:
                return True
            name = name.rpartition(b"/")[0]
        return False


class Git:
    def __init__(self, binary: str, folder: Path, environ: Mapping[str, str]) -> None:
        self._binary = binary
        self._folder = folder
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

    def listing(self, deadline: Deadline) -> Listing:
        """List the work tree. Raises: NotCovered."""
        safe = self._environ | _configured(_OVERRIDES)
        asked = [
            self._start(safe, "config", "--list", "--name-only", "-z"),
            self._start(safe, "ls-files", "-z", "-v", "--stage", "--full-name", "--", ":/"),
        ]
        with _ended(asked):
            keys, index = (_answer(process, deadline) for process in asked)
        listing = Listing(self._top(keys, safe, deadline))
        _read_index(listing, index)
        unfiltered = self._environ | _configured(_OVERRIDES | dict(_filters_off(keys)))
        asked = [self._start(unfiltered, *_STATUS)]
        with _ended(asked):
            _read_status(listing, _answer(asked[0], deadline))
        return listing

    def _top(self, keys: bytes, environ: Mapping[str, str], deadline: Deadline) -> Path:
        """The work tree's folder: the one that holds `.git`, unless the configuration says otherwise."""
        top = work_tree_of(self._folder)
        if b"core.worktree" in keys.split(b"\0"):
            asked = [self._start(environ, "rev-parse", "--show-toplevel")]
            with _ended(asked):
                top = Path(os.fsdecode(_answer(asked[0], deadline).removesuffix(b"\n")))
        if top is None or not self._folder.is_relative_to(top):
            raise NotCovered("the repository's work tree is elsewhere")
        return top

    def contents(self, objects: Sequence[bytes], deadline: Deadline) -> dict[bytes, bytes]:
        """The contents of objects, as far as they are there. Raises: NotCovered."""
        if not objects:
            return {}
        process = self._start(self._environ | _configured(_OVERRIDES), "cat-file", "--batch", stdin=subprocess.PIPE)
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


def work_tree_of(folder: Path) -> Path | None:
    """The folder above this one, or itself, where git finds a repository; without one no program is started."""
    return next((above for above in (folder, *folder.parents) if os.path.lexists(above / ".git")), None)


def _is_below(path: Path, roots: Sequence[Path]) -> bool:
    real = path.resolve()
    return any(real.is_relative_to(root) for root in roots)


def _configured(values: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that override a repository's configuration."""
    environ = {"GIT_CONFIG_COUNT": str(len(values))}
    for number, (key, value) in enumerate(values.items()):
        environ[f"GIT_CONFIG_KEY_{number}"] = key
        environ[f"GIT_CONFIG_VALUE_{number}"] = value
    return environ


def _filters_off(keys: bytes) -> Iterator[tuple[str, str]]:
    for key in keys.split(b"\0"):
        if key.startswith(b"filter.") and key.endswith(_FILTER_KEYS):
            yield os.fsdecode(key), "false" if key.endswith(b".required") else ""


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
            listing.closed.add(name)
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
