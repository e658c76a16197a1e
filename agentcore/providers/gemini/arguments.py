"""The input of a call that comes in pieces: `partialArgs`, each a value at a JSON path, a string maybe in parts.

Strict: a path that makes no sense, a value that is set twice, a string that never ended, and the input is None.
"""

import re
from itertools import pairwise
from typing import Any

from pydantic import JsonValue
from pydantic_core import to_json

from agentcore.caps import bounded_input
from agentcore.providers.growing import Wire

_PATH = re.compile(r"\$(?:\.[^.\[\]'\"]+|\[\d+\]|\['[^'\\]*'\]|\[\"[^\"\\]*\"\])+")
_STEP = re.compile(r"\.([^.\[\]'\"]+)|\[(\d+)\]|\['([^'\\]*)'\]|\[\"([^\"\\]*)\"\]")
_PLAIN = ("numberValue", "boolValue")


class Arguments:
    """Grows with the pieces of one call."""

    def __init__(self) -> None:
        self._input: object = {}
        self._strings: dict[str, list[str]] = {}
        self._is_broken = False
        self.was_begun = False
        self.is_complete = False
        self.size_bytes = 0
        """Of the values so far."""

    def take(self, call: Wire) -> None:
        """Take one piece: a `functionCall` object. Raises: TypeError and AttributeError where it is none."""
        self.was_begun = True
        if (whole := call.get("args")) is not None:
            self._is_broken |= bool(self._input)
            self._input = whole
            self.size_bytes += len(to_json(whole))
        for piece in call.get("partialArgs") or ():
            self._add(piece)
        self.is_complete = call.get("willContinue") is not True

    def parse(self) -> dict[str, JsonValue] | None:
        """The input; None unless it came whole."""
        if self._is_broken or self._strings or not self.is_complete:
            return None
        return bounded_input(self._input)

    def _add(self, piece: Wire) -> None:
        path, text = piece["jsonPath"], piece.get("stringValue")
        if text is not None or path in self._strings:
            self._strings.setdefault(path, []).append(text or "")
            self.size_bytes += len((text or "").encode())
            if piece.get("willContinue") is not True:
                self._put(path, "".join(self._strings.pop(path)))
            return
        values = [piece[name] for name in _PLAIN if piece.get(name) is not None]
        if "nullValue" in piece:
            values.append(None)
        if len(values) == 1:
            self.size_bytes += len(to_json(values[0]))
            self._put(path, values[0])
        elif values or piece.get("willContinue") is not True:  # else it announces a string
            self._is_broken = True

    def _put(self, path: str, value: JsonValue) -> None:
        """Set a value, making the objects and lists on the way to it."""
        steps = _steps(path)
        if not steps or not _set(self._input, steps, value):
            self._is_broken = True


def _steps(path: str) -> list[str | int]:
    """Names and indices; empty for what is no path to an argument."""
    if not _PATH.fullmatch(path):
        return []
    return [int(found[2]) if found[2] else found[1] or found[3] or found[4] or "" for found in _STEP.finditer(path)]


def _set(container: Any, steps: list[str | int], value: JsonValue) -> bool:
    """Whether the value found its place: a new name of an object, or the next index of a list."""
    for step, following in pairwise(steps):
        made: JsonValue = [] if isinstance(following, int) else {}
        if not _has(container, step) and not _insert(container, step, made):
            return False
        container = container[step]
    return not _has(container, steps[-1]) and _insert(container, steps[-1], value)


def _has(container: Any, step: str | int) -> bool:
    if isinstance(container, list):
        return isinstance(step, int) and step < len(container)
    return isinstance(container, dict) and step in container


def _insert(container: Any, step: str | int, value: JsonValue) -> bool:
    if isinstance(container, dict) and isinstance(step, str):
        container[step] = value
        return True
    if isinstance(container, list) and step == len(container):
        container.append(value)
        return True
    return False
