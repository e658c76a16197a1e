"""What is open of one agent of a session: its invocation, and in it a model call and tool calls."""

from dataclasses import dataclass
from typing import TypeAlias

from opentelemetry.context import Context
from opentelemetry.trace import Span
from pydantic import JsonValue

from agentcore.events import (
    AssistantMessage,
    Compacted,
    CompactionStart,
    ModelEnd,
    ModelStart,
    NumberedEvent,
    PermissionRequest,
    PermissionResolved,
    ToolEnd,
    ToolStart,
    TurnEnd,
    UsageReport,
    UserMessage,
)
from agentcore.telemetry import conventions as say
from agentcore.telemetry.conventions import Attributes
from agentcore.telemetry.news import News
from agentcore.telemetry.pen import Pen, inside, of_usage

FAILED = "failed"
"""The stop reason of a `model_end` whose call failed."""
TOOL_ERROR = "tool_error"

Invocation: TypeAlias = Span | None


@dataclass(slots=True)
class _Chat:
    span: Span
    began: float
    model: Attributes
    end: ModelEnd | None = None
    """It is over; what it spent and said is still told."""


@dataclass(slots=True)
class ToolSpan:
    span: Span
    name: str
    began: float


class Track:
    def __init__(self, pen: Pen, session: str, began: float, place: Context, name: str, invocation: Invocation) -> None:
        """`invocation` is open until `end`; None: a model call that belongs to no run. `place` is where it lies, and
        `name` that of a subagent."""
        self._pen = pen
        self._session = session
        self._began = began
        self._place = place if invocation is None else inside(invocation)
        self._named: Attributes = {say.AGENT_NAME: name} if name else {}
        self._has_model = False
        self._prompts: list[JsonValue] = []
        self._news = None if pen.content is None else News(pen.content)
        self._is_compacting = False
        self._chat: _Chat | None = None
        self.invocation = invocation
        self.tools: dict[str, ToolSpan] = {}
        """By call id, in the order in which they began."""
        self.is_resting = False
        """It is between two turns, or behind the last one."""
        self.last_ts = began

    def take(self, event: NumberedEvent) -> None:
        self.last_ts = event.ts
        if not isinstance(event, UsageReport | AssistantMessage):
            self._settle_chat()
        match event:
            case UserMessage():
                self._prompted(event)
            case ModelStart():
                self._begin_chat(event)
            case ModelEnd() if self._chat is not None:
                self._chat.end = event
            case UsageReport() if self._chat is not None:
                self._account(self._chat, event)
            case AssistantMessage():
                self._said(event)
            case CompactionStart():
                self._is_compacting = True
            case Compacted():
                self._compacted(event)
            case ToolStart():
                self._begin_tool(event)
            case ToolEnd():
                self._end_tool(event)
            case PermissionRequest():
                self._note(event, {say.TOOL_NAME: event.tool_name, say.REQUEST_KIND: event.kind})
            case PermissionResolved():
                by: Attributes = {} if event.answered_by is None else {say.ANSWERED_BY: event.answered_by}
                self._note(event, {say.RESOLUTION: event.resolution, **by})
            case _:
                pass
        self.is_resting = isinstance(event, TurnEnd)

    def end(self, at: float, error: str | None = None, said: Attributes | None = None) -> None:
        """End it with all that is open in it."""
        self._settle_chat()
        if self._chat is not None:
            self._pen.end(self._chat.span, at)
        for tool in self.tools.values():
            self._pen.end(tool.span, at)  # deferred, or cut off
        self._chat = None
        self.tools.clear()
        if self.invocation is not None:
            self.invocation.set_attributes(said or {})
            self._pen.end(self.invocation, at, error)
            self._pen.measure(say.INVOKE_AGENT, at - self._began, self._named, error)

    # --- what was said to it ---

    def _prompted(self, message: UserMessage) -> None:
        if self._news is not None:
            self._news.prompted(message)
        if self.invocation is not None and self._pen.content is not None:
            self._prompts.append(self._pen.content.message("user", message.content))
            self.invocation.set_attribute(say.INPUT_MESSAGES, self._pen.content.joined(self._prompts))

    def _compacted(self, event: Compacted) -> None:
        self._is_compacting = False
        if self._news is not None and event.message is not None:
            self._news.compacted(event.message, event.kept)

    def _note(self, event: PermissionRequest | PermissionResolved, attributes: Attributes) -> None:
        if self.invocation is not None:
            self._pen.note(self.invocation, event.type, event.ts, {say.REQUEST_ID: event.request_id, **attributes})

    # --- model calls ---

    def _begin_chat(self, event: ModelStart) -> None:
        model = say.of_model(event.model)
        if self.invocation is not None and not self._has_model:
            self.invocation.set_attributes(model)
            self._has_model = True
        attributes: Attributes = {
            **model,
            say.CONVERSATION: self._session,
            say.STREAM: True,
            say.TURN: event.turn,
            say.ATTEMPT: event.attempt,
        }
        if self._news is not None and not (event.beside or self._is_compacting):  # else it is asked something else
            attributes[say.INPUT_MESSAGES] = str(self._news)
        span = self._pen.begin(say.CHAT, str(model[say.MODEL]), event.ts, self._place, attributes | self._named)
        self._chat = _Chat(span, event.ts, model)

    def _account(self, chat: _Chat, event: UsageReport) -> None:
        if event.spent.context_tokens:  # else the vendor does not tell
            chat.span.set_attributes(of_usage(event.spent, event.spent_usd))
            self._pen.count_tokens(event.spent, chat.model)

    def _said(self, event: AssistantMessage) -> None:
        if self._news is not None:
            self._news.answered(event.message)
        if self._chat is not None and self._pen.content is not None:
            reason = None if self._chat.end is None else self._chat.end.stop_reason
            answer = self._pen.content.message("assistant", event.message.content, reason)
            self._chat.span.set_attribute(say.OUTPUT_MESSAGES, self._pen.content.joined([answer]))

    def _settle_chat(self) -> None:
        """Close a model call that is over, now that all of it was told."""
        chat = self._chat
        if chat is None or chat.end is None:
            return
        end, self._chat = chat.end, None
        error = (end.error_code or say.OTHER) if end.stop_reason == FAILED else None
        chat.span.set_attribute(say.FINISH_REASONS, [end.stop_reason])
        if end.ttft_ms is not None:
            chat.span.set_attribute(say.FIRST_CHUNK_S, end.ttft_ms / 1000)
            self._pen.measure_first_chunk(end.ttft_ms / 1000, chat.model)
        self._pen.end(chat.span, end.ts, error)
        self._pen.measure(say.CHAT, end.ts - chat.began, chat.model, error)

    # --- tool calls ---

    def _begin_tool(self, event: ToolStart) -> None:
        attributes: Attributes = {
            say.TOOL_NAME: event.tool_name,
            say.TOOL_TYPE: "function",
            say.CALL_ID: event.call_id,
            say.CONVERSATION: self._session,
            **self._named,
        }
        if self._pen.content is not None:
            attributes[say.CALL_ARGUMENTS] = self._pen.content.json(event.input)
        span = self._pen.begin(say.EXECUTE_TOOL, event.tool_name, event.ts, self._place, attributes)
        self.tools[event.call_id] = ToolSpan(span, event.tool_name, event.ts)

    def _end_tool(self, event: ToolEnd) -> None:
        if self._news is not None:
            self._news.resulted(event)
        tool = self.tools.pop(event.call_id, None)
        if tool is None:
            return  # it was never begun, or began in an earlier run
        if self._pen.content is not None:
            tool.span.set_attribute(say.CALL_RESULT, self._pen.content.text(event.output))
        error = TOOL_ERROR if event.is_error else None
        self._pen.end(tool.span, event.ts, error)
        named: Attributes = {say.TOOL_NAME: tool.name, say.TOOL_TYPE: "function"}
        self._pen.measure(say.EXECUTE_TOOL, event.ts - tool.began, named | self._named, error)
