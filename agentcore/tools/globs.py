"""Matching paths against glob patterns with bounded work: `*`, `?`, `[…]`, `**` and `{a,b}`.

A pattern without a slash matches names at any depth. Hostile patterns cost what their length says, not more.
"""

import fnmatch
import re
from collections.abc import Iterable, Sequence

from agentcore.ports.tools import ToolError

MAX_ALTERNATIVES = 64
_BRACES = re.compile(r"\{([^{}]*)\}")

Part = re.Pattern[str] | None
"""What one part of a path must look like; None stands for `**`, any number of parts."""


class Glob:
    """A compiled pattern. Raises: ToolError for one with too many alternatives."""

    def __init__(self, pattern: str) -> None:
        self._patterns = [_compiled(one) for one in _alternatives(pattern)]

    def matches(self, path: str) -> bool:
        """Whether a relative path with `/` between its parts matches."""
        parts = path.split("/")
        return any(_is_match(pattern, parts) for pattern in self._patterns)


def _alternatives(pattern: str) -> list[str]:
    """Expand `{a,b}`, innermost first."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        one = waiting.pop()
        braces = _BRACES.search(one)
        if braces is None:
            done.append(one)
        else:
            waiting += [one[: braces.start()] + choice + one[braces.end() :] for choice in braces[1].split(",")]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise ToolError(f"the pattern has more than {MAX_ALTERNATIVES} alternatives")
    return done


def _compiled(pattern: str) -> Sequence[Part]:
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if "/" not in pattern:
        names = ["**", *names]
    return [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]


def _is_match(pattern: Sequence[Part], parts: Sequence[str]) -> bool:
    """Walk the path with the set of places in the pattern that it can have reached."""
    places = _with_skipped(pattern, {0})
    for part in parts:
        places = _with_skipped(pattern, _stepped(pattern, places, part))
        if not places:
            return False
    return len(pattern) in places


def _stepped(pattern: Sequence[Part], places: Iterable[int], part: str) -> set[int]:
    reached: set[int] = set()
    for place in places:
        if place == len(pattern):
            continue
        wanted = pattern[place]
        if wanted is None:
            reached.add(place)
        elif wanted.match(part):
            reached.add(place + 1)
    return reached


def _with_skipped(pattern: Sequence[Part], places: set[int]) -> set[int]:
    """A `**` may also match nothing."""
    for place in sorted(places):
        while place < len(pattern) and pattern[place] is None:
            place += 1
            places.add(place)
    return places
