"""From the two strings of an SSE frame to a typed event. No I/O.

A newer server may send fields, types and words that this client does not know: fields are ignored, the rest becomes
an `UnknownEvent`. Nothing in here raises, so that one odd event cannot end a stream.
"""

import json
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from agentcore.events import (
    EVENTS,
    ControlEvent,
    Gap,
    Lagging,
    NumberedEvent,
    Partial,
    PermissionRequest,
    QueuedPrompt,
    ServerStopping,
)
from agentcore_client.values import Received, SessionState


class Snapshot(Received):
    """First on every connection: where the session stands, and what waits for a person."""

    type: Literal["snapshot"] = "snapshot"
    last_seq: int
    session: SessionState
    permissions: tuple[PermissionRequest, ...] = ()
    queue: tuple[QueuedPrompt, ...] = ()
    """Prompts that wait for their run, the next one first."""
    partial: Partial | None = None
    """The assistant message so far; deltas up to `partial.seq` are in it."""


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a newer server. Counts for the cursor like any other."""

    type: str
    seq: int
    """0 when it has no number."""
    data: JsonValue
    """The whole object; the raw text where it is no JSON."""


StreamEvent: TypeAlias = NumberedEvent | Snapshot | ControlEvent | UnknownEvent

_UNNUMBERED: TypeAdapter[Snapshot | ControlEvent] = TypeAdapter(
    Annotated[Snapshot | Lagging | Gap | ServerStopping, Field(discriminator="type")]
)
_UNNUMBERED_TYPES = frozenset({"snapshot", "lagging", "gap", "server_stopping"})


def read_frame(name: str, data: str) -> StreamEvent | None:
    """Read one frame; None for a block without data, which is not an event."""
    if not data:
        return None
    adapter = _UNNUMBERED if name in _UNNUMBERED_TYPES else EVENTS
    try:
        return adapter.validate_json(data, extra="ignore")
    except ValidationError:
        return _unknown(name, data)


def seq_of(event: StreamEvent) -> int:
    """The event's number; 0 for those that belong to the connection and have none."""
    return 0 if isinstance(event, Snapshot) else event.seq


def session_of(event: StreamEvent) -> str:
    """The session that an event is about; empty for those that belong to the connection."""
    match event:
        case Snapshot(session=state):
            return state.id
        case UnknownEvent(data=dict(fields)):
            named = fields.get("session")
            return named if isinstance(named, str) else ""
        case UnknownEvent():
            return ""
        case _:
            return event.session


def _unknown(name: str, data: str) -> UnknownEvent:
    try:
        content: JsonValue = json.loads(data)
    except ValueError:
        return UnknownEvent(name, 0, data)
    fields = content if isinstance(content, dict) else {}
    kind, seq = fields.get("type"), fields.get("seq")
    return UnknownEvent(kind if isinstance(kind, str) else name, seq if isinstance(seq, int) else 0, content)
