"""What clients get: the bodies of answers. Times are Unix seconds, durations carry their unit."""

from typing import Literal

from pydantic import (
    JsonValue,
)

from agentcore.events import (
    Mode,
    Partial,
    PermissionRequest,
    QueuedPrompt,
    RequestKind,
    Skipped,
    StopReason,
    Unattended,
    WaitingFor,
)
from agentcore.languages import LanguageServing
from agentcore.serving import Serving
from agentcore.session import BackgroundTask, DeferredCall, HistoryMessage, StandingRule
from agentcore.usage import Budget, Usage, Used
from agentcore.values import Value
from server.schemas import AttachedBlob, AttachedData, WaitsFor


class Health(Value):
    ok: Literal[True] = True


class ProviderInfo(Value):
    name: str
    models: tuple[str, ...]
    ready: bool
    why_not: str | None = None


class SandboxInfo(Value):
    kind: str | None = None
    available: bool
    why_not: str | None = None


class LanguageInfo(Value):
    """A language server that some session wanted."""

    language: str
    server: str
    state: LanguageServing
    error: str = ""
    """Why it is not ready, as a sentence."""


class McpServerInfo(Value):
    """An MCP server that some session uses."""

    name: str
    state: Serving
    """`lost`: it is being connected again, and what it offered still counts."""
    tools: int
    """How many it offers now."""
    error: str | None = None
    """Why it is not ready, as a sentence."""
    transport: Literal["stdio", "http", "sse"]
    source: str
    """The file that names it."""


class Info(Value):
    version: str
    cwd: str
    roots: tuple[str, ...]
    default_model: str
    providers: tuple[ProviderInfo, ...]
    sandbox: SandboxInfo
    mcp: tuple[McpServerInfo, ...] = ()
    lsp: tuple[LanguageInfo, ...] = ()
    features: tuple[str, ...]


class TicketAnswer(Value):
    ticket: str
    expires_at: float


class BudgetState(Value):
    """What the session may use, and what it has used; of `usage` and `cost_usd` it counts the same calls."""

    limits: Budget
    used: Used


class SessionState(Value):
    id: str
    title: str | None = None
    cwd: str
    provider: str
    model: str
    """Without the provider."""
    effort: str | None = None
    mode: Mode
    unattended: Unattended
    busy: bool
    waiting_for: WaitsFor | None = None
    """What it waits for; `GET …/why` says more. Absent: for nothing, or for somebody to prompt or resume it."""
    last_seq: int
    oldest_seq: int
    """The first number that the ring still holds."""
    usage: Usage
    cost_usd: float | None = None
    """The price of `usage` in US dollars; null as soon as that of one call is not known."""
    budget: BudgetState
    pending_permissions: int
    interrupted: bool
    """A run is unfinished since the server stopped; resume it, answer its requests, or send a new prompt."""
    suspended: bool = False
    """The last run ended `suspended`; resume it, give it the answers it waits for, or cancel it."""
    queued_prompts: int = 0
    running_tasks: int = 0
    """Background tasks that go on."""
    deferred: tuple[DeferredCall, ...] = ()
    """Calls whose result comes from outside, by token."""
    created: float
    modified: float
    fork_of: str | None = None
    """The session whose history it began with."""


class ForkAnswer(SessionState):
    """The new session, and the prompt at `at` where it is one: to be edited and sent again."""

    prompt: str | None = None
    """What the person typed."""
    attachments: tuple[AttachedBlob | AttachedData, ...] = ()
    """What went with it, as a prompt of the new session takes it."""


class SessionEntry(Value):
    id: str
    title: str | None = None
    cwd: str
    created: float
    modified: float
    fork_of: str | None = None
    """The session whose history it began with."""
    loaded: bool
    busy: bool
    waiting_for: WaitsFor | None = None


class SessionList(Value):
    sessions: tuple[SessionEntry, ...]
    next_cursor: str | None = None
    unreadable: tuple[str, ...] = ()
    """Ids of sessions that are there and cannot be read, on every page; `agentcore doctor` says what is wrong."""


class Messages(Value):
    messages: tuple[HistoryMessage, ...]
    last_seq: int
    """Subscribing with `after` set to it misses and repeats nothing."""
    partial: Partial | None = None


class PromptAccepted(Value):
    session: str
    prompt_id: str
    after_seq: int
    """The last number before the prompt was accepted."""
    disposition: Literal["started", "queued", "steering"] = "started"
    """`queued`: it has its own run later. `steering`: the run that is going on takes it, and that run's `done` is its
    end. `started` also says that it is the next one, because it interrupted a run."""


class RunError(Value):
    code: str
    """The same as of the event `error`, where the known ones are listed."""
    text: str
    retryable: bool
    retry_after: float | None = None
    """Seconds, where the provider said so."""


