"""What goes on in a session right now, read off its events as they are made: model calls, and the tools that run, of
the main agent and of each subagent by itself.

Knows events alone, so it cannot differ from what every client is told. What began before the session was loaded is not
in it. Costs next to nothing for a delta: thousands come in a second. Times are Unix seconds.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from agentcore.events import EVENTS, ModelStart, NumberedEvent, ToolEnd, ToolStart, Waiting
from agentcore.ports.clock import Clock

_HEARD = frozenset({"text_delta", "thinking_delta", "tool_call_delta"})
_ENDS = frozenset({"status", "done", "turn_end", "model_end"})
_READ = frozenset({"model_start", "tool_start", "tool_end", "waiting"})


@dataclass(slots=True)
class ModelCall:
    model: str
    """`provider/model`."""
    heard_at: float
    """When it was asked, or last said something."""


@dataclass(frozen=True, slots=True)
class ToolRun:
    call_id: str
    tool_name: str
    since: float


_OF_A_SUBAGENT = b',"agent":"'
"""Of a delta, which has strings alone: in them quotes are escaped."""


@dataclass(slots=True)
class Doing:
    """What one agent does."""

    model: ModelCall | None = None
    """The model call that is going on."""
    tools: dict[str, ToolRun] = field(default_factory=dict)
    """Calls that began and have no result, by id; those that were deferred among them."""
    retry: Waiting | None = None
    """The pause before a model is asked again, if that is what goes on."""

    def apply(self, event: NumberedEvent) -> None:
        match event:
            case ModelStart(model=model, ts=ts):
                self.model = ModelCall(model, ts)
            case ToolStart(call_id=call_id, tool_name=name, ts=ts):
                self.tools[call_id] = ToolRun(call_id, name, ts)
            case ToolEnd(call_id=call_id):
                self.tools.pop(call_id, None)
            case Waiting(waiting_for="retry"):
                self.retry = event
            case _:
                self.model = self.retry = None


class Activity:
    def __init__(self, clock: Clock, since: float) -> None:
        """`since`: when something last happened before the session was loaded."""
        self._clock = clock
        self.main = Doing()
        self.subagents: dict[str, Doing] = {}
        """By label; those that have ended among them until `keep`."""
        self.moved_at = since
        """When something last happened, deltas aside."""
        self.rested_at = since
        """When it last became busy or idle."""

    def take(self, seq: int, kind: str, line: bytes) -> None:
        """Take note of an event: a listener of the log. What a subagent hears says nothing of the model that the main
        agent waits for."""
        if kind in _HEARD:
            self._heard(line)
            return
        if kind == "tool_output_delta":
            return
        if kind in _READ or kind in _ENDS:
            event = EVENTS.validate_json(line)
            doing = self.main if event.agent is None else self.subagents.setdefault(event.agent, Doing())
            doing.apply(event)
        self.moved_at = self._now()
        if kind == "status":
            self.rested_at = self.moved_at

    def keep(self, labels: Collection[str]) -> None:
        """Forget all subagents but these."""
        for label in self.subagents.keys() - labels:
            del self.subagents[label]

    def _heard(self, line: bytes) -> None:
        _, mark, rest = line.partition(_OF_A_SUBAGENT)
        doing = self.subagents.get(rest.partition(b'"')[0].decode()) if mark else self.main
        if doing is not None and doing.model is not None:
            doing.model.heard_at = self._now()

    def _now(self) -> float:
        return round(self._clock.now(), 3)
