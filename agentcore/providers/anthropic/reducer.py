"""From the events of one answer to parts and, at `message_stop`, to `Finished`.

Strict where a mistake would be acted on: a tool's input counts only if its text is one whole JSON object, and an
answer only with its terminal event. Lenient where nothing depends on it: unknown events, unknown blocks (kept as
they came), odd token counts. One reducer serves one answer.
"""

from collections.abc import Sequence
from typing import Protocol

from pydantic_core import from_json

from agentcore.caps import bounded_input
from agentcore.messages import Block, Opaque, Thinking, ToolCall
from agentcore.ports.models import Finished, StreamPart, ToolCallPart
from agentcore.providers.faults import Faults
from agentcore.providers.growing import GrowingInput, GrowingText, GrowingThinking, Wire, count, details, name_in
from agentcore.usage import Usage


class _Growing(Protocol):
    """A content block while it arrives."""

    def grow(self, delta: Wire) -> StreamPart | None: ...

    def block(self) -> Block | None:
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
        self._detail = ""
        self._has_started = False
        self.is_done = False

    def take(self, data: bytes) -> Sequence[StreamPart]:
        event = from_json(data)
        kind = event.get("type")
        if kind == "content_block_delta":
            part = self._open[event["index"]].grow(event["delta"])
        elif kind == "message":  # the whole answer at once, of a server that passes over `stream`
            return self._take_whole(event)
        else:
            part = self._take_rare(kind, event)
        return () if part is None else (part,)

    def finish(self) -> Finished:
        if not self.is_done:
            raise self._faults.of("stream_truncated")
        cut = {id(growing) for growing in self._open.values()}
        blocks = (_of_cut(growing.block()) if id(growing) in cut else growing.block() for growing in self._blocks)
        content = tuple(block for block in blocks if block is not None)
        usage = _usage(self._usage) if self._usage else None
        return Finished(content=content, usage=usage, stop=self._neutral_stop(content), detail=self._detail)

    def _neutral_stop(self, content: Sequence[Block]) -> str:
        """The words are the neutral ones. Compatible servers call tools and say `end_turn`, or nothing."""
        has_calls = any(isinstance(block, ToolCall) for block in content)
        return "tool_use" if has_calls and self._stop in ("", "end_turn") else self._stop

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
                self._detail = _why(event["delta"]) or self._detail
                self._overlay(event.get("usage"))
            case "message_stop":
                if not self._has_started:
                    raise ValueError("an end without a beginning")
                self.is_done = True
            case _ if kind == "error" or "error" in event:
                raise self._faults.of_event(event.get("error"))
        return None

    def _begin(self, message: Wire) -> None:
        if self._has_started:
            raise self._faults.of("server_error", "it began a second answer inside the first")
        self._has_started = True
        self._overlay(message.get("usage"))

    def _take_whole(self, message: Wire) -> Sequence[StreamPart]:
        self._begin(message)
        shown = [self._begin_block(index, block) for index, block in enumerate(message["content"])]
        self._open.clear()  # each came whole
        self._stop = message.get("stop_reason") or ""
        self.is_done = True
        return [part for part in shown if part is not None]

    def _begin_block(self, index: int, start: Wire) -> StreamPart | None:
        if index in self._open:
            raise ValueError("a block begins twice")
        block: _Growing
        match start["type"]:
            case "text":
                block = _Text()
            case "thinking":
                block = _Thinking(self._provider, self._model)
            case "tool_use":
                block = _Call(start)
            case _:
                block = _Opaque(self._provider, self._model, start)
        self._open[index] = block
        self._blocks.append(block)
        return block.grow(start)

    def _overlay(self, usage: Wire | None) -> None:
        """Counts in `message_delta` replace those of `message_start`; absent and null ones leave them."""
        self._usage.update({key: value for key, value in (usage or {}).items() if value is not None})


def _of_cut(block: Block | None) -> Block | None:
    """What may be kept of a block that never ended: nothing that could be acted on or sent back."""
    match block:
        case ToolCall():
            return block.model_copy(update={"input": None})
        case Opaque() | Thinking(signature=None):
            return None
    return block


def _why(delta: Wire) -> str:
    """Why the model refused: a category, and mostly a sentence."""
    told = details(delta, "stop_details")
    return ": ".join(text for name in ("category", "explanation") if type(text := told.get(name)) is str and text)


class _Text(GrowingText):
    """Visible text. Citations are left out: as an opaque block the text could not be seen, nor sent to another vendor,
    and what was found is sent back in the search's own block."""

    def grow(self, delta: Wire) -> StreamPart | None:
        return self.add(delta.get("text"))  # none at the start of a block, or with a citation


class _Thinking(GrowingThinking):
    def grow(self, delta: Wire) -> StreamPart | None:
        self.signature = delta.get("signature") or self.signature
        return self.add(delta.get("thinking"))


class _Call:
    def __init__(self, start: Wire) -> None:
        self._id = name_in(start["id"])
        self._name = name_in(start["name"])
        self._input = GrowingInput(start.get("input") or {})

    def grow(self, delta: Wire) -> StreamPart | None:
        if self._input.add(delta.get("partial_json")) or delta["type"] == "tool_use":
            return ToolCallPart(self._id, self._name, self._input.size_bytes)
        return None

    def block(self) -> Block | None:
        return ToolCall(id=self._id, name=self._name, input=self._input.parse())


class _Opaque:
    """A block that only the vendor understands: its start, with what was added to it."""

    def __init__(self, provider: str, model: str, start: Wire) -> None:
        self._provider = provider
        self._model = model
        self._raw = dict(start)
        self._input = GrowingInput(start.get("input") or {})

    def grow(self, delta: Wire) -> StreamPart | None:
        self._input.add(delta.get("partial_json"))
        if delta["type"] == "compaction_delta":  # comes whole
            self._raw |= {name: value for name, value in delta.items() if name != "type"}
        return None

    def block(self) -> Block | None:
        if "input" in self._raw:
            self._raw["input"] = self._input.parse()
            if self._raw["input"] is None:
                return None  # cut off: it could never be sent back
        raw = bounded_input(self._raw)  # deeper than any journal can hold it: left out
        return None if raw is None else Opaque(provider=self._provider, model=self._model, raw=raw)


def _usage(counts: Wire) -> Usage:
    return Usage(
        input=count(counts, "input_tokens"),  # excludes both cache buckets already
        output=count(counts, "output_tokens"),
        cache_read=count(counts, "cache_read_input_tokens"),
        cache_write=count(counts, "cache_creation_input_tokens"),
        reasoning=count(details(counts, "output_tokens_details"), "thinking_tokens"),
    )
