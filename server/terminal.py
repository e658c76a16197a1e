"""How the commands that tell something write to a terminal."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_UNSEEN = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp"})
"""Unicode categories that a terminal acts on, or does not show."""


def visible(text: str) -> str:
    """The whole text with everything written out that a terminal would obey or hide, line ends included."""
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode() if unicodedata.category(char) in _UNSEEN else char
        for char in text
    )


def sentence(error: Exception) -> str:
    """What people are told of a failure; one of the system names the file."""
    if isinstance(error, OSError) and error.strerror:
        return f"{visible(str(error.filename))} cannot be used: {error.strerror}." if error.filename else error.strerror
    return str(error)


def no_session(name: str, sessions: Path) -> str:
    """What people are told of a session that is not below the folder `sessions`."""
    if name == "latest":
        return f"There is no session below {sessions} yet; --state-dir names another place."
    return f"There is no session {name[:80]!r} below {sessions}: give an id, its beginning, or `latest`."


def table(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns to the left, each as wide as its widest cell."""
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
