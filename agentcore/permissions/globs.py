"""Patterns compared with texts in a time that grows with both lengths, whatever stands in them.

A pattern is a row of tokens, a text a row of characters (or of names). How far the text can be used up by the tokens
so far is a set of places, kept as the bits of one number: no token looks at a place twice, and nothing is tried again.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

STAR = ""
"""The token that stands for any run of characters."""

_T = TypeVar("_T")


class Reach(Generic[_T]):
    """Where a row of tokens may end in a row of items. Bit `n` of `bits`: the first `n` items are used up."""

    def __init__(self, count: int, open_at: int = 0) -> None:
        """`open_at`: the items (as bits) that stand for any run themselves."""
        self._all = (1 << (count + 1)) - 1
        self._open = open_at
        self.bits = 1
        self._pass_open()

    def star(self) -> None:
        self.bits = self._all & ~((self.bits & -self.bits) - 1)

    def one(self, fitting: int) -> None:
        """One item out of those that fit (as bits); an open one may hold it and more."""
        self.bits = ((self.bits & fitting) << 1) | (self.bits & self._open)
        self._pass_open()

    @property
    def is_whole(self) -> bool:
        return self.bits > self._all >> 1

    def _pass_open(self) -> None:
        """An open item may also be empty. Runs of them are passed one by one."""
        while (more := self.bits | ((self.bits & self._open) << 1)) != self.bits:
            self.bits = more


def bits_of(items: Sequence[_T], is_meant: Callable[[_T], bool]) -> int:
    """The items that are meant, as bits."""
    return int("".join("1" if is_meant(item) else "0" for item in reversed(items)) or "0", 2)


def fits(tokens: Sequence[str], text: str) -> bool:
    """Whether a text is what tokens say: characters, and `STAR`."""
    pieces = _pieces(tokens)
    first, *others = pieces
    if not others:
        return text == first
    if not text.startswith(first):
        return False
    at, last = len(first), others.pop()
    for piece in others:
        found = text.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return len(text) - at >= len(last) and text.endswith(last)


def can_meet(tokens: Sequence[str], text: str, hole: str) -> bool:
    """Whether some filling of the holes in `text` fits the tokens: two patterns that have a text in common."""
    while hole + hole in text:
        text = text.replace(hole + hole, hole)
    masks: dict[str, int] = {}
    reach = Reach[str](len(text), bits_of(text, hole.__eq__))
    for token in tokens:
        if token == STAR:
            reach.star()
            continue
        if token not in masks:
            masks[token] = bits_of(text, token.__eq__)
        reach.one(masks[token])
        if not reach.bits:
            return False
    return reach.is_whole


def _pieces(tokens: Sequence[str]) -> list[str]:
    """The texts between the stars: one more than there are stars."""
    pieces, piece = list[str](), list[str]()
    for token in tokens:
        if token == STAR:
            pieces.append("".join(piece))
            piece = []
        else:
            piece.append(token)
    return [*pieces, "".join(piece)]
