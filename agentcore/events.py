"""Everything observable, as one discriminated union. The journal line and the SSE `data:` are these, encoded once.

An event is made without its number; the log that emits it adds `seq`, `session` and `ts` (`agentcore.encoding`).
Durable events are in the session's journal with their number; the others are for display and live only in the ring.
`ControlEvent`s belong to one stream and have no number at all.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter

from agentcore.messages import Attachment, Block, Message, Text, ToolResult
from agentcore.usage import Budget, Usage
from agentcore.values import Value

Mode = Literal["default", "accept-edits", "plan", "auto", "deny", "yolo"]
Unattended = Literal["wait", "deny", "defer"]
StopReason = Literal[
    "blocked",
    "hook_stopped",
    "end_turn",
    "max_tokens",
    "refusal",
    "max_turns",
    "interrupted",
    "suspended",
    "budget",
    "taken_over",
    "error",
]
Resolution = Literal["allowed", "denied", "expired", "cancelled"]
Scope = Literal["once", "session", "project", "user"]
RequestKind = Literal["tool", "plan", "question", "budget"]
CompactionTrigger = Literal["auto", "overflow", "request"]
CompactionStrategy = Literal["summarize", "keep_recent"]
TaskKind = Literal["bash", "agent"]
TaskState = Literal["running", "stopping", "completed", "failed", "stopped", "lost"]
TASK_ALIVE: frozenset[TaskState] = frozenset({"running", "stopping"})
"""The states of a background task that has not ended."""
SUBAGENT_TOOL = "task"
"""The tool that begins subagents."""
WaitingFor = Literal["model", "tool", "permission", "question", "retry", "mcp", "queue", "nothing"]


class Event(Value):
    """What every event carries besides its own fields."""

    durable: ClassVar[bool] = True

    seq: int = 0
    """Number within the session, never repeated in its whole life. 0 on control events."""
    session: str = ""
    ts: float = 0.0
    """Unix time in seconds."""
    agent: str | None = None
    """Label of the subagent that it comes from (`explore-1`), unique in the session; absent for the main agent.

    The events of a subagent begin with the `user_message` that is its task and names its call (`for_call`). Its turns
    count from 1; it has no `status` and no `done`: it is over with the `tool_end` of its call, or with the
    `task_update` of its background task."""
    turn: int | None = None
    """The model call within the run that it belongs to, from 1."""


class Status(Event):
    """The session went from idle to running or back; only at the edges."""

    type: Literal["status"] = "status"
    busy: bool


class WaitingDetail(Value):
    """More about a wait, as far as it is known."""

    until: float | None = None
    """Unix time in seconds at which it goes on by itself."""
    model: str | None = None
    """The model that is asked, or will be asked again: `provider/model`."""


class Waiting(Event):
    """What holds the session up now, or with `agent` a subagent. Holds until the next one of the same agent, or until
    that is idle or over."""

    durable: ClassVar[bool] = False
    type: Literal["waiting"] = "waiting"
    waiting_for: WaitingFor
    since: float
    """Unix time in seconds."""
    detail: WaitingDetail | None = None


class SessionUpdated(Event):
    """Settings changed; only the fields that changed are present."""

    type: Literal["session_updated"] = "session_updated"
    title: str | None = None
    mode: Mode | None = None
    model: str | None = None
    effort: str | None = None
    unattended: Unattended | None = None
    max_turns: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    system_append: str | None = None
    trace: bool | None = None
    expires_after_s: float | None = None
    budget: Budget | None = None
    """All limits as they are now."""
    by: str | None = None
    """Who changed it: `client`, or the request that carried the change (`perm-3`)."""


class QueuedPrompt(Value):
    """A prompt that waits for its run."""

    prompt_id: str
    text: str
    """In `queue_update`, `snapshot` and the list of the queue only its first 500 characters; none of them while the
    guard is on, and at `GET …/queue/{prompt_id}` what the guard lets through."""
    is_cut: bool = False
    """There is more of the text than is shown."""
    attachments: int = 0
    """How many go with it."""
    ts: float
    """When it was accepted, in Unix seconds."""


class QueueUpdate(Event):
    """The queue changed: this is all of it, the prompt that runs next first."""

    type: Literal["queue_update"] = "queue_update"
    queue: tuple[QueuedPrompt, ...]


class Cleared(Event):
    """The model starts from nothing; the history stays readable."""

    type: Literal["cleared"] = "cleared"


class Skipped(Value):
    """A file that an undo left as it is."""

    path: str
    """Relative to the session's `cwd`."""
    why: str


