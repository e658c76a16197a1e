"""Where a repository is and what its configuration names; found out by asking git, and known until something changed.

Asking costs a program, twice a command. What was found holds while the one file that it came from is the same by its
print; where it came from several (included files, linked work trees), it is asked for each time. Git is then told the
place, so that it cannot come to look into another repository, whose configuration nobody has read.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcore.checkpoints.prints import Print, print_of, settled_print_of

NAMES = ("config", "--list", "--name-only", "-z")
"""Asks git for the names that the configuration sets."""
PLACES = ("rev-parse", "--show-toplevel", "--absolute-git-dir")
"""Asks git where the work tree and the repository are: a line each."""
_FILTER_KEYS = (b".clean", b".smudge", b".process", b".required")
_READ_ELSEWHERE = (b"include.", b"includeif.", b"core.worktree", b"extensions.worktreeconfig")
"""Beginnings of names by which more than the one file has a say."""


@dataclass(frozen=True, slots=True)
class Repository:
    top: Path
    """The folder of its work tree."""
    filters: tuple[str, ...]
    """Names of the configuration by which programs would run."""
    pinned: Path | None = None
    """The folder `.git`, where git is told it and does not look for it by itself."""

    @property
    def overrides(self) -> dict[str, str]:
        """Configuration that takes every filter out of force."""
        return {name: "false" if name.endswith(".required") else "" for name in self.filters}

    @property
    def environ(self) -> dict[str, str]:
        """Variables that name it to git."""
        return {} if self.pinned is None else {"GIT_DIR": str(self.pinned), "GIT_WORK_TREE": str(self.top)}

    @property
    def index(self) -> Path | None:
        """The file that lists what is tracked, where its place is known."""
        return None if self.pinned is None else self.pinned / "index"


class KnownRepository:
    """What was found for one folder. Not safe for threads."""

    def __init__(self) -> None:
        self._found: tuple[Repository, Print] | None = None

    def find(self, folder: Path) -> Repository | None:
        """The repository of this folder; None where it has to be asked for."""
        if self._found is None:
            return None
        repository, seen = self._found
        place = place_of(folder)
        if place is None or place != repository.pinned or print_of(place / "config") != seen or _is_linked(place):
            return None
        return repository

    def keep(self, repository: Repository, names: Iterable[bytes], git_dir: Path, seen: Print | None) -> Repository:
        """Take what was found, if it can be known again; `seen` is the settled print of the file, from before."""
        self._found = None
        if seen is None or _is_linked(git_dir) or any(name.startswith(_READ_ELSEWHERE) for name in names):
            return repository
        pinned = Repository(repository.top, repository.filters, git_dir)
        self._found = pinned, seen
        return pinned


def place_of(folder: Path) -> Path | None:
    """The nearest `.git` at or above a folder; without one no program is started."""
    return next((above / ".git" for above in (folder, *folder.parents) if os.path.lexists(above / ".git")), None)


def config_print_of(place: Path) -> Print | None:
    """The settled print of the one file of a repository's configuration."""
    return settled_print_of(place / "config")


def filters_in(names: Iterable[bytes]) -> Iterator[str]:
    for name in names:
        if name.startswith(b"filter.") and name.endswith(_FILTER_KEYS):
            yield os.fsdecode(name)


def _is_linked(git_dir: Path) -> bool:
    """Whether it shares another repository's configuration."""
    return os.path.lexists(git_dir / "commondir")
