"""Reads a journal forward into what a session is: transcript, open run, pending requests, totals, numbering.

There is no second store to disagree with: the live session keeps the same facts by the same rules.
"""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentcore.budget import Ledger
from agentcore.deferrals import Deferrals
from agentcore.events import (
    TASK_ALIVE,
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
    TaskUpdate,
    Todo,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
    UsageReport,
    UserMessage,
)
from agentcore.hooks.words import is_sent_on
from agentcore.inbox import Inbox
from agentcore.limits import NO_CALL, RAISED_BY
from agentcore.messages import Message, ToolResult
from agentcore.session import Settings
from agentcore.sessions.entries import entry_of, meta_of
from agentcore.sessions.journal import damaged
from agentcore.sessions.log import STRIDE
from agentcore.sessions.records import (
    Begin,
    BudgetTold,
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
    TaskProcess,
    Written,
)
from agentcore.sessions.subagents import Subagents
from agentcore.sessions.submissions import Submissions
from agentcore.sessions.unheard import Unheard
from agentcore.sessions.waiting import WaitingPrompts
from agentcore.tasks import Tasks
from agentcore.transcript import Transcript
from agentcore.validator import LOST_RESULT

TITLE_CHARS = 80
PROMPTS = 3  # what mode `auto` looks at: the contract's