class Undone(Event):
    """The file changes of the last run that made some were taken back; paths are relative to the session's `cwd`."""

    type: Literal["undone"] = "undone"
    restored: tuple[str, ...] = ()
    """Hold again what they held before the run."""
    deleted: tuple[str, ...] = ()
    """Were made by the run, and are gone."""
    skipped: tuple[Skipped, ...] = ()
    """No longer hold what the agent left there, or cannot be changed."""


class UserMessage(Event):
    """A message as the model gets it."""

    type: Literal["user_message"] = "user_message"
    id: str
    prompt_id: str | None = None
    content: tuple[Block, ...]
    display_text: str | None = None
    """What the person typed, where it differs from the content."""
    source: Literal["prompt", "steer", "notification", "hook"] = "prompt"
    task_ids: Annotated[tuple[str, ...], Field(exclude_if=lambda ids: not ids)] = ()
    """The background tasks whose end this tells the model: each is told once."""
    for_call: str | None = None
    """The call of the main agent that a subagent works for; on the subagent's first message, which is its task."""
    for_task: str | None = None
    """The background task that a subagent is, if it is one; beside `for_call`."""

    @property
    def typed_text(self) -> str:
        """What the person typed."""
        said = [block.text for block in self.content if isinstance(block, Text)]
        return "".join(said) if self.display_text is None else self.display_text


class TurnStart(Event):
    type: Literal["turn_start"] = "turn_start"
    turn: int


class TurnEnd(Event):
    type: Literal["turn_end"] = "turn_end"
    turn: int


class CompactionStart(Event):
    """The context is about to be replaced by a summary; exactly one `compacted` follows.

    The model calls in between are for the summary: no text of theirs is shown, and they count their attempts by
    themselves. Outside of a run their `turn` is 0.
    """

    type: Literal["compaction_start"] = "compaction_start"
    trigger: CompactionTrigger
    """`auto`: the context is nearly full; `overflow`: it did not fit; `request`: a client asked."""
    estimated_tokens: int
    """Of the context before."""


class Compacted(Event):
    """A compaction is over. Only with `ok` has anything changed: the model's context begins anew with `message`."""

    type: Literal["compacted"] = "compacted"
    strategy: CompactionStrategy
    ok: bool
    summary: str = ""
    before_tokens: int
    """Estimated, as `after_tokens`."""
    after_tokens: int
    message: Message | None = None
    """What the model gets in the place of all that came before; the history for people keeps everything."""
    kept: Annotated[tuple[str, ...], Field(exclude_if=lambda ids: not ids)] = ()
    """Ids of the last messages that stay behind it as they are. A first one of the user joins `message`, without
    results of calls that are gone."""


class ModelStart(Event):
    """A model call begins; exactly one `model_end` follows."""

    type: Literal["model_start"] = "model_start"
    turn: int
    model: str
    """`provider/model`: the one that is really asked, which may be a fallback."""
    attempt: int = 1
    """Counts within the turn, from 1, over retries and fallback models alike."""
    beside: Annotated[bool, Field(exclude_if=lambda beside: not beside)] = False
    """True for the check of a hook: it is paid for, and none of the conversation."""


class ModelEnd(Event):
    type: Literal["model_end"] = "model_end"
    turn: int
    stop_reason: str
    """The provider's reason; `failed` when the attempt failed, `interrupted` when it was cancelled."""
    error_code: str | None = None
    """How it failed, by the codes of `error`."""
    request_ms: int
    ttft_ms: int | None = None
    """Time to the first part with content; absent when none came."""
    thinking_ms: int | None = None
    """From the request to the first text or tool call, when there was reasoning before it."""
    beside: Annotated[bool, Field(exclude_if=lambda beside: not beside)] = False
    """As of its `model_start`."""


