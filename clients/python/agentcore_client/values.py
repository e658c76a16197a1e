"""What the server answers and what a client sends, as values.

Received values are open: fields of a newer server are ignored, and words that may grow (modes, states) are plain
strings. Sent values are closed, so a misspelt setting is found by the type checker.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from agentcore.events import Partial, PermissionRequest, Scope, Skipped
from agentcore.messages import Block
from agentcore.session import DeferredCall
from agentcore.usage import Budget, Usage, Used


class Received(BaseModel):
    """A value that came from the server."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ProviderState(Received):
    """A model vendor as the server sees it."""

    name: str
    models: tuple[str, ...] = ()
    ready: bool = False
    why_not: str | None = None


class SandboxState(Received):
    """Whether commands are confined."""

    kind: str | None = None
    available: bool = False
    why_not: str | None = None


class McpServerState(Received):
    """An MCP server that some session uses."""

    name: str
    state: str
    tools: int = 0
    error: str | None = None
    transport: str = ""
    source: str = ""


class Info(Received):
    """What the server is and can."""

    version: str
    cwd: str
    roots: tuple[str, ...]
    default_model: str | None = None
    providers: tuple[ProviderState, ...] = ()
    sandbox: SandboxState = SandboxState()
    mcp: tuple[McpServerState, ...] = ()
    lsp: tuple[str, ...] = ()
    features: tuple[str, ...] = ()


class BudgetState(Received):
    """What a session may use, and what it has used."""

    limits: Budget = Budget()
    used: Used = Used()


class SessionState(Received):
    """One loaded session, as it stood when the server answered."""

    id: str
    title: str | None = None
    cwd: str
    fork_of: str | None = None
    provider: str | None = None
    model: str
    effort: str | None = None
    mode: str
    unattended: str | None = None
    busy: bool
    waiting_for: str | None = None
    last_seq: int
    oldest_seq: int | None = None
    """The oldest number whose deltas can still be replayed."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """The price of `usage` in US dollars; None as soon as that of one call is not known."""
    budget: BudgetState = BudgetState()
    pending_permissions: int = 0
    interrupted: bool = False
    """A run is unfinished since the server stopped: resume it, answer its requests, or send a new prompt."""
    suspended: bool = False
    """The last run ended `suspended`: resume it, give it the answers it waits for, or cancel it."""
    queued_prompts: int = 0
    running_tasks: int = 0
    """Background tasks that go on; see `tasks`."""
    deferred: tuple[DeferredCall, ...] = ()
    """Calls whose result comes from outside: `answer_deferred`."""
    created: float
    """Unix time in seconds, as `modified`."""
    modified: float


class BackgroundTask(Received):
    """Work that goes on beside the conversation, or has ended. Times are Unix seconds."""

    task_id: str
    kind: str
    """`bash`: a command; `agent`: a subagent."""
    label: str
    state: str
    """`running`, `completed`, `failed`, `stopped`, or `lost`: it was alive when the server ended."""
    started: float
    ended: float | None = None
    result: str | None = None
    """What it came to, as the model is told; None while it runs."""


class Fork(SessionState):
    """A session that begins with the history of another."""

    prompt: str | None = None
    """Where it was forked just before a prompt: its text, to be edited and sent again."""
    attachments: tuple[dict[str, str], ...] = ()
    """What went with that prompt, for the `attachments` of the next one."""


class SessionSummary(Received):
    """One row of the list of sessions, loaded or not."""

    id: str
    title: str | None = None
    cwd: str
    created: float
    modified: float
    fork_of: str | None = None
    loaded: bool = False
    busy: bool = False
    waiting_for: str | None = None


class SessionPage(Received):
    """Part of the list, newest first."""

    sessions: tuple[SessionSummary, ...]
    next_cursor: str | None = None
    """Give it back to get the next page; None on the last one."""
    unreadable: tuple[str, ...] = ()
    """Ids of sessions that are there and cannot be read."""


class StoredMessage(Received):
    """One entry of the display history."""

    index: int
    id: str
    seq: int
    role: str
    content: tuple[Annotated[Block | dict[str, JsonValue], Field(union_mode="left_to_right")], ...]
    """Blocks of a kind that this client does not know stay plain objects."""
    display_text: str | None = None
    """What the person typed, where it differs from the content."""
    source: str | None = None
    prompt_id: str | None = None


class MessagePage(Received):
    """The display history; a stream after `last_seq` misses and repeats nothing of it."""

    messages: tuple[StoredMessage, ...]
    last_seq: int
    partial: Partial | None = None
    """The assistant message being streamed right now."""


class RunningCall(Received):
    """A tool call that has begun and has no result."""

    call_id: str
    tool_name: str
    since: float | None = None
    """Unix time in seconds; None where it began before the server did."""
    token: str | None = None
    """Its result comes from outside: `answer_deferred`."""
    agent: str | None = None
    """The subagent whose call it is; None for the main agent."""


class OpenRequest(Received):
    """A permission request that waits for its answer."""

    request_id: str
    kind: str
    tool_name: str
    since: float
    agent: str | None = None
    """The subagent that asks; None for the main agent."""


class SubagentWait(Received):
    """What a subagent that is at work waits for."""

    agent: str
    """Its label."""
    task_id: str | None = None
    """The background task that it is; None for one that the run waits for."""
    waiting_for: str
    since: float
    model: str | None = None
    until: float | None = None


class WhyDetail(Received):
    text: str
    """A sentence for a person."""
    agent: str | None = None
    """The subagent that waits for the model; None for the main agent."""
    model: str | None = None
    until: float | None = None
    """Unix time in seconds at which it goes on by itself."""
    calls: tuple[RunningCall, ...] = ()
    requests: tuple[OpenRequest, ...] = ()
    servers: tuple[str, ...] = ()
    """MCP servers that are not connected yet."""
    queued: int = 0
    subagents: tuple[SubagentWait, ...] = ()
    """All that are at work, those in the background included."""


class Why(Received):
    """Why a session is not moving."""

    state: str
    """`idle`, `running`, `interrupted`, `suspended` or `closing`."""
    waiting_for: str
    """`model`, `tool`, `permission`, `question`, `retry`, `mcp`, `queue` or `nothing`."""
    since: float
    """Unix time in seconds. Of a model: when it was last heard."""
    detail: WhyDetail


class Approval(Received):
    """A hook or an MCP server of a repository, which runs on a person's word alone."""

    id: str
    """Made of the project and the content: what has changed has another."""
    kind: str
    project: str
    source: str
    name: str
    content: str
    """All of it, as JSON."""
    sha256: str
    state: str
    """`waiting`, `allowed` or `denied`."""
    time: float | None = None
    scripts: tuple[str, ...] = ()
    """Files of the project that its command names: their content is approved with it."""


