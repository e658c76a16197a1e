"""The protocols between the rooms. The loop is given objects that satisfy them and knows nothing else."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from pydantic import BaseModel, JsonValue

from agentcore.caps import OUTPUT_LIMIT_BYTES
from agentcore.events import CompactionTrigger, Event, Mode, Notice, RequestKind, Scope, StopReason
from agentcore.messages import Attachment, Block, Message, ToolCall, ToolResult
from agentcore.usage import Usage
from agentcore.values import Value

# --- the event log ------------------------------------------------------------------------------------------------


class EventLog(Protocol):
    """Numbers events, journals the durable ones, and hands the bytes to its listeners."""

    @property
    def session(self) -> str:
        """The id of the session whose events these are."""
        ...

    @property
    def last_seq(self) -> int:
        """The highest number given out so far."""
        ...

    @property
    def last_ts(self) -> float:
        """Unix time of the last event, in seconds."""
        ...

    def emit(self, event: Event) -> int:
        """Number, encode and publish an event; return its number. Synchronous: never waits for a reader.

        Raises: StorageUnavailable when the journal cannot take it, TakenOver when another process owns it; then
        nothing was published.
        """
        ...

    def say_last(self, event: Event) -> int:
        """As `emit`, but it reaches the listeners even when the journal cannot be written: closing words."""
        ...

    async def sync(self) -> None:
        """Return when everything emitted so far survives a power cut. Raises: StorageUnavailable, TakenOver."""
        ...


# --- providers ----------------------------------------------------------------------------------------------------


class ToolDefinition(Value):
    """What the model is told about a tool."""

    name: str
    description: str
    input_schema: dict[str, JsonValue]


def _no_blobs(blob: str) -> bytes:
    raise KeyError(blob)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One model call, neutral to any vendor."""

    model: str
    """Without the provider's prefix."""
    system: str
    tools: tuple[ToolDefinition, ...]
    """Sorted by name."""
    messages: Sequence[Message]
    session: str = ""
    """For the vendor's cache routing; not shown to the model."""
    max_tokens: int | None = None
    temperature: float | None = None
    effort: str | None = None
    encoded: dict[str, bytes] = field(default_factory=dict)
    """Wire bytes that the adapter made of earlier messages, by its own key; kept by the caller from call to call,
    so that nothing that was said before is serialised again."""
    blob: Callable[[str], bytes] = _no_blobs
    """The bytes of an image or document of the messages, by its `BlobId`. Raises: KeyError where they are gone."""
    output_schema: Mapping[str, JsonValue] | None = None
    """JSON Schema of the answer's text; set only where the provider `has_structured_output`."""


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """More of a tool call's input has arrived."""

    call_id: str
    tool_name: str
    size_bytes: int
    """Length of the input text so far; 0 when the call begins."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The whole answer; comes last, once, and only after the protocol's own terminal event."""

    content: tuple[Block, ...]
    usage: Usage | None
    """None where the service told nothing about it: then the price is not known either."""
    stop: str
    """Neutral where there is a neutral word (`agentcore.stops`), else the vendor's own."""
    detail: str = ""
    """Why the vendor ended it, in its own words, where it says more than `stop`."""


StreamPart: TypeAlias = TextPart | ThinkingPart | ToolCallPart | Finished


class Provider(Protocol):
    """One model vendor. Raises only `ProviderError`, from entering the stream or while reading it."""

    name: str

    @property
    def is_local(self) -> bool:
        """It runs on this machine: slow to begin, and no reason to give up early."""
        ...

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[StreamPart]]:
        """Open one model call; leaving the context closes the connection at once."""
        ...

    def context_window(self, model: str) -> int | None:
        """Tokens that fit, where the provider knows."""
        ...

    def has_structured_output(self, model: str) -> bool:
        """Whether the vendor itself can hold an answer to `ModelRequest.output_schema`."""
        ...

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """What one call cost; None where no price is known, never 0 for that."""
        ...

    async def warm(self) -> None:
        """Load the SDK and make the client, so that the first prompt does not wait for it. May be called twice."""
        ...

    async def close(self) -> None: ...


