"""What goes on in a session right now, read off its events as they are made: the model call, the tools that run.

Knows events alone, so it cannot differ from what every client is told. What began before the session was loaded is not
in it. Costs next to nothing for a delta: thousands come in a second. Times are Unix seconds.
"""

from dataclasses import dataclass

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


class Activity:
    def __init__(self, clock: Clock, since: float) -> None:
        """`since`: when something last happened before the session was loaded."""
        self._clock = clock
        self.model: ModelCall | None = None
        """The model call that is going on."""
        self.tools: dict[str, ToolRun] = {}
        """Calls that began and have no result, by id; those that were deferred among them."""
        self.retry: Waiting | None = None
        """The pause before a model is asked again, if that is what goes on."""
        self.moved_at = since
        """When something last happened, deltas aside."""
        self.rested_at = since
        """When it last became busy or idle."""

    def take(self, seq: int, kind: str, line: bytes) -> None:
        """Take note of an event: a listener of the log. What a subagent does is what the call does that it belongs to,
        and says nothing of the model that the session itself waits for."""
        if kind in _HEARD:
            if self.model is not None and _OF_A_SUBAGENT not in line:
                self.model.heard_at = self._now()
            return
        if kind == "tool_output_delta":
            return
        if kind in _READ or kind in _ENDS:
            event = EVENTS.validate_json(line)
            if event.agent is not None:
                return
            self._apply(event)
        self.moved_at = self._now()
        if kind == "status":
            self.rested_at = self.moved_at

    def _now(self) -> float:
        return round(self._clock.now(), 3)

    def _apply(self, event: NumberedEvent) -> None:
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
