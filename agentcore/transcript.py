"""What the model has been told, in order: the append-only list of messages of one context.

A fold over events: the same calls build it while a run goes on and when a journal is read back. Every assistant
message with tool calls is followed by one user message that holds exactly one result per call, in the order of
the calls; it comes into being when the last result is in, so no prefix that breaks the rule can be sent.
"""

from collections.abc import Callable, Sequence

from agentcore.attached import Attached
from agentcore.estimate import tokens_of
from agentcore.events import TodoItem
from agentcore.messages import Block, Message, ToolCall, ToolResult


class Transcript:
    """Messages are immutable values; the list never shrinks except by `clear` and `compact`."""

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
        self.todos: tuple[TodoItem, ...] = ()
        """The model's task list, which a compaction would make it forget."""
        self.was_compacted = False
        """The context begins with a summary."""
        self.overhead: int | None = None
        """What the first call after that used beyond the estimate of its messages: no summary makes it less."""
        self._size = 0
        """Estimated tokens of the messages, kept up message by message."""
        self._surplus: int | None = None
        """What the last call used beyond that: prompt, tools, and what the estimate has missed."""
        self._is_answer_counted = False
        """The answer that comes next was part of what its call used."""

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def last(self) -> Message | None:
        return self._messages[-1] if self._messages else None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last message that have no result yet, in order."""
        return tuple(self._open.values())

    def is_open(self, call_id: str) -> bool:
        """Whether a call of the last message has this id and no result yet."""
        return call_id in self._open

    def position_of(self, call: ToolCall) -> int:
        """Place of an open call in its batch, from 0, the finished ones counted."""
        return self._positions[call.id]

    def check_closed(self) -> None:
        """Raises: ValueError while a call waits for its result; to be asked before a message is announced."""
        if self._open:
            raise ValueError("tool calls are open: answer them first")

    # --- its size ---

    def tokens(self, fixed: Callable[[], int]) -> int:
        """Estimated tokens of a request with all messages: what the last call really used, and what came since.

        `fixed` estimates system prompt and tools; it is asked until a call was measured.
        """
        return self._size + (fixed() if self._surplus is None else self._surplus)

    def measure(self, tokens: int) -> None:
        """Take what a call used, its answer included, before the answer is appended; 0 is no measure."""
        if tokens > 0:
            self._surplus, self._is_answer_counted = tokens - self._size, True
            if self.was_compacted and self.overhead is None:
                self.overhead = self._surplus

    def _grow(self, content: tuple[Block, ...]) -> int:
        added = tokens_of(content)
        self._size += added
        return added

    # --- its messages ---

    def add_user(self, message_id: str, content: tuple[Block, ...]) -> None:
        """Append what the user says, merged into a trailing user message so that roles alternate."""
        self.check_closed()
        self._grow(content)
        self._is_answer_counted = False
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
        added = self._grow(message.content)
        if self._is_answer_counted and self._surplus is not None:
            self._surplus -= added
        self._is_answer_counted = False

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
            self._grow(results)
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
        self.todos, self.was_compacted, self.overhead = (), False, None
        self._size, self._surplus, self._is_answer_counted = 0, None, False

    def mend(self, messages: Sequence[Message]) -> None:
        """Put mended messages in the place of all; calls of the last one that were open stay open, if it has them."""
        if not (messages and messages[-1].tool_calls):
            self._open.clear()
            self._results.clear()
        self._messages = [*messages]
        self._call_ids.update(call.id for message in messages for call in message.tool_calls)
        self.encoded.clear()
        self._size, self._is_answer_counted = 0, False
        self.attachments = Attached()
        for message in messages:
            self._take_in(message.content)

    def compact(self, message: Message, kept: Sequence[str]) -> None:
        """Put a user's message in the place of all but the last messages, whose ids are `kept`.

        A kept one of the user that would follow it joins it, without results whose calls are gone.
        """
        self.check_closed()
        tail = [one for one in self._messages if one.id in kept]
        if tail and tail[0].role == "user":
            said = tuple(block for block in tail.pop(0).content if not isinstance(block, ToolResult))
            message = message.model_copy(update={"content": (*message.content, *said)})
        todos = self.todos
        self.clear()
        self.todos, self.was_compacted = todos, True
        self._messages = [message, *tail]
        for one in self._messages:
            self._take_in(one.content)

    def _take_in(self, content: tuple[Block, ...]) -> None:
        self.attachments.add(content)
        self._grow(content)