class Undo(Received):
    """What an undo did, or would do; paths are relative to the session's `cwd`."""

    restored: tuple[str, ...]
    deleted: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    """Left as they are, each with the reason."""


class Accepted(Received):
    """A prompt was taken and is durable. Keep it to `follow` the prompt, also from another process."""

    session: str
    prompt_id: str
    after_seq: int
    """The last number before the prompt was accepted: read on from here."""
    disposition: str = "started"
    """`started`, `queued` (it has its own run later) or `steering` (the run that is going on takes it)."""


class RunError(Received):
    """Why a run ended before its time."""

    code: str
    text: str
    retryable: bool = False
    """The same prompt may work later."""
    retry_after: float | None = None
    """Seconds, where the provider said so."""


class Outcome(Received):
    """The answer to a prompt that was waited for."""

    session: str
    prompt_id: str
    text: str
    stop_reason: str
    error: RunError | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    """The price of `usage` in US dollars; None as soon as that of one call is not known."""
    structured: dict[str, JsonValue] | None = None
    """The answer as `output_schema` describes it, checked; None where none was asked for or the run ended otherwise."""


class Rule(Received):
    """A permission rule that holds for more than one call, until it is taken back."""

    id: str
    effect: str
    """`allow`, `ask` or `deny`."""
    rule: str
    scope: str
    """`session`, `project` or `user`."""
    source: str
    """The settings file that it stands in, without its folder; `session` for a grant."""
    session: str | None = None
    """Whose grant it is; it ends with that session."""
    expires_at: float | None = None
    """Unix time in seconds: from then on it is in force no more."""


class GrantReport(Received):
    """What became of an answer that is to hold for more than one call."""

    allowed: bool
    persisted: bool = False
    rule: str | None = None
    expires_at: float | None = None
    """Of the rule: Unix time in seconds."""
    error: str | None = None


class Answer(BaseModel):
    """What a client says to a permission request; the same fields as the body of the endpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allow: bool
    always: bool | None = None
    scope: Scope | None = None
    expires_in_s: float | None = None
    """For how long the rule of an `always` is in force; without it, until it is taken back."""
    reason: str | None = None
    """Told to the model when it is refused."""
    mode: str | None = None
    """The mode after an approved plan."""
    updated_input: Mapping[str, JsonValue] | None = None
    """Run this instead of what was asked."""
    answer: JsonValue = None
    """The reply to a question."""
    digest: str | None = None
    """Of the request as it was shown; the server refuses the answer when the request is another by now."""

    def about(self, request: PermissionRequest) -> "Answer":
        """The same answer, bound to what was shown."""
        return self if self.digest else self.model_copy(update={"digest": request.digest})


class Settings(TypedDict, total=False):
    """What can be set when a session is created, and changed later."""

    title: str
    model: str
    """`provider/model`."""
    effort: str
    mode: Literal["default", "accept-edits", "plan", "auto", "deny", "yolo"]
    unattended: Literal["wait", "deny", "defer"]
    expires_after_s: float
    max_turns: int
    max_tokens: int
    temperature: float
    system_append: str
    trace: bool
    """Keep what is sent to models, for `trace`."""
    budget: "Limits"


class Limits(TypedDict, total=False):
    """What a session may use in all; a limit that is left out keeps its value, None lifts it."""

    usd: float | None
    tokens: int | None
    time_s: float | None
    """Seconds in which the model or tools were at work."""
    tool_calls: int | None


class AttachedBlob(TypedDict):
    """Something that was uploaded to the session, or shown in it."""

    blob: str


class AttachedPath(TypedDict):
    """A file on the server's machine."""

    path: str


class AttachedData(TypedDict):
    """A small file in the prompt itself."""

    media_type: str
    data: str
    """Base64."""


class Blob(Received):
    """What an upload came to."""

    blob: str
    media_type: str
    """Of what is kept: a picture may have been made smaller."""
    size: int

    @property
    def attachment(self) -> AttachedBlob:
        """What names it in the `attachments` of a prompt."""
        return {"blob": self.blob}


class Shown(TypedDict, total=False):
    """What a stream shows; default: everything."""

    kinds: Sequence[str]
    """Events of these types alone."""
    detail: Literal["full", "final"]
    """`final`: without what is for display alone, as deltas are."""


class PromptOptions(TypedDict, total=False):
    """What can go with a prompt; a server that cannot do it answers 400."""

    when_busy: Literal["reject", "queue", "steer", "interrupt"]
    attachments: Sequence[AttachedBlob | AttachedPath | AttachedData]
    """Shown to the model before the text."""
    output_schema: Mapping[str, JsonValue]
    """JSON Schema of an object, which the answer then satisfies: `structured`, of the outcome and of `done`."""
