"""What the user wants told, and asked, on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pydantic import JsonValue

from agentcore.events import (
    CompactionTrigger,
    StopReason,
)
from agentcore.messages import ToolCall, ToolResult
from agentcore.ports.permission import UNHOOKED, Answer, Ask, HookSays
from agentcore.ports.tools import Outcome

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
