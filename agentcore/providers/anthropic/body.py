"""The body of a Messages request, joined from bytes.

The bytes of a message are made once and kept in `ModelRequest.encoded`; they depend on nothing but the message, the
provider and the model. A message that keeps its id must therefore never change. Those of older messages are kept as
one piece, so a request costs the same in a long conversation as in a short one. A mark for the vendor's cache is put
into a copy of the kept bytes, so requests of one context share every byte of their beginning, marks aside.
"""

import re
from collections.abc import Iterator, Sequence

from pydantic import JsonValue
from pydantic_core import to_json

from agentcore.messages import Block, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.ports import ModelRequest
from agentcore.providers.anthropic.models import output_tokens

_MARK = b',"cache_control":{"type":"ephemeral"}'
_MARKED_MESSAGES = 2  # the newest, and the one where the request before it ended
_NEWER_MESSAGES = 64  # looked at one by one; with twice as many the older half joins the piece before it
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_EMPTY_PROMPT = "(empty message)"

Wire = dict[str, JsonValue]


def encode_body(request: ModelRequest, provider: str) -> bytes:
    """Return the JSON of the whole request."""
    head = to_json(_options(request))
    parts = [head[:-1]]
    if request.tools:
        parts += [
            b',"tools":',
            to_json([_tool(tool.name, tool.description, tool.input_schema) for tool in request.tools]),
        ]
    if request.system.strip():
        parts += [b',"system":[', _marked(to_json({"type": "text", "text": request.system})), b"]"]
    older, newer = _encoded_messages(request, provider)
    _mark_newest(newer, request.messages[-len(newer) :])
    parts += [b',"messages":[', older, b"," if older else b"", _joined(newer), b"]}"]
    return b"".join(parts)  # the one place where older messages are copied


def withhold_thinking(request: ModelRequest, provider: str) -> bool:
    """Keep the messages of this request without their thinking from now on; whether there was any to withhold.

    What the model thinks later is sent again: the vendor has only refused what there is now.
    """
    found = False
    prefix = _prefix(provider, request.model)
    for key in [key for key in request.encoded if key.startswith(f"{prefix}..")]:
        del request.encoded[key]
    for message in request.messages:
        spoken = tuple(block for block in message.content if not _is_thinking(block))
        if len(spoken) < len(message.content):
            bare = message.model_copy(update={"content": spoken})
            request.encoded[prefix + message.id] = _encode_message(bare, provider, request.model)
            found = True
    return found


def _is_thinking(block: Block) -> bool:
    return isinstance(block, Thinking) or (isinstance(block, Opaque) and block.raw.get("type") == "redacted_thinking")


def _options(request: ModelRequest) -> Wire:
    options: Wire = {
        "model": request.model,
        "max_tokens": request.max_tokens or output_tokens(request.model),
        "stream": True,
    }
    if request.temperature is not None:
        options["temperature"] = request.temperature
    if request.effort is not None:
        options["output_config"] = {"effort": request.effort}
    return options


def _tool(name: str, description: str, schema: dict[str, JsonValue]) -> Wire:
    return {"name": name, "description": description, "input_schema": schema}


def _encoded_messages(request: ModelRequest, provider: str) -> tuple[bytes, list[bytes]]:
    """The joined bytes of the older messages and those of each newer one, b"" where nothing of it may be sent."""
    kept, messages, prefix = request.encoded, request.messages, _prefix(provider, request.model)
    start = len(messages)
    while start and _until(prefix, messages[start - 1]) not in kept:
        start -= 1
    older = kept[_until(prefix, messages[start - 1])] if start else b""
    newer = []
    for message in messages[start:]:
        key = prefix + message.id
        wire = kept.get(key)
        if wire is None:
            wire = kept[key] = _encode_message(message, provider, request.model)
        newer.append(wire)
    if len(newer) < 2 * _NEWER_MESSAGES:
        return older, newer
    return _join_older(request, prefix, older, newer), newer[-_NEWER_MESSAGES:]


def _join_older(request: ModelRequest, prefix: str, older: bytes, newer: Sequence[bytes]) -> bytes:
    """Keep all but the newest messages as one piece, in the place of their own bytes and of the piece before."""
    kept, messages = request.encoded, request.messages
    start, end = len(messages) - len(newer), len(messages) - _NEWER_MESSAGES
    for message in messages[start:end]:
        del kept[prefix + message.id]
    if start:
        del kept[_until(prefix, messages[start - 1])]
    piece = kept[_until(prefix, messages[end - 1])] = _joined([older, *newer[:-_NEWER_MESSAGES]])
    return piece


def _until(prefix: str, message: Message) -> str:
    """The key of the joined bytes of all messages up to this one."""
    return f"{prefix}..{message.id}"


def _joined(wires: Sequence[bytes]) -> bytes:
    return b",".join(filter(None, wires))


def _prefix(provider: str, model: str) -> str:
    """What the keys of all messages begin with: the bytes differ from model to model."""
    return f"{provider}:{model}:"


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


def _encode_message(message: Message, provider: str, model: str) -> bytes:
    # The vendor wants the results of a batch before anything else that the user's side says.
    results_first = sorted(message.content, key=lambda block: not isinstance(block, ToolResult))
    content = [wire for block in results_first for wire in _wires(block, provider, model)]
    if not content and message.role == "user":
        content = [{"type": "text", "text": _EMPTY_PROMPT}]  # a request must begin with a user's message
    return to_json({"role": message.role, "content": content}) if content else b""


def _wires(block: Block, provider: str, model: str) -> Iterator[Wire]:
    """The block as the vendor takes it; nothing where it must be withheld (foreign, unsealed or blank)."""
    match block:
        case Text(text=text):
            if text.strip():  # a blank text block is refused, and the transcript with it
                yield {"type": "text", "text": text}
        case Thinking(signature=signature):
            if signature and (block.provider, block.model) == (provider, model):
                yield {"type": "thinking", "thinking": block.text, "signature": signature}
        case Opaque(raw=raw):
            if (block.provider, block.model) == (provider, model):
                yield raw
        case ToolCall():
            # Names and ids made by another vendor's model may hold characters that are refused here.
            name = _NOT_IN_NAMES.sub("_", block.name)[:128] or "_"
            yield {"type": "tool_use", "id": _id(block.id), "name": name, "input": dict(block.input or {})}
        case ToolResult():
            yield _result(block)


def _result(block: ToolResult) -> Wire:
    wire: Wire = {"type": "tool_result", "tool_use_id": _id(block.call_id)}
    if block.content.strip():
        wire["content"] = block.content
    if block.is_error:
        wire["is_error"] = True
    return wire


def _id(call_id: str) -> str:
    return _NOT_IN_NAMES.sub("_", call_id)
