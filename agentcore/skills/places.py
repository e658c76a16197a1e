"""Where skills and commands are looked for, in the order in which a name is taken: the user's own first."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from agentcore.origin import Origin
from agentcore.within import Bounds, Places, Unfit, real_within

MAX_SKILL_BYTES = 128 * 1024
"""Of one file. What is told again after a compaction is 20,000 characters of it."""

FILE_NAME = "SKILL.md"
MAX_ENTRIES = 20_000
"""Names looked at in one folder."""
_MAX_LINKS = 40  # what the system itself follows
Kind = Literal["skills", "commands"]

_PERSONAL: tuple[tuple[str, Kind], ...] = (
    (".claude/skills", "skills"),
    (".agents/skills", "skills"),
    (".claude/commands", "commands"),
)
_SHARED: tuple[tuple[str, Kind], ...] = (
    (".agentcore/skills", "skills"),
    (".claude/skills", "skills"),
    (".agents/skills", "skills"),
    (".claude/commands", "commands"),
)


@dataclass(frozen=True, slots=True)
class SkillRoot:
    folder: Path
    kind: Kind
    origin: Origin
    bounds: Bounds
    """Of what is found in it; see `bounds_of`."""


def skill_roots(places: Places) -> Iterator[SkillRoot]:
    """Every folder that may hold some, whether it is there or not; of a project the nearest first."""
    yield from _personal(places)
    for folder in (places.cwd, *places.cwd.parents):
        yield from roots_in(folder, places)
        if folder == places.top:
            return


def roots_in(folder: Path, places: Places) -> Iterator[SkillRoot]:
    """Those in one folder of the project."""
    shared = Bounds(places.roots, MAX_SKILL_BYTES, places.is_closed)
    for name, kind in _SHARED:
        path = folder / name
        origin = Origin(path.relative_to(places.top).as_posix(), folder, is_shared=True)
        yield SkillRoot(path, kind, origin, shared)


def bounds_of(root: SkillRoot, file: Path, places: Places) -> Bounds:
    """Where a file that stands in a folder of skills may lie.

    A link in the user's own folders is the user's word, wherever it leads - unless a link on the way stands where the
    session may write: then anybody who works on the project could say where.
    """
    if root.origin.is_shared:
        return root.bounds
    try:
        real = file.resolve(strict=True)
        links = list(_folders_of_links(file))
    except (OSError, RuntimeError, ValueError):  # told when it is read
        return root.bounds
    if not links or any(folder.is_relative_to(top) for folder in links for top in places.roots):
        return root.bounds
    return replace(root.bounds, tops=(*root.bounds.tops, real.parent))


def personal_folders(places: Places) -> tuple[Path, ...]:
    """The user's own folders, resolved, and where skills that are linked into them lie: the tool `read` has to be let
    at what lies beside a skill. Blocks."""
    roots = tuple(_personal(places))
    return tuple(dict.fromkeys([*(root.folder.resolve() for root in roots), *_linked(roots, places)]))


def names_in(folder: Path) -> list[str]:
    """In order, without hidden ones; nothing where it is no folder that may be listed. Blocks."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, MAX_ENTRIES) if not entry.name.startswith("."))
    except OSError:
        return []


def _linked(roots: Sequence[SkillRoot], places: Places) -> Iterator[Path]:
    """The folders that links in the user's folders of skills lead to."""
    for root in roots:
        links = (root.folder / name for name in names_in(root.folder) if root.kind == "skills")
        for link in links:
            file = link / FILE_NAME
            if link.is_symlink() and file.is_file():
                with suppress(Unfit):
                    real = real_within(file, bounds_of(root, file, places))
                    if real is not None and real.parent == link.resolve():
                        yield real.parent


def _folders_of_links(path: Path) -> Iterator[Path]:
    """The real folder of each link on the way to where a path leads. Raises: OSError for a loop of links."""
    at, rest, seen = Path(path.anchor), list(reversed(path.parts[1:])), 0
    while rest:
        name = rest.pop()
        if name == "..":
            at = at.parent
            continue
        here = at / name
        if not here.is_symlink():
            at = here
            continue
        seen += 1
        if seen > _MAX_LINKS:
            raise OSError("a loop of links")
        yield at
        target = here.readlink()
        at = Path(target.anchor) if target.is_absolute() else at
        rest += reversed(target.parts[1:] if target.is_absolute() else target.parts)


def _personal(places: Places) -> Iterator[SkillRoot]:
    named: list[tuple[Path, str, Kind]] = [(places.config_dir / "skills", "your skills", "skills")]
    named += [(places.home / name, f"~/{name}", kind) for name, kind in _PERSONAL]
    # installers link a skill from one of these folders into the others
    tops = tuple(path.resolve() for path, _, _ in named)

    def is_closed(real: Path) -> bool:  # one of them lies in the server's own folder
        return places.is_closed(real) and not any(real.is_relative_to(top) for top in tops)

    bounds = Bounds(tops, MAX_SKILL_BYTES, is_closed, "your folders of skills")
    for path, name, kind in named:
        yield SkillRoot(path, kind, Origin(name, path), bounds)
