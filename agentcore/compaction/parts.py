"""Which part of a conversation is summarised and which stays as it is. Pure functions over messages."""

from collections.abc import Sequence

from agentcore.ids import new_message_id
from agentcore.messages import Block, Message, Text, ToolResult

RECENT = 8  # the contract's: so many messages stay with `keep_recent`


def is_compactable(messages: Sequence[Message]) -> bool:
    """Whether there is anything to summarise: something was answered."""
    return any(message.role == "assistant" for message in messages)


def unanswered(messages: Sequence[Message]) -> tuple[Block, ...]:
    """What was said last and has no answer yet, apart from the results of calls: it is held aside."""
    last = messages[-1]
    if last.role == "assistant":
        return ()
    return tuple(block for block in last.content if not isinstance(block, ToolResult))


def with_request(messages: Sequence[Message], request: str) -> tuple[Message, ...]:
    """The conversation without what is held aside, and the request for a summary at its end."""
    last = messages[-1]
    if last.role == "assistant":
        return (*messages, asked(request))
    results = tuple(block for block in last.content if isinstance(block, ToolResult))
    return (*messages[:-1], asked(request, results))


def asked(request: str, results: Sequence[Block] = ()) -> Message:
    """A message of its own, so that nobody takes its bytes for those of another."""
    return Message(id=new_message_id(), role="user", content=(*results, Text(text=request)))


def recent(messages: Sequence[Message]) -> int:
    """Where the messages begin that `keep_recent` keeps; never between calls and their results. 0: all of them."""
    start = max(len(messages) - RECENT, 0)
    while start and any(isinstance(block, ToolResult) for block in messages[start].content):
        start -= 1
    return start
