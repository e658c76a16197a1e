"""Reasoning in an answer: four fields for the same text, and the sealed form that has to come back unchanged."""

from typing import Any

from agentcore.caps import bounded_input
from agentcore.messages import Opaque
from agentcore.providers.compatible.body import DETAILS, THINKING
from agentcore.providers.growing import Wire

_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")  # the last: GitHub Copilot
_GROWING = ("text", "summary", "thinking")
"""Members of an entry that come in pieces; of the others the last one that says something counts."""


class Reasoning:
    """Finds the readable text. The field that was first to hold some is the one: Avian sends all of it in two."""

    def __init__(self) -> None:
        self._field = ""

    def text_of(self, delta: Wire) -> str:
        for field in _FIELDS:
            text = delta.get(field)
            if text and type(text) is str and self._field in ("", field):
                self._field = field
                return text
        if self._field in ("", DETAILS) and isinstance(details := delta.get(DETAILS), list):
            text = "".join(str(entry.get(name) or "") for entry in details for name in _GROWING)
            self._field = DETAILS if text else self._field
            return text
        return ""


class _Entry:
    def __init__(self) -> None:
        self._fields: Wire = {}
        self._texts: dict[str, list[str]] = {}

    def grow(self, piece: Wire) -> None:
        for name, value in piece.items():
            if name in _GROWING and type(value) is str:
                self._texts.setdefault(name, []).append(value)
            if value or name not in self._fields:  # an empty seal may stand in the place of one that is still to come
                self._fields[name] = value

    @property
    def is_sealed(self) -> bool:
        return bool(self._fields.get("signature"))

    def whole(self) -> Wire:
        return {name: "".join(self._texts.get(name, ())) or value for name, value in self._fields.items()}


class GrowingDetails:
    """The entries of `reasoning_details`, where pieces of one have its type and index and ciphers come whole, or of
    `thinking_blocks`, where each goes on until its signature."""

    def __init__(self, provider: str, model: str, field: str = DETAILS) -> None:
        self._field = field
        self._provider = provider
        self._model = model
        self._entries: list[_Entry] = []
        self._open: dict[tuple[Any, Any], _Entry] = {}

    def add(self, details: list[Wire]) -> None:
        for piece in details:
            place = (piece.get("type"), piece.get("index"))
            entry = self._open.get(place)
            is_alone = entry.is_sealed if entry and self._field == THINKING else place[1] is None
            if entry is None or is_alone or "data" in piece:
                entry = self._open[place] = _Entry()
                self._entries.append(entry)
            entry.grow(piece)

    def block(self) -> Opaque | None:
        if not self._entries:
            return None
        entries = [entry.whole() for entry in self._entries]
        raw = bounded_input({"type": self._field, self._field: entries})  # None: deeper than any journal can hold
        return None if raw is None else Opaque(provider=self._provider, model=self._model, raw=raw)