class TextDelta(Event):
    durable: ClassVar[bool] = False
    type: Literal["text_delta"] = "text_delta"
    text: str


class ThinkingDelta(Event):
    durable: ClassVar[bool] = False
    type: Literal["thinking_delta"] = "thinking_delta"
    text: str


class ToolCallDelta(Event):
    """The model is writing the input of a tool call."""

    durable: ClassVar[bool] = False
    type: Literal["tool_call_delta"] = "tool_call_delta"
    call_id: str
    tool_name: str
    size_bytes: int
    """Length of the input text so far."""


class AssistantMessage(Event):
    type: Literal["assistant_message"] = "assistant_message"
    message: Message
    final: bool
    """True for the answer; false for text beside tool calls."""


class UsageReport(Event):
    """What one model call spent."""

    type: Literal["usage"] = "usage"
    model: str
    spent: Usage
    """This call."""
    total: Usage
    """The session so far, this call included. Attempts that failed or were cut report no tokens and are not in it."""
    spent_usd: float | None = None
    """The price of `spent`; null when it is not known."""
    cost_usd: float | None = None
    """The price of `total`; null as soon as that of one call is not known, never a sum without it."""
    context_tokens: int
    """What this call read and wrote: so much of the window is filled."""
    context_window: int
    """Tokens that the model holds; 128000 where that is not known (then `context_length` of the provider's section in
    the user's settings tells it)."""
    beside: Annotated[bool, Field(exclude_if=lambda beside: not beside)] = False
    """As of its `model_start`: then `context_tokens` says nothing about the window of the conversation."""


class ToolStart(Event):
    """A tool call is about to take effect."""

    type: Literal["tool_start"] = "tool_start"
    call_id: str
    tool_name: str
    input: dict[str, JsonValue]
    group: int
    """Calls of one batch with the same group run side by side."""
    position: int
    """Place of the call in its batch, from 0."""


class ToolOutputDelta(Event):
    durable: ClassVar[bool] = False
    type: Literal["tool_output_delta"] = "tool_output_delta"
    call_id: str
    text: str


class ToolEnd(Event):
    """A tool call has its result: this event is the journaled result."""

    type: Literal["tool_end"] = "tool_end"
    call_id: str
    tool_name: str
    output: str
    """As the model gets it."""
    attachments: Annotated[tuple[Attachment, ...], Field(exclude_if=lambda shown: not shown)] = ()
    """What the tool showed besides text; the bytes are at `GET /v1/sessions/{id}/blobs/{blob}`."""
    display: str | None = None
    """For people where it says more than the output: a unified diff, say."""
    is_error: bool = False
    cancelled: bool = False
    """True when the call was never started, so that there is no `tool_start`: refused, interrupted, no turn left."""
    duration_ms: int = 0
    """Wall time inside the tool, without waiting for permission."""
    truncated: bool = False

    @property
    def worked_ms(self) -> int:
        """What of `duration_ms` counts as work of the session: a subagent's is counted call by call as it is done."""
        return 0 if self.tool_name == SUBAGENT_TOOL else self.duration_ms

    def result(self) -> ToolResult:
        """The block that the model gets."""
        return ToolResult(
            call_id=self.call_id, content=self.output, is_error=self.is_error, attachments=self.attachments
        )


