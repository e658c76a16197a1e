"""Where the reader of one stream stands. No I/O.

The one rule: the number moves when an event has been *handled*, so whoever breaks off in the middle of one gets it
again. What the reader has handled is never handed out twice.
"""

from agentcore.events import Gap, Lagging, ServerStopping, SessionClosed
from agentcore_client.frames import Snapshot, StreamEvent, seq_of


class Cursor:
    """The last handled number, and where the session stood when this connection began."""

    def __init__(self, seq: int | None) -> None:
        self.seq = seq
        """None until something told us where we are: the stream then begins with new events."""
        self.head = 0
        """Last number when the connection began: up to it events are history, after it they are news."""
        self.is_closed = False

    def arrived(self, event: StreamEvent) -> bool:
        """Take note of an event that came in; False when it was handled before and must be dropped."""
        if isinstance(event, Snapshot):
            self.head = event.last_seq
        seq = seq_of(event)
        return not seq or self.seq is None or seq > self.seq

    def handled(self, event: StreamEvent) -> None:
        """The reader has done its work with the event."""
        match event:
            case Snapshot(last_seq=last_seq):
                if self.seq is None:
                    self.seq = last_seq
            case Gap(reason="ahead", resumed_at=resumed_at):
                self.seq = max(0, resumed_at - 1)  # our number is from another life of the session: start over
            case _:
                self.seq = seq_of(event) or self.seq
        if isinstance(event, SessionClosed) and event.seq > self.head:
            self.is_closed = True  # an older one is history: the session was loaded again since


def ends_connection(event: StreamEvent) -> bool:
    """Whether the server said that it stops sending here, and that coming back is welcome."""
    return isinstance(event, Lagging | ServerStopping)


def resume_headers(cursor: Cursor) -> dict[str, str]:
    """The header that makes the server go on after the last handled event."""
    return {} if cursor.seq is None else {"Last-Event-ID": str(cursor.seq)}
