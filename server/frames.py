"""Events as the bytes of a Server-Sent-Events stream. Lines end in LF; data is one line of JSON."""

from agentcore.encoding import escape_separators, type_of
from agentcore.events import Event

CONNECTED = b": connected\n\n"
KEEPALIVE = b": keepalive\n\n"
GAP = b": gap\n\n"
_UNNUMBERED = {"seq", "session", "ts"}


def frame(seq: int, kind: str, line: bytes) -> bytes:
    """The frame of a numbered event, around the bytes of its journal line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, kind.encode(), line)


def control(event: Event) -> bytes:
    """The frame of a control event: it has no id, so it never moves a reader's cursor."""
    return idless(type_of(event), event.model_dump_json(exclude_none=True, exclude=_UNNUMBERED).encode())


def idless(kind: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), escape_separators(data))
