"""Who waits for what a prompt comes to: one reply for each prompt, for however many that ask.

A reply is None where the server stops before the prompt's end.
"""

from typing import TypeAlias

from agentcore.agent import RunResult, removed_prompt
from agentcore.replies import Reply

OutcomeReply: TypeAlias = Reply[RunResult | None]


class Waiters:
    def __init__(self) -> None:
        self._replies: dict[str, OutcomeReply] = {}
        """By prompt id."""
        self._is_closed = False

    def reply_of(self, prompt_id: str) -> OutcomeReply:
        """What a prompt comes to that has not ended yet."""
        reply = self._replies.setdefault(prompt_id, Reply())
        if self._is_closed:
            reply.resolve(None)
        return reply

    def tell(self, result: RunResult | None) -> None:
        """A run has ended: tell those who wait for its prompt, or for one that it took; all of them where nobody knows
        what it came to."""
        for name in list(self._replies) if result is None else [result.prompt_id, *result.steered]:
            self._resolve(name, result)

    def tell_removed(self, prompt_id: str) -> None:
        """A queued prompt will never run."""
        self._resolve(prompt_id, removed_prompt(prompt_id))

    def close(self) -> None:
        """The server stops: nobody learns here any more what a prompt comes to."""
        self._is_closed = True
        self.tell(None)

    def _resolve(self, prompt_id: str, result: RunResult | None) -> None:
        reply = self._replies.pop(prompt_id, None)
        if reply is not None:
            reply.resolve(result)
