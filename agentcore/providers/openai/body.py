"""The body of a Responses request, joined from bytes: options, instructions, tools, and the items made once.

Nothing is kept at the vendor (`store: false`), so the whole conversation is sent each time, and only what holds by
itself may be in it:

- Reasoning goes back as the `Opaque` item that came, and only with its `encrypted_content`: without it the vendor looks
  the id up in its store and refuses the request, and reasoning in plain text (LM Studio, DeepSeek) is refused as well.
  `Thinking` is what people read of the same reasoning; it is never sent.
- Reasoning is refused without the item that followed it. So one that has lost its follower (a cut call) stays behind.
- Messages and calls carry no item id: an item with an id is refused without the reasoning that came before it.
- The `phase` of a message stands in an `Opaque` frame before its text, because `Text` has no place for it.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Literal

from pydantic import JsonValue
from pydantic_core import to_json

from agentcore.messages import Attachment, Block, Document, Image, Message, Opaque, Text, ToolCall, ToolResult
from agentcore.ports.models import ModelRequest, ToolDefinition
from agentcore.providers.ids import wire_id
from agentcore.providers.openai.models import effort_for, efforts
from agentcore.providers.openai.schema import meets_strict_rules
from agentcore.providers.prefix import GONE, encoded_messages, joined, withhold

FRAME = "message"
"""Type of the `Opaque` block that stands for a message without its text."""

_ENCRYPTED = "reasoning.encrypted_content"
_REASONING = ("type", "id", "summary", "encrypted_content")  # `content` and `status` are refused
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_CHARS = 128  # the vendor's limit
_EMPTY_PROMPT = "(empty message)"

Wire = dict[str, JsonValue]
Refusable = Literal["include", "summary"]
"""Options that help, and that some models and accounts refuse: sealed reasoning, summaries of it."""


def encode_body(request: ModelRequest, provider: str, left_out: frozenset[Refusable] = frozenset()) -> bytes:
    """Return the JSON of the whole request, without the options that this model or account was found to refuse."""
    parts = [to_json(_options(request, left_out))[:-1]]
    if request.system.strip():
        parts += [b',"instructions":', to_json(request.system)]
    if request.tools:
        parts += [b',"tools":', to_json([_tool(tool) for tool in request.tools])]
    older, newer = encoded_messages(request, provider, lambda message: _encode_message(message, request, provider))
    parts += [b',"input":[', joined([older, *newer]), b"]}"]
    return b"".join(parts)


def withhold_reasoning(request: ModelRequest, provider: str) -> bool:
    """Keep the messages of this request without the vendor's own items from now on; whether there were any.

    All of them: an item of a server-side tool is refused without the reasoning before it.
    """
    return withhold(request, provider, lambda message: _encode_message(message, request, provider), _is_own_item)


def _is_own_item(block: Block) -> bool:
    return isinstance(block, Opaque) and block.raw.get("type") != FRAME


# --- options ---


def _options(request: ModelRequest, left_out: frozenset[Refusable]) -> Wire:
    known = efforts(request.model)
    options: Wire = {"model": request.model, "stream": True, "store": False}
    if known != () and "include" not in left_out:
        options["include"] = [_ENCRYPTED]  # refused by models that do not reason
    if request.session:
        options["prompt_cache_key"] = request.session
    if request.max_tokens is not None:
        options["max_output_tokens"] = request.max_tokens
    if request.temperature is not None and not known:
        options["temperature"] = request.temperature  # refused by models that reason
    if reasoning := _reasoning(request, has_summary=bool(known) and "summary" not in left_out):
        options["reasoning"] = reasoning
    if request.output_schema is not None:
        options["text"] = {"format": _format(request.output_schema)}
    return options


def _reasoning(request: ModelRequest, *, has_summary: bool) -> Wire:
    reasoning: Wire = {}
    if request.effort is not None and (effort := effort_for(request.model, request.effort)) is not None:
        reasoning["effort"] = effort
    if has_summary:
        reasoning["summary"] = "auto"
    return reasoning


def _format(schema: Mapping[str, JsonValue]) -> Wire:
    strict = meets_strict_rules(dict(schema))
    return {"type": "json_schema", "name": "answer", "schema": dict(schema), "strict": strict}


def _tool(tool: ToolDefinition) -> Wire:
    # Not strict: that would demand every property of every tool.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
        "strict": False,
    }


# --- messages ---


def _encode_message(message: Message, request: ModelRequest, provider: str) -> bytes:
    if message.role == "user":
        return joined([to_json(item) for item in _asked(message, request)])
    said = list(_said(message, (provider, request.model)))
    return joined([to_json(item) for item, after in zip_longest(said, said[1:]) if _can_stand(item, after)])


def _can_stand(item: Wire, after: Wire | None) -> bool:
    """Whether an item may be sent before `after`: reasoning needs what it led to."""
    return item["type"] != "reasoning" or (after is not None and after["type"] != "reasoning")


def _said(message: Message, own: tuple[str, str]) -> Iterator[Wire]:
    """The items of an answer; nothing for what must be withheld (foreign, unsealed or blank)."""
    phase: JsonValue = None
    for block in message.content:
        match block:
            case Opaque(raw=raw) if (block.provider, block.model) == own:
                if raw.get("type") == FRAME:
                    phase = raw.get("phase")
                    continue
                yield _own_item(raw)
            case Text(text=text) if text.strip():
                yield _answer(text, phase)
            case ToolCall():
                yield _call(block)
        phase = None


def _own_item(raw: Wire) -> Wire:
    if raw.get("type") != "reasoning":
        return raw
    return {key: raw[key] for key in _REASONING if key in raw}


def _answer(text: str, phase: JsonValue) -> Wire:
    item: Wire = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    if phase is not None:
        item["phase"] = phase  # the vendor: to drop it makes later answers worse
    return item


def _call(block: ToolCall) -> Wire:
    # Names made by another vendor's model may hold characters, or a length, that are refused here.
    name = _NOT_IN_NAMES.sub("_", block.name)[:_MAX_NAME_CHARS] or "_"
    arguments = to_json(block.input or {}).decode()
    return {"type": "function_call", "call_id": wire_id(block.id), "name": name, "arguments": arguments}


def _asked(message: Message, request: ModelRequest) -> Iterator[Wire]:
    """The items of a user message: the results of a batch directly after its calls, then what the user says."""
    results = [block for block in message.content if isinstance(block, ToolResult)]
    yield from (_result(block, request) for block in results)
    content: list[JsonValue] = [wire for block in message.content for wire in _parts(block, request)]
    if not content and not results:
        content = [_text(_EMPTY_PROMPT)]  # a request must hold a message
    if content:
        yield {"type": "message", "role": "user", "content": content}


def _parts(block: Block, request: ModelRequest) -> Iterator[Wire]:
    match block:
        case Text(text=text) if text.strip():
            yield _text(text)
        case Image() | Document():
            yield _file(block, request)


def _text(text: str) -> Wire:
    return {"type": "input_text", "text": text}


def _file(block: Attachment, request: ModelRequest) -> Wire:
    try:
        data = b64encode(request.blob(block.blob)).decode("ascii")
    except KeyError:
        return _text(GONE)
    url = f"data:{block.media_type};base64,{data}"
    if isinstance(block, Image):
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_file", "filename": block.name or "document.pdf", "file_data": url}


def _result(block: ToolResult, request: ModelRequest) -> Wire:
    output: JsonValue = block.content
    if block.attachments:
        said = [_text(block.content)] if block.content.strip() else []
        output = [*said, *(_file(attachment, request) for attachment in block.attachments)]
    return {"type": "function_call_output", "call_id": wire_id(block.call_id), "output": output}
