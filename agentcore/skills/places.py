"""Where skills and commands are looked for, in the order in which a name is taken: the user's own first."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentcore.origin import Origin
from agentcore.within import Bounds, Places

MAX_SKILL_BYTES = 128 * 1024
"""Of one file. What is told again after a compaction is 20,000 characters of it."""

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


def skill_roots(places: Places) -> Iterator[SkillRoot]:
    """Every folder that may hold some, whether it is there or not; of a project the nearest first."""
    yield from _personal(places)
    shared = Bounds(places.roots, MAX_SKILL_BYTES, places.is_closed)
    for folder in (places.cwd, *places.cwd.parents):
        for name, kind in _SHARED:
            path = folder / name
            origin = Origin(path.relative_to(places.top).as_posix(), folder, is_shared=True)
            yield SkillRoot(path, kind, origin, shared)
        if folder == places.top:
            return


def personal_folders(places: Places) -> tuple[Path, ...]:
    """The user's own folders, resolved: the tool `read` has to be let at what lies beside a skill."""
    return tuple(root.folder.resolve() for root in _personal(places))


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