# --- tools --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What the loop, the gate and the model need to know about a tool."""

    name: str
    description: str
    input: type[BaseModel]
    read_only: bool = False
    """Changes nothing: runs without asking."""
    read_only_actions: frozenset[str] = frozenset()
    """Values of the input field `action` with which it changes nothing, though with others it does."""
    parallel_safe: bool = False
    """May run beside other calls of the same batch."""
    timeout_s: float | None = 120.0
    """None: no bound, or the tool keeps its own."""
    edits: bool = False
    """Changes files named by `paths`: what accept-edits allows."""
    paths: tuple[str, ...] = ()
    """Input fields that hold a path."""
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES
    """A longer result keeps head and tail only."""
    asks: RequestKind | None = None
    """Always ask a person, with this kind of request, whatever the mode (a plan, a question)."""

    def only_reads(self, input: Mapping[str, JsonValue] | None) -> bool:
        """Whether a call with this valid input changes nothing."""
        action = (input or {}).get("action")
        return self.read_only or (isinstance(action, str) and action in self.read_only_actions)

    def definition(self) -> ToolDefinition:
        schema = self.input.model_json_schema()
        return ToolDefinition(name=self.name, description=self.description, input_schema=schema)


@dataclass(frozen=True, slots=True)
class ToolRoom:
    """What a running call is given; everything else a tool needs it got when it was made."""

    call_id: str
    say: Callable[[str], None]
    """Show output while the call runs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool call came to. A failure is data: `is_error`, with a text that the model can act on."""

    output: str
    is_error: bool = False
    display: str | None = None
    """For people where it says more than the output (a unified diff)."""
    events: tuple[Event, ...] = ()
    """Announced with the result (a changed task list)."""
    attachments: tuple[Attachment, ...] = ()
    """Pictures and documents for the model; they do not count to the output's cap."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """What a tool returns whose result comes later, from outside: the run ends `suspended` and goes on with it."""

    token: str
    """Names the call in `POST …/deferred/{token}`; never used twice in a session."""


class Tool(Protocol):
    """`input` is an instance of `spec.input` and the call's own copy. Cancellation must end all the tool started."""

    spec: ToolSpec

    async def run(self, input: Any, room: ToolRoom) -> Outcome | Deferred: ...

    def preview(self, input: Any) -> str | None:
        """What the call would change, for the person who is asked (a unified diff); None when it cannot tell."""
        ...


class ToolError(Exception):
    """A tool's failure as a sentence for the model: the short way to `Outcome(is_error=True)`."""


# --- blobs --------------------------------------------------------------------------------------------------------


class Blobs(Protocol):
    """The bytes of a session's images and documents, by their `BlobId`."""

    def put(self, data: bytes) -> str:
        """Keep bytes for good and return their name; the same bytes have the same name.

        Blocking: call it in a worker. Raises: StorageUnavailable.
        """
        ...

    def get(self, blob: str) -> bytes:
        """The bytes again. Blocking. Raises: KeyError for a name that is none, or whose bytes are gone."""
        ...


# --- checkpoints --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is about to be made or replaced."""

    real: Path
    """Resolved."""
    before: bytes | None
    """What it holds; None where there is none."""
    mode: int | None
    """Its permission bits."""
    after: bytes
    made: tuple[Path, ...] = ()
    """Folders that were made for it, outermost first."""


@dataclass(slots=True)
class Coverage:
    """What came of keeping files around one command; complete when the command has been left."""

    notices: list[Notice] = field(default_factory=list)


class Checkpoints(Protocol):
    """Keeps what files hold before a run changes them."""

    def begin_run(self, run: str) -> None:
        """What changes from now on belongs to the run of this id. Touches no disk."""
        ...

    def changing(self, change: FileChange) -> AbstractContextManager[None]:
        """Keep what a file holds around its replacement. Blocking. Raises: ToolError; then it must not be replaced."""
        ...

    def around_command(self) -> AbstractAsyncContextManager[Coverage]:
        """Keep what a command changes, as far as that can be told. Raises: ToolError; then it must not be run."""
        ...


# --- diagnostics --------------------------------------------------------------------------------------------------


class Diagnostics(Protocol):
    """What language servers say about the files that a session changes."""

    async def after_change(self, real: Path) -> str:
        """What is wrong in a file (its real path) that was just changed, for the model; empty where there is nothing
        to say. Waits some seconds at most, and never raises."""
        ...


