"""The texts in the blocks of a message, taken out to be checked, and put back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from agentcore.messages import Block, Text, ToolResult

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pieces(Generic[T]):
    texts: tuple[str, ...]
    put: Callable[[tuple[str, ...]], T]
    """The same content with these texts, one for each, in their order."""


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