class PermissionRequest(Event):
    """A person is needed. Waits until any client answers, across restarts."""

    type: Literal["permission_request"] = "permission_request"
    request_id: str
    kind: RequestKind
    call_id: str
    """Empty where no call asks: kind `budget`. A subagent's has its label in it then (`explore-1:budget`)."""
    tool_name: str
    input: dict[str, JsonValue]
    """The effective input: what would run. Kind `budget`: `limit` (`usd`, `tokens`, `time_s` or `tool_calls`), its
    `amount`, what is `used` of it, the `calls` that wait to be run, and what an allow `raises_to`."""
    digest: str
    """SHA-256 (hex) over tool name and effective input; send it back to prove what was shown."""
    reasons: tuple[str, ...] = ()
    suggested_rules: tuple[str, ...] = ()
    """What `always` would allow, narrowest first."""
    display: str | None = None
    """What would change: a unified diff, where the tool can tell."""
    expires_at: float | None = None
    """Unix time in seconds."""
    task_id: str | None = None
    """The background task that asks: the request lives until that ends, whatever becomes of the run."""
    options: tuple[str, ...] | None = None
    """What one question lets choose from; several questions have theirs in `input.questions`."""


class PermissionResolved(Event):
    type: Literal["permission_resolved"] = "permission_resolved"
    request_id: str
    call_id: str
    resolution: Resolution
    answered_by: str | None = None
    scope: Scope | None = None
    reason: str | None = None
    mode: Mode | None = None
    """The mode that the approval of a plan switches to."""
    budget: Budget | None = None
    """All limits, as the answer to a request of the kind `budget` raised them."""
    answer: JsonValue = None
    updated_input: dict[str, JsonValue] | None = None
    rule: str | None = None
    """The allow rule that is in force from now on, where the answer's scope is wider than once."""
    expires_at: float | None = None
    """Unix time in seconds from which on `rule` is in force no more; absent: it stays."""


class TaskUpdate(Event):
    """A background task began, has ended, or does not end though it was told to."""

    type: Literal["task_update"] = "task_update"
    task_id: str
    """`bg-N`, never used again in this session."""
    kind: TaskKind
    """`bash`: a command; `agent`: a subagent."""
    label: str
    state: TaskState
    """`failed` also where a command's exit code was not 0; `stopped` by a person, the model, or the end of the session;
    `stopping`: somebody ended it and it has not ended within seconds; `lost`: it was alive when the server ended."""
    result: str | None = None
    """What it came to, as the model is told; None while it is alive."""


class TodoItem(Value):
    content: str
    status: Literal["pending", "in_progress", "completed"]


class Todo(Event):
    """The model's task list, whole."""

    type: Literal["todo"] = "todo"
    items: tuple[TodoItem, ...]


class Notice(Event):
    type: Literal["notice"] = "notice"
    level: Literal["info", "warning"]
    code: str
    """For programs. Known are, and more may come: `approval_needed` (hooks or MCP servers of the repository wait for a
    person), `budget_unpriced` (a model call has no known price, so the limit in dollars holds for the others alone),
    `budget_warning` (a limit of the budget is nearly reached), `command_not_covered` (what a command changed cannot be
    undone), `compaction_blocked` (a hook wants the context to stay as it is), `compaction_failed` (the run goes on
    uncompacted), `cut_at_max_tokens` (the answer reached its limit of tokens), `files_left_out` (the oldest pictures
    and documents are no longer shown to the model), `git_not_all_seen` (a project has more folders than are looked at
    for what commands planted), `git_would_run` (a command left a git repository whose settings or hooks name programs:
    they run outside of the sandbox when somebody uses git there), `guard_found` (personal data or secrets were kept
    from the model),
    `hook_failed` (a hook failed, was late or printed what means nothing, and decided nothing), `hook_message` (what a
    hook tells the user), `hook_stopped` (a hook ended the run), `instructions_ignored` (an instruction file, an import,
    a skill or an agent is left out or cut), `journal_repaired` (a torn last line was cut off),
    `mcp_changed` (an MCP server is there, or its tools are others), `mcp_unavailable` (an MCP server, or something of
    it, cannot be used now), `mention_ignored` (a file that a prompt mentions is not shown to the model),
    `mode_not_allowed` (the session fell back to mode default), `model_cooling_down` (a model that failed lately is
    passed over), `model_failover` (the run goes on with another model), `model_retry` (a model call is made again),
    `prompt_blocked` (a hook or the guard kept a prompt from the model), `refused` (the model would not answer),
    `rule_not_persisted` (what was allowed for good holds for this session alone), `sandbox_unavailable` (commands are
    not confined), `settings_ignored` (something around the session, in a settings file, has no effect or is broken),
    `skill_aborted` (a skill that a prompt calls was not used), `skill_ignored` (something that the head of a skill
    asks for has no effect, or a skill that an agent's file names is not used),
    `stop_hook_overruled` (a Stop hook has made the run go on often enough),
    `transcript_repaired` (what no vendor takes was mended), `unknown_tool` (the model called a tool that there is
    not)."""
    text: str