# --- the sandbox --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """What a confined command may reach. All else on the disk it may read, and not write."""

    writable: tuple[Path, ...]
    """Folders of the project, resolved. Protected places in them stay as they are."""
    hidden: tuple[Path, ...] = ()
    """Resolved: credentials and the server's own state. There is nothing in them."""
    readable: tuple[Path, ...] = ()
    """Inside of what is hidden."""
    is_read_only: bool = False
    """Plan mode: nothing can be written but a private /tmp."""
    has_network: bool = False
    domains: tuple[str, ...] = ()
    """Without a network: what may be reached all the same, through a proxy. `*.example.com` is all below it."""


@dataclass(slots=True)
class Boxed:
    """A command as it is to be started, so that it runs confined."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    keep_fds: tuple[int, ...] = ()
    """Descriptors that it has to inherit."""
    remarks: list[str] = field(default_factory=list)
    """What was undone of what it did, a sentence each; complete when it has been left."""


class Sandbox(Protocol):
    """Confines commands, by what the system has for that."""

    kind: str

    @property
    def is_available(self) -> bool:
        """Whether it was tried, and works here."""
        ...

    @property
    def why_not(self) -> str | None:
        """A sentence for people; None where it works."""
        ...

    async def probe(self) -> None:
        """Find out whether it works here: once, whoever asks and however often."""
        ...

    def around(
        self, argv: Sequence[str], cwd: Path, environ: Mapping[str, str], profile: SandboxProfile
    ) -> AbstractAsyncContextManager[Boxed]:
        """Confine one command, which has ended before this is left. Only where it works. Raises: OSError."""
        ...

    def why_failed(self, printed: str, profile: SandboxProfile) -> str | None:
        """What of the sandbox may be behind the failure of a command that printed this; None: nothing looks like it."""
        ...


# --- guard --------------------------------------------------------------------------------------------------------


class OutputGuard(Protocol):
    """Looks at what a call says before the model, or anybody, is shown it."""

    @property
    def is_on(self) -> bool:
        """While it is, no output of a running call is shown."""
        ...

    async def check_outcome(self, outcome: Outcome) -> Outcome:
        """The result with what must not get through replaced."""
        ...

    async def check_output(self, text: str) -> str:
        """The same for a text of a hook, a person or the outside."""
        ...


class _NoGuard:
    is_on = False

    async def check_outcome(self, outcome: Outcome) -> Outcome:
        return outcome

    async def check_output(self, text: str) -> str:
        return text


NO_GUARD: OutputGuard = _NoGuard()


# --- permission ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Allow:
    mode: Mode | None = None
    """Set when a person approved a plan and chose how to go on."""
    input: Mapping[str, JsonValue] | None = None
    """The input a person put in the place of the call's; already validated."""


@dataclass(frozen=True, slots=True)
class Deny:
    reason: str
    """For the model: who denied, why, and what not to repeat."""


@dataclass(frozen=True, slots=True)
class Later:
    """Nobody answers now. The call stays open, its run ends `suspended` and goes on with the answer."""


Decision: TypeAlias = Allow | Deny | Later


@dataclass(frozen=True, slots=True)
class HookSays:
    """What the user's hooks said about a call before it is decided; the strictest of them counts."""

    verdict: Literal["deny", "defer", "ask", "allow"] | None = None
    reason: str = ""


UNHOOKED = HookSays()


class Gate(Protocol):
    async def needs_answer(self, call: ToolCall, tool: Tool) -> bool:
        """Whether `decide` would wait for a person. Changes nothing."""
        ...

    async def decide(
        self, original: ToolCall, effective: ToolCall, tool: Tool, input: BaseModel, says: HookSays = UNHOOKED
    ) -> Decision:
        """Decide about a valid call; may wait for a person for as long as it takes."""
        ...

    def settled(self, call: ToolCall) -> None:
        """The call has its result: what was granted with it now counts for the session."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to a person, as the gate poses it."""

    kind: RequestKind
    call: ToolCall
    digest: str
    reasons: tuple[str, ...]
    suggested_rules: tuple[str, ...]
    display: str | None = None
    is_put_off: bool = False
    """Nobody waits for the answer now: the call stays open, and the run goes on with it later."""
    needs_person: bool = False
    """No rule could allow it, and no hook can: what allows it is a person."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; not allowed with `expired` when nobody answered in time."""

    allow: bool
    expired: bool = False
    by_person: bool = True
    """False when the server answered because nobody is there to."""
    reason: str | None = None
    mode: Mode | None = None
    scope: Scope = "once"
    updated_input: Mapping[str, JsonValue] | None = None


