"""Places in a text: ours (line and column from 1, in characters) and a server's (from 0, in its own units)."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_LINE_END = re.compile(r"\r\n|\n|\r")

UNIT_SIZES = {"utf-8": (0x80, 0x800, 0x10000), "utf-16": (0x10000,)}
"""For each encoding that we speak, from which code points on a character has one more unit."""


class Lines:
    """A text by its lines, for one encoding of positions."""

    def __init__(self, text: str, encoding: str) -> None:
        """Raises: KeyError for an encoding that is not in `UNIT_SIZES`."""
        self.text = text
        self._steps = UNIT_SIZES[encoding]
        ends = [(match.start(), match.end()) for match in _LINE_END.finditer(text)]
        self._starts = [0, *(end for _, end in ends)]
        self._ends = [*(start for start, _ in ends), len(text)]

    def line(self, number: int) -> str:
        """A line without its end, from 1; empty where there is none."""
        if not 1 <= number <= len(self._starts):
            return ""
        return self.text[self._starts[number - 1] : self._ends[number - 1]]

    @property
    def count(self) -> int:
        return len(self._starts)

    def to_wire(self, line: int, column: int) -> dict[str, int]:
        """A place as the server wants it; a column behind the end of the line is its end."""
        before = self.line(line)[: max(column - 1, 0)]
        return {"line": line - 1, "character": self._size(before)}

    def from_wire(self, position: object) -> tuple[int, int]:
        """Line and column of a server's position; what is outside of the text is its nearest place."""
        line, character = wire_position(position)
        if line >= self.count:
            return self.count, len(self.line(self.count)) + 1
        return line + 1, self._characters(self.line(line + 1), character) + 1

    def offset(self, position: object) -> int:
        """Where in the text a server's position is."""
        line, column = self.from_wire(position)
        return self._starts[line - 1] + column - 1

    def end(self) -> dict[str, int]:
        return self.to_wire(self.count, len(self.line(self.count)) + 1)

    def _units(self, character: str) -> int:
        point = ord(character)
        return 1 + sum(point >= step for step in self._steps)

    def _size(self, text: str) -> int:
        return len(text) if text.isascii() else sum(map(self._units, text))

    def _characters(self, line: str, units: int) -> int:
        """How many characters begin before so many units; a place within a character is its beginning."""
        if line.isascii():
            return min(units, len(line))
        for index, character in enumerate(line):
            units -= self._units(character)
            if units < 0:
                return index
        return len(line)


def wire_position(position: object) -> tuple[int, int]:
    """Line and character as the server sent them, from 0; 0 where it sent none."""
    if not isinstance(position, Mapping):
        return 0, 0
    return _natural(position.get("line")), _natural(position.get("character"))


def _natural(value: object) -> int:
    return max(value, 0) if isinstance(value, int) else 0


class Overlap(Exception):
    """Two edits mean the same place."""


def edited(lines: Lines, edits: Sequence[Mapping[str, Any]]) -> str:
    """A text after a server's edits, all of which mean the text as it was. Raises: Overlap."""
    cuts = []
    for edit in edits:
        span = edit.get("range")
        ends = span if isinstance(span, Mapping) else {}
        cuts.append((lines.offset(ends.get("start")), lines.offset(ends.get("end")), str(edit.get("newText", ""))))
    cuts.sort(key=lambda cut: cut[:2])  # stable: insertions at one place keep their order
    pieces, at = [], 0
    for start, end, new in cuts:
        if start < at or end < start:
            raise Overlap
        pieces += [lines.text[at:start], new]
        at = end
    return "".join((*pieces, lines.text[at:]))
