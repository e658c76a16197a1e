"""Words of people: which known one a mistyped one was meant to be, and how to show what somebody else wrote."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

MAX_NOTICES = 20
"""Of one file; more than that nobody reads."""


def nearest(word: str, known: Sequence[str]) -> str | None:
    """Say which known word was meant by a mistyped one; letters that only changed places come first."""
    word = word.lower()[:80]  # the search takes time by length, and words come from people
    near = get_close_matches(word, known, 1)
    swapped = [] if word in near else [one for one in known if sorted(one) == sorted(word)]
    return next(iter(swapped or near), None)


def slip(word: str, known: Sequence[str]) -> str | None:
    """As `nearest`, for words that may as well be somebody else's: only what can hardly be anything but a slip."""
    return next(iter(get_close_matches(word[:80], known, 1, cutoff=0.85)), None) if word not in known else None


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """The end of a sentence about an unknown word."""
    found = nearest(word, known)
    return f" (did you mean `{found}`?)" if found else ""


def shown_name(name: str) -> str:
    """A name for people: what could be mistaken for something else on a terminal is a question mark."""
    return re.sub(r"[^\w.-]", "?", name)[:40]


def few(notices: Sequence[str], name: str) -> tuple[str, ...]:
    """Not more notices about the file `name` than a person reads."""
    if len(notices) <= MAX_NOTICES:
        return tuple(notices)
    return (*notices[:MAX_NOTICES], f"And {len(notices) - MAX_NOTICES} more like these in {name}.")
