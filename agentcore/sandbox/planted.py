"""Repositories below a project that a confined command made or changed so that git would run something.

A clone or `git init` is legitimate, so no repository is forbidden; but what one names runs outside of the sandbox as
soon as a person, an editor or a prompt of a shell uses git there. So the project is looked at before its first command
and behind each one, and what is new is told, once. Blocking, and safe for threads.
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentcore.events import Notice
from agentcore.ports.sandbox import SandboxProfile
from agentcore.sandbox.folder_tree import MAX_FOLDERS, FolderTree
from agentcore.sandbox.git_folders import Program, led_to, programs_of
from agentcore.sandbox.worktrees import linked_state
from agentcore.within import one_line

FIRST_LOOK_S = 2.0
LOOK_S = 0.5
"""At most, on a slow disk; the next look goes on with what is left."""
UNCHANGED = 1_500
"""Folders that a look behind a command goes through besides those that changed: the command waits for it, 5 ms."""
MAX_HELD = 4
"""Repositories below the roots that are held by mounts, those nearest to the top: each costs each command 1.5 ms."""
HELD = ("config", "config.worktree", "hooks")
MAX_PROJECTS = 16
"""Remembered, those that ran a command last: a tree of 10 000 folders takes 4 MB."""
MAX_PLACES, MAX_NAMES = 5, 5
"""Told in one sentence."""

Programs = dict[Path, frozenset[Program]]
"""What git would run, by the `.git` or the bare repository that says so."""


class Repositories:
    """Of all projects whose commands one sandbox confines."""

    def __init__(self) -> None:
        self._projects: OrderedDict[tuple[tuple[Path, ...], ...], _Project] = OrderedDict()
        self._lock = threading.Lock()

    def held(self, profile: SandboxProfile) -> tuple[Path, ...]:
        """What a command must not change in repositories that were there before the first one, and still is."""
        return self._project(profile).held()

    def news(self, profile: SandboxProfile) -> list[Notice]:
        """What is new since the last time that it was asked, by whichever command."""
        return self._project(profile).news()

    def _project(self, profile: SandboxProfile) -> "_Project":
        key = profile.writable, profile.hidden
        with self._lock:
            project = self._projects.pop(key, None) or _Project(*key)
            self._projects[key] = project
            while len(self._projects) > MAX_PROJECTS:
                self._projects.popitem(last=False)
            return project


class _Project:
    def __init__(self, roots: tuple[Path, ...], hidden: tuple[Path, ...]) -> None:
        self._roots = roots
        self._tree = FolderTree(roots, hidden)
        self._lock = threading.Lock()
        self._known: Programs | None = None
        """None until it was looked at first."""
        self._held: tuple[Path, ...] = ()
        self._has_told_of_bound = False

    def held(self) -> tuple[Path, ...]:
        with self._lock:
            self._begun()
            places = (git / name for git in self._held for name in HELD)
            return tuple(place for place in places if place.exists() and place == place.resolve())

    def news(self) -> list[Notice]:
        with self._lock:
            known = self._begun()
            found = self._look(UNCHANGED, LOOK_S)
            self._known = found if self._tree.is_whole else known | found
            new = {place: found[place] - known.get(place, frozenset()) for place in found}
            return [*_told({self._shown(place): programs for place, programs in new.items() if programs}), *self._cut()]

    def _begun(self) -> Programs:
        """What is known, from a first look where there was none."""
        if self._known is None:
            self._known = self._look(MAX_FOLDERS, FIRST_LOOK_S)
            below = (place for place in self._known if place.name == ".git" and place.parent not in self._roots)
            folders = [place for place in below if place.is_dir()]
            self._held = tuple(sorted(folders, key=lambda place: (len(place.parts), place))[:MAX_HELD])
        return self._known

    def _look(self, unchanged: int, limit_s: float) -> Programs:
        linked = [state for root in self._roots for state in linked_state(root)]
        own = {*(Path(os.path.realpath(root / ".git")) for root in self._roots), *linked}  # mounts hold them
        writable = (*self._roots, *linked)
        found = Programs()
        for place in self._tree.repositories(unchanged, time.monotonic() + limit_s):
            folder = led_to(place, writable)
            if folder is not None:
                found[place] = programs_of(folder, writable, own)
        return found

    def _shown(self, place: Path) -> str:
        """Relative to its root, which is named where it is a further one."""
        root = max((root for root in self._roots if place.is_relative_to(root)), key=lambda root: len(root.parts))
        return str(place.relative_to(root if root == self._roots[0] else root.parent))

    def _cut(self) -> Iterator[Notice]:
        """Say once that there are too many folders: each time would be noise, and never would hide what lies there."""
        if self._tree.has_too_many and not self._has_told_of_bound:
            self._has_told_of_bound = True
            text = (
                "There are too many folders here to look at them all after each command: whether one put a git"
                " repository with programs in the deepest of them is not known."
            )
            yield Notice(level="info", code="git_not_all_seen", text=text)


def _told(new: Mapping[str, frozenset[Program]]) -> Iterator[Notice]:
    if not new:
        return
    places = [f"{one_line(place)} ({_names(programs)})" for place, programs in sorted(new.items())]
    text = (
        "Git would run what this names, outside of the sandbox, as soon as somebody uses git there:"
        f" {_listed(places, MAX_PLACES)}. Look at it first, or remove it."
    )
    yield Notice(level="warning", code="git_would_run", text=text)


def _names(programs: frozenset[Program]) -> str:
    return _listed(sorted({one_line(program.name, 60) for program in programs}), MAX_NAMES)


def _listed(words: list[str], limit: int) -> str:
    more = f" and {len(words) - limit} more" if len(words) > limit else ""
    return ", ".join(words[:limit]) + more
