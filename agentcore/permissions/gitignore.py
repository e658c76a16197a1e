"""One pattern by the syntax of gitignore, compared with a path in a time that is bounded by the two lengths.

`x` means a name anywhere, `x/y` a path from the folder that the pattern is meant from; both mean all that lies below.
`x/` and `x/**` mean folders and what lies in them. `**` between slashes is any number of folders; `*`, `?` and `[a-z]`
stay within a name.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeAlias

from agentcore.permissions.globs import Reach, bits_of

_One: TypeAlias = Callable[[str], bool]
"""Whether a character fits."""
_Name: TypeAlias = str | tuple[_One | None, ...]
"""A pattern for one name, or the name itself; in the former None for `*`."""
MAX_PARTS = 128
"""Of a path; the paths of honest projects have some twenty at most."""


@dataclass(frozen=True, slots=True)
class PathPattern:
    names: tuple[_Name | None, ...]
    """None for `**`."""
    folders_only: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        """Whether a relative path is meant, or a folder above it. Raises: ValueError for one that is too deep."""
        parts = path.split("/")
        if len(parts) > MAX_PARTS:
            raise ValueError(f"a path of more than {MAX_PARTS} names")
        reach = Reach[str](len(parts))
        for name in self.names:
            if name is None:
                reach.star()
            else:
                reach.one(bits_of(parts, name.__eq__ if isinstance(name, str) else partial(_is_named, name)))
            if not reach.bits:
                return False
        ends = reach.bits & ~1
        if self.folders_only and not is_folder:
            ends &= ~(1 << len(parts))
        return ends != 0


@lru_cache(maxsize=1024)
def path_pattern(text: str) -> PathPattern:
    """Raises: ValueError for a pattern that is none."""
    bare = text.rstrip(" ")
    text = text[: len(bare) + 1] if bare.endswith("\\") else bare  # `\ ` is a blank
    inner = text.removesuffix("/")
    folders_only = inner != text
    parts = inner.removeprefix("/").split("/")
    while len(parts) > 1 and parts[-1] == "**":
        folders_only = True
        parts.pop()
    if parts == [""]:
        return PathPattern((), folders_only)
    anywhere: list[_Name | None] = [] if "/" in inner else [None]
    names = (None if one == "**" else _name(one) for one in parts)
    return PathPattern((*anywhere, *names), folders_only)


def _name(text: str) -> _Name:
    return tuple(_ones(text)) if re.search(r"[*?\[\\]", text) else text


def _is_named(pattern: tuple[_One | None, ...], name: str) -> bool:
    reach = Reach[str](len(name))
    for one in pattern:
        if one is None:
            reach.star()
        else:
            reach.one(bits_of(name, one))
        if not reach.bits:
            return False
    return reach.is_whole


_TOKEN = re.compile(r"\*+|\?|\\.|\[[!^]?\]?(?:\[:\w+:\]|\\.|[^\]\\])*\]|[^\\\[*?]", re.DOTALL)


def _ones(text: str) -> Iterator[_One | None]:
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"{text[at : at + 20]!r} has no end")
        yield _one(token[0])
        at = token.end()


def _one(text: str) -> _One | None:
    if text.startswith("*"):
        return None
    if text == "?":
        return bool
    if text.startswith("["):
        return _class(text[1:-1])
    return text[-1].__eq__


def _class(text: str) -> _One:
    is_negated = text[:1] in ("!", "^")
    found = re.findall(r"\[:(\w+):\]|(?:\\(.)|([\s\S]))(?:-(?:\\(.)|([\s\S])))?", text[is_negated:])
    kinds = [_KINDS[kind] for kind, *_ in found if kind in _KINDS]
    if len(kinds) != sum(bool(kind) for kind, *_ in found):
        raise ValueError(f"[{text[:40]}] names a class that there is not")
    ranges = [(low or plain, high or last or low or plain) for kind, low, plain, high, last in found if not kind]
    if any(low > high for low, high in ranges):
        raise ValueError(f"[{text[:40]}] holds a range that ends before it begins")

    def is_in(char: str) -> bool:
        in_any = any(low <= char <= high for low, high in ranges) or any(kind(char) for kind in kinds)
        return in_any is not is_negated

    return is_in


_KINDS: dict[str, _One] = {
    "alnum": str.isalnum,
    "alpha": str.isalpha,
    "digit": str.isdigit,
    "lower": str.islower,
    "space": str.isspace,
    "upper": str.isupper,
    "punct": lambda char: char.isprintable() and not (char.isalnum() or char.isspace()),
}
