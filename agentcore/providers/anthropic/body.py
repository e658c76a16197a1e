"""The body of a Messages request, joined from bytes.

The bytes of messages are made once (`providers.prefix`). A mark for the vendor's cache is put into a copy of the kept
bytes, so requests of one context share every byte of their beginning, marks aside.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence

from pydantic import JsonValue
from pydantic_core import to_json

from agentcore.messages import (
    Attachment,
    Block,
    Document,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from agentcore.ports.models import ModelRequest, ToolDefinition
from agentcore.providers.anthropic.models import Abilities, abilities, budget_for, effort_for
from agentcore.providers.ids import wire_id
from agentcore.providers.prefix import GONE, encoded_messages, joined, withhold

_MARK = b',"cache_control":{"type":"ephemeral"}'
_MARKED_MESSAGES = 2  # the newest, and the one where the request before it ended
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_EMPTY_PROMPT = "(empty message)"

Wire = dict[str, JsonValue]


def encode_body(request: ModelRequest, provider: str, *, is_eager: bool = False) -> bytes:
    """Return the JSON of the whole request.

    `is_eager`: have the input of tools streamed as it is made, rather than held back until a field is whole.
    """
    head = to_json(_options(request))
    parts = [head[:-1]]
    if request.tools:
        parts += [b',"tools":', to_json([_tool(tool, is_eager) for tool in request.tools])]
    if request.system.strip():
        parts += [b',"system":[', _marked(to_json({"type": "text", "text": request.system})), b"]"]
    older, newer = encoded_messages(request, provider, lambda message: _encode_message(message, request, provider))
    _mark_newest(newer, request.messages[-len(newer) :])
    parts += [b',"messages":[', older, b"," if older else b"", joined(newer), b"]}"]
    return b"".join(parts)  # the one place where older messages are copied


def withhold_thinking(request: ModelRequest, provider: str) -> bool:
    """Keep the messages of this request without their thinking from now on; whether there was any to withhold."""
    return withhold(request, provider, lambda message: _encode_message(message, request, provider), _is_thinking)


def _is_thinking(block: Block) -> bool:
    return isinstance(block, Thinking) or (isinstance(block, Opaque) and block.raw.get("type") == "redacted_thinking")


def _options(request: ModelRequest) -> Wire:
    able = abilities(request.model)
    max_tokens = request.max_tokens or able.max_tokens
    options: Wire = {"model": request.model, "max_tokens": max_tokens, "stream": True}
    thinking = _thinking(able, request.effort, max_tokens)
    if thinking is not None:
        options["thinking"] = thinking
    elif request.temperature is not None and able.has_temperature:  # refused beside thinking
        options["temperature"] = request.temperature
    output: Wire = {}
    if request.effort is not None and (effort := effort_for(able, request.effort)) is not None:
        output["effort"] = effort
    if request.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": _closed(dict(request.output_schema))}
    if output:
        options["output_config"] = output
    return options


def _thinking(able: Abilities, effort: str | None, max_tokens: int) -> Wire | None:
    if able.thinks == "always" or (able.thinks == "asked" and effort is not None):
        # Models since 4.7 hide their thinking unless told not to, and a call that shows nothing counts as stalled.
        return {"type": "adaptive", "display": "summarized"}
    if able.thinks == "budget" and effort is not None and (budget := budget_for(effort, max_tokens)) is not None:
        return {"type": "enabled", "budget_tokens": budget}
    return None


def _closed(schema: JsonValue) -> JsonValue:
    """A copy in which every object says that it takes no other properties: without that the vendor refuses it."""
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    copy = {name: _closed_member(name, value) for name, value in schema.items()}
    kinds = schema.get("type")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds):
        copy["additionalProperties"] = False
    return copy


def _closed_member(name: str, value: JsonValue) -> JsonValue:
    """What is under a keyword: schemas, schemas by name, or plain values that only look like schemas."""
    if name in ("properties", "$defs", "definitions") and isinstance(value, dict):
        return {key: _closed(schema) for key, schema in value.items()}
    return value if name in ("enum", "const", "default", "examples") else _closed(value)


def _tool(tool: ToolDefinition, is_eager: bool) -> Wire:
    wire: Wire = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
    return {**wire, "eager_input_streaming": True} if is_eager else wire


def _mark_newest(wires: list[bytes], messages: Sequence[Message]) -> None:
    """Mark the last block of the newest user messages. Others may end in a block that takes no mark (thinking)."""
    left = _MARKED_MESSAGES
    for index in range(len(wires) - 1, -1, -1):
        if messages[index].role == "user":
            wires[index] = _marked(wires[index].removesuffix(b"]}")) + b"]}"
            left -= 1
            if not left:
                return


def _marked(block: bytes) -> bytes:
    return block.removesuffix(b"}") + _MARK + b"}"


def _encode_message(message: Message, request: ModelRequest, provider: str) -> bytes:
    # The vendor wants the results of a batch before anything else that the user's side says.
    results_first = sorted(message.content, key=lambda block: not isinstance(block, ToolResult))
    content = [wire for block in results_first for wire in _wires(block, request, provider)]
    if not content and message.role == "user":
        content = [{"type": "text", "text": _EMPTY_PROMPT}]  # a request must begin with a user's message
    return to_json({"role": message.role, "content": content}) if content else b""


def _wires(block: Block, request: ModelRequest, provider: str) -> Iterator[Wire]:
    """The block as the vendor takes it; nothing where it must be withheld (foreign, unsealed or blank)."""
    own = (provider, request.model)
    match block:
        case Text(text=text):
            if text.strip():  # a blank text block is refused, and the transcript with it
                yield {"type": "text", "text": text}
        case Thinking(signature=signature):
            if signature and (block.provider, block.model) == own:
                yield {"type": "thinking", "thinking": block.text, "signature": signature}
        case Opaque(raw=raw):
            if (block.provider, block.model) == own:
                yield raw
        case ToolCall():
            # Names made by another vendor's model may hold characters that are refused here.
            name = _NOT_IN_NAMES.sub("_", block.name)[:128] or "_"
            yield {"type": "tool_use", "id": wire_id(block.id), "name": name, "input": dict(block.input or {})}
        case Image() | Document():
            yield _file(block, request)
        case ToolResult():
            yield _result(block, request)


def _file(block: Attachment, request: ModelRequest) -> Wire:
    try:
        data = b64encode(request.blob(block.blob)).decode("ascii")
    except KeyError:
        return {"type": "text", "text": GONE}
    return {"type": block.type, "source": {"type": "base64", "media_type": block.media_type, "data": data}}


def _result(block: ToolResult, request: ModelRequest) -> Wire:
    wire: Wire = {"type": "tool_result", "tool_use_id": wire_id(block.call_id)}
    said: list[JsonValue] = [{"type": "text", "text": block.content}] if block.content.strip() else []
    if block.attachments:
        wire["content"] = [*said, *(_file(attachment, request) for attachment in block.attachments)]
    elif said:
        wire["content"] = block.content
    if block.is_error:
        wire["is_error"] = True
    return wire
