"""What of a profile's places is on the disk at this moment. Blocking; follows no link below a root."""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentcore.permissions.protected import CONFIGURED, FILES, FOLDERS
from agentcore.ports.sandbox import SandboxProfile
from agentcore.sandbox.mounts import Places
from agentcore.sandbox.worktrees import linked_state, subagents_trees

_GIT = ("commondir", "config", "config.worktree", "gitdir", "hooks", "info", "modules", "worktrees")
"""What in a `.git` makes git run something, or look for its settings elsewhere. The rest a commit has to write."""
_NAMES = tuple(sorted((FILES | FOLDERS) - {".git"}))
SOCKETS = Path("/proc/net/unix")
RUN, PROGRAMS, RESOLVER = Path("/run"), Path("/run/current-system"), Path("/etc/resolv.conf")
MAX_SOCKETS = 256
"""Far more than a desktop has outside of /run and /tmp; each costs a mount."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A protected place that no mount can hold: nothing is there, or a link."""

    path: Path
    target: str | None
    """Of the link."""


@dataclass(frozen=True, slots=True)
class Found:
    places: Places
    watched: tuple[Watched, ...]


def look(profile: SandboxProfile, cwd: Path, held: tuple[Path, ...] = ()) -> Found:
    """Find what is there. A root that is missing is left out; `held` is what else must not be changed, and is there."""
    given = tuple(root for root in profile.writable if root.is_dir())
    above = tuple(dict.fromkeys((*given, *_up_to_root(cwd, given))))
    linked = tuple(state for folder in above for state in linked_state(folder))
    apart = {tree: own for folder in above for tree, own in subagents_trees(folder, (*given, *linked))}
    folders = tuple(dict.fromkeys((*above, *apart)))
    linked = tuple(dict.fromkeys((*linked, *apart.values())))
    roots = tuple(dict.fromkeys((*given, *apart, *linked)))
    protected, watched = list[Path](held), list[Watched]()
    state = (place / name for place in linked for name in _GIT)
    for path in dict.fromkeys((*_protected(folders), *state, *profile.protected)):
        _sort(path, protected, watched)
    hidden = [path for path in profile.hidden if os.path.lexists(path)]
    sockets = [] if profile.has_network else list(_sockets())
    places = Places(
        writable=roots,
        protected=(*protected, *_own_code(roots)),
        hidden_folders=tuple(path for path in hidden if path.is_dir()),
        hidden_files=(*(path for path in hidden if not path.is_dir()), *sockets),
        readable=(*(path for path in profile.readable if path.exists()), *_of_the_system(profile)),
        is_read_only=profile.is_read_only,
    )
    return Found(places, () if profile.is_read_only else tuple(watched))


def _protected(folders: Iterable[Path]) -> Iterator[Path]:
    """Protected places at the top of each folder, whether or not they are there."""
    for folder in folders:
        yield from (folder / name for name in _NAMES)
        yield from (folder / ".config" / name for name in sorted(CONFIGURED))
        git = folder / ".git"
        if _is_folder(git):
            yield from (git / name for name in _GIT)
        else:
            yield git


def _up_to_root(cwd: Path, roots: tuple[Path, ...]) -> Iterator[Path]:
    for folder in (cwd, *cwd.parents):
        if any(folder.is_relative_to(root) for root in roots):
            yield folder


def _sort(path: Path, protected: list[Path], watched: list[Watched]) -> None:
    try:
        mode = path.lstat().st_mode
    except OSError:
        if _is_folder(path.parent):
            watched.append(Watched(path, None))
        return
    if not stat.S_ISLNK(mode):
        protected.append(path)
        return
    with suppress(OSError, RuntimeError):  # RuntimeError: a loop of links, before 3.13
        watched.append(Watched(path, str(path.readlink())))
        protected.append(path.resolve(strict=True))  # what it leads to


def _is_folder(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISDIR(path.lstat().st_mode)
    return False


def _of_the_system(profile: SandboxProfile) -> Iterator[Path]:
    """What in /run is no socket and no state: the programs of some systems, and where names are asked."""
    if PROGRAMS.exists():
        yield PROGRAMS
    resolver = Path(os.path.realpath(RESOLVER))
    if profile.has_network and resolver.is_relative_to(RUN) and resolver.is_file():
        yield resolver


def _own_code(roots: tuple[Path, ...]) -> Iterator[Path]:
    """The environment that this server runs from, where a project has it: a command must not rewrite the server."""
    own = Path(sys.prefix).resolve()
    if any(own.is_relative_to(root) for root in roots):
        yield own


def _sockets() -> Iterator[Path]:
    """Sockets of this machine's processes: who reaches one reaches what listens there, whatever network he has.

    Those that were bound by a relative path cannot be found.
    """
    try:
        lines = SOCKETS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    names = {name for line in lines for name in line.split(" ", 7)[7:] if name.startswith("/")}
    for name in sorted(names)[:MAX_SOCKETS]:
        with suppress(OSError):
            path = Path(os.path.realpath(name, strict=True))
            if stat.S_ISSOCK(path.lstat().st_mode):
                yield path
