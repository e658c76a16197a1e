"""What a model call brings that the model was not told before: what was said to it since its last answer.

All of a context would be the same messages in every span of a run, more with each; what came before stands in the spans
before. Promise: in the order in which the model gets it, results in the order of their calls.
"""

from collections.abc import Collection

from pydantic import JsonValue

from agentcore.events import ToolEnd, UserMessage
from agentcore.messages import Message
from agentcore.telemetry.content import Content


class News:
    """Of one agent."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._answer = ""
        """The id of the last answer."""
        self._calls: tuple[str, ...] = ()
        """Its calls."""
        self._summary: list[JsonValue] = []
        self._results: dict[str, JsonValue] = {}
        """By call id."""
        self._said: dict[str, JsonValue] = {}
        """By message id."""

    def __str__(self) -> str:
        """The messages, as the attribute holds them."""
        calls = dict.fromkeys((*self._calls, *self._results))
        results = [self._results[call] for call in calls if call in self._results]
        return self._content.joined([*self._summary, *results, *self._said.values()])

    def prompted(self, message: UserMessage) -> None:
        self._said[message.id] = self._content.message("user", message.content)

    def resulted(self, event: ToolEnd) -> None:
        self._results[event.call_id] = self._content.message("tool", [event.result()])

    def compacted(self, summary: Message, kept: Collection[str]) -> None:
        """The context begins anew with a message and those of these ids."""
        self._summary = [self._content.message("user", summary.content)]
        self._said = {message: said for message, said in self._said.items() if message in kept}
        if self._answer not in kept:
            self._results = {}

    def answered(self, answer: Message) -> None:
        """The model knows all of it now."""
        self._answer, self._calls = answer.id, tuple(call.id for call in answer.tool_calls)
        self._summary, self._results, self._said = [], {}, {}
