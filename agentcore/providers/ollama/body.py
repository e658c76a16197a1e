"""The body of a chat request, joined from bytes.

The bytes of messages are made once (`providers.prefix`). A message has one text, a list of pictures, and at most one
reasoning; results are messages of their own, and what they showed follows in a message of the user.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator

from pydantic import JsonValue
from pydantic_core import to_json

from agentcore.messages import Attachment, Block, Document, Image, Message, Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import ModelRequest, ToolDefinition
from agentcore.providers.ids import PRINTABLE, wire_id
from agentcore.providers.ollama.model import Model
from agentcore.providers.prefix import GONE, encoded_messages, joined

_EMPTY_PROMPT = "(empty message)"
_UNSEEN = "[a picture was left out: this model cannot see pictures]"
_UNREAD = "[a document was left out: this model cannot read documents]"
_SHOWN = "[shown by the tool above]"

Wire = dict[str, JsonValue]

_LEVELS = {"low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}
"""Reasoning of models that know levels, by our effort."""


def encode_body(request: ModelRequest, provider: str, model: Model, window: int) -> bytes:
    """Return the JSON of the whole request; `window` is the size in tokens that the model is loaded with."""
    parts = [to_json(_options(request, model, window))[:-1]]
    if request.tools:
        parts += [b',"tools":', to_json([_tool(tool) for tool in request.tools])]
    system = to_json({"role": "system", "content": request.system}) if request.system.strip() else b""
    sees = model.can("vision") is not False
    kept_as = provider if sees else f"{provider}, blind"  # it may be told only after the first call
    older, newer = encoded_messages(request, kept_as, lambda message: _encode(message, request, provider, sees))
    parts += [b',"messages":[', joined([system, older, *newer]), b"]}"]
    return b"".join(parts)


def _options(request: ModelRequest, model: Model, window: int) -> Wire:
    options: Wire = {"num_ctx": window}
    if request.temperature is not None:
        options["temperature"] = request.temperature
    if request.max_tokens is not None:
        options["num_predict"] = request.max_tokens
    # What no longer fits is to be an error, and the answer is to end, where by default the beginning is forgotten.
    wire: Wire = {"model": request.model, "stream": True, "truncate": False, "shift": False, "options": options}
    if request.effort is not None and model.can("thinking"):  # refused by models without, and where it is not known
        wire["think"] = _think(request.model, request.effort)
    return wire


def _think(model: str, effort: str) -> JsonValue:
    """Levels where there are any (gpt-oss ignores true and false); elsewhere reasoning is on or off."""
    return _LEVELS.get(effort, "medium") if "gpt-oss" in model else effort != "low"


def _tool(tool: ToolDefinition) -> Wire:
    function: Wire = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def _encode(message: Message, request: ModelRequest, provider: str, sees: bool) -> bytes:
    if message.role == "assistant":
        wire = _assistant(message, request, provider)
        return to_json(wire) if wire else b""
    return joined([to_json(wire) for wire in _user(message, request, sees)])


def _assistant(message: Message, request: ModelRequest, provider: str) -> Wire | None:
    """The model's own message; None where nothing of it may be sent."""
    own = [block.text for block in message.content if isinstance(block, Thinking) and _is_own(block, request, provider)]
    calls: list[JsonValue] = [_call(call) for call in message.tool_calls]
    text = message.text if message.text.strip() else ""
    if not text and not calls:
        return None  # reasoning alone leads nowhere
    wire: Wire = {"role": "assistant", "content": text}
    if thinking := "".join(own):
        wire["thinking"] = thinking
    if calls:
        wire["tool_calls"] = calls
    return wire


def _is_own(block: Thinking, request: ModelRequest, provider: str) -> bool:
    return (block.provider, block.model) == (provider, request.model)


def _call(call: ToolCall) -> Wire:
    return {"id": wire_id(call.id, PRINTABLE), "function": {"name": call.name, "arguments": dict(call.input or {})}}


def _user(message: Message, request: ModelRequest, sees: bool) -> Iterator[Wire]:
    """The results of a batch, what they showed, and what else the user's side says."""
    results = [block for block in message.content if isinstance(block, ToolResult)]
    names = _names_of_calls(results, request)
    shown: list[Attachment] = []
    for result in results:
        yield _result(result, names)
        shown += result.attachments
    texts = [_SHOWN] if shown else []
    images: list[JsonValue] = []
    for block in [*shown, *message.content]:
        text, image = _said(block, request, sees)
        texts += [text] if text.strip() else []
        images += [image] if image else []
    if images or texts or not results:
        wire: Wire = {"role": "user", "content": "\n\n".join(texts) or ("" if images else _EMPTY_PROMPT)}
        yield {**wire, "images": images} if images else wire


def _said(block: Block, request: ModelRequest, sees: bool) -> tuple[str, str]:
    """What a block adds to its message: a text, or a picture as base64."""
    match block:
        case Text(text=text):
            return text, ""
        case Image(blob=blob) if sees:
            try:
                return "", b64encode(request.blob(blob)).decode("ascii")
            except KeyError:
                return GONE, ""
        case Image():
            return _UNSEEN, ""
        case Document():
            return _UNREAD, ""
        case _:  # results have gone before; the rest comes from models alone
            return "", ""


def _result(result: ToolResult, names: dict[str, str]) -> Wire:
    said = f"Error: {result.content}" if result.is_error else result.content
    wire: Wire = {"role": "tool", "content": said, "tool_call_id": wire_id(result.call_id, PRINTABLE)}
    if name := names.get(result.call_id):
        wire["tool_name"] = name
    return wire


def _names_of_calls(results: Iterable[ToolResult], request: ModelRequest) -> dict[str, str]:
    """The tools of these results by call id, from the newest message that called all of them back."""
    wanted, names = {result.call_id for result in results}, dict[str, str]()
    for message in reversed(request.messages):
        if wanted <= names.keys():
            break
        names.update({call.id: call.name for call in message.tool_calls if call.id in wanted})
    return names
