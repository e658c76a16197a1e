"""Which tools or values a matcher means. Pure; a matcher is read once.

A matcher of letters, digits, `_`, `-`, spaces, `,` and `|` is a name or a list of names; anything else is a regular
expression that is looked for anywhere in the name. It is written for JavaScript and read by Python: `(?<n>…)` and
`\\k<n>` are translated, `\\d` and `\\w` mean ASCII. What Python does not know (`\\p{…}`, `[^]`, lookbehind of no fixed
width) is refused with a sentence. Names are compared without case, since settings and the model spell them differently.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from agentcore.hooks.searching import compiled, ends_soon
from agentcore.permissions.names import native_name, spelled

_NAMES = re.compile(r"[A-Za-z0-9_\- ,|]*")
_JAVASCRIPT = ((re.compile(r"\(\?<([A-Za-z_])"), r"(?P<\1"), (re.compile(r"\\k<(\w+)>"), r"(?P=\1)"))
_MORE_NAMES = {"task": ("Task",), "multi_edit": ("Edit",)}
"""What other agents called a tool before, and what they do the same with."""
MAX_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Matcher:
    """Without names and pattern it matches everything."""

    names: frozenset[str] | None = None
    """In lower case."""
    pattern: re.Pattern[str] | None = None

    def ends_soon(self, spellings: Sequence[str]) -> bool:
        """Whether `matches` takes no time; where not, its pattern has to be searched elsewhere (`searching`)."""
        return self.pattern is None or all(ends_soon(self.pattern.pattern, name) for name in spellings)

    def matches(self, spellings: Sequence[str]) -> bool:
        """Whether it means something that goes by these names."""
        if self.names is not None:
            return any(name.lower() in self.names for name in spellings)
        return self.pattern is None or any(self.pattern.search(name) for name in spellings)


EVERYTHING = Matcher()


def parse_matcher(text: str) -> Matcher:
    """Raises: ValueError with what is wrong with it."""
    if text in ("", "*"):
        return EVERYTHING
    if len(text) > MAX_CHARS:
        raise ValueError(f"the matcher is longer than {MAX_CHARS} characters")
    if _NAMES.fullmatch(text):
        return Matcher(names=frozenset(name.strip().lower() for name in re.split(r"[|,]", text)))
    for javascript, python in _JAVASCRIPT:
        text = javascript.sub(python, text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `[[` may mean something else to a later Python
            return Matcher(pattern=compiled(text))
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"the matcher is no regular expression that can be used ({error})") from None


def names_of_tool(name: str) -> tuple[str, ...]:
    """Every name that a matcher may know a tool by."""
    native = native_name(name)
    return tuple(dict.fromkeys((spelled(native), name, *_MORE_NAMES.get(native, ()))))
