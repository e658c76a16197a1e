"""Content blocks while they arrive: the parts that the reducers of all vendors share.

Strict where a mistake would be acted on: a tool's input counts only if its text is one whole JSON object.
"""

import json
from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json

from agentcore.caps import bounded_input
from agentcore.messages import Text, Thinking
from agentcore.ports.models import TextPart, ThinkingPart

Wire = dict[str, Any]
"""A parsed piece of a vendor's JSON: checked field by field as it is used."""


MAX_BYTES = 16 * 1024 * 1024
"""Of what one answer may say, and of the input of one call: far above any model's longest answer."""
MAX_TOKENS = 10**12
"""No count of one call can be higher; far below what arithmetic with prices can hold."""
_MAX_NAME_CHARS = 1_000  # above the ids of any vendor, the signed ones of some gateways included


class GrowingText:
    def __init__(self) -> None:
        self._pieces: list[str] = []

    def add(self, text: object) -> TextPart | None:
        """Take more text; None for nothing. Raises: TypeError for what is no string."""
        if not text:
            return None
        if type(text) is not str:
            raise TypeError("text is no string")
        self._pieces.append(text)
        return TextPart(text)

    def block(self) -> Text | None:
        text = "".join(self._pieces)
        return Text(text=text) if text else None


class GrowingThinking:
    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._pieces: list[str] = []
        self.signature: str | None = None

    def add(self, text: object) -> ThinkingPart | None:
        """Take more reasoning; None for nothing. Raises: TypeError for what is no string."""
        if not text:
            return None
        if type(text) is not str:
            raise TypeError("thinking is no string")
        self._pieces.append(text)
        return ThinkingPart(text)

    def block(self) -> Thinking | None:
        text = "".join(self._pieces)
        if not text and not self.signature:
            return None
        return Thinking(text=text, signature=self.signature, provider=self._provider, model=self._model)


class GrowingInput:
    """The argument text of a call. No text at all means the value that it began with, usually `{}`."""

    def __init__(self, initial: object = None) -> None:
        self._initial = {} if initial is None else initial
        self._pieces: list[str] = []
        self.size_bytes = 0

    def add(self, text: object) -> bool:
        """Take more of the text; whether there was any. Raises: TypeError for what is no string."""
        if not text:
            return False
        if type(text) is not str:
            raise TypeError("arguments are no string")
        self._pieces.append(text)
        self.size_bytes += len(text.encode())
        if self.size_bytes > MAX_BYTES:
            raise ValueError("arguments without end")
        return True

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def parse(self) -> dict[str, JsonValue] | None:
        """The input; None unless the text is one whole JSON object of bounded depth, with no name in it twice."""
        text = self.text
        if not text.strip():
            return bounded_input(self._initial)
        try:
            value = bounded_input(from_json(text, allow_inf_nan=False))
            if value is not None:
                json.loads(text, object_pairs_hook=_refuse_twins)  # of two members the parser takes the last one
        except (ValueError, RecursionError):
            return None
        return value


def _refuse_twins(pairs: list[tuple[str, object]]) -> None:
    """Raises: ValueError over an object that says two things under one name."""
    if len(pairs) != len({name for name, _ in pairs}):
        raise ValueError("a name stands in an object twice")


def name_in(value: object) -> str:
    """A name or an id that a vendor gives. Raises: TypeError, ValueError for what can be none."""
    if type(value) is not str:
        raise TypeError("a name is no string")
    if len(value) > _MAX_NAME_CHARS:
        raise ValueError("a name without end")
    return value


def count(counts: Wire, key: str) -> int:
    """A token count, 0 where it is absent or makes no sense."""
    value = counts.get(key)
    return min(value, MAX_TOKENS) if type(value) is int and value > 0 else 0


def details(counts: Wire, key: str) -> Wire:
    """A nested object of counts, empty where it is absent."""
    value = counts.get(key)
    return value if isinstance(value, dict) else {}