class PromptDone(Value):
    session: str
    prompt_id: str
    text: str
    stop_reason: StopReason
    error: RunError | None = None
    usage: Usage
    cost_usd: float | None = None
    """The price of `usage` in US dollars; null as soon as that of one call is not known."""
    structured: dict[str, JsonValue] | None = None
    """The answer as `output_schema` describes it, checked; null where none was asked for or the run ended otherwise."""


class RunningCall(Value):
    """A tool call that has begun and has no result."""

    call_id: str
    tool_name: str
    since: float | None = None
    """Unix time in seconds; absent where it began before the server did."""
    token: str | None = None
    """Its result comes from outside: `POST …/deferred/{token}`."""
    agent: str | None = None
    """The subagent whose call it is; absent for the main agent."""


class OpenRequest(Value):
    """A permission request that waits for its answer."""

    request_id: str
    kind: RequestKind
    tool_name: str
    since: float
    agent: str | None = None
    """The subagent that asks; absent for the main agent."""


class SubagentWait(Value):
    """What a subagent that is at work waits for."""

    agent: str
    """Its label."""
    task_id: str | None = None
    """The background task that it is; absent for one that the run waits for."""
    waiting_for: WaitingFor
    since: float
    """Unix time in seconds, as that of the session."""
    model: str | None = None
    until: float | None = None


class WhyDetail(Value):
    text: str
    """A sentence for a person."""
    agent: str | None = None
    """The subagent that waits for the model; absent for the main agent."""
    model: str | None = None
    """The model that is asked, or will be asked again: `provider/model`."""
    until: float | None = None
    """Unix time in seconds at which it goes on by itself."""
    calls: tuple[RunningCall, ...] = ()
    requests: tuple[OpenRequest, ...] = ()
    """The oldest first."""
    servers: tuple[str, ...] = ()
    """MCP servers that are not connected yet."""
    queued: int = 0
    """Prompts that wait for their run."""
    subagents: tuple[SubagentWait, ...] = ()
    """All that are at work, in the order in which they began, those in the background included."""


class Why(Value):
    """Why the session is not moving, or what it is moving on."""

    state: Literal["idle", "running", "interrupted", "suspended", "closing"]
    """`interrupted`: a run is unfinished since a server stopped; `suspended`: the last run ended so."""
    waiting_for: WaitingFor
    since: float
    """Unix time in seconds: since when it waits for just that. Of a model: when it was last heard."""
    detail: WhyDetail


class CancelAnswer(Value):
    cancelled: bool


class SuspendAnswer(Value):
    suspending: bool
    """A run is going on and stops at its next border. False: there was none."""


class QueueList(Value):
    queue: tuple[QueuedPrompt, ...]
    """The prompt that runs next first."""


class TaskList(Value):
    tasks: tuple[BackgroundTask, ...]
    """Those that run, and the last ones that have ended, in the order in which they began."""


class CompactAnswer(Value):
    summary: str
    """What the model goes on from."""


class PermissionList(Value):
    permissions: tuple[PermissionRequest, ...]


class RuleList(Value):
    rules: tuple[StandingRule, ...]


class PermissionGranted(Value):
    """The answer to an `always`: whether the rule will outlive this session."""

    allowed: bool
    persisted: bool
    rule: str
    expires_at: float | None = None
    """Unix time in seconds from which on the rule is in force no more."""
    error: str | None = None


class ApprovalInfo(Value):
    """A hook or an MCP server that comes with a repository: it runs on a person's word alone."""

    id: str
    """Made of the project and the content: what has changed has another, and waits again."""
    kind: Literal["hook", "mcp_server"]
    project: str
    """The folder whose files bring it."""
    source: str
    """The file that it stands in."""
    name: str
    """The moment of a hook with its matcher, the name of a server."""
    content: str
    """All of it as it stands in the file, as JSON: what is approved."""
    sha256: str
    state: Literal["waiting", "allowed", "denied"]
    time: float | None = None
    """Of the decision."""
    scripts: tuple[str, ...] = ()
    """Files of the project that its command names, from the project's top: their content is approved with it."""


class ApprovalList(Value):
    approvals: tuple[ApprovalInfo, ...]


class UndoAnswer(Value):
    """Paths are relative to the session's `cwd`."""

    restored: tuple[str, ...]
    """Hold again what they held before the run."""
    deleted: tuple[str, ...]
    """Were made by the run, and are gone."""
    skipped: tuple[Skipped, ...]
    """No longer hold what the agent left there, or cannot be changed: they are as they were."""


class Snapshot(Value):
    """The first event of every stream: what a new client must know."""

    type: Literal["snapshot"] = "snapshot"
    last_seq: int
    session: SessionState
    permissions: tuple[PermissionRequest, ...]
    queue: tuple[QueuedPrompt, ...] = ()
    partial: Partial | None = None
