"""Reads a journal forward into what a session is: transcript, open run, pending requests, totals, numbering.

There is no second store to disagree with: the live session keeps the same facts by the same rules.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import get_args

from pydantic_core import from_json

from agentcore.budget import Ledger
from agentcore.encoding import head_of
from agentcore.errors import JournalDamaged
from agentcore.events import (
    EVENTS,
    AssistantMessage,
    Cleared,
    Done,
    ModelEnd,
    ModelStart,
    NumberedEvent,
    PermissionRequest,
    PermissionResolved,
    Resolution,
    SessionUpdated,
    Status,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
    UsageReport,
    UserMessage,
)
from agentcore.session import Settings
from agentcore.sessions.journal import damaged
from agentcore.sessions.log import STRIDE
from agentcore.sessions.records import (
    FORMAT,
    RECORD_TYPES,
    RECORDS,
    Context,
    Grant,
    Load,
    Meta,
    Prompt,
    Record,
    Repair,
    Reserve,
)
from agentcore.transcript import Transcript

TITLE_CHARS = 80
_NO_STATE = frozenset({"notice", "error", "todo", "session_closed"})
_STATE = frozenset(str(kind.model_fields["type"].default) for kind in get_args(NumberedEvent)) - _NO_STATE


@dataclass(slots=True)
class OpenRun:
    """A run that has no `done` yet."""

    prompt: Prompt
    has_message: bool = False
    """Its user message is in the transcript."""


@dataclass(slots=True)
class History:
    """What the lines of a journal say, all of them."""

    meta: Meta
    settings: Settings
    transcript: Transcript = field(default_factory=Transcript)
    ledger: Ledger = field(default_factory=Ledger)
    context: Context | None = None
    run: OpenRun | None = None
    pending: dict[str, PermissionRequest] = field(default_factory=dict)
    """Requests without a resolution, by request id, oldest first."""
    answered: dict[str, PermissionResolved] = field(default_factory=dict)
    """Resolutions of calls that have no result yet, by call id."""
    resolved: dict[str, Resolution] = field(default_factory=dict)
    """Every resolution, by request id: what a late answer is told."""
    open_turn: int | None = None
    """The turn that has no `turn_end`."""
    is_unanswered: bool = False
    """The last turn's model call has not answered: failed, cut, or not even begun."""
    is_calling: bool = False
    """Its model call has no `model_end`."""
    last_stop: str = ""
    """The stop reason of the last `model_end`."""
    was_busy: bool = False
    """The last `status`."""
    started: set[str] = field(default_factory=set)
    """Calls that began and have no result: what they did is not known."""
    requests: int = 0
    """The highest N of any `perm-N`."""
    grants: list[str] = field(default_factory=list)
    last_seq: int = 0
    reserved: int = 0
    modified: float = 0.0

    @property
    def next_base(self) -> int:
        """The first multiple of STRIDE above every number that may have been given out."""
        return (max(self.last_seq, self.reserved) // STRIDE + 1) * STRIDE


def fold(lines: Iterable[bytes]) -> History:
    """Read all lines. Raises: JournalDamaged naming the line that cannot be read."""
    history: History | None = None
    for number, line in enumerate(lines, 1):
        entry = _parse(line, number)
        if history is None:
            if not isinstance(entry, Meta):
                raise damaged(number)
            history = _begin(entry)
        elif isinstance(entry, int):
            history.last_seq = entry
        elif entry is not None:
            try:
                _apply(history, entry)
            except ValueError as error:
                raise damaged(number) from error
    if history is None:
        raise damaged(1)
    return history


def _begin(meta: Meta) -> History:
    if meta.format > FORMAT:
        raise JournalDamaged(f"The journal has format {meta.format}, this version reads up to {FORMAT}: update first.")
    return History(meta=meta, settings=meta.settings, modified=meta.created)


def _parse(line: bytes, number: int) -> NumberedEvent | Record | int | None:
    """One line's value; only its number for an event that leaves no state or that only a newer version knows; None
    for a record of a newer version."""
    head = head_of(line)
    try:
        if head is not None and head[0] in _STATE:
            return EVENTS.validate_json(line, extra="ignore")
        kind = line[9 : line.find(b'"', 9)].decode(errors="replace") if line.startswith(b'{"type":"') else ""
        if kind in RECORD_TYPES:
            return RECORDS.validate_json(line, extra="ignore")
        from_json(line)  # nothing in it matters here, but it must be whole
    except ValueError as error:
        raise damaged(number) from error
    if not kind:
        raise damaged(number)
    return None if head is None else head[1]


def _apply(history: History, entry: NumberedEvent | Record) -> None:
    if isinstance(entry, Record):
        _apply_record(history, entry)
        return
    history.last_seq, history.modified = entry.seq, entry.ts
    if entry.agent is not None:
        return  # a subagent's transcript is its own
    if isinstance(entry, PermissionRequest | PermissionResolved):
        _apply_permission(history, entry)
    else:
        _apply_to_run(history, entry)


def _apply_record(history: History, record: Record) -> None:
    match record:
        case Context():
            history.context = record
        case Prompt():
            history.run = OpenRun(record)
            history.ledger.begin_run()
            history.is_unanswered = False
            history.modified = record.ts
            if history.settings.title is None:
                history.settings = history.settings.model_copy(update={"title": title_from(record.text)})
        case Load(base=base):
            history.reserved = max(history.reserved, base + STRIDE - 1)
        case Reserve(until=until):
            history.reserved = max(history.reserved, until)
        case Grant(rule=rule):
            history.grants.append(rule)
        case Repair():
            pass
        case Meta():
            raise ValueError("a second meta line")


def _apply_permission(history: History, event: PermissionRequest | PermissionResolved) -> None:
    if isinstance(event, PermissionRequest):
        history.pending[event.request_id] = event
        history.requests = max(history.requests, int(event.request_id.removeprefix("perm-")))
    else:
        history.pending.pop(event.request_id, None)
        history.answered[event.call_id] = event
        history.resolved[event.request_id] = event.resolution
        if event.mode is not None:
            history.settings = history.settings.model_copy(update={"mode": event.mode})


def _apply_to_run(history: History, event: NumberedEvent) -> None:
    transcript, ledger = history.transcript, history.ledger
    match event:
        case UserMessage(id=message_id, content=content):
            transcript.add_user(message_id, content)
            if history.run is not None:
                history.run.has_message = True
        case Status(busy=busy):
            history.was_busy = busy
        case TurnStart(turn=turn):
            ledger.turns = history.open_turn = turn
            history.is_unanswered = True
        case TurnEnd():
            history.open_turn = None
        case ModelStart():
            history.is_calling = True
        case ModelEnd(stop_reason=stop):
            history.is_calling, history.last_stop = False, stop
        case AssistantMessage(message=message):
            transcript.add_assistant(message)
            ledger.text = message.text
            history.is_unanswered = False
        case UsageReport(spent=spent, spent_usd=spent_usd):
            ledger.spend(spent, spent_usd)
            history.is_unanswered = False
        case ToolStart(call_id=call_id):
            history.started.add(call_id)
        case ToolEnd(call_id=call_id):
            transcript.add_result(event.result())
            history.started.discard(call_id)
            history.answered.pop(call_id, None)
        case Done():
            history.run = None
        case Cleared():
            transcript.clear()
            history.context = None
        case SessionUpdated():
            history.settings = updated(history.settings, event)
        case _:
            pass


def updated(settings: Settings, change: SessionUpdated) -> Settings:
    """The settings after a change; fields that the event leaves out stay."""
    fields = {name: value for name in Settings.model_fields if (value := getattr(change, name, None)) is not None}
    return settings.model_copy(update=fields)


def title_from(text: str) -> str | None:
    """A session's title until a person gives it one: the first line of its first prompt, shortened; None for none."""
    line = " ".join(text.split("\n", 1)[0].split())
    return (line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…") or None
