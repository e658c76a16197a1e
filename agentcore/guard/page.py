"""The text as the rules read it: look-alike characters made plain, invisible ones gone, offsets kept.

Full-width and foreign digits, exotic spaces and dashes become ASCII; zero-width characters, combining marks,
direction marks and the codes that colour a terminal are left out, so that none of them hides a number. What a rule
found is blanked out, so that no later rule finds it, or a part of it, again.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator

BLANK = "\0"
"""Stands where something was found; no rule matches it."""

Span = tuple[int, int]

_COLOUR = re.compile(r"(?:\x1b|\\(?:u001[bB]|x1[bB]|033|e))\[(?:[?>=]?[0-9]{1,4}+(?:[;:][0-9]{0,4}+){0,24}+)?[A-Za-z]")
"""As a terminal gets it, or as it is written in a text. Numbers so short that none of them is one to be found."""
_INVISIBLE = re.compile(
    "[\u00ad\u0300-\u036f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20d0-\u20ff\ufe00-\ufe0f\ufeff]|"
    f"{_COLOUR.pattern}"
)
_LIKE = {
    **dict.fromkeys("\u00a0\u1680\u202f\u205f\u3000", " "),
    **{chr(code): " " for code in range(0x2000, 0x200B)},
    **{chr(code): "-" for code in (*range(0x2010, 0x2016), 0x2043, 0x2212, 0xFE58, 0xFE63)},
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    "\u2024": ".",
    "\u3002": ".",
    "\u0130": "I",  # the one letter that is two characters in lower case
}
_ODD = re.compile(f"[{''.join(map(re.escape, _LIKE))}]|[^\\D0-9]")


class Page:
    """One text under the eyes of one rule after another."""

    def __init__(self, text: str) -> None:
        self._original = text
        self._removed: list[int] = []
        self.text = text if text.isascii() and _COLOUR.search(text) is None else self._plain(text)
        """With what was found blanked out."""
        self.lower = self.text.lower()
        """In lower case, nothing blanked out: for the words around a number."""

    def blank(self, spans: Iterable[Span]) -> None:
        """Take spans out of `text` that do not overlap."""
        pieces, at = [], 0
        for start, end in sorted(spans):
            pieces += [self.text[at:start], BLANK * (end - start)]
            at = end
        if at:
            self.text = "".join((*pieces, self.text[at:]))

    def original(self, start: int, end: int) -> Span:
        """Where a span of `text` lies in the text that came in; marks that hang on its last character belong to it,
        codes behind it do not."""
        if not self._removed:
            return start, end
        last, behind = self._index(end - 1) + 1, self._index(end) if end < len(self.text) else len(self._original)
        code = _COLOUR.search(self._original, last, behind)
        return self._index(start), behind if code is None else code.start()

    def before(self, start: int, chars: int) -> str:
        """What stands before a place on the same line, in lower case, at most so many characters."""
        piece = self.lower[max(0, start - chars) : start]
        return piece[piece.rfind("\n") + 1 :]

    def _index(self, at: int) -> int:
        return at + bisect_right(self._removed, at)

    def _plain(self, text: str) -> str:
        # each as the place in the result before which it stood
        for marks in _INVISIBLE.finditer(text):
            self._removed += [marks.start() - len(self._removed)] * len(marks[0])
        if self._removed:
            text = _INVISIBLE.sub("", text)
        return _ODD.sub(_ascii, text)


def _ascii(odd: re.Match[str]) -> str:
    like = _LIKE.get(odd[0])
    return str(unicodedata.decimal(odd[0])) if like is None else like


def apart(spans: Iterable[Span]) -> Iterator[Span]:
    """In order, without those that overlap an earlier one; of two with one beginning the longer stays."""
    taken = 0
    for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        if start >= taken:
            yield start, end
            taken = end
