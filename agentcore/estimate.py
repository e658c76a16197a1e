"""How many tokens something is, guessed without a tokenizer: a quarter of its characters.

Good for English and code, too low for scripts with a token a character; what a real call used sets it right
(`Transcript.tokens`).
"""

from collections.abc import Iterable, Sequence
from typing import assert_never

from pydantic_core import to_json

from agentcore.messages import Block, Document, Image, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import ToolDefinition

CHARS_PER_TOKEN = 4  # the contract's
RESULT_TOKENS = 8  # the contract's, for what stands around a tool's result
IMAGE_TOKENS = 1_600  # what Anthropic counts for a picture of the largest size that it does not shrink
DOCUMENT_TOKENS = 3_000  # the upper of Anthropic's figures for a page of PDF
_DOCUMENT_PAGE_BYTES = 100_000


def tokens_of(blocks: Iterable[Block]) -> int:
    """Of the blocks of a message."""
    return sum(map(_of_block, blocks))


def tokens_of_fixed(system: str, tools: Sequence[ToolDefinition]) -> int:
    """Of what every request begins with."""
    return _of_chars(len(system)) + sum(_of_chars(len(tool.model_dump_json())) for tool in tools)


def _of_block(block: Block) -> int:
    match block:
        case Text(text=text):
            return _of_chars(len(text))
        case Thinking(text=text, signature=signature):
            return _of_chars(len(text) + len(signature or ""))
        case ToolCall(name=name, input=input):
            return _of_chars(len(name) + len(to_json(input)))
        case ToolResult(content=content, attachments=attachments):
            return RESULT_TOKENS + _of_chars(len(content)) + tokens_of(attachments)
        case Image():
            return IMAGE_TOKENS
        case Document(size_bytes=size):
            return DOCUMENT_TOKENS * max(1, round(size / _DOCUMENT_PAGE_BYTES))
        case Opaque(raw=raw):
            return _of_chars(len(to_json(raw)))
        case _:
            assert_never(block)


def _of_chars(count: int) -> int:
    return -(-count // CHARS_PER_TOKEN)
