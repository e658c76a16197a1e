"""The body of a `streamGenerateContent` request, joined from bytes.

The bytes of messages are made once (`providers.prefix`), so requests of one context share every byte of their
beginning. Thoughts are for people and stay here unless they are sealed; signatures and the vendor's own call ids go
back with the part they came with (`marks`).

Two things differ by generation. Gemini 3 refuses a step whose first call bears no signature, so a call of another
model gets the vendor's own stand-in for that case. And results may hold files only since Gemini 3, so files follow
the results as parts of their own, which every model takes.
"""

import re
from base64 import b64encode
from collections.abc import Iterator

from pydantic import JsonValue
from pydantic_core import to_json

from agentcore.messages import Attachment, Block, Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import ModelRequest
from agentcore.providers.gemini.marks import ID, SIGNATURE, Marks, is_seal, marked
from agentcore.providers.gemini.models import is_third_generation, thinking_config
from agentcore.providers.prefix import GONE, encoded_messages, joined, withhold

STAND_IN = "skip_thought_signature_validator"
"""Makes Gemini 3 accept a call that it did not make (ai.google.dev: "Thought signatures", questions and answers)."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.:-]")  # the vendor's rule for names: these, 128 at most, no digit in front
_EMPTY_PROMPT = "(empty message)"

Wire = dict[str, JsonValue]


def encode_body(request: ModelRequest, provider: str) -> bytes:
    """Return the JSON of the whole request."""
    parts = [b'{"generationConfig":', to_json(_options(request))]
    if request.system.strip():
        parts += [b',"systemInstruction":', to_json({"parts": [{"text": request.system}]})]
    if request.tools:
        tools = [_tool(tool.name, tool.description, tool.input_schema) for tool in request.tools]
        parts += [b',"tools":', to_json([{"functionDeclarations": tools}])]
    older, newer = encoded_messages(request, provider, _Encoder(request, provider).encode)
    parts += [b',"contents":[', older, b"," if older and any(newer) else b"", joined(newer), b"]}"]
    return b"".join(parts)  # the one place where older messages are copied


def withhold_signatures(request: ModelRequest, provider: str) -> bool:
    """Keep the messages of this request without their signatures from now on; whether there were any."""
    return withhold(request, provider, _Encoder(request, provider).encode, is_seal)


def _options(request: ModelRequest) -> Wire:
    options: Wire = {}
    if request.max_tokens is not None:
        options["maxOutputTokens"] = request.max_tokens
    if request.temperature is not None:
        options["temperature"] = request.temperature
    if (thinking := thinking_config(request.model, request.effort)) is not None:
        options["thinkingConfig"] = thinking
    if request.output_schema is not None:
        options |= {"responseMimeType": "application/json", "responseJsonSchema": dict(request.output_schema)}
    return options


def _tool(name: str, description: str, schema: dict[str, JsonValue]) -> Wire:
    return {"name": name, "description": description, "parametersJsonSchema": schema}


class _Encoder:
    """Encodes the messages of one request; a result needs to know the call it answers."""

    def __init__(self, request: ModelRequest, provider: str) -> None:
        self._request = request
        self._provider = provider
        self._calls: dict[str, Wire] = {}
        self._unread = reversed(request.messages)

    def encode(self, message: Message) -> bytes:
        is_model = message.role == "assistant"
        parts = self._model_parts(message) if is_model else self._user_parts(message)
        return to_json({"role": "model" if is_model else "user", "parts": parts}) if parts else b""

    def _model_parts(self, message: Message) -> list[Wire]:
        parts = [part for block, marks in self._marked(message) if (part := self._model_part(block, marks))]
        first_call = next((part for part in parts if "functionCall" in part), None)
        if first_call is not None and is_third_generation(self._request.model):
            first_call.setdefault(SIGNATURE, STAND_IN)
        return parts

    def _model_part(self, block: Block, marks: Marks) -> Wire | None:
        """The block as the vendor takes it back; None where it must be withheld (foreign, unsealed or blank)."""
        seal: Wire = {SIGNATURE: marks[SIGNATURE]} if SIGNATURE in marks else {}
        match block:
            case Text(text=text):
                return {"text": text, **seal} if text.strip() or seal else None
            case ToolCall():
                return {"functionCall": {**_called(block, marks), "args": dict(block.input or {})}, **seal}
            case Thinking(text=text, signature=signature) if signature and self._made(block):
                return {"text": text, "thought": True, SIGNATURE: signature}
            case Opaque(raw=raw) if self._made(block):
                return dict(raw)
            case _:
                return None

    def _user_parts(self, message: Message) -> list[Wire]:
        """Results first, all of them: the vendor counts them against the calls."""
        results = [block for block in message.content if isinstance(block, ToolResult)]
        parts: list[Wire] = [self._result(result) for result in results]
        for result in results:
            parts += self._shown_by(result)
        for block in message.content:
            if isinstance(block, Image | Document):
                parts.append(self._file(block))
            elif isinstance(block, Text) and block.text.strip():
                parts.append({"text": block.text})
        return parts or [{"text": _EMPTY_PROMPT}]  # a request must begin with a user's message

    def _result(self, result: ToolResult) -> Wire:
        response: Wire = {"error" if result.is_error else "output": result.content}
        return {"functionResponse": {**self._call_of(result), "response": response}}

    def _shown_by(self, result: ToolResult) -> Iterator[Wire]:
        if result.attachments:
            yield {"text": f"[shown by {self._call_of(result)['name']}]"}
        yield from map(self._file, result.attachments)

    def _file(self, block: Attachment) -> Wire:
        try:
            data = b64encode(self._request.blob(block.blob)).decode("ascii")
        except KeyError:
            return {"text": GONE}
        return {"inlineData": {"mimeType": block.media_type, "data": data}}

    def _call_of(self, result: ToolResult) -> Wire:
        """Name and vendor's id of the call that a result answers; it stands shortly before, so the walk is short."""
        while result.call_id not in self._calls and (message := next(self._unread, None)) is not None:
            for block, marks in self._marked(message):
                if isinstance(block, ToolCall):
                    self._calls.setdefault(block.id, _called(block, marks))
        return self._calls.get(result.call_id, {"name": "unknown"})

    def _marked(self, message: Message) -> Iterator[tuple[Block, Marks]]:
        return marked(message, self._provider, self._request.model)

    def _made(self, block: Thinking | Opaque) -> bool:
        return (block.provider, block.model) == (self._provider, self._request.model)


def _called(call: ToolCall, marks: Marks) -> Wire:
    """What names a call, for the call and for its result."""
    name = _NOT_IN_NAMES.sub("_", call.name)
    if not name[:1].isalpha():
        name = f"_{name.removeprefix('_')}"
    return ({ID: marks[ID]} if ID in marks else {}) | {"name": name[:128]}
