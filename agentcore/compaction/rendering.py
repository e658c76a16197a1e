"""Messages as a text of bounded length, for a model that cannot be sent the messages themselves."""

from collections.abc import Iterable, Iterator
from typing import assert_never

from pydantic_core import to_json

from agentcore.messages import Block, Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult

_TEXT_CHARS = 4_000
_INPUT_CHARS = 400
_RESULT_CHARS = 800
_LEFT_OUT = "\n[… left out …]\n"


def rendered(messages: Iterable[Message], limit_chars: int) -> str:
    """What was said, called and answered; beyond the limit its first quarter and its end are kept."""
    whole = "\n\n".join(line for message in messages for line in _lines(message))
    return _clipped(whole, limit_chars)


def _lines(message: Message) -> Iterator[str]:
    who = "User" if message.role == "user" else "Assistant"
    for block in message.content:
        if line := _line(who, block):
            yield line


def _line(who: str, block: Block) -> str:
    match block:
        case Text(text=text):
            return f"{who}: {_clipped(text, _TEXT_CHARS)}"
        case ToolCall(name=name, input=input):
            return f"{who} called {name}: {_clipped(to_json(input).decode(), _INPUT_CHARS)}"
        case ToolResult(content=content, is_error=is_error):
            return f"{'Error' if is_error else 'Result'}: {_clipped(content, _RESULT_CHARS)}"
        case Image() | Document():
            return f"{who} showed: a file ({block.media_type})"
        case Thinking() | Opaque():
            return ""
        case _:
            assert_never(block)


def _clipped(text: str, limit_chars: int) -> str:
    if len(text) <= limit_chars:
        return text
    room = max(limit_chars - len(_LEFT_OUT), 4)
    head = room // 4
    return text[:head] + _LEFT_OUT + text[len(text) - (room - head) :]
