"""What one session's events become. Its log tells it each, in order; nothing that happens knows of it.

A run is what stands between the step in which the session was claimed and its `done`; a subagent's events (those with
an `agent`) lie in the call that began it. Promise: what was begun is ended - with its run, with the session, or with
the process - and what is forgotten without that holds no memory.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.context import Context
from opentelemetry.trace import Span

from agentcore.events import (
    EVENTS,
    Compacted,
    CompactionStart,
    Done,
    Error,
    ModelStart,
    NumberedEvent,
    PermissionRequest,
    SessionClosed,
    Status,
    TaskUpdate,
    ToolEnd,
    ToolStart,
    TurnStart,
    UserMessage,
)
from agentcore.messages import Text
from agentcore.telemetry import conventions as say
from agentcore.telemetry.conventions import Attributes
from agentcore.telemetry.pen import ROOT, Pen, inside, of_usage
from agentcore.telemetry.tracks import Track

HEARD = frozenset(
    {
        "assistant_message",
        "compacted",
        "compaction_start",
        "done",
        "error",
        "model_end",
        "model_start",
        "permission_request",
        "permission_resolved",
        "session_closed",
        "status",
        "task_update",
        "tool_end",
        "tool_start",
        "turn_end",
        "turn_start",
        "usage",
        "user_message",
    }
)
"""All others are passed over unread: most events are pieces of a text."""
_BEGIN = UserMessage | TurnStart | ModelStart | ToolStart | PermissionRequest | Error | Done
"""What happens in runs alone: the first of them begins one."""
_NUMBER = re.compile(r"-\d+$")


class Observer:
    """Satisfies the listener of a session's log."""

    def __init__(self, session: str, pen: Pen) -> None:
        self._session = session
        self._pen = pen
        self._claimed: float | None = None
        """Since when the session works, where no run of it has begun yet."""
        self._main: Track | None = None
        self._subagents: dict[str, _Subagent] = {}
        """By label."""
        self._error: str | None = None

    def __call__(self, seq: int, kind: str, line: bytes) -> None:
        if kind in HEARD:
            self._take(EVENTS.validate_json(line))

    def close(self, at: float | None = None) -> None:
        """End all that is open, at that time, or when something of it happened last."""
        left: Attributes = {say.LEFT_OPEN: True}
        subagents = [subagent.track for subagent in self._subagents.values()]
        for track in (*subagents, *([] if self._main is None else [self._main])):
            track.end(track.last_ts if at is None else at, said=left)
        self._main = None
        self._subagents.clear()

    def _take(self, event: NumberedEvent) -> None:
        match event:
            case Status():
                self._claimed = event.ts if event.busy else None
            case TaskUpdate():
                if event.state != "running":
                    self._end_subagents(event.ts, lambda subagent: subagent.task == event.task_id)
            case SessionClosed():
                self._end_subagents(event.ts, lambda subagent: subagent.track.is_resting)
                self.close(event.ts)
            case _ if event.agent is not None:
                self._subagent(event.agent, event).take(event)
            case _:
                self._take_own(event)

    def _take_own(self, event: NumberedEvent) -> None:
        """Of the main agent."""
        if self._main is None:
            self._main = self._begun_by(event)
        if self._main is None:
            return
        self._main.take(event)
        match event:
            case ToolEnd():
                self._end_subagents(event.ts, lambda subagent: subagent.call == event.call_id and not subagent.task)
            case Error():
                self._error = event.code
            case Done():
                self._end_run(self._main, event)
            case Compacted() if self._main.invocation is None:
                self._main.end(event.ts)
                self._main, self._claimed = None, event.ts  # what was prompted meanwhile begins in this step

    def _begun_by(self, event: NumberedEvent) -> Track | None:
        if isinstance(event, CompactionStart) and event.trigger == "request":
            return Track(self._pen, self._session, event.ts, ROOT, "", None)
        if not isinstance(event, _BEGIN):
            return None  # the answer to a suspended run's question, say
        began = event.ts if self._claimed is None else self._claimed
        return self._track(began, "", self._pen.begin(say.INVOKE_AGENT, "", began, ROOT, self._about))

    @property
    def _about(self) -> Attributes:
        return {say.CONVERSATION: self._session}

    def _track(self, began: float, name: str, span: Span) -> Track:
        return Track(self._pen, self._session, began, ROOT, name, span)

    def _end_run(self, main: Track, event: Done) -> None:
        self._end_subagents(event.ts, lambda subagent: not subagent.task)
        said: Attributes = {
            say.RUN_ID: event.run_id,
            say.STOP_REASON: event.stop_reason,
            say.TURNS: event.turns,
            **of_usage(event.usage, event.cost_usd),
        }
        if event.prompt_id is not None:
            said[say.PROMPT_ID] = event.prompt_id
        if self._pen.content is not None:
            answer = self._pen.content.message("assistant", [Text(text=event.text)], event.stop_reason)
            said[say.OUTPUT_MESSAGES] = self._pen.content.joined([answer])
        error = (self._error or say.OTHER) if event.stop_reason == "error" else None
        main.end(event.ts, error, said)
        self._main = self._error = None
        self._claimed = event.ts  # of the next prompt, if one waits: it begins in this step

    # --- subagents ---

    def _subagent(self, label: str, event: NumberedEvent) -> Track:
        subagent = self._subagents.get(label)
        if subagent is None:
            name = _NUMBER.sub("", label)
            call, task = (event.for_call or "", event.for_task or "") if isinstance(event, UserMessage) else ("", "")
            about: Attributes = {**self._about, say.AGENT_NAME: name, say.AGENT_ID: label}
            span = self._pen.begin(say.INVOKE_AGENT, name, event.ts, self._place_in(call), about)
            self._subagents[label] = subagent = _Subagent(self._track(event.ts, name, span), call, task)
        return subagent.track

    def _place_in(self, call: str) -> Context:
        """Inside of that call where it goes on, else of the run."""
        if self._main is None or self._main.invocation is None:
            return ROOT
        tool = self._main.tools.get(call)
        return inside(self._main.invocation if tool is None else tool.span)

    def _end_subagents(self, at: float, is_over: Callable[["_Subagent"], bool]) -> None:
        for label, subagent in list(self._subagents.items()):
            if is_over(subagent):
                subagent.track.end(subagent.track.last_ts if subagent.track.is_resting else at)
                del self._subagents[label]


@dataclass(frozen=True, slots=True)
class _Subagent:
    track: Track
    call: str
    """The call of the main agent that began it; empty where that is not known."""
    task: str
    """The background task that it is, with which it ends; empty: it ends with its call."""
