"""What the model may call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, JsonValue

from agentcore.caps import OUTPUT_LIMIT_BYTES
from agentcore.events import (
    Event,
    RequestKind,
)
from agentcore.messages import Attachment
from agentcore.ports.models import ToolDefinition


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
    gated_inside: bool = False
    """All that it does passes the gate by itself: the call needs no answer of its own, takes none of the places of
    calls side by side, and is not run again after a crash."""
    calls_another: bool = False
    """Its input is `name` and `input` of a call of another tool: that one is authorised, told and run in its place."""

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
    ends_run: bool = False
    """A hook inside of it said that everything ends: the run that called it is `hook_stopped`."""


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
