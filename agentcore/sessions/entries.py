"""What one line of a journal says, or that it cannot be read.

The one place that decides it, so that what a load refuses no other reader passes over. Promise: an error names the
line by its number and holds nothing of what is in it.
"""

from typing import get_args

from pydantic_core import from_json

from agentcore.encoding import head_of
from agentcore.errors import JournalDamaged
from agentcore.events import EVENTS, NumberedEvent
from agentcore.sessions.journal import damaged
from agentcore.sessions.records import FORMAT, RECORD_TYPES, RECORDS, Meta, Record

_NO_STATE = frozenset({"notice", "session_closed", "undone"})
_STATE = frozenset(str(kind.model_fields["type"].default) for kind in get_args(NumberedEvent)) - _NO_STATE


def meta_of(line: bytes) -> Meta:
    """The line that a journal begins with. Raises: JournalDamaged, also for one of a newer format."""
    meta = entry_of(line, 1)
    if not isinstance(meta, Meta):
        raise damaged(1)
    if meta.format > FORMAT:
        raise JournalDamaged(f"The journal has format {meta.format}, this version reads up to {FORMAT}: update first.")
    return meta


def entry_of(line: bytes, number: int) -> NumberedEvent | Record | int | None:
    """What line `number`, counted from 1, is: only its number for an event that leaves no state or that only a newer
    version knows; None for a record of a newer version. Raises: JournalDamaged.
    """
    head, kind = head_of(line), _kind_of(line)
    try:
        if head is not None and head[0] in _STATE:
            return EVENTS.validate_json(line, extra="ignore")
        if kind in RECORD_TYPES:
            return RECORDS.validate_json(line, extra="ignore")
    except ValueError:
        raise damaged(number) from None  # it quotes the line
    check_whole(line, number)
    return None if head is None else head[1]


def check_whole(line: bytes, number: int) -> None:
    """Look at a line of which nothing matters but that it is whole. Raises: JournalDamaged."""
    try:
        from_json(line)
    except ValueError:
        raise damaged(number) from None
    if not _kind_of(line):
        raise damaged(number)


def _kind_of(line: bytes) -> str:
    return line[9 : line.find(b'"', 9)].decode(errors="replace") if line.startswith(b'{"type":"') else ""
