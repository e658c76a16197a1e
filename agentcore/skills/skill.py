"""A skill as a value: what its file says about it, and where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentcore.hooks.handlers import Handler
from agentcore.origin import Origin
from agentcore.within import Bounds


@dataclass(frozen=True, slots=True)
class Skill:
    """One `SKILL.md`, or one file of `commands/`. Its body is read when it is used."""

    name: str
    """The word that it is called by: the name of its folder, of a command file with those of its folders."""
    description: str
    file: Path
    """As it was found; resolved and judged again when it is read."""
    origin: Origin
    bounds: Bounds
    when_to_use: str = ""
    argument_hint: str = ""
    arguments: tuple[str, ...] = ()
    """Names of its arguments, in order."""
    is_for_model: bool = True
    """The model may load it by itself."""
    is_for_user: bool = True
    """`/name` in a prompt calls it."""
    allowed_tools: tuple[str, ...] = ()
    """Permission rules for the run that uses it; none where it comes with a repository."""
    disallowed_tools: tuple[str, ...] = ()
    """Deny rules for the run that uses it."""
    model: str = ""
    """`provider/model` or a short name, for the rest of the run that uses it; empty: as it is."""
    effort: str = ""
    """As `model`."""
    hooks: tuple[Handler, ...] = ()
    """For the rest of the run that uses it; those of a shared origin once they are approved."""
    paths: tuple[str, ...] = ()
    """Patterns of files, as in a `.gitignore` beside its folder of skills: the model is told of it with the first such
    file; empty: from the beginning."""
    is_forked: bool = False
    """Its author would have a subagent follow it."""

    @property
    def is_listed(self) -> bool:
        """Whether the model is told of it when a context begins."""
        return self.is_for_model and not self.paths

    @property
    def is_shared(self) -> bool:
        return self.origin.is_shared


@dataclass(frozen=True, slots=True)
class SkillIndex:
    """What was found when a context began."""

    skills: Mapping[str, Skill] = field(default_factory=dict)
    """By name, sorted."""
    notices: tuple[str, ...] = ()
    """What is wrong with files, a sentence each."""

    @property
    def has_any_for_model(self) -> bool:
        return any(skill.is_for_model for skill in self.skills.values())
