"""What of a session's events one stream shows: kinds and detail, the same for what is replayed and for what comes.

Knows the names of events and how their frames begin. Views that show the same are equal, so that their readers share
chunks. Promise: numbers are never changed by a view, so a cursor that was taken under one loses nothing under another.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from agentcore.events import NumberedEvent
from server import frames

Detail = Literal["full", "final"]

DURABLE = {str(event.model_fields["type"].default): event.durable for event in get_args(NumberedEvent)}
"""Every kind of event that has a number, and whether it is journaled."""
FINAL = frozenset(kind for kind, is_durable in DURABLE.items() if is_durable)
"""What `detail=final` shows: all that is journaled, and so all that a replay can bring, from however long ago."""
ENDS = frozenset({"session_closed"})
"""Shown whatever was chosen: nobody is to wait for a session that is gone."""


@dataclass(frozen=True, slots=True)
class View:
    """Joins the frames that it shows."""

    kinds: frozenset[str] | None = None
    """None: all of them."""
    is_of_many: bool = False
    """One stream over many sessions: a frame has no id, and control events name their session."""

    @property
    def is_whole(self) -> bool:
        """Whether it shows everything as it is."""
        return self.kinds is None and not self.is_of_many

    @property
    def shows_display_only(self) -> bool:
        """Whether it shows anything that is not journaled."""
        return self.kinds is None or not self.kinds <= FINAL

    def shows(self, kind: str) -> bool:
        return self.kinds is None or kind in self.kinds

    def __call__(self, whole: Sequence[bytes]) -> bytes:
        """One chunk of frames as the ring holds them."""
        shown = whole if self.kinds is None else [frame for frame in whole if frames.kind_of(frame) in self.kinds]
        return b"".join(map(frames.without_id, shown) if self.is_of_many else shown)


def view_of(kinds: Collection[str] | None, detail: Detail, *, is_of_many: bool = False) -> View:
    """The view of a stream that asks for these kinds (None: all) in this detail."""
    chosen = None if kinds is None else frozenset(kinds)
    if detail == "final":
        chosen = FINAL if chosen is None else chosen & FINAL
    return View(None if chosen is None else chosen | ENDS, is_of_many)
