"""Whether a call may run, and who says so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from pydantic import BaseModel, JsonValue

from agentcore.events import (
    Mode,
    RequestKind,
    Scope,
)
from agentcore.messages import ToolCall
from agentcore.ports.tools import Tool


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
    task_id: str | None = None
    """The background task that asks: its request lives until the task ends, and is never put off."""
    agent: str | None = None
    """Label of the subagent that asks: one that is gone when the process ends, so it waits now or not at all."""
    turn: int | None = None
    """The subagent's, which counts its own."""
    ends_with_wait: bool = False
    """Nobody could take its answer later: where the wait for it is cancelled, it is taken back."""


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
    rules: tuple[tuple[str, Scope], ...] = ()
    """Allow rules that a hook puts in force with its yes, each with how long it holds."""


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
