"""The display history: every message of a session in order, whatever the model still remembers of it.

Promise: a line that a load would refuse because it cannot be read is not passed over here either.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import assert_never

from agentcore.encoding import head_of
from agentcore.events import AssistantMessage, ToolEnd, UserMessage
from agentcore.messages import ToolCall
from agentcore.session import HistoryMessage
from agentcore.sessions.entries import check_whole, entry_of

_SHOWN = frozenset({"user_message", "assistant_message", "tool_end"})


def display(lines: Iterable[bytes], *, after_seq: int = 0, limit: int | None = None) -> list[HistoryMessage]:
    """Fold journal lines into messages; the results of one assistant message stand together in one.

    A batch that is still running shows the results that are in. `after_seq` leaves out what was complete by then;
    `limit` keeps the first so many of the rest, and no line is read behind them. Raises: JournalDamaged.
    """
    return list(islice((message for message in messages_of(lines) if message.seq > after_seq), limit))


def messages_of(lines: Iterable[bytes]) -> Iterator[HistoryMessage]:
    """Each message when it is complete; held meanwhile are only the last one and its results.

    Raises: JournalDamaged.
    """
    said: HistoryMessage | None = None
    batch: list[ToolEnd] = []
    index = 0
    for event in _shown(lines):
        if isinstance(event, ToolEnd):
            batch.append(event)
            continue
        if said is not None and batch:
            yield _results(said, batch, index)
            index, batch = index + 1, []
        said = _said(event, index)
        yield said
        index += 1
    if said is not None and batch:
        yield _results(said, batch, index)


def _shown(lines: Iterable[bytes]) -> Iterator[UserMessage | AssistantMessage | ToolEnd]:
    for number, line in enumerate(lines, 1):
        head = head_of(line)
        if head is None or head[0] not in _SHOWN:
            check_whole(line, number)
        else:
            event = entry_of(line, number)
            if isinstance(event, UserMessage | AssistantMessage | ToolEnd) and event.agent is None:
                yield event


def _said(event: UserMessage | AssistantMessage, index: int) -> HistoryMessage:
    match event:
        case UserMessage(id=message_id, content=content, source=source, prompt_id=prompt_id):
            return HistoryMessage(
                index=index,
                id=message_id,
                seq=event.seq,
                role="user",
                content=content,
                display_text=event.display_text,
                source=source,
                prompt_id=prompt_id,
            )
        case AssistantMessage(message=message):
            return HistoryMessage(index=index, id=message.id, seq=event.seq, role="assistant", content=message.content)
        case _:
            assert_never(event)


def _results(said: HistoryMessage, batch: list[ToolEnd], index: int) -> HistoryMessage:
    """What the calls of a message came to, in their order."""
    order = {block.id: place for place, block in enumerate(said.content) if isinstance(block, ToolCall)}
    ends = sorted(batch, key=lambda end: order.get(end.call_id, len(said.content)))
    content = tuple(end.result() for end in ends)
    return HistoryMessage(index=index, id=f"{said.id}-results", seq=batch[-1].seq, role="user", content=content)
