"""How the commands that tell something write to a terminal."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Unicode categories that a terminal acts on, or does not show."""


def visible(text: str) -> str:
    """The whole text with everything written out that a terminal would obey or hide, line ends included."""
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode() if unicodedata.category(char) in _UNSEEN else char
        for char in text
    )


def table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns to the left, each as wide as its widest cell."""
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
