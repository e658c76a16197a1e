"""A session as a file for people and programs: its events, its messages, or a transcript to read.

Everything is made a piece at a time from the lines of the journal, so that a long session needs no more memory than a
short one. Secrets that are known as such are taken out. Promise: `jsonl` and `json` are valid whatever is taken out.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from agentcore.encoding import head_of
from agentcore.messages import Block, Document, Image, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.redaction import Redactor
from agentcore.session import HistoryMessage, Summary
from agentcore.sessions.display import messages_of

ExportFormat: TypeAlias = Literal["jsonl", "markdown", "json"]

RESULT_CHARS = 2_000  # of a result or an input in a transcript: enough to see what happened; all of it is in `jsonl`
_PIECE_BYTES = 64 * 1024


def export(form: ExportFormat, session: Summary, lines: Iterable[bytes], redactor: Redactor) -> Iterator[bytes]:
    """The file in pieces of about 64 KiB."""
    return _joined(_FORMATS[form](session, lines, redactor))


def _jsonl(_session: Summary, lines: Iterable[bytes], redactor: Redactor) -> Iterator[bytes]:
    for line in lines:
        if head_of(line) is not None:
            yield redactor.line(line) + b"\n"


def _json(session: Summary, lines: Iterable[bytes], redactor: Redactor) -> Iterator[bytes]:
    yield b'{"session":' + redactor.line(session.model_dump_json(exclude_none=True).encode()) + b',"messages":['
    for message in messages_of(lines):
        yield b",\n" if message.index else b"\n"
        yield redactor.line(message.model_dump_json(exclude_none=True).encode())
    yield b"\n]}\n"


def _markdown(session: Summary, lines: Iterable[bytes], redactor: Redactor) -> Iterator[bytes]:
    created = datetime.fromtimestamp(session.created, UTC)
    title = " ".join((session.title or "Session").split())
    about = f"# {title}\n\nSession `{session.id}`, begun {created:%Y-%m-%d %H:%M} UTC.\n"
    yield redactor.text(about).encode()
    for message in messages_of(lines):
        yield _section(message, redactor).encode(errors="replace")


_FORMATS: Mapping[ExportFormat, Callable[[Summary, Iterable[bytes], Redactor], Iterator[bytes]]] = {
    "jsonl": _jsonl,
    "json": _json,
    "markdown": _markdown,
}


def _section(message: HistoryMessage, redactor: Redactor) -> str:
    """One message under its heading; results stand with the calls above them."""
    shown = [_block(block, redactor) for block in message.content]
    if all(isinstance(block, ToolResult) for block in message.content):
        heading = ""
    elif message.role == "assistant":
        heading = "\n## Assistant\n"
    else:
        by = "" if message.source in (None, "prompt") else f" ({message.source})"
        heading = f"\n## User{by}\n"
    return heading + "".join(f"\n{text}\n" for text in shown if text)


def _block(block: Block, redactor: Redactor) -> str:
    """One block; secrets are taken out first, before a cut could leave half of one."""
    safe = redactor.text
    match block:
        case Text(text=text):
            return safe(text)
        case Thinking(text=text):
            return "\n".join(f"> {line}" for line in _shortened(safe(text)).split("\n")) if text else ""
        case Image() | Document():
            return safe(_attachment(block))
        case ToolCall(name=name, input=given):
            shown = json.dumps(redactor.value(given), ensure_ascii=False, indent=2)
            return f"**Tool call: {name}**\n\n{_fenced(shown, 'json')}"
        case ToolResult(content=content, is_error=is_error, attachments=attachments):
            said = f"**{'Error' if is_error else 'Result'}**\n\n{_fenced(safe(content))}"
            return "\n\n".join([said, *map(_attachment, attachments)])
        case Opaque(provider=provider):
            return f"*(something that only {provider} can read)*"


def _attachment(block: Image | Document) -> str:
    if isinstance(block, Image):
        return f"*Image {block.width} x {block.height}, blob `{block.blob}`*"
    return f"*Document{f' {block.name}' if block.name else ''}, blob `{block.blob}`*"


def _fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any run of backticks in it."""
    text, fence = _shortened(text), "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _shortened(text: str) -> str:
    """Beginning and end of what is long."""
    if len(text) <= RESULT_CHARS:
        return text
    half = RESULT_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= _PIECE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)
