"""Whether a regular expression is found in a name, where it may be one whose search never comes to an end.

Python's `re` holds every other thread up while it searches, and cannot be stopped. So only what plainly ends soon is
searched here; all else in a process of its own (`confined`), once for each name.
"""

import json
import re

from agentcore.confined import Bounds, Confinement, TooMuch

MAX_STEPS = 250_000
"""Of a search in this process, by `_steps`: some 10 ms."""
_SEARCHES = Confinement(f"{__name__}:found", Bounds(memory_bytes=256 * 1024 * 1024, cpu_s=2, wall_s=10.0))
_REPEAT = re.compile(r"[*+{]|(?<!\()\?|(?<=\\\()\?")
_HARD = re.compile(r"\)[*+?{]|\(\?#|\(\?[A-Za-z-]*x")
"""A group that is repeated, and what may stand between a group and its `*`: comments, spaces that mean nothing."""
_FLAGS = re.ASCII | re.IGNORECASE


def ends_soon(pattern: str, name: str) -> bool:
    """Whether a search in this process takes no more than milliseconds, whatever it finds."""
    return _HARD.search(pattern) is None and _steps(pattern, len(name)) <= MAX_STEPS


def _steps(pattern: str, chars: int) -> int:
    """At most so many, where no group is repeated: each repeat may end anywhere, each group try each alternative."""
    repeats, groups = len(_REPEAT.findall(pattern)), max(1, pattern.count("("))
    return int((chars + 1) ** (1 + repeats)) * int((1 + pattern.count("|")) ** groups)


def compiled(pattern: str) -> re.Pattern[str]:
    """As matchers mean it. Raises: what `re.compile` raises."""
    return re.compile(pattern, _FLAGS)


def found(data: bytes) -> bytes:
    """What `confined` runs: of a pattern and a name, as JSON, `1` where it is found."""
    pattern, name = json.loads(data)
    return b"1" if compiled(pattern).search(name) else b"0"


class Searches:
    """Of one session: what took a process of its own is not searched again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool | None] = {}

    async def find(self, pattern: str, name: str) -> bool | None:
        """Whether it is found; None where that takes too long to say."""
        key = (pattern, name)
        if key not in self._known:
            try:
                self._known[key] = await _SEARCHES.run(json.dumps(key).encode()) == b"1"
            except TooMuch:
                self._known[key] = None
        return self._known[key]
