"""Asks the model for a summary, on the same way as every call of the run: with retries and stand-ins.

The whole conversation goes with the request, so that it hits the vendor's cache. Where that does not fit it is told as
a text, shorter each time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentcore.candidates import Candidate
from agentcore.caps import safe_text
from agentcore.compaction import parts, words
from agentcore.compaction.rendering import rendered
from agentcore.errors import ProviderError
from agentcore.messages import Message, Text
from agentcore.ports.models import Finished, ModelRequest
from agentcore.turn import SideModel, window_of
from agentcore.walk import Walk

RENDERED_CHARS = 24_000  # the contract's bound of what `keep_recent` tells
_TOO_LARGE = frozenset({"context_overflow", "request_too_large"})
_SHORTER = (1.0, 0.25)
"""Characters for each token of the window where the conversation itself does not fit: a quarter of the window in
English, all of it where a character is a token; then a quarter of that."""


@dataclass(frozen=True, slots=True)
class Summarizer:
    walk: Walk
    side: SideModel

    async def of_conversation(self, turn: int, messages: Sequence[Message]) -> str:
        """A summary of all but what is held aside. Raises: ProviderError, Paused, StorageUnavailable."""
        try:
            return await self._ask(turn, parts.with_request(messages, words.request()))
        except ProviderError as error:
            failure = error
        window = window_of(self.walk.nearest)
        for chars_per_token in _SHORTER:
            if failure.kind not in _TOO_LARGE:
                break
            try:
                return await self.of_text(turn, messages, round(window * chars_per_token))
            except ProviderError as error:
                failure = error
        raise failure

    async def of_text(self, turn: int, messages: Sequence[Message], limit_chars: int = RENDERED_CHARS) -> str:
        """A summary of messages that are told as a text. Raises: as `of_conversation`."""
        return await self._ask(turn, (parts.asked(words.request_about(rendered(messages, limit_chars))),))

    async def _ask(self, turn: int, messages: Sequence[Message]) -> str:
        finished = await self.walk.call_beside(turn, self.side, self._maker(messages))
        if finished.stop == "model_context_window_exceeded":
            raise ProviderError("context_overflow", "The context had no room for the summary.")
        summary = _summary_of(finished)
        if not summary:
            raise ProviderError("server_error", f"The model gave no summary ({finished.stop[:80] or 'no reason'}).")
        return summary

    def _maker(self, messages: Sequence[Message]) -> Callable[[Candidate], ModelRequest]:
        def make_request(candidate: Candidate) -> ModelRequest:
            request = self.walk.make_request(candidate)
            # a copy of the bytes: what is made for this request alone is not kept
            encoded = dict(request.encoded)
            return replace(request, messages=messages, encoded=encoded, max_tokens=None, output_schema=None)

        return make_request


def _summary_of(finished: Finished) -> str:
    """What the text says; calls of tools are no part of it, and a refusal is no summary."""
    if finished.stop == "refusal":
        return ""
    return words.summary_in(safe_text("".join(block.text for block in finished.content if isinstance(block, Text))))
