"""The items of an answer while they arrive, by their type.

What an item shows comes from its deltas; what is kept comes from `response.output_item.done`, because the item of
`.added` is unfinished: its arguments are empty and its encrypted reasoning may be incomplete. An item that never ended
keeps what was shown of it, and nothing that could be acted on or sent back.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Protocol

from pydantic import JsonValue
from pydantic_core import to_json

from agentcore.caps import bounded_input
from agentcore.messages import Block, Opaque, Text, ToolCall
from agentcore.ports.models import StreamPart, ToolCallPart
from agentcore.providers.growing import GrowingInput, GrowingText, GrowingThinking, Wire, name_in
from agentcore.providers.openai.body import FRAME


class Item(Protocol):
    def begin(self) -> Sequence[StreamPart]: ...

    def grow(self, event: Wire) -> Sequence[StreamPart]:
        """Take a delta, one of those that the reducer knows."""
        ...

    def end(self, item: Wire) -> Sequence[StreamPart]:
        """Take the item as it is when done."""
        ...

    def blocks(self) -> Iterator[Block]: ...


def new_item(item: Wire, number: int, provider: str, model: str) -> Item:
    """Make the item that begins like this, the answer's `number`th."""
    match item.get("type"):
        case "message":
            return Answer(provider, model)
        case "reasoning":
            return Reasoning(provider, model)
        case "function_call":
            return Call(item, number)
        case "custom_tool_call":
            return CustomCall(item, number)
        case _:
            return Other(provider, model)


class Answer:
    """A message. One with a `phase` has its frame before the text (see `body`)."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._shown = GrowingText()
        self._item: Wire = {}

    @property
    def is_refusal(self) -> bool:
        return any(part.get("type") == "refusal" for part in self._content())

    def begin(self) -> Sequence[StreamPart]:
        return ()

    def grow(self, event: Wire) -> Sequence[StreamPart]:
        part = self._shown.add(event["delta"])
        return () if part is None else (part,)

    def end(self, item: Wire) -> Sequence[StreamPart]:
        self._item = item
        part = None if self._shown.block() else self._shown.add(self._text())
        return () if part is None else (part,)

    def blocks(self) -> Iterator[Block]:
        text = self._text()
        block = Text(text=text) if text else self._shown.block()
        if block is None:
            return
        if phase := self._item.get("phase"):
            raw: dict[str, JsonValue] = {"type": FRAME, "role": "assistant", "phase": str(phase)}
            yield Opaque(provider=self._provider, model=self._model, raw=raw)
        yield block

    def _text(self) -> str:
        return "".join(part.get("text") or part.get("refusal") or "" for part in self._content())

    def _content(self) -> list[Wire]:
        return self._item.get("content") or []


class Reasoning:
    """Reasoning: `Thinking` for people, without a seal, and the item itself where it can be sent back."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._shown = GrowingThinking(provider, model)
        self._place: object = None
        self._item: Wire = {}

    def begin(self) -> Sequence[StreamPart]:
        return ()

    def grow(self, event: Wire) -> Sequence[StreamPart]:
        if not event["delta"]:
            return ()
        place = (event["type"], event.get("summary_index"), event.get("content_index"))
        gap = "" if self._place in (None, place) else "\n\n"  # a summary comes in several pieces, without a break
        self._place = place
        part = self._shown.add(gap + event["delta"])
        return () if part is None else (part,)

    def end(self, item: Wire) -> Sequence[StreamPart]:
        self._item = item
        if self._place is not None:
            return ()
        pieces = [*(item.get("summary") or ()), *(item.get("content") or ())]
        part = self._shown.add("\n\n".join(piece["text"] for piece in pieces))
        return () if part is None else (part,)

    def blocks(self) -> Iterator[Block]:
        if (thinking := self._shown.block()) is not None:
            yield thinking
        if self._item.get("encrypted_content"):
            yield from _opaque(self._item, self._provider, self._model)


class Call:
    """A function call. Its input counts only if the whole item came and says so. It is shown once id and name are
    known, which at some servers is with the whole item."""

    _field: ClassVar[str] = "arguments"

    def __init__(self, start: Wire, number: int) -> None:
        self._made_id = f"call_{number}"
        self._id = name_in(start.get("call_id") or "")
        self._name = name_in(start.get("name") or "")
        self._is_shown = False
        self._size_bytes = 0
        self._shown = GrowingInput()
        self._whole: str | None = None

    def begin(self) -> Sequence[StreamPart]:
        if self._is_shown or not self._id or not self._name:
            return ()
        self._is_shown = True
        return (ToolCallPart(self._id, self._name, 0),)

    def grow(self, event: Wire) -> Sequence[StreamPart]:
        self._shown.add(event["delta"])
        return self._grown(self._shown.size_bytes)

    def end(self, item: Wire) -> Sequence[StreamPart]:
        self._id = self._id or name_in(item.get("call_id") or item.get("id") or self._made_id)
        self._name = self._name or name_in(item["name"])
        text = _argument_text(item.get(self._field), self._shown.text)
        self._whole = None if item.get("status") == "incomplete" else text
        return (*self.begin(), *self._grown(len(text.encode())))

    def blocks(self) -> Iterator[Block]:
        input = None if self._whole is None else self._parsed(self._whole)
        yield ToolCall(id=self._id or self._made_id, name=self._name, input=input)

    def _parsed(self, text: str) -> dict[str, JsonValue] | None:
        whole = GrowingInput()
        whole.add(text)
        return whole.parse()

    def _grown(self, size_bytes: int) -> Sequence[StreamPart]:
        if not self._is_shown or size_bytes <= self._size_bytes:
            return ()
        self._size_bytes = size_bytes
        return (ToolCallPart(self._id, self._name, size_bytes),)


class CustomCall(Call):
    """A call whose input is free text. We declare no such tool, so it is answered as unknown, and from then on sent as
    a function call with that text as its one argument: the vendor takes either form."""

    _field = "input"

    def _parsed(self, text: str) -> dict[str, JsonValue] | None:
        return {"input": text}


class Other:
    """What only the vendor understands: its server-side tools, and items that are new."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._item: Wire = {}

    def begin(self) -> Sequence[StreamPart]:
        return ()

    def grow(self, event: Wire) -> Sequence[StreamPart]:
        return ()

    def end(self, item: Wire) -> Sequence[StreamPart]:
        self._item = item
        return ()

    def blocks(self) -> Iterator[Block]:
        if self._item:
            yield from _opaque(self._item, self._provider, self._model)


def _opaque(item: Wire, provider: str, model: str) -> Iterator[Block]:
    raw = bounded_input(item)  # deeper than any journal can hold it: left out
    if raw is not None:
        yield Opaque(provider=provider, model=model, raw=raw)


def _argument_text(arguments: object, shown: str) -> str:
    """The text of a whole call's arguments, also of those given as an object; what was shown where there are none."""
    if arguments is None:
        return shown
    return to_json(arguments).decode() if isinstance(arguments, dict) else _string(arguments)


def _string(value: object) -> str:
    if type(value) is not str:
        raise TypeError("a field of a call is no string")
    return value
