"""The index of skills: all folders looked through, all heads read. Nothing of a skill is run, and no body is kept.

A broken file is a sentence that names it and the line, and the rest works. Blocks: call it in a worker.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentcore.hooks.handlers import Handler
from agentcore.hooks.reading import HookFile, read_hooks
from agentcore.origin import Origin
from agentcore.skills.frontmatter import BadHead, Head, first_paragraph, read_head, split, typed
from agentcore.skills.places import FILE_NAME, SkillRoot, bounds_of, names_in, roots_in, skill_roots
from agentcore.skills.skill import Skill, SkillIndex
from agentcore.within import Bounds, Places, Unfit, one_line, read_within, real_within

MAX_SKILLS = 1_000
"""Read for one session: reading the head of one takes about a millisecond."""
MAX_HEAD_CHARS = 250_000
"""Of all heads together: each takes up to 10 microseconds to read. Those that people write have a few hundred."""
MAX_NOTICES = 20
MAX_COMMAND_DEPTH = 4
MAX_ARGUMENTS = 20
"""With names."""
MAX_PATHS = 50
NAME = re.compile(r"[^\W_][\w.-]{0,63}(?::[^\W_][\w.-]{0,63}){0,4}")
"""What may stand behind the slash."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    file: Path
    shown: str
    root: SkillRoot


@dataclass(slots=True)
class _Search:
    places: Places
    skills: dict[str, Skill] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    read: set[Path] = field(default_factory=set)
    """Real files: a folder may be reached on two ways."""
    looked: int = 0
    head_chars: int = 0

    @property
    def is_full(self) -> bool:
        return self.looked >= MAX_SKILLS or self.head_chars >= MAX_HEAD_CHARS

    def take(self, candidate: _Candidate) -> None:
        try:
            skill = self._read(candidate)
        except Unfit as error:
            self.told.append(f"{candidate.shown} {error}: the skill is left out.")
        except BadHead as error:
            self.told.append(f"{candidate.shown}:{error.line}: {error}: the skill is left out. Mend it.")
        else:
            if skill is not None:
                self._add(candidate, skill)

    def _read(self, candidate: _Candidate) -> Skill | None:
        """None for a file that is not there, or was read before. Raises: Unfit, BadHead."""
        bounds = bounds_of(candidate.root, candidate.file, self.places)
        real = real_within(candidate.file, bounds)
        if real is None or real in self.read:
            return None
        self.read.add(real)
        found = read_within(candidate.file, bounds)
        if found is None:
            return None
        text, body = split(found.text)
        self.head_chars += len(text)
        head = read_head(text)
        # where anybody who works on the project may have written, the model included
        is_shared = any(real.is_relative_to(root) for root in self.places.roots)
        hooks = _hooks_of(candidate, text, head, is_shared=is_shared)
        self.told += map(str, hooks.problems)
        skill = _skill(candidate, bounds, head, body, hooks.handlers, is_shared=is_shared)
        self.told += [f"{candidate.shown}: {odd}." for odd in head.odd]
        return skill

    def _add(self, candidate: _Candidate, skill: Skill) -> None:
        first = self.skills.setdefault(skill.name, skill)
        if first is not skill:
            self.told.append(
                f"{candidate.shown}: {first.origin.name} has a skill {skill.name} too, and that one counts."
            )


def find_skills(places: Places) -> SkillIndex:
    """What there is for a session that begins a fresh context now."""
    return _found(places, skill_roots(places))


def find_skills_in(folders: Iterable[Path], places: Places) -> SkillIndex:
    """What these folders of the project (resolved) have of their own."""
    return _found(places, (root for folder in folders for root in roots_in(folder, places)))


def _found(places: Places, roots: Iterable[SkillRoot]) -> SkillIndex:
    search = _Search(places)
    for root in roots:
        for candidate in _candidates(root, search.told):
            if search.is_full:
                search.told.append(f"{candidate.shown}: it is one too many, and so are all skills behind it.")
                return _index(search)
            search.looked += 1
            search.take(candidate)
    return _index(search)


def _index(search: _Search) -> SkillIndex:
    more = len(search.told) - MAX_NOTICES
    told = (*search.told[:MAX_NOTICES], *((f"{more} more things are wrong with skills.",) if more > 0 else ()))
    return SkillIndex(dict(sorted(search.skills.items())), told)


def _candidates(root: SkillRoot, told: list[str]) -> Iterator[_Candidate]:
    try:
        real = real_within(root.folder, root.bounds)
    except Unfit as error:
        told.append(f"{root.origin.name} {error}: its skills are left out.")
        return
    if real is None:
        return
    found = _folders(root.folder) if root.kind == "skills" else _commands(root.folder, ())
    for name, file, shown in found:
        if NAME.fullmatch(name):
            yield _Candidate(name, file, f"{root.origin.name}/{one_line(shown)}", root)
        elif os.path.lexists(file):
            told.append(f"{root.origin.name}/{one_line(shown)}: its name is no word that can stand behind a slash.")


def _folders(folder: Path) -> Iterator[tuple[str, Path, str]]:
    for name in names_in(folder):
        yield name, folder / name / FILE_NAME, f"{name}/{FILE_NAME}"


def _commands(folder: Path, above: tuple[str, ...]) -> Iterator[tuple[str, Path, str]]:
    """`a/b.md` is the command `a:b`; folders behind links are not looked into."""
    for name in names_in(folder):
        path = folder / name
        if name.endswith(".md"):
            stem = name.removesuffix(".md")
            yield ":".join((*above, stem)), path, "/".join((*above, name))
        elif len(above) < MAX_COMMAND_DEPTH and path.is_dir() and not path.is_symlink():
            yield from _commands(path, (*above, name))


def _hooks_of(candidate: _Candidate, text: str, head: Head, *, is_shared: bool) -> HookFile:
    """The hooks of a head; they belong to the folder that its skills are for."""
    origin = Origin(candidate.shown, candidate.root.origin.base, is_shared)
    hooks = typed(text, "hooks") if "hooks" in head.values else None
    return read_hooks({"hooks": hooks}, origin, of_skill=True)


def _skill(
    candidate: _Candidate, bounds: Bounds, head: Head, body: str, hooks: tuple[Handler, ...], *, is_shared: bool
) -> Skill:
    origin = replace(candidate.root.origin, is_shared=is_shared)
    allowed = head.words("allowed-tools")
    return Skill(
        name=candidate.name,
        description=one_line(head.text("description") or first_paragraph(body), 4_000),
        file=candidate.file,
        origin=origin,
        bounds=bounds,
        when_to_use=one_line(head.text("when_to_use"), 4_000),
        argument_hint=one_line(head.text("argument-hint")),
        arguments=tuple(word for word in head.words("arguments")[:MAX_ARGUMENTS] if word.isidentifier()),
        is_for_model=not head.is_on("disable-model-invocation", otherwise=False, when_odd=True),
        is_for_user=head.is_on("user-invocable", otherwise=True, when_odd=True),
        allowed_tools=() if origin.is_shared else allowed,  # a repository may tighten, never loosen
        disallowed_tools=head.words("disallowed-tools"),
        model=head.text("model"),
        effort=head.text("effort"),
        hooks=hooks,
        paths=head.words("paths")[:MAX_PATHS],
        is_forked=head.text("context") == "fork" or bool(head.text("agent")),
    )
