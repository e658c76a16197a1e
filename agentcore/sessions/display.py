"""The display history: every message of a session in order, whatever the model still remembers of it."""

from collections.abc import Iterable, Iterator
from itertools import islice

from agentcore.events import EVENTS, AssistantMessage, NumberedEvent, ToolEnd, UserMessage, head_of
from agentcore.messages import ToolCall, ToolResult
from agentcore.session import HistoryMessage

_SHOWN = frozenset({"user_message", "assistant_message", "tool_end"})


def display(lines: Iterable[bytes], *, after_seq: int = 0, limit: int | None = None) -> list[HistoryMessage]:
    """Fold journal lines into messages; the results of one assistant message stand together in one.

    A batch that is still running shows the results that are in. `after_seq` leaves out what was complete by then;
    `limit` keeps the first so many of the rest, and no line is read behind them.
    """
    return list(islice((message for message in _messages(lines) if message.seq > after_seq), limit))


def _messages(lines: Iterable[bytes]) -> Iterator[HistoryMessage]:
    """Each message when it is complete; held meanwhile are only the last answer and its results."""
    asked: HistoryMessage | None = None
    results: HistoryMessage | None = None
    index = 0
    for event in _shown(lines):
        if isinstance(event, ToolEnd) and asked is not None:
            results = _with_result(asked, results, event)
            continue
        if results is not None:
            yield results
            index, results = results.index + 1, None
        message = _said(event, index)
        if message is not None:
            yield message
            asked, index = message, index + 1
    if results is not None:
        yield results


def _shown(lines: Iterable[bytes]) -> Iterator[NumberedEvent]:
    for line in lines:
        head = head_of(line)
        if head is not None and head[0] in _SHOWN:
            event = EVENTS.validate_json(line, extra="ignore")
            if event.agent is None:
                yield event


def _said(event: NumberedEvent, index: int) -> HistoryMessage | None:
    match event:
        case UserMessage(id=message_id, content=content, source=source, prompt_id=prompt_id):
            return HistoryMessage(
                index=index,
                id=message_id,
                seq=event.seq,
                role="user",
                content=content,
                source=source,
                prompt_id=prompt_id,
            )
        case AssistantMessage(message=message):
            return HistoryMessage(
                index=index, id=message.id, seq=event.seq, role="assistant", content=message.content
            )
        case _:
            return None


def _with_result(asked: HistoryMessage, results: HistoryMessage | None, event: ToolEnd) -> HistoryMessage:
    """The results of a batch with one more beside them, in the order of the calls."""
    order = {block.id: place for place, block in enumerate(asked.content) if isinstance(block, ToolCall)}
    result = ToolResult(call_id=event.call_id, content=event.output, is_error=event.is_error)
    blocks = [*(results.content if results is not None else ()), result]
    blocks.sort(key=lambda block: order.get(block.call_id, len(order)) if isinstance(block, ToolResult) else 0)
    return HistoryMessage(
        index=asked.index + 1, id=f"{asked.id}-results", seq=event.seq, role="user", content=tuple(blocks)
    )
