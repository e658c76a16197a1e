"""The kinds of subagents that people wrote files for: all folders looked through, every file read whole.

A broken file is a sentence that names it and the line, and the rest works. What comes with a repository can take tools
and rights away and give none. Blocks: call it in a worker.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from agentcore.events import Mode
from agentcore.origin import Origin
from agentcore.skills.frontmatter import BadHead, Head, read_head, split
from agentcore.subagents.kinds import BUILT_IN, MAX_TURNS, AgentIndex, AgentKind
from agentcore.subagents.modes import OF_FILES
from agentcore.within import Bounds, Places, Unfit, one_line, read_within, real_within

MAX_KINDS = 200
"""Read for one session: reading one takes about a millisecond."""
MAX_KIND_BYTES = 64 * 1024
MAX_ALL_CHARS = 2_000_000
MAX_ENTRIES = 5_000
"""Names looked at in one folder."""
MAX_DEPTH = 4
MAX_NOTICES = 20
NAME = re.compile(r"[A-Za-z0-9][\w-]{0,63}", re.ASCII)
_PERSONAL = (".claude/agents", ".agents/agents")
_SHARED = (".agentcore/agents", ".claude/agents", ".agents/agents")
_WITHOUT_EFFECT = ("hooks", "initialPrompt", "mcpServers", "memory")
"""What other agents do something with: it is told that nothing comes of it here."""


@dataclass(frozen=True, slots=True)
class _Root:
    folder: Path
    origin: Origin
    bounds: Bounds


class _Broken(Exception):
    """The file describes no kind; the sentence says why."""


@dataclass(slots=True)
class _Search:
    roots: tuple[Path, ...]
    """Where anybody who works on the project may have written, the model included."""
    found: dict[str, AgentKind] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    read: set[Path] = field(default_factory=set)
    chars: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.read) >= MAX_KINDS or self.chars >= MAX_ALL_CHARS

    def take(self, file: Path, shown: str, root: _Root) -> None:
        try:
            self._take(file, shown, root)
        except Unfit as error:
            self.told.append(f"{shown} {error}: the agent is left out.")
        except BadHead as error:
            self.told.append(f"{shown}:{error.line}: {error}: the agent is left out. Mend it.")
        except _Broken as error:
            self.told.append(f"{shown}:1: {error}: the agent is left out. Mend it.")

    def _take(self, file: Path, shown: str, root: _Root) -> None:
        """Raises: Unfit, BadHead, _Broken."""
        real = real_within(file, root.bounds)
        if real is None or real in self.read:
            return
        self.read.add(real)
        found = read_within(file, root.bounds)
        if found is None:
            return
        self.chars += len(found.text)
        text, body = split(found.text)
        is_shared = any(real.is_relative_to(top) for top in self.roots)
        head = read_head(text)
        kind = _kind(head, body, replace(root.origin, is_shared=is_shared))
        self.told += [f"{shown}: {odd}." for odd in (*head.odd, *_ignored(head, kind))]
        self._add(kind, shown)

    def _add(self, kind: AgentKind, shown: str) -> None:
        key = kind.name.lower()
        if key in BUILT_IN and kind.origin.is_shared:
            self.told.append(f"{shown}: there is a built-in agent {kind.name}, and that one counts.")
            return
        first = self.found.setdefault(key, kind)
        if first is not kind:
            self.told.append(f"{shown}: {first.origin.name} has an agent {kind.name} too, and that one counts.")


def find_agents(places: Places) -> AgentIndex:
    """What there is for a session that begins a fresh context now: the user's own first, then the nearest."""
    search = _Search(places.roots)
    for root in _roots(places):
        for file, shown in _files(root, search.told):
            if search.is_full:
                search.told.append(f"{shown}: it is one too many, and so are all agents behind it.")
                return _index(search)
            search.take(file, shown, root)
    return _index(search)


def _index(search: _Search) -> AgentIndex:
    more = len(search.told) - MAX_NOTICES
    told = (*search.told[:MAX_NOTICES], *((f"{more} more things are wrong with agents.",) if more > 0 else ()))
    return AgentIndex(dict(sorted({**BUILT_IN, **search.found}.items())), told)


