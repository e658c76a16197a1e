"""The texts in what is no text alone: blocks of a message, JSON. Taken out to be checked, and put back."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import JsonValue

from agentcore.guard.scanning import Finding
from agentcore.messages import Block, Text, ToolResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pieces(Generic[T]):
    texts: tuple[str, ...]
    put: Callable[[tuple[str, ...]], T]
    """The same content with these texts, one for each, in their order."""
    fields: tuple[str, ...] = ()
    """For each text the name of the field that it is the value of, or nothing."""

    @property
    def to_scan(self) -> tuple[str, ...]:
        """The texts as a scanner gets them: a value behind the name of its field, which may be what tells."""
        if not self.fields:
            return self.texts
        return tuple(
            f"{_lead(field)}{text}{_TAIL if field and text else ''}" if text else ""
            for field, text in zip(self.fields, self.texts, strict=True)
        )

    def place(self, found: Sequence[Sequence[Finding]]) -> tuple[tuple[Finding, ...], ...]:
        """What was found in `to_scan`, placed in `texts`."""
        if not self.fields:
            return tuple(map(tuple, found))
        return tuple(
            tuple(_within(hits, len(_lead(field)), len(text)))
            for field, text, hits in zip(self.fields, self.texts, found, strict=True)
        )


_TAIL = '"'


def _lead(field: str) -> str:
    return f'"{field}": "' if field else ""


def _within(found: Sequence[Finding], lead: int, size: int) -> Iterator[Finding]:
    for one in found:
        start, end = max(0, one.start - lead), min(size, one.end - lead)
        if start < end:
            yield Finding(start, end, one.kind)


def of_blocks(blocks: tuple[Block, ...]) -> Pieces[tuple[Block, ...]]:
    """What a user's message says. What a model said stays as it is: it read it from what was checked."""

    def put(texts: tuple[str, ...]) -> tuple[Block, ...]:
        return tuple(map(_with_text, blocks, texts))

    return Pieces(tuple(map(_text_of, blocks)), put)


def _text_of(block: Block) -> str:
    match block:
        case Text(text=text):
            return text
        case ToolResult(content=content):
            return content
        case _:
            return ""


def _with_text(block: Block, text: str) -> Block:
    match block:
        case Text():
            return block.model_copy(update={"text": text})
        case ToolResult():
            return block.model_copy(update={"content": text})
        case _:
            return block


def of_value(value: JsonValue) -> Pieces[JsonValue]:
    """All strings of a JSON value, the names of its fields included."""
    strings = tuple(_strings(value, ""))

    def put(texts: tuple[str, ...]) -> JsonValue:
        return _rebuilt(value, iter(texts))

    return Pieces(tuple(text for _, text in strings), put, tuple(field for field, _ in strings))


def _strings(value: JsonValue, field: str) -> Iterator[tuple[str, str]]:
    """Each with the name of the field it is the value of."""
    match value:
        case str():
            yield field, value
        case list():
            for item in value:
                yield from _strings(item, field)
        case dict():
            for name, item in value.items():
                yield "", name
                yield from _strings(item, name)
        case _:
            pass


def _rebuilt(value: JsonValue, texts: Iterator[str]) -> JsonValue:
    """In the order of `_strings`."""
    match value:
        case str():
            return next(texts)
        case list():
            return [_rebuilt(item, texts) for item in value]
        case dict():
            return {next(texts): _rebuilt(item, texts) for item in value.values()}
        case _:
            return value
