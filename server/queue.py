"""The prompts of one session that wait for their run: listed, edited, reordered, removed. Bounded.

They live in the session's journal; here is what clients may do with them. All methods are synchronous, so a prompt
either waits still or has begun. Knows the agent, never a phase.
"""

from collections.abc import Callable, Sequence

from agentcore.agent import Agent
from agentcore.events import QueuedPrompt
from server.problems import Problem

QUEUE_LIMIT = 100  # prompts; more than a person queues up by hand, and a bound for a script that does not wait
QUEUE_CHARS = 8_000_000  # of all their texts together: two of the largest prompts that a body can hold


class Queue:
    """`on_removed` is told the id of each prompt that will never run."""

    def __init__(self, agent: Agent, on_removed: Callable[[str], None]) -> None:
        self._agent = agent
        self._on_removed = on_removed

    def __len__(self) -> int:
        return len(self._agent.history.queue)

    def shown(self) -> tuple[QueuedPrompt, ...]:
        """The whole queue, the prompt that runs next first; long texts are cut."""
        return self._agent.history.queue.shown()

    def get(self, prompt_id: str) -> QueuedPrompt:
        """One prompt with its whole text. Raises: Problem `not_found`."""
        prompt = self._agent.queued(prompt_id)
        if prompt is None:
            raise Problem("not_found", f"No prompt {prompt_id[:40]!r} waits here: it has begun, or was removed.")
        return prompt

    def refuse_full(self, text: str) -> None:
        """Raises: Problem `session_busy` when nothing more may wait, for a run or for the one that is going on."""
        count = len(self) + len(self._agent.history.inbox)
        if count >= QUEUE_LIMIT:
            raise _full(count)
        self._refuse_long(len(text))

    def edit(self, prompt_id: str, text: str) -> QueuedPrompt:
        """Change the text of a waiting prompt. Raises: Problem `not_found` and as `refuse_full`, StorageUnavailable."""
        before = self.get(prompt_id)
        if len(text) > len(before.text):
            self._refuse_long(len(text) - len(before.text))
        self._agent.edit_queued(prompt_id, text)
        return self.get(prompt_id)

    def reorder(self, prompt_ids: Sequence[str]) -> None:
        """Let these run first, in this order; the others follow as they were.

        Raises: Problem `not_found` for one that does not wait, StorageUnavailable.
        """
        first = [self.get(prompt_id).prompt_id for prompt_id in dict.fromkeys(prompt_ids)]
        self._agent.keep_queued([*first, *(prompt_id for prompt_id in self._ids if prompt_id not in first)])

    def remove(self, prompt_id: str) -> None:
        """Let a waiting prompt never run. Raises: Problem `not_found`, StorageUnavailable."""
        gone = self.get(prompt_id).prompt_id
        self._agent.keep_queued([one for one in self._ids if one != gone])
        self._on_removed(gone)

    def clear(self) -> None:
        """Remove all of them. Raises: StorageUnavailable."""
        gone = self._ids
        if gone:
            self._agent.keep_queued([])
        for prompt_id in gone:
            self._on_removed(prompt_id)

    @property
    def _ids(self) -> tuple[str, ...]:
        return tuple(prompt.prompt_id for prompt in self._agent.history.queue.prompts)

    def _refuse_long(self, chars: int) -> None:
        waiting = (*self._agent.history.queue.prompts, *self._agent.history.inbox.waiting)
        if chars + sum(len(prompt.text) for prompt in waiting) > QUEUE_CHARS:
            raise _full(len(waiting))


def _full(count: int) -> Problem:
    told = f"{count} prompts wait already. Wait until one has run, or remove one from the queue."
    return Problem("session_busy", told, {"queued_prompts": count, "limit": QUEUE_LIMIT})
