"""Where a linked work tree of git keeps its state: in the repository that it was made from, outside of the project.

A commit has to write there. What `.git` names is believed only if the repository names it back, so that nobody's
folder is opened by writing a `.git`. Blocking.
"""

from collections.abc import Iterator
from pathlib import Path

from agentcore.folders import read_regular

_POINTER = "gitdir:"
_MAX_BYTES = 4096


def linked_state(folder: Path) -> Iterator[Path]:
    """The shared folder of the repository and the work tree's own one in it; nothing for what is no such work tree."""
    pointer = folder / ".git"
    if pointer.is_symlink() or not pointer.is_file():
        return
    try:
        own = _led_to(pointer.parent, _line(pointer).removeprefix(_POINTER))
        shared = _led_to(own, _line(own / "commondir"))
        names_back = _led_to(own, _line(own / "gitdir")) == pointer
    except (OSError, ValueError):
        return
    if names_back and own.parent == shared / "worktrees":
        yield from (shared, own)


def _led_to(base: Path, path: str) -> Path:
    return (base / path.strip()).resolve(strict=True)


def _line(file: Path) -> str:
    return read_regular(file, _MAX_BYTES).decode()
