"""Path patterns: what `Edit(src/**)` covers, by the syntax of gitignore.

`//abs` is meant from the root of the file system, `~/x` from home, `/x` from the folder of the settings file that the
rule stands in, everything else from the working folder.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcore.permissions.gitignore import path_pattern
from agentcore.permissions.rules import Rule


@dataclass(frozen=True, slots=True)
class Place:
    """A path that a call names."""

    given: str
    named: Path
    """Absolute, as its words say; links are not followed."""
    real: Path
    """Resolved through links."""
    is_folder: bool = False
    is_there: bool = True
    """Whether there is anything at the moment."""


def place_of(given: str, cwd: Path, real: Path) -> Place:
    """Touches the file system."""
    return Place(given, Path(os.path.normpath(cwd / given)), real, real.is_dir())


@dataclass(frozen=True, slots=True)
class Anchors:
    """What relative patterns are meant from."""

    cwd: Path
    home: Path


def allows(rule: Rule, place: Place, anchors: Anchors) -> bool:
    """Whether a rule's spec means a place, by its name and by where it leads."""
    return rule.spec is None or all(_found(rule.spec, rule, place, anchors, is_broken_a_match=False))


def forbids(rule: Rule, place: Place, anchors: Anchors) -> bool:
    """Whether a rule's spec means a place, by its name or by where it leads. A pattern that is none means all."""
    return rule.spec is None or any(_found(rule.spec, rule, place, anchors, is_broken_a_match=True))


def _found(spec: str, rule: Rule, place: Place, anchors: Anchors, *, is_broken_a_match: bool) -> Iterator[bool]:
    base, pattern = _anchored(spec, rule.origin.base or anchors.cwd, anchors)
    for path in (place.named,) if place.named == place.real else (place.named, place.real):
        try:
            yield _matches(base, pattern, path, is_folder=place.is_folder)
        except ValueError:
            yield is_broken_a_match


def _anchored(spec: str, base: Path, anchors: Anchors) -> tuple[Path, str]:
    """The folder that a pattern is meant from, and the pattern as gitignore has it."""
    if spec.startswith("//"):
        return Path("/"), spec[1:]
    if spec == "~" or spec.startswith("~/"):
        return anchors.home, spec[1:] or "/"
    if spec.startswith("/"):
        return base, spec
    return anchors.cwd, spec[1:] if spec.startswith("./") else spec  # `./x` is that one file, `x` any of that name


def _matches(base: Path, pattern: str, path: Path, *, is_folder: bool) -> bool:
    if not path.is_relative_to(base):
        return False
    relative = str(path.relative_to(base))
    if relative == ".":
        return pattern in ("/", "/**", "**", "*")
    return path_pattern(pattern).matches(relative, is_folder=is_folder)
