"""What the model has been told, in order: the append-only list of messages of one context.

A fold over events: the same calls build it while a run goes on and when a journal is read back. Every assistant
message with tool calls is followed by one user message that holds exactly one result per call, in the order of
the calls; it comes into being when the last result is in, so no prefix that breaks the rule can be sent.
"""

from agentcore.attached import Attached
from agentcore.messages import Block, Message, ToolCall, ToolResult


class Transcript:
    """Messages are immutable values; the list never shrinks except by `clear`."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._open: dict[str, ToolCall] = {}
        """Calls of the last message without a result, in order; a message may hold thousands."""
        self._positions: dict[str, int] = {}
        self._results: dict[str, ToolResult] = {}
        self._call_ids: set[str] = set()
        self.attachments = Attached()
        self.encoded: dict[str, bytes] = {}
        """Wire bytes of messages, made by the provider's adapter; see `ModelRequest.encoded`."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    @property
    def last(self) -> Message | None:
        return self._messages[-1] if self._messages else None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last message that have no result yet, in order."""
        return tuple(self._open.values())

    def position_of(self, call: ToolCall) -> int:
        """Place of an open call in its batch, from 0, the finished ones counted."""
        return self._positions[call.id]

    def check_closed(self) -> None:
        """Raises: ValueError while a call waits for its result; to be asked before a message is announced."""
        if self._open:
            raise ValueError("tool calls are open: answer them first")

    def add_user(self, message_id: str, content: tuple[Block, ...]) -> None:
        """Append what the user says, merged into a trailing user message so that roles alternate."""
        self.check_closed()
        self.attachments.add(content)
        if self._messages and self._messages[-1].role == "user":
            content = (*self._messages.pop().content, *content)
        self._messages.append(Message(id=message_id, role="user", content=content))

    def add_assistant(self, message: Message) -> None:
        self.check_closed()
        self._open = {call.id: call for call in message.tool_calls}
        self._positions = {call_id: place for place, call_id in enumerate(self._open)}
        self._call_ids.update(self._open)
        self._messages.append(message)

    def add_result(self, result: ToolResult) -> None:
        """Take the result of an open call; with the last one the user message of the batch is appended."""
        if self._open.pop(result.call_id, None) is None:
            raise ValueError(f"no open call {result.call_id}")
        self._results[result.call_id] = result
        if not self._open:
            assistant = self._messages[-1]
            results = tuple(self._results[call.id] for call in assistant.tool_calls)
            self.attachments.add(results)
            self._messages.append(Message(id=f"{assistant.id}-results", role="user", content=results))
            self._results.clear()

    def has_call(self, call_id: str) -> bool:
        """Whether a call of this id was ever made in this session: some backends repeat theirs."""
        return call_id in self._call_ids

    def clear(self) -> None:
        """Forget the messages: a fresh context. Call ids stay taken for the session's whole life."""
        self._messages.clear()
        self._open.clear()
        self._results.clear()
        self.encoded.clear()
        self.attachments = Attached()
