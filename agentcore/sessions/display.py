"""The display history: every message of a session in order, whatever the model still remembers of it."""

from collections.abc import Iterable

from agentcore.events import EVENTS, AssistantMessage, NumberedEvent, ToolEnd, UserMessage, head_of
from agentcore.messages import ToolCall, ToolResult
from agentcore.session import HistoryMessage

_SHOWN = frozenset({"user_message", "assistant_message", "tool_end"})


def display(lines: Iterable[bytes], *, after_seq: int = 0, limit: int | None = None) -> list[HistoryMessage]:
    """Fold journal lines into messages; the results of one assistant message stand together in one.

    A batch that is still running shows the results that are in. `after_seq` leaves out what was complete by then;
    `limit` keeps the first so many of the rest.
    """
    messages: list[HistoryMessage] = []
    for line in lines:
        head = head_of(line)
        if head is None or head[0] not in _SHOWN:
            continue
        event = EVENTS.validate_json(line, extra="ignore")
        if event.agent is None:
            _add(messages, event)
    shown = [message for message in messages if message.seq > after_seq]
    return shown if limit is None else shown[:limit]


def _add(messages: list[HistoryMessage], event: NumberedEvent) -> None:
    index = len(messages)
    match event:
        case UserMessage(id=message_id, content=content, source=source, prompt_id=prompt_id):
            messages.append(
                HistoryMessage(
                    index=index,
                    id=message_id,
                    seq=event.seq,
                    role="user",
                    content=content,
                    source=source,
                    prompt_id=prompt_id,
                )
            )
        case AssistantMessage(message=message):
            messages.append(
                HistoryMessage(index=index, id=message.id, seq=event.seq, role="assistant", content=message.content)
            )
        case ToolEnd():
            _add_result(messages, event)
        case _:
            pass


def _add_result(messages: list[HistoryMessage], event: ToolEnd) -> None:
    """Put a result beside those of its batch, in the order of the calls."""
    so_far = messages.pop() if messages[-1].role == "user" else None
    calls = [block.id for block in messages[-1].content if isinstance(block, ToolCall)]
    result = ToolResult(call_id=event.call_id, content=event.output, is_error=event.is_error)
    results = [*(so_far.content if so_far else ()), result]
    results.sort(key=lambda block: calls.index(block.call_id) if isinstance(block, ToolResult) else len(calls))
    messages.append(
        HistoryMessage(
            index=len(messages),
            id=f"{messages[-1].id}-results",
            seq=event.seq,
            role="user",
            content=tuple(results),
        )
    )