class Judge(Protocol):
    """The model that is asked in mode `auto` before a person is."""

    async def objection(self, call: ToolCall, prompts: Sequence[str]) -> str | None:
        """Why a person should look at a call; None where it plainly serves what the user said.

        `prompts` are the user's last ones, and all that it may know besides the call. Raises: ProviderError.
        """
        ...


class Asker(Protocol):
    """Brings a question to whoever can answer it."""

    def was_asked(self, call_id: str, digest: str | None = None) -> bool:
        """Whether a request of this call is open, or was answered, since before the process was started.

        With a `digest` one about just that counts: hooks that run again may have made another call of it.
        """
        ...

    async def ask(self, question: Ask) -> Answer | Later: ...


# --- hooks --------------------------------------------------------------------------------------------------------

SessionSource: TypeAlias = Literal["startup", "resume", "clear", "compact", "fork"]
"""What a fresh context comes from."""


class Halted(Exception):
    """A hook said `continue: false`: the run ends `hook_stopped`, and nothing more of it happens."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What the user's hooks said at a moment of a run."""

    context: tuple[str, ...] = ()
    """For the model: each text as it is told, marked as a hook's."""
    blocked: str | None = None
    """Why that which is about to happen must not; None: it may."""
    is_halt: bool = False
    """The run ends here; see `Halted`."""
    title: str | None = None
    """What the session is to be called."""


@dataclass(frozen=True, slots=True)
class BeforeCall:
    """What hooks said about a call that the model asked for."""

    says: HookSays = UNHOOKED
    tool_name: str | None = None
    """The tool that is to run in its place; nobody has looked yet whether there is one."""
    input: JsonValue = None
    """What replaces the whole input; nobody has looked yet whether it is an object. None: nothing does."""
    context: tuple[str, ...] = ()
    """As `Heard.context`; it comes with the call's result."""
    is_halt: bool = False


@dataclass(frozen=True, slots=True)
class AfterCall:
    """What hooks said about what a call came to."""

    output: str | None = None
    """What replaces all that the tool said; None: nothing does."""
    context: tuple[str, ...] = ()
    is_halt: bool = False


@dataclass(frozen=True, slots=True)
class EndedRun:
    """A run that is about to have its `done`."""

    run_id: str
    prompt_id: str
    stop_reason: StopReason
    text: str
    """What the model said last."""
    turns: int


UNHEARD = Heard()


class Hooks(Protocol):
    """The user's hooks at the named moments of a run. Nothing they do raises; what goes wrong with one is a notice.

    They are told people's words themselves: `systemMessage`, `stopReason`, and why a prompt was blocked, are notices.
    """

    @property
    def has_prompt_hooks(self) -> bool:
        """Whether anything is heard about prompts: then none may reach the model unheard."""
        ...

    @property
    def has_end_hooks(self) -> bool:
        """Whether anything is heard about the session's end: else it takes no time."""
        ...

    async def session_started(self, source: SessionSource) -> Heard:
        """A fresh context begins with this run."""
        ...

    async def prompt_submitted(self, text: str) -> Heard:
        """A person's prompt is about to reach the model; `blocked` erases it."""
        ...

    async def before_call(self, call: ToolCall) -> BeforeCall:
        """The model asked for a call of a tool that there is."""
        ...

    async def permission_request(self, question: Ask) -> Answer | None:
        """A person is about to be asked; None: they are. Raises: Halted."""
        ...

    async def after_call(self, call: ToolCall, outcome: Outcome, duration_ms: int) -> AfterCall:
        """A call has run, well or not."""
        ...

    async def after_batch(self, results: Sequence[tuple[ToolCall, ToolResult]]) -> Heard:
        """All calls of a message have their results; `blocked` ends the run before the model is asked again."""
        ...

    async def stopping(self, text: str, *, is_continued: bool) -> Heard:
        """The run would end with this text; `blocked` and `context` send the model on.

        `is_continued`: it was sent on by such a hook before.
        """
        ...

    async def stop_failed(self, code: str, text: str) -> None:
        """The run ends with this error."""
        ...

    async def compacting(self, trigger: CompactionTrigger) -> Heard:
        """The context is about to be summarised; `blocked` leaves it as it is."""
        ...

    async def compacted(self, trigger: CompactionTrigger, summary: str) -> Heard:
        """The summary is in its place."""
        ...

    async def run_ended(self, run: EndedRun) -> None:
        """The run is over, whatever happened. Little time is given to it where somebody cancelled the run."""
        ...

    def run_left(self, run: EndedRun) -> None:
        """As `run_ended`, for a run that nobody goes on with; it does not wait."""
        ...

    def notify(self, kind: str, message: str) -> None:
        """A person is needed (`permission_prompt`, `idle_prompt`); it does not wait."""
        ...

    async def session_ended(self, reason: str) -> None:
        """The session is closed, or begins anew (`clear`); in at most the time that SessionEnd hooks share."""
        ...

    async def subagent_started(self, agent_id: str, agent_type: str) -> Heard: ...

    async def subagent_stopping(self, agent_id: str, agent_type: str, text: str, *, is_continued: bool) -> Heard:
        """As `stopping`, of a subagent."""
        ...


