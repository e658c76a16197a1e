"""Reads a journal forward into what a session is: transcript, open run, pending requests, totals, numbering.

There is no second store to disagree with: the live session keeps the same facts by the same rules.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentcore.budget import Ledger
from agentcore.deferrals import Deferrals
from agentcore.events import (
    AssistantMessage,
    Cleared,
    Compacted,
    CompactionStart,
    Done,
    Error,
    ModelEnd,
    ModelStart,
    NumberedEvent,
    PermissionRequest,
    PermissionResolved,
    QueueUpdate,
    Resolution,
    SessionUpdated,
    Status,
    StopReason,
    Todo,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
    UsageReport,
    UserMessage,
)
from agentcore.inbox import Inbox
from agentcore.messages import Message, ToolResult
from agentcore.session import Settings
from agentcore.sessions.entries import entry_of, meta_of
from agentcore.sessions.journal import damaged
from agentcore.sessions.log import STRIDE
from agentcore.sessions.records import (
    Begin,
    Context,
    Deferral,
    Grant,
    Lease,
    Load,
    Meta,
    Note,
    Prompt,
    Record,
    Repair,
    Reserve,
)
from agentcore.sessions.submissions import Submissions
from agentcore.sessions.unheard import Unheard
from agentcore.sessions.waiting import WaitingPrompts
from agentcore.transcript import Transcript
from agentcore.validator import LOST_RESULT

TITLE_CHARS = 80


@dataclass(slots=True)
class OpenRun:
    """A run that has no `done` yet."""

    prompt: Prompt
    has_message: bool = False
    """Its user message is in the transcript."""
    steered: list[str] = field(default_factory=list)
    """Ids of the prompts that it took while it went on."""
    is_cancelled: bool = False
    """A prompt was accepted that interrupts it: it is not to be gone on with."""
    is_suspended: bool = False
    """It had its `done`; the rest of it is a run of its own."""


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
    """A model call has no `model_end`."""
    compacting: CompactionStart | None = None
    """A compaction that has no `compacted`; the model calls in it are none of the turn's."""
    last_stop: str = ""
    """The stop reason of the last `model_end`."""
    was_busy: bool = False
    """The last `status`."""
    started: set[str] = field(default_factory=set)
    """Calls that began and have no result: what they did is not known."""
    requests: int = 0
    """The highest N of any `perm-N`."""
    grants: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the model learns with the next prompt, oldest first."""
    queue: WaitingPrompts = field(default_factory=WaitingPrompts)
    inbox: Inbox[Prompt] = field(default_factory=Inbox)
    """Prompts that wait for the run that is going on to take them."""
    deferrals: Deferrals = field(default_factory=Deferrals)
    unheard: Unheard = field(default_factory=Unheard)
    findings: Counter[str] = field(default_factory=Counter)
    """Damage of the transcript that was mended on the way and that no `repair` record tells yet, by its kind."""
    submissions: Submissions = field(default_factory=Submissions)
    """The prompts that came under a key."""
    last_seq: int = 0
    reserved: int = 0
    modified: float = 0.0

    @property
    def next_base(self) -> int:
        """The first multiple of STRIDE above every number that may have been given out."""
        return (max(self.last_seq, self.reserved) // STRIDE + 1) * STRIDE

    @property
    def may_have_open_calls(self) -> bool:
        """Whether a run is open that can have made them: one whose prompt was not told has asked for nothing yet."""
        return self.run is not None and self.run.has_message


def fold(lines: Iterable[bytes]) -> History:
    """Read all lines. Raises: JournalDamaged naming the line that cannot be read."""
    history: History | None = None
    for number, line in enumerate(lines, 1):
        if history is None:
            meta = meta_of(line)
            history = History(meta=meta, settings=meta.settings, modified=meta.created)
            continue
        entry = entry_of(line, number)
        if isinstance(entry, int):
            history.last_seq = entry
        elif entry is not None:
            try:
                _apply(history, entry)
            except ValueError as error:
                raise damaged(number) from error
    if history is None:
        raise damaged(1)
    history.unheard.leave_out(history.transcript)
    return history


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
            accept(history, record)
            history.modified = record.ts
        case Begin():
            begin(history, record)
        case Deferral(call=call):
            history.deferrals.add(call)
            history.started.discard(call.call_id)
        case Load(base=base):
            history.reserved = max(history.reserved, base + STRIDE - 1)
            history.unheard.leave_out(history.transcript)
            if history.run is None:
                history.context = None  # a resume is a fresh context; an interrupted run goes on with its own
        case Reserve(until=until):
            history.reserved = max(history.reserved, until)
        case Grant(rule=rule):
            history.grants.append(rule)
        case Note(text=text):
            history.notes.append(text)
        case Repair(messages=messages):
            if messages is not None:
                mended(history, messages)
        case Lease():
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
    """Long because it is a table: one entry for each event, each a few assignments."""
    transcript, ledger = history.transcript, history.ledger
    match event:
        case UserMessage(id=message_id, content=content, prompt_id=prompt_id, source=source):
            _close_calls(history)
            transcript.add_user(message_id, content)
            notes = len(history.notes) if source == "prompt" else 0
            history.unheard.asked(transcript, len(content) - notes)
            if source == "prompt":
                history.notes.clear()  # they were in front of it
            history.submissions.taken(prompt_id)
            if history.run is not None:
                history.run.has_message = True
                if prompt_id is not None and history.inbox.took(prompt_id):
                    history.run.steered.append(prompt_id)
        case QueueUpdate(queue=queue):
            keep(history, [prompt.prompt_id for prompt in queue], event.ts)
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
            history.is_calling = False
            if history.compacting is None:
                history.last_stop = stop
        case CompactionStart(trigger=trigger):
            history.compacting = event
            ledger.has_overflowed = ledger.has_overflowed or trigger == "overflow"
        case Compacted():
            history.compacting = None
            if event.message is not None:
                _close_calls(history)
                transcript.compact(event.message, event.kept)
        case Todo(items=items):
            transcript.todos = items
        case AssistantMessage(message=message):
            _close_calls(history)
            transcript.add_assistant(message)
            history.unheard.answered()
            ledger.text = message.text
            history.is_unanswered = False
        case UsageReport(spent=spent, spent_usd=spent_usd):
            ledger.spend(spent, spent_usd)
            if history.compacting is None:
                transcript.measure(event.context_tokens)
                history.is_unanswered = False
        case ToolStart(call_id=call_id):
            history.started.add(call_id)
        case ToolEnd(call_id=call_id):
            if transcript.is_open(call_id):
                transcript.add_result(event.result())
            else:
                history.findings["orphan_result"] += 1
            history.started.discard(call_id)
            history.deferrals.settle(call_id)
            history.answered.pop(call_id, None)
        case Error():
            history.submissions.failed(event)
        case Done():
            history.submissions.ended(event, event.ts)
            end(history, event.stop_reason)
            history.unheard.ended(event.stop_reason)
            if event.stop_reason != "suspended":
                _close_calls(history)
        case Cleared():
            transcript.clear()
            history.unheard.forget()
            history.context = None
        case SessionUpdated():
            history.settings = updated(history.settings, event)
        case _:
            pass


def mended(history: History, messages: Sequence[Message]) -> None:
    """The transcript was mended: these are its messages."""
    history.transcript.mend(messages)
    history.unheard.forget()
    history.findings.clear()


def _close_calls(history: History) -> None:
    """Answer the calls that a damaged journal leaves open where none may be."""
    for call in history.transcript.open_calls:
        history.transcript.add_result(ToolResult(call_id=call.id, content=LOST_RESULT, is_error=True))
        history.findings["missing_result"] += 1


def accept(history: History, prompt: Prompt) -> None:
    """A prompt is in the journal - or, under an id of the queue, a changed one."""
    if history.queue.find(prompt.prompt_id) is not None:
        history.queue.add(prompt)  # in its place, whatever way it came
        return
    history.submissions.accepted(prompt)
    match prompt.disposition:
        case "started":
            history.run = OpenRun(prompt)
            history.ledger.begin_run()
            history.is_unanswered = False
        case "steering":
            history.inbox.put(prompt)
        case "interrupting" if history.run is not None:
            history.run.is_cancelled = True
            history.queue.add(prompt)
        case _:
            history.queue.add(prompt)
    if history.settings.title is None:
        history.settings = history.settings.model_copy(update={"title": title_from(prompt.text)})


def begin(history: History, record: Begin) -> None:
    """A queued prompt has its run, or a suspended run goes on under its new name. Raises: ValueError for neither."""
    prompt, run = history.queue.take(record.prompt_id), history.run
    if prompt is not None:
        history.run = OpenRun(prompt)
        history.ledger.begin_run()
        history.is_unanswered = False
    elif run is not None and run.is_suspended and run.prompt.prompt_id == record.prompt_id:
        history.run = OpenRun(run.prompt.model_copy(update={"run_id": record.run_id}), has_message=run.has_message)
        history.ledger.go_on()
    else:
        raise ValueError(f"no prompt {record.prompt_id} waits")


def keep(history: History, prompt_ids: Sequence[str], now: float) -> None:
    """Just these prompts of the queue wait on, in this order; the others were removed, at `now` in Unix seconds."""
    removed = history.queue.keep(prompt_ids)
    if removed:
        history.submissions.removed(removed, now)


def end(history: History, reason: StopReason) -> None:
    """A run has its `done`. What it did not take of its inbox is next in the queue, unless it goes on with it."""
    if reason == "suspended" and history.run is not None:
        history.run.is_suspended = True
    else:
        history.run = None
        history.queue.put_first(history.inbox.take())


def updated(settings: Settings, change: SessionUpdated) -> Settings:
    """The settings after a change; fields that the event leaves out stay."""
    fields = {name: value for name in Settings.model_fields if (value := getattr(change, name, None)) is not None}
    return settings.model_copy(update=fields)


def title_from(text: str) -> str | None:
    """A session's title until a person gives it one: the first line of its first prompt, shortened; None for none."""
    line = " ".join(text.split("\n", 1)[0].split())
    return (line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…") or None
