"""What is put into a skill's text when it is used: its arguments, and a few facts about the session.

Each place is filled once: what was put in is never looked at again. Pure functions.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MAX_QUOTED_CHARS = 100_000
"""Longer arguments are split at blanks alone: taking quotes apart gets slow."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a skill is used with."""

    arguments: str = ""
    """As they were typed."""
    names: Sequence[str] = ()
    """Of the arguments, in order."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """`CLAUDE_SESSION_ID` and the like: what stands in the place of `${…}`."""


@dataclass(slots=True)
class Filler:
    """Fills the pieces of one text."""

    given: Given
    has_taken: bool = False
    """Some place in the text was for arguments."""
    _words: list[str] = field(init=False)
    _pattern: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        self._words = words_of(self.given.arguments)
        self._pattern = _pattern(self.given)

    def filled(self, text: str) -> str:
        return self._pattern.sub(self._in_place_of, text)

    def _in_place_of(self, place: re.Match[str]) -> str:
        if place["escape"]:
            return place[0][1:]
        if place["fact"] is not None:
            return self.given.facts[place["fact"]]
        if place["all"] is not None:
            self.has_taken = True
            return self.given.arguments
        index = place["index"] or place["short"]
        number = int(index) if index is not None else list(self.given.names).index(place["name"])
        if number >= len(self._words):
            return place[0]
        self.has_taken = True
        return self._words[number]


def _pattern(given: Given) -> re.Pattern[str]:
    facts = "|".join(map(re.escape, given.facts)) or "(?!)"
    names = "|".join(map(re.escape, sorted(given.names, key=len, reverse=True))) or "(?!)"
    return re.compile(
        r"(?P<escape>\\)?"
        r"(?:\$ARGUMENTS\[(?P<index>[0-9]{1,4})\]"
        r"|(?P<all>\$ARGUMENTS)(?!\w)"
        rf"|\$(?P<short>[0-9]{{1,4}})(?![\w])"
        rf"|\$(?P<name>{names})(?!\w)"
        rf"|\$\{{(?P<fact>{facts})\}})"
    )


def words_of(arguments: str) -> list[str]:
    """Split as a shell splits words; quotes that do not match are letters."""
    if len(arguments) > MAX_QUOTED_CHARS:
        return arguments.split()
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


def with_arguments(text: str, filler: Filler) -> str:
    """A filled text that had no place for its arguments gets them at its end."""
    arguments = filler.given.arguments
    if filler.has_taken or not arguments.strip():
        return text
    return f"{text.rstrip()}\n\nARGUMENTS: {arguments}"
