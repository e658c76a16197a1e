"""Which instruction files a session has: the user's own, then folder by folder from the top of the project down."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcore.within import Bounds, Places

MAX_FILE_BYTES = 64 * 1024
"""Of one file: some 16,000 tokens, more than anybody follows."""

NAMES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md")
"""The first that there is speaks for its folder."""
LOCAL = "CLAUDE.local.md"
"""Beside it: what the user keeps out of the repository."""


@dataclass(frozen=True, slots=True)
class Place:
    """Files of which the first that can be read counts."""

    choices: tuple[tuple[Path, str], ...]
    """Each with its name as people and models are told it."""
    bounds: Bounds


def instruction_places(places: Places) -> Iterator[Place]:
    yield _own(places)
    bounds = Bounds(places.roots, MAX_FILE_BYTES, places.is_closed)
    folders = [folder for folder in (places.cwd, *places.cwd.parents) if folder.is_relative_to(places.top)]
    for folder in reversed(folders):
        yield Place(tuple((folder / name, _shown(folder / name, places.top)) for name in NAMES), bounds)
        yield Place(((folder / LOCAL, _shown(folder / LOCAL, places.top)),), bounds)


def _own(places: Places) -> Place:
    """He may keep them wherever he likes: where they lead is inside the bounds."""
    ours, theirs = places.config_dir / "AGENTS.md", places.home / ".claude/CLAUDE.md"
    tops = tuple(folder for path in (ours, theirs) for folder in (path.parent.resolve(), _real(path).parent))
    bounds = Bounds(
        tops,
        MAX_FILE_BYTES,
        lambda real: real.suffix.lower() != ".md",  # one of the folders is the server's own, and keys may lie in both
        where="your own folder of instructions",
        closed="is no Markdown",
    )
    return Place(((ours, "your AGENTS.md"), (theirs, "~/.claude/CLAUDE.md")), bounds)


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links: told when it is read
        return path


def _shown(path: Path, top: Path) -> str:
    return path.relative_to(top).as_posix()