class NoHooks:
    """There are none. Satisfies the Hooks port."""

    has_prompt_hooks = False
    has_end_hooks = False

    async def session_started(self, source: SessionSource) -> Heard:
        return UNHEARD

    async def prompt_submitted(self, text: str) -> Heard:
        return UNHEARD

    async def before_call(self, call: ToolCall) -> BeforeCall:
        return BeforeCall()

    async def permission_request(self, question: Ask) -> Answer | None:
        return None

    async def after_call(self, call: ToolCall, outcome: Outcome, duration_ms: int) -> AfterCall:
        return AfterCall()

    async def after_batch(self, results: Sequence[tuple[ToolCall, ToolResult]]) -> Heard:
        return UNHEARD

    async def stopping(self, text: str, *, is_continued: bool) -> Heard:
        return UNHEARD

    async def stop_failed(self, code: str, text: str) -> None:
        return None

    async def compacting(self, trigger: CompactionTrigger) -> Heard:
        return UNHEARD

    async def compacted(self, trigger: CompactionTrigger, summary: str) -> Heard:
        return UNHEARD

    async def run_ended(self, run: EndedRun) -> None:
        return None

    def run_left(self, run: EndedRun) -> None:
        return None

    def notify(self, kind: str, message: str) -> None:
        return None

    async def session_ended(self, reason: str) -> None:
        return None

    async def subagent_started(self, agent_id: str, agent_type: str) -> Heard:
        return UNHEARD

    async def subagent_stopping(self, agent_id: str, agent_type: str, text: str, *, is_continued: bool) -> Heard:
        return UNHEARD


NO_HOOKS = NoHooks()


# --- what comes to a run from outside ---


class Steered(Protocol):
    """A prompt that is handed to the run that is going on."""

    @property
    def prompt_id(self) -> str: ...


# --- the end of a run ---


class Ending(Protocol):
    """What decides whether a run may end with what the model said."""

    def is_answered(self, messages: Sequence[Message]) -> bool:
        """Whether the last batch of calls was the answer, so that the model is not asked again."""
        ...

    async def objection(self, answer: str, model: str) -> str | None:
        """What to tell the model in place of ending with this text. Raises: RunFailed when that is of no use.

        `model` (`provider/model`) is named in the sentence of that error.
        """
        ...


# --- what a session may use ---


class Spending(Protocol):
    """Keeps a session within its budget."""

    async def stop(self, calls: int = 0) -> Literal["budget", "suspended"] | None:
        """Why the run must not go on to a model call, or to so many tool calls; None: it may.

        May wait for a person for as long as it takes. Raises: StorageUnavailable.
        """
        ...


# --- the size of the context ---


class Compactor(Protocol):
    """Makes room in the context. What it did is in the transcript and in the journal when it returns."""

    async def make_room(self, turn: int) -> None:
        """Compact at the head of a turn, where the context is nearly full.

        Raises: RunFailed when no compaction can help; Paused, StorageUnavailable.
        """
        ...

    async def recover(self, turn: int) -> bool:
        """Compact after a context did not fit; False when that is off, was done in this run already, or there is
        nothing to compact.

        Raises: RunFailed when it does not help; Paused, StorageUnavailable.
        """
        ...


# --- time ---------------------------------------------------------------------------------------------------------


class Clock(Protocol):
    def now(self) -> float:
        """Unix time in seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds that only go forward, for durations."""
        ...