class Error(Event):
    """Why the run ends; comes just before `done`."""

    type: Literal["error"] = "error"
    code: str
    """For programs. Known are, and more may come. Of the model's vendor: `auth`, `cancelled`, `invalid_request`,
    `network`, `not_found` (no such model), `overloaded`, `quota` (no credit), `rate_limit`, `request_too_large`,
    `server_error`, `stalled` (nothing new for too long), `stream_truncated`, `tool_use_failed`. Of the conversation:
    `context_window_exceeded`, `invalid_hook_output` (a hook put in the place of a call what is none),
    `invalid_structured_output`, `missing_tool_call`, `unexpected_stop_reason`. Of this
    server: `bad_request` (there is no such model any more), `internal`, `prompt_removed` (it was taken off the queue),
    `storage_unavailable`."""
    text: str
    retryable: bool = False
    """Whether the same prompt may work later."""
    retry_after: float | None = None
    """Seconds, where the provider said so."""


class Done(Event):
    """The end of a run; exactly one each, whatever happened."""

    type: Literal["done"] = "done"
    run_id: str
    prompt_id: str | None = None
    stop_reason: StopReason
    text: str
    usage: Usage
    """Of this run."""
    cost_usd: float | None = None
    """The price of `usage`; null as soon as that of one call is not known."""
    turns: int
    """Model calls made."""
    structured: dict[str, JsonValue] | None = None
    """The answer as the prompt's `output_schema` describes it, checked."""


class SessionClosed(Event):
    type: Literal["session_closed"] = "session_closed"
    reason: str


class Lagging(Event):
    """This stream is too far behind and ends; reconnect with the last id to get what is missing."""

    durable: ClassVar[bool] = False
    type: Literal["lagging"] = "lagging"
    behind: int


class Gap(Event):
    """The cursor cannot be continued without a hole."""

    durable: ClassVar[bool] = False
    type: Literal["gap"] = "gap"
    reason: Literal["evicted", "ahead"]
    after: int
    """The cursor that was given."""
    resumed_at: int
    """From this number on nothing is missing."""
    missing: Literal["deltas", "events"] | None = None
    """`deltas`: only display events are missing; `events`: refetch the messages."""


class ServerStopping(Event):
    durable: ClassVar[bool] = False
    type: Literal["server_stopping"] = "server_stopping"


class Partial(Value):
    """The assistant message being streamed, up to and including the delta number `seq`."""

    seq: int
    message: Message


NumberedEvent: TypeAlias = (
    Status
    | Waiting
    | SessionUpdated
    | QueueUpdate
    | Cleared
    | Undone
    | UserMessage
    | TurnStart
    | TurnEnd
    | CompactionStart
    | Compacted
    | ModelStart
    | ModelEnd
    | TextDelta
    | ThinkingDelta
    | ToolCallDelta
    | AssistantMessage
    | UsageReport
    | ToolStart
    | ToolOutputDelta
    | ToolEnd
    | PermissionRequest
    | PermissionResolved
    | Todo
    | TaskUpdate
    | Notice
    | Error
    | Done
    | SessionClosed
)
ControlEvent: TypeAlias = Lagging | Gap | ServerStopping
AgentEvent: TypeAlias = Annotated[NumberedEvent, Field(discriminator="type")]

EVENTS: TypeAdapter[NumberedEvent] = TypeAdapter(AgentEvent, config=ConfigDict(defer_build=True))
"""Reads any numbered event; pass `extra="ignore"` to read one of a newer server."""
