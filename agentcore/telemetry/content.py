"""What was said, as the conventions write it into an attribute: JSON, known secrets taken out, each text bounded."""

import json
from collections.abc import Iterator, Sequence

from pydantic import JsonValue

from agentcore.messages import Block, Document, Image, Text, Thinking, ToolCall, ToolResult
from agentcore.redaction import Redactor

MAX_CHARS = 16_384
"""Of one text: a batch of spans must stay below what collectors take (4 MiB and more)."""
_CUT = "… [cut]"


class Content:
    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def message(self, role: str, content: Sequence[Block], finish_reason: str | None = None) -> JsonValue:
        message: dict[str, JsonValue] = {"role": role, "parts": list(_parts(content))}
        if finish_reason is not None:
            message["finish_reason"] = finish_reason
        return self._safe(message)

    def joined(self, messages: Sequence[JsonValue]) -> str:
        """Some of `message`, in the list that the attribute holds."""
        return json.dumps(messages, ensure_ascii=False)

    def json(self, value: JsonValue) -> str:
        return json.dumps(self._safe(value), ensure_ascii=False)

    def text(self, text: str) -> str:
        return _short(self._redactor.text(text))

    def _safe(self, value: JsonValue) -> JsonValue:
        return _bounded(self._redactor.value(value))


def _parts(content: Sequence[Block]) -> Iterator[JsonValue]:
    for block in content:
        match block:
            case Text(text=text):
                yield {"type": "text", "content": text}
            case Thinking(text=text):
                yield {"type": "reasoning", "content": text}
            case ToolCall(id=call_id, name=name, input=input):
                yield {"type": "tool_call", "id": call_id, "name": name, "arguments": input}
            case ToolResult(call_id=call_id, content=said):
                yield {"type": "tool_call_response", "id": call_id, "response": said}
            case Image(type=kind, media_type=media_type) | Document(type=kind, media_type=media_type):
                yield {"type": kind, "mime_type": media_type}
            case _:
                pass  # only its vendor can read it


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
