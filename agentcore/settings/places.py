"""Where settings files are looked for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcore.settings.documents import Syntax

IMPORTED = "~/.claude/settings.json"
SHARED: tuple[tuple[str, Syntax], ...] = (
    (".agentcore/settings.toml", "TOML"),
    (".claude/settings.json", "JSON"),
    (".claude/settings.local.json", "JSON"),
    (".mcp.json", "JSON"),
)
"""What a folder of a repository may hold."""


@dataclass(frozen=True, slots=True)
class SharedFile:
    path: Path
    folder: Path
    """The one that the file speaks for."""
    name: str
    """As people are told it: relative to the top of the project."""
    syntax: Syntax


def imported_file(home: Path) -> Path:
    return home / ".claude" / "settings.json"


def project_top(cwd: Path, roots: Sequence[Path]) -> Path:
    """The outermost folder whose files speak for a session in `cwd` (resolved): the server's root that holds it, or
    the top of its repository where that lies higher."""
    tops = [root for root in roots if cwd.is_relative_to(root)]
    tops += [folder for folder in (cwd, *cwd.parents) if _is_repository(folder)][:1]
    return min(tops, key=lambda top: len(top.parts), default=cwd)


def _is_repository(folder: Path) -> bool:
    try:
        return (folder / ".git").exists()
    except OSError:  # a folder above that may not be looked into
        return False


def shared_files(cwd: Path, top: Path, own: Path) -> Iterator[SharedFile]:
    """The files that may come with a repository, the nearest folder first, whether they are there or not.

    `own` is the user's file for the other agent: it lies in a project's folder where that is his home.
    """
    for folder in (cwd, *cwd.parents):
        for name, syntax in SHARED:
            path = folder / name
            if path != own:
                yield SharedFile(path, folder, path.relative_to(top).as_posix(), syntax)
        if folder == top:
            return
