"""From the events of one answer to parts and, at `message_stop`, to `Finished`.

Strict where a mistake would be acted on: a tool's input counts only if its text is one whole JSON object, and an
answer only with its terminal event. Lenient where nothing depends on it: unknown events, unknown blocks (kept as
they came), odd token counts. One reducer serves one answer.
"""

from typing import Any, Protocol

from pydantic import JsonValue
from pydantic_core import from_json

from agentcore.caps import bounded_input
from agentcore.messages import Block, Opaque, Text, Thinking, ToolCall
from agentcore.ports import Finished, StreamPart, TextPart, ThinkingPart, ToolCallPart
from agentcore.providers.anthropic.faults import Faults
from agentcore.usage import Usage

Wire = dict[str, Any]
"""A parsed piece of the vendor's JSON: checked field by field as it is used."""


class _Growing(Protocol):
    """A content block while it arrives."""

    def grow(self, delta: Wire) -> StreamPart | None: ...

    def close(self) -> Block | None:
        """The finished block; None where nothing of it is worth keeping."""
        ...


class Reducer:
    """Holds what has arrived of one answer."""

    def __init__(self, provider: str, model: str, faults: Faults) -> None:
        self._provider = provider
        self._model = model
        self._faults = faults
        self._open: dict[int, _Growing] = {}
        self._blocks: list[_Growing] = []
        self._usage: Wire = {}
        self._stop = ""
        self._has_started = False
        self.is_done = False

    def take(self, data: bytes) -> StreamPart | None:
        """Take one event; return what it shows, if anything. Raises: ProviderError."""
        try:
            event = from_json(data)
            kind = event.get("type")
            if kind == "content_block_delta":
                return self._open[event["index"]].grow(event["delta"])
            return self._take_rare(kind, event)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._faults.of("server_error", "it sent an event that does not fit its protocol") from error

    def _take_rare(self, kind: object, event: Wire) -> StreamPart | None:
        match kind:
            case "message_start":
                self._begin(event["message"])
            case "content_block_start":
                return self._begin_block(event["index"], event["content_block"])
            case "content_block_stop":
                del self._open[event["index"]]
            case "message_delta":
                self._stop = event["delta"].get("stop_reason") or self._stop
                self._overlay(event.get("usage"))
            case "message_stop":
                return self._finish()
            case _ if kind == "error" or "error" in event:
                raise self._faults.of_event(event)
        return None

    def _begin(self, message: Wire) -> None:
        if self._has_started:
            raise self._faults.of("server_error", "it began a second answer inside the first")
        self._has_started = True
        self._overlay(message.get("usage"))

    def _begin_block(self, index: int, start: Wire) -> StreamPart | None:
        if index in self._open:
            raise ValueError("a block begins twice")
        block: _Growing
        match start["type"]:
            case "text":
                block = _GrowingText()
            case "thinking":
                block = _GrowingThinking(self._provider, self._model)
            case "tool_use":
                block = _GrowingCall(start)
            case _:
                block = _GrowingOpaque(self._provider, self._model, start)
        self._open[index] = block
        self._blocks.append(block)
        return block.grow(start)

    def _overlay(self, usage: Wire | None) -> None:
        """Counts in `message_delta` replace those of `message_start`; absent and null ones leave them."""
        self._usage.update({key: value for key, value in (usage or {}).items() if value is not None})

    def _finish(self) -> Finished:
        if not self._has_started:
            raise ValueError("an end without a beginning")
        content = tuple(block for growing in self._blocks if (block := growing.close()))
        self.is_done = True
        return Finished(content=content, usage=_usage(self._usage), stop=self._stop)


class _GrowingText:
    def __init__(self) -> None:
        self._pieces: list[str] = []

    def grow(self, delta: Wire) -> StreamPart | None:
        text = delta.get("text")
        if not text:
            return None  # the start of a block, or a citation
        if type(text) is not str:
            raise TypeError("text is no string")
        self._pieces.append(text)
        return TextPart(text)

    def close(self) -> Block | None:
        text = "".join(self._pieces)
        return Text(text=text) if text else None


class _GrowingThinking:
    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._pieces: list[str] = []
        self._signature: str | None = None

    def grow(self, delta: Wire) -> StreamPart | None:
        self._signature = delta.get("signature") or self._signature
        text = delta.get("thinking")
        if not text:
            return None
        if type(text) is not str:
            raise TypeError("thinking is no string")
        self._pieces.append(text)
        return ThinkingPart(text)

    def close(self) -> Block | None:
        text = "".join(self._pieces)
        if not text and not self._signature:
            return None
        return Thinking(text=text, signature=self._signature, provider=self._provider, model=self._model)


class _GrowingCall:
    def __init__(self, start: Wire) -> None:
        self._id: str = start["id"]
        self._name: str = start["name"]
        self._input = _GrowingInput(start)

    def grow(self, delta: Wire) -> StreamPart | None:
        if self._input.grow(delta) or delta["type"] == "tool_use":
            return ToolCallPart(self._id, self._name, self._input.size_bytes)
        return None

    def close(self) -> Block | None:
        return ToolCall(id=self._id, name=self._name, input=self._input.parse())


class _GrowingOpaque:
    """A block that only the vendor understands: its start, with what was added to it."""

    def __init__(self, provider: str, model: str, start: Wire) -> None:
        self._provider = provider
        self._model = model
        self._raw = dict(start)
        self._input = _GrowingInput(start)

    def grow(self, delta: Wire) -> StreamPart | None:
        self._input.grow(delta)
        return None

    def close(self) -> Block | None:
        if "input" in self._raw:
            self._raw["input"] = self._input.parse()
            if self._raw["input"] is None:
                return None  # cut off: it could never be sent back
        raw = bounded_input(self._raw)  # deeper than any journal can hold it: left out
        return None if raw is None else Opaque(provider=self._provider, model=self._model, raw=raw)


class _GrowingInput:
    """The argument text of a call. No text at all means what the block began with, usually `{}`."""

    def __init__(self, start: Wire) -> None:
        self._initial = start.get("input", {})
        self._pieces: list[str] = []
        self.size_bytes = 0

    def grow(self, delta: Wire) -> bool:
        """Take more of the text; whether there was any."""
        text = delta.get("partial_json")
        if not text:
            return False
        self._pieces.append(text)
        self.size_bytes += len(text.encode())
        return True

    def parse(self) -> dict[str, JsonValue] | None:
        """The input; None unless the text is one whole JSON object of bounded depth."""
        text = "".join(self._pieces)
        try:
            value = from_json(text, allow_inf_nan=False) if text.strip() else self._initial
        except ValueError:
            return None
        return bounded_input(value)


def _usage(counts: Wire) -> Usage:
    details = counts.get("output_tokens_details")
    return Usage(
        input=_count(counts, "input_tokens"),  # excludes both cache buckets already
        output=_count(counts, "output_tokens"),
        cache_read=_count(counts, "cache_read_input_tokens"),
        cache_write=_count(counts, "cache_creation_input_tokens"),
        reasoning=_count(details, "thinking_tokens") if isinstance(details, dict) else 0,
    )


def _count(counts: Wire, key: str) -> int:
    value = counts.get(key)
    return value if type(value) is int and value > 0 else 0
