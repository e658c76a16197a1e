"""Where a linked work tree of git keeps its state: in the repository that it was made from, outside of the project.

A commit has to write there. What `.git` names is believed only if the repository names it back, so that nobody's
folder is opened by writing a `.git`. Those of subagents lie in a folder that is closed otherwise. Blocking.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from agentcore.folders import read_regular
from agentcore.permissions.protected import is_protected

_POINTER = "gitdir:"
_MAX_BYTES = 4096
SUBAGENTS = Path(".claude/worktrees")
MAX_TREES = 8
"""Of subagents, opened to the commands of who sent them; each costs a command 2 ms."""


def linked_state(folder: Path) -> Iterator[Path]:
    """The shared folder of the repository and the work tree's own one in it; nothing for what is no such work tree."""
    pointer = folder / ".git"
    if pointer.is_symlink() or not pointer.is_file():
        return
    try:
        own = _led_to(pointer.parent, _line(pointer).removeprefix(_POINTER))
        shared = _led_to(own, _line(own / "commondir"))
        names_back = _led_to(own, _line(own / "gitdir")) == pointer
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links, before 3.13
        return
    if names_back and own.parent == shared / "worktrees" and not _is_closed(shared):
        yield from (shared, own)


def _is_closed(shared: Path) -> bool:
    """Whether it lies in a protected place: what a project brings in its `.claude` may look like a repository."""
    return is_protected(PurePath(*(part for part in shared.parts if part.lower() != ".git")))


def subagents_trees(folder: Path, opened: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """The work trees of subagents that lie in a folder, each with its own state: of a repository that is open."""
    try:
        trees = sorted((folder / SUBAGENTS).iterdir())
    except OSError:
        return
    found = 0
    for tree in trees:
        state = tuple(linked_state(tree))  # nothing where a link leads to the tree: its repository names another path
        if state and found < MAX_TREES and any(state[0].is_relative_to(root) for root in opened):
            found += 1
            yield tree, state[1]


def _led_to(base: Path, path: str) -> Path:
    return (base / path.strip()).resolve(strict=True)


def _line(file: Path) -> str:
    return read_regular(file, _MAX_BYTES).decode()