def _roots(places: Places) -> Iterator[_Root]:
    own = [(places.config_dir / "agents", "your agents"), *((places.home / name, f"~/{name}") for name in _PERSONAL)]
    tops = tuple(path.resolve() for path, _ in own)

    def is_closed(real: Path) -> bool:  # one of them lies in the server's own folder
        return places.is_closed(real) and not any(real.is_relative_to(top) for top in tops)

    for path, name in own:
        yield _Root(path, Origin(name, path), Bounds(tops, MAX_KIND_BYTES, is_closed, "your folders of agents"))
    shared = Bounds(places.roots, MAX_KIND_BYTES, places.is_closed)
    for folder in (places.cwd, *places.cwd.parents):
        for name in _SHARED:
            path = folder / name
            yield _Root(path, Origin(path.relative_to(places.top).as_posix(), folder, is_shared=True), shared)
        if folder == places.top:
            return


def _files(root: _Root, told: list[str]) -> Iterator[tuple[Path, str]]:
    """Each file with the name that people are told."""
    try:
        real = real_within(root.folder, root.bounds)
    except Unfit as error:
        told.append(f"{root.origin.name} {error}: its agents are left out.")
        return
    if real is None:
        return
    for path, name in _below(root.folder, ()):
        yield path, f"{root.origin.name}/{one_line(name)}"


def _below(folder: Path, above: tuple[str, ...]) -> Iterator[tuple[Path, str]]:
    """Files of a folder and of those in it; folders behind links are not looked into."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in islice(entries, MAX_ENTRIES) if not entry.name.startswith("."))
    except OSError:
        return
    for name in names:
        path = folder / name
        if name.endswith(".md"):
            yield path, "/".join((*above, name))
        elif len(above) < MAX_DEPTH and path.is_dir() and not path.is_symlink():
            yield from _below(path, (*above, name))


# --- what one file says ---


def _kind(head: Head, body: str, origin: Origin) -> AgentKind:
    """Raises: _Broken."""
    name, description = head.text("name"), head.text("description")
    if not NAME.fullmatch(name):
        raise _Broken("its `name` is missing, or is no word of letters, digits and hyphens")
    if not description:
        raise _Broken("its `description` is missing")
    if not body.strip():
        raise _Broken("there is nothing behind its frontmatter")
    limit = head.words("tools") if "tools" in head.values else None
    disallowed = head.words("disallowedTools")
    if head.odd:  # a limit that cannot be read is not passed over
        raise _Broken("; ".join(head.odd))
    return AgentKind(
        name=name,
        description=one_line(description, 2_000),
        prompt=body.strip(),
        origin=origin,
        tools=None if limit is None or "*" in limit else tuple(entry for entry in limit if "(" not in entry),
        disallowed=tuple(entry.partition("(")[0] for entry in disallowed),
        model=None if origin.is_shared else _model(head),
        mode=_mode(head),
        max_turns=_turns(head),
        effort=None if origin.is_shared else head.text("effort") or None,
        skills=head.words("skills"),
        is_background=head.is_on("background", otherwise=False, when_odd=False),
        is_isolated=head.text("isolation") == "worktree",
    )


def _model(head: Head) -> str | None:
    named = head.text("model")
    return None if named in ("", "inherit") else named


def _mode(head: Head) -> Mode | None:
    """What cannot be read asks: it may have been meant to."""
    named = head.text("permissionMode")
    return OF_FILES.get(named.lower(), "default") if named else None


def _turns(head: Head) -> int:
    named = head.text("maxTurns")
    if not named:
        return MAX_TURNS
    if not (named.isdecimal() and int(named[:6]) > 0):
        head.odd.append("`maxTurns` is no number above 0")
        return MAX_TURNS
    return min(int(named[:6]), MAX_TURNS)


def _ignored(head: Head, kind: AgentKind) -> Iterator[str]:
    """What the file says and what does not count, a sentence's end each."""
    for key in _WITHOUT_EFFECT:
        if head.values.get(key):
            yield f"`{key}` of an agent has no effect"
    mode = head.text("permissionMode").lower()
    if mode and mode not in OF_FILES:
        yield "`permissionMode` is none that there is, so the agent works in mode default at most"
    if kind.mode == "yolo":
        yield "`permissionMode` of an agent cannot switch questions off"
    if kind.origin.is_shared and _model(head) is not None:
        yield "`model` of a repository's agent has no effect"
    if kind.origin.is_shared and head.text("effort"):
        yield "`effort` of a repository's agent has no effect"
    if any("(" in entry for entry in head.words("tools")):
        yield "`tools` takes names alone: what has a pattern is left out"
    if any("(" in entry for entry in head.words("disallowedTools")):
        yield "`disallowedTools` takes names alone: what has a pattern is left out whole"
    if head.text("isolation") not in ("", "worktree"):
        yield "`isolation` can only be `worktree`"
