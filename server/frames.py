"""Events as the bytes of a Server-Sent-Events stream. Lines end in LF; data is one line of JSON."""

from agentcore.encoding import escape_separators, type_of
from agentcore.events import Event

CONNECTED = b": connected\n\n"
KEEPALIVE = b": keepalive\n\n"
GAP = b": gap\n\n"
_EVENT = b"\nevent: "
_UNNUMBERED = {"seq", "ts"}


def frame(seq: int, kind: str, line: bytes) -> bytes:
    """The frame of a numbered event, around the bytes of its journal line."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, kind.encode(), line)


def kind_of(frame: bytes) -> str:
    """The type of the event in a frame that `frame` made."""
    start = frame.index(b"\n") + len(_EVENT)
    return frame[start : frame.index(b"\n", start)].decode()


def without_id(frame: bytes) -> bytes:
    """The rest of a frame that `frame` made: the same bytes without their first line."""
    return frame[frame.index(b"\n") + 1 :]


def place(where: str) -> bytes:
    """A block that says where the reader stands, and nothing else."""
    return b"id: %s\n\n" % where.encode()


def control(event: Event) -> bytes:
    """The frame of a control event: it has no id, so it never moves a reader's cursor.

    It names its session only where the event does: on a stream over many of them.
    """
    unsaid = _UNNUMBERED if event.session else {*_UNNUMBERED, "session"}
    return idless(type_of(event), event.model_dump_json(exclude_none=True, exclude=unsaid).encode())


def idless(kind: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), escape_separators(data))