@dataclass(slots=True)
class OpenRun:
    """A run that has no `done` yet."""

    prompt: Prompt
    has_message: bool = False
    """Its user message is in the transcript."""
    message_id: str = ""
    """Of that message, where it is."""
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
    digests: dict[str, str] = field(default_factory=dict)
    """Of what calls that have no result yet asked last, by call id."""
    resolved: dict[str, Resolution] = field(default_factory=dict)
    """Every resolution, by request id: what a late answer is told."""
    open_turn: int | None = None
    """The turn that has no `turn_end`."""
    is_unanswered: bool = False
    """The last turn's model call has not answered: failed, cut, or not even begun."""
    is_calling: bool = False
    """A model call has no `model_end`."""
    is_calling_beside: bool = False
    """The last model call was a hook's check."""
    compacting: CompactionStart | None = None
    """A compaction that has no `compacted`; the model calls in it are none of the turn's."""
    last_stop: str = ""
    """The stop reason of the last `model_end`."""
    was_busy: bool = False
    """The last `status`."""
    started: dict[str, str] = field(default_factory=dict)
    """Calls that began and have no result: what they did is not known. By id, the tool that ran: a hook may have put it
    in the place of another."""
    prompts: deque[str] = field(default_factory=lambda: deque(maxlen=PROMPTS))
    """What people said last, as they typed it."""
    requests: int = 0
    """The highest N of any `perm-N`."""
    grants: dict[str, float | None] = field(default_factory=dict)
    """Rule to when it expires, if ever."""
    unwritten: dict[str, PermissionResolved] = field(default_factory=dict)
    """By request id, answers whose rule is to stand in the user's settings, and of which nobody knows that it does."""
    budget_told: dict[str, float] = field(default_factory=dict)
    """Limits of the budget that a person was told about, and how high they were then."""
    is_copy: bool = False
    """The lines being read were copied from another session: nothing in them was spent by this one."""
    notes: list[str] = field(default_factory=list)
    """What the model learns with the next prompt, oldest first."""
    queue: WaitingPrompts = field(default_factory=WaitingPrompts)
    subagents: Subagents = field(init=False)
    inbox: Inbox[Prompt] = field(default_factory=Inbox)
    """Prompts that wait for the run that is going on to take them."""
    deferrals: Deferrals = field(default_factory=Deferrals)
    tasks: Tasks = field(default_factory=Tasks)
    processes: dict[str, TaskProcess] = field(default_factory=dict)
    """Of background tasks that have not ended, by task id."""
    unheard: Unheard = field(default_factory=Unheard)
    findings: Counter[str] = field(default_factory=Counter)
    """Damage of the transcript that was mended on the way and that no `repair` record tells yet, by its kind."""
    submissions: Submissions = field(default_factory=Submissions)
    """The prompts that came under a key."""
    last_seq: int = 0
    reserved: int = 0
    modified: float = 0.0

    def __post_init__(self) -> None:
        self.subagents = Subagents(self.ledger)

    @property
    def next_base(self) -> int:
        """The first multiple of STRIDE above every number that may have been given out."""
        return (max(self.last_seq, self.reserved) // STRIDE + 1) * STRIDE

    @property
    def is_beside(self) -> bool:
        """Whether a model call of now is none of the conversation: a summary is made, or a call is looked at."""
        return self.compacting is not None or bool(self.transcript.open_calls)

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
            history = History(
                meta=meta, settings=meta.settings, modified=meta.created, is_copy=meta.fork_of is not None
            )
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
    if entry.agent is not None and isinstance(entry, PermissionRequest | PermissionResolved):
        history.subagents.saw(entry.agent)
    if isinstance(entry, PermissionRequest | PermissionResolved):
        _apply_permission(history, entry)
    elif entry.agent is not None:
        history.subagents.follow(entry.agent, entry, is_copy=history.is_copy)  # its transcript is its own
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
            history.started.pop(call.call_id, None)
        case Load(base=base):
            history.reserved = max(history.reserved, base + STRIDE - 1)
            history.is_copy = history.is_copy and base == 0  # a fork's own lines come behind its second load
            history.unheard.leave_out(history.transcript)
            forget_unsaid_wake(history)
            if history.run is None:
                history.context = None  # a resume is a fresh context; an interrupted run goes on with its own
        case Reserve(until=until):
            history.reserved = max(history.reserved, until)
        case Grant(rule=rule, is_revoked=True):
            history.grants.pop(rule, None)
        case Grant(rule=rule, expires_at=expires_at):
            history.grants[rule] = expires_at
        case Written(request_id=request_id):
            history.unwritten.pop(request_id, None)
        case Note(text=text):
            history.notes.append(text)
        case TaskProcess(task_id=task_id):
            history.processes[task_id] = record
        case BudgetTold(limit=limit, amount=amount):
            history.budget_told[limit] = amount
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
        if event.agent is None:
            history.digests[event.call_id] = event.digest
            history.answered.pop(event.call_id, None)  # it asks anew: the answer was to something else
        history.requests = max(history.requests, int(event.request_id.removeprefix("perm-")))
    else:
        history.pending.pop(event.request_id, None)
        if event.agent is None and (event.call_id or event.resolution != "allowed"):
            history.answered[event.call_id] = event  # a budget that was raised says all that there is to say
        history.resolved[event.request_id] = event.resolution
        to_write(history, event)
        if event.mode is not None:
            history.settings = history.settings.model_copy(update={"mode": event.mode})
        if event.budget is not None:
            history.settings = updated(history.settings, SessionUpdated(budget=event.budget, by=event.request_id))


def _apply_to_run(history: History, event: NumberedEvent) -> None:
    """Long because it is a table: one entry for each event, each a few assignments."""
    transcript, ledger = history.transcript, history.ledger
    match event:
        case UserMessage(id=message_id, content=content, prompt_id=prompt_id, source=source):
            _close_calls(history)
            transcript.add_user(message_id, content)
            notes = len(history.notes) if source == "prompt" else 0
            if source != "notification":  # what came of a task is told once, and stays told
                history.unheard.asked(transcript, len(content) - notes)
            if source == "prompt":
                history.notes.clear()  # they were in front of it
            history.submissions.taken(prompt_id)
            said(history, event)
            ledger.sent_on += is_sent_on(event)
            if history.run is not None:
                history.run.message_id = history.run.message_id or message_id
                history.run.has_message = True
                if prompt_id is not None and history.inbox.took(prompt_id):
                    history.run.steered.append(prompt_id)
        case QueueUpdate(queue=queue):
            keep(history, [prompt.prompt_id for prompt in queue], event.ts)
        case Status(busy=busy):
            history.was_busy = busy
        case TurnStart(turn=turn):
            ledger.turns = history.open_turn = turn
            ledger.turns_before = min(ledger.turns_before, turn - 1)  # one that is begun again counts once
            history.is_unanswered = True
        case TurnEnd():
            history.open_turn = None
        case ModelStart(beside=beside):
            history.is_calling, history.is_calling_beside = True, beside
        case ModelEnd(stop_reason=stop, request_ms=request_ms, beside=beside):
            history.is_calling = False
            if not history.is_copy:
                ledger.asked_model(request_ms)
            if not (beside or history.is_beside):
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
        case TaskUpdate(task_id=task_id, state=state):
            history.tasks.updated(event, event.ts)
            if state not in TASK_ALIVE:
                history.processes.pop(task_id, None)
        case AssistantMessage(message=message):
            _close_calls(history)
            transcript.add_assistant(message)
            history.unheard.answered()
            ledger.text = message.text
            history.is_unanswered = False
        case UsageReport(spent=spent, spent_usd=spent_usd, beside=beside):
            ledger.spend(spent, spent_usd)
            if not (beside or history.is_beside):
                transcript.measure(event.context_tokens)
                history.is_unanswered = False
        case ToolStart(call_id=call_id, group=group):
            history.started[call_id] = event.tool_name
            if not history.is_copy:
                ledger.began_call(group)
        case ToolEnd(call_id=call_id):
            if not history.is_copy:
                ledger.ended_call(event.worked_ms)
            if transcript.is_open(call_id):
                transcript.add_result(event.result())
            else:
                history.findings["orphan_result"] += 1
            history.started.pop(call_id, None)
            history.deferrals.settle(call_id)
            history.answered.pop(call_id, None)
            history.digests.pop(call_id, None)
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


def to_write(history: History, answer: PermissionResolved) -> None:
    """An answer is in the journal: its rule has yet to be written into the user's settings, if it is one for good."""
    if answer.rule is not None and answer.scope in ("project", "user"):
        history.unwritten[answer.request_id] = answer


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
    if not prompt.is_unchecked:
        _entitle(history, prompt.text)


def begin(history: History, record: Begin) -> None:
    """A queued prompt has its run, or a suspended run goes on under its new name. Raises: ValueError for neither."""
    prompt, run = history.queue.take(record.prompt_id), history.run
    if prompt is not None:
        history.run = OpenRun(prompt)
        history.ledger.begin_run()
        history.is_unanswered = False
    elif run is not None and run.is_suspended and run.prompt.prompt_id == record.prompt_id:
        renamed = run.prompt.model_copy(update={"run_id": record.run_id})
        history.run = OpenRun(renamed, has_message=run.has_message, message_id=run.message_id)
        history.ledger.go_on()
    else:
        raise ValueError(f"no prompt {record.prompt_id} waits")


def forget_unsaid_wake(history: History) -> None:
    """A run that began by itself and told nothing is none: what it was to tell is still to be told."""
    if history.run is not None and history.run.prompt.is_wake and not history.run.has_message:
        history.run = None


def said(history: History, message: UserMessage) -> None:
    """A message is in the transcript: what a person typed of it is remembered, and which tasks it tells of."""
    history.tasks.told(message.task_ids)
    if message.source in ("prompt", "steer"):
        history.prompts.append(message.typed_text)
        _entitle(history, message.typed_text)


def _entitle(history: History, text: str) -> None:
    """Make a title of what a person said, where there is none."""
    if history.settings.title is None:
        history.settings = history.settings.model_copy(update={"title": title_from(text)})


def keep(history: History, prompt_ids: Sequence[str], now: float) -> None:
    """Just these prompts of the queue wait on, in this order; the others were removed, at `now` in Unix seconds."""
    removed = history.queue.keep(prompt_ids)
    if removed:
        history.submissions.removed(removed, now)


def end(history: History, reason: StopReason) -> None:
    """A run has its `done`. What it did not take of its inbox is next in the queue, unless it goes on with it."""
    if reason != "suspended":
        history.digests.pop(NO_CALL, None)
        history.answered.pop(NO_CALL, None)  # what was said about the budget was said to this run
    if reason == "suspended" and history.run is not None:
        history.run.is_suspended = True
    else:
        history.run = None
        history.queue.put_first(history.inbox.take())


def updated(settings: Settings, change: SessionUpdated) -> Settings:
    """The settings after a change; fields that the event leaves out stay."""
    fields = {name: value for name in Settings.model_fields if (value := getattr(change, name, None)) is not None}
    if change.budget is not None:
        is_raise = change.by is not None and change.by.startswith(RAISED_BY)
        fields["budget_step"] = (settings.budget_step or settings.budget) if is_raise else None
    return settings.model_copy(update=fields)


def title_from(text: str) -> str | None:
    """A session's title until a person gives it one: the first line of its first prompt, shortened; None for none."""
    line = " ".join(text.split("\n", 1)[0].split())
    return (line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…") or None
