"""What was said, as the conventions write it into an attribute: JSON, known secrets taken out, each text bounded."""

import json
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from agentcore.messages import Block, Document, Image, Text, Thinking, ToolCall
from agentcore.redaction import Redactor

MAX_CHARS = 16_384
"""Of one text: a batch of spans must stay below what collectors take (4 MiB and more)."""
_CUT = "… [cut]"


class Content:
    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def messages(self, role: str, content: Sequence[Block], finish_reason: str | None = None) -> str:
        """One message, in the list that the attribute holds."""
        message: dict[str, JsonValue] = {"role": role, "parts": list(_parts(content))}
        if finish_reason is not None:
            message["finish_reason"] = finish_reason
        return self.json([message])

    def json(self, value: JsonValue) -> str:
        return json.dumps(_bounded(self._redactor.value(value)), ensure_ascii=False)

    def text(self, text: str) -> str:
        return _short(self._redactor.text(text))


def _parts(content: Sequence[Block]) -> Iterator[JsonValue]:
    for block in content:
        match block:
            case Text(text=text):
                yield {"type": "text", "content": text}
            case Thinking(text=text):
                yield {"type": "reasoning", "content": text}
            case ToolCall(id=call_id, name=name, input=input):
                yield {"type": "tool_call", "id": call_id, "name": name, "arguments": input}
            case Image(type=kind, media_type=media_type) | Document(type=kind, media_type=media_type):
                yield {"type": kind, "mime_type": media_type}
            case _:
                pass  # only its vendor can read it, or it stands in a span of its own


def _bounded(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return _short(value)
        case list():
            return [_bounded(item) for item in value]
        case dict():
            return {name: _bounded(item) for name, item in value.items()}
        case _:
            return value


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + _CUT
