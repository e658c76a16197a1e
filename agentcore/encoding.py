"""Events as bytes: one line of JSON each, encoded once. The journal line and the data of the SSE frame are these.

The number is put in while encoding; `type` and `seq` come first, so that both can be read off a line without parsing.
"""

import re
from typing import Any

from agentcore.events import Event

_ENVELOPE: Any = {"type", "seq", "session", "ts"}
_TYPES: dict[type[Event], str] = {}
_HEAD = re.compile(rb'\{"type":"(\w+)","seq":(\d+),')
_FULL_HEAD = re.compile(rb'\{"type":"(\w+)","seq":\d+,"session":"[^"]*",')


def type_of(event: Event) -> str:
    """The literal `type` of an event, looked up once per class."""
    kind = type(event)
    name = _TYPES.get(kind)
    if name is None:
        name = _TYPES[kind] = str(kind.model_fields["type"].default)
    return name


def encode(event: Event, seq: int, session: str, ts: float) -> bytes:
    """Encode an event with its number as one line of JSON without the newline; `type` and `seq` come first.

    U+2028, U+2029 and U+0085 are escaped: some readers of line protocols take them for line ends.
    """
    body = _dump(event)
    head = b'{"type":"%s","seq":%d,"session":"%s","ts":%.3f,' % (
        type_of(event).encode(),
        seq,
        session.encode(),
        ts,
    )
    return head + body


def _dump(event: Event) -> bytes:
    """The event's own fields behind its envelope: `"text":"…"}`."""
    serialized: bytes = event.__pydantic_serializer__.to_json(event, exclude_none=True, exclude=_ENVELOPE)
    body = serialized[1:] if len(serialized) > 2 else b'"agent":null}'
    return escape_separators(body)


def escape_separators(line: bytes) -> bytes:
    """Escape the three Unicode line separators; they occur only inside JSON strings."""
    if b"\xe2\x80" in line or b"\xc2\x85" in line:
        line = line.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
        line = line.replace(b"\xc2\x85", b"\\u0085")
    return line


def head_of(line: bytes) -> tuple[str, int] | None:
    """Read type and number off an encoded event without parsing it; None for a line without a number."""
    match = _HEAD.match(line)
    return (match[1].decode(), int(match[2])) if match else None


def renumbered(line: bytes, seq: int, session: str) -> bytes:
    """The same event of another session under another number: its time and every other byte stay."""
    return _FULL_HEAD.sub(rb'{"type":"\1","seq":%d,"session":"%s",' % (seq, session.encode()), line, count=1)
