"""The body of a Chat Completions request, joined from bytes.

The bytes of messages are made once (`providers.prefix`), so requests of one context share every byte of their
beginning as long as the settings stay. One neutral message can become several on the wire: results are messages of
their own, and what a tool showed besides text follows in a user message.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

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
from agentcore.providers.compatible.dialects import Dialect
from agentcore.providers.ids import NINE, PRINTABLE, wire_id
from agentcore.providers.prefix import GONE, encoded_messages, joined

DETAILS = "reasoning_details"
"""Reasoning with its seals, as OpenRouter and others send it and want it back."""
THINKING = "thinking_blocks"
"""The same, of LiteLLM."""
EXTRA = "extra_content"
"""What Google's compatible form adds to a call, and refuses the call without: the signature of its reasoning."""

_EMPTY_PROMPT = "(empty message)"
_NO_OUTPUT = "(no output)"
_SEEN = "(The results are here.)"  # said for the model where a user message may not follow a result
_NO_IMAGES = "[an image was left out here: this service takes none]"
_NO_FILES = "[the document {name} was left out here: this service takes no files]"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_CHARS = 64

Wire = dict[str, JsonValue]


def encode_body(request: ModelRequest, provider: str, dialect: Dialect) -> bytes:
    """Return the JSON of the whole request."""
    parts = [to_json(_options(request, dialect))[:-1]]
    if request.tools:
        parts += [b',"tools":', to_json([_tool(tool) for tool in request.tools])]
    encoder = _Encoder(request, provider, dialect)
    kept_as = f"{provider}+reasoning" if dialect.returns_reasoning else provider
    older, newer = encoded_messages(request, kept_as, encoder.message)
    system = to_json({"role": "system", "content": request.system}) if request.system.strip() else b""
    parts += [b',"messages":[', joined([system, older, *newer]), b"]}"]
    return b"".join(parts)


def _options(request: ModelRequest, dialect: Dialect) -> Wire:
    options: Wire = {"model": request.model, "stream": True}
    if dialect.has_stream_options:
        options["stream_options"] = {"include_usage": True}
    if request.max_tokens is not None:
        options[dialect.max_tokens_field] = request.max_tokens
    if request.temperature is not None:
        options["temperature"] = request.temperature
    if request.effort is not None:
        effort = request.effort if request.effort in dialect.efforts else dialect.efforts[-1]
        options |= {"reasoning": {"effort": effort}} if dialect.has_reasoning_object else {"reasoning_effort": effort}
    if request.session and dialect.has_cache_key:
        options["prompt_cache_key"] = request.session
    if request.output_schema is not None:
        schema: Wire = {"name": "answer", "schema": dict(request.output_schema)}
        options["response_format"] = {"type": "json_schema", "json_schema": schema}
    return options


def _tool(tool: ToolDefinition) -> Wire:
    function: Wire = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class _Encoder:
    """Writes messages for one provider and model."""

    request: ModelRequest
    provider: str
    dialect: Dialect

    def message(self, message: Message) -> bytes:
        wires = self._assistant(message) if message.role == "assistant" else self._user(message)
        return joined([to_json(wire) for wire in wires])

    # --- the model's side ---

    def _assistant(self, message: Message) -> Iterator[Wire]:
        """Text and calls in one message; nothing where only reasoning is left."""
        extras = self._entries(message, EXTRA)
        if len(extras) != len(message.tool_calls):
            extras = [None] * len(message.tool_calls)
        calls: list[JsonValue] = [
            self._call(call) | ({EXTRA: extra} if extra else {})
            for call, extra in zip(message.tool_calls, extras, strict=True)
        ]
        text = message.text
        if not calls and not text.strip():
            return
        # Null is what the services themselves send beside calls; some refuse an empty string.
        wire: Wire = {"role": "assistant", "content": text if text.strip() else None}
        details = {field: entries for field in (DETAILS, THINKING) if (entries := self._entries(message, field))}
        if details:
            wire |= details
        elif self.dialect.returns_reasoning and ((thinking := self._thinking(message)) or calls):
            wire["reasoning_content"] = thinking
        if calls:
            wire["tool_calls"] = calls
        yield wire

    def _call(self, call: ToolCall) -> Wire:
        # Names made by another vendor's model may hold characters that are refused here.
        name = _NOT_IN_NAMES.sub("_", call.name)[:_MAX_NAME_CHARS] or "_"
        function: Wire = {"name": name, "arguments": to_json(call.input or {}).decode()}
        return {"id": self._id(call.id), "type": "function", "function": function}

    def _entries(self, message: Message, field: str) -> list[JsonValue]:
        """What this model gave in a field, as it came."""
        own = [block.raw.get(field) for block in message.content if isinstance(block, Opaque) and self._is_own(block)]
        return [entry for entries in own if isinstance(entries, list) for entry in entries]

    def _thinking(self, message: Message) -> str:
        return "".join(b.text for b in message.content if isinstance(b, Thinking) and self._is_own(b))

    def _is_own(self, block: Thinking | Opaque) -> bool:
        return (block.provider, block.model) == (self.provider, self.request.model)

    # --- the user's side ---

    def _user(self, message: Message) -> Iterator[Wire]:
        """The results, each a message of its own, then the rest as one."""
        results = [block for block in message.content if isinstance(block, ToolResult)]
        for result in results:
            content = result.content if result.content.strip() else _NO_OUTPUT
            yield {"role": "tool", "tool_call_id": self._id(result.call_id), "content": content}
        parts = [part for result in results for part in self._shown(result)]
        parts += [part for block in message.content for part in self._parts(block)]
        if not parts and results:
            return
        if results and self.dialect.is_strict:
            yield {"role": "assistant", "content": _SEEN}
        yield {"role": "user", "content": _content(parts)}

    def _shown(self, result: ToolResult) -> list[Wire]:
        """What a result holds besides text, with a line that says whose it is."""
        if not result.attachments:
            return []
        return [
            _text(f"Shown by the tool call {self._id(result.call_id)}:"),
            *(self._file(attachment) for attachment in result.attachments),
        ]

    def _parts(self, block: Block) -> Iterator[Wire]:
        match block:
            case Text(text=text):
                if text.strip():
                    yield _text(text)
            case Image() | Document():
                yield self._file(block)
            case ToolResult() | ToolCall() | Thinking() | Opaque():
                pass  # results were sent before; the others are not the user's
            case _:
                assert_never(block)

    def _file(self, block: Attachment) -> Wire:
        if isinstance(block, Image) and not self.dialect.takes_images:
            return _text(_NO_IMAGES)
        if isinstance(block, Document) and not self.dialect.takes_files:
            return _text(_NO_FILES.format(name=block.name or "without a name"))
        try:
            data = b64encode(self.request.blob(block.blob)).decode("ascii")
        except KeyError:
            return _text(GONE)
        url = f"data:{block.media_type};base64,{data}"
        if isinstance(block, Image):
            return {"type": "image_url", "image_url": {"url": url}}
        return {"type": "file", "file": {"filename": block.name or "document.pdf", "file_data": url}}

    def _id(self, call_id: str) -> str:
        return wire_id(call_id, NINE, 9) if self.dialect.is_strict else wire_id(call_id, PRINTABLE)


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


def _content(parts: Sequence[Wire]) -> JsonValue:
    """A plain string where there is only text: older local servers take nothing else."""
    texts = [str(part["text"]) for part in parts if part["type"] == "text"]
    if len(texts) == len(parts):
        return "\n\n".join(texts) or _EMPTY_PROMPT
    return list(parts)
