"""The prompts of a session that came under an `Idempotency-Key`: which they were, and what each came to.

A fold like every other: the live session and the one read back from its journal know the same. Bounded: an ended
prompt is forgotten after SUBMISSION_KEPT_S, and the oldest go first where there are more than KEPT.
"""

from collections.abc import Collection
from dataclasses import dataclass

from agentcore.events import Done, Error
from agentcore.session import SUBMISSION_KEPT_S
from agentcore.sessions.records import Prompt

OPEN = 256  # without an end: more than a queue takes, so that only a damaged journal comes near it
KEPT = 256  # a prompt in two seconds for ten minutes; each holds its answer's text


@dataclass(slots=True)
class Submitted:
    """One prompt and its end."""

    prompt: Prompt
    is_taken: bool = False
    """Its message is in the run that is going on."""
    done: Done | None = None
    """Of its run; None while it has not ended, and for one that was removed from the queue."""
    error: Error | None = None
    """What its run ended with."""
    ended: float = 0.0
    """Unix time in seconds."""


class Submissions:
    def __init__(self) -> None:
        self._open: dict[str, Submitted] = {}
        """By key, without an end yet, the oldest in front."""
        self._ended: dict[str, Submitted] = {}
        """By key, the one that ended first in front."""
        self._error: Error | None = None

    def accepted(self, prompt: Prompt) -> None:
        if prompt.submission is not None:
            self._open[prompt.submission.key] = Submitted(prompt)
            if len(self._open) > OPEN:
                del self._open[next(iter(self._open))]

    def taken(self, prompt_id: str | None) -> None:
        """Its message went into the run that is going on: their ends are one."""
        for one in self._open.values():
            one.is_taken |= one.prompt.prompt_id == prompt_id

    def failed(self, error: Error) -> None:
        """The run is about to end with this error."""
        self._error = error

    def ended(self, done: Done, now: float) -> None:
        error, self._error = self._error, None
        for key, one in list(self._open.items()):
            if one.is_taken or one.prompt.prompt_id == done.prompt_id:
                one.done, one.error = done, error
                self._end(key, now)
        self._forget(now)

    def removed(self, prompt_ids: Collection[str], now: float) -> None:
        """These will never run."""
        for key, one in list(self._open.items()):
            if one.prompt.prompt_id in prompt_ids:
                self._end(key, now)
        self._forget(now)

    def find(self, key: str, now: float) -> Submitted | None:
        """The prompt that came under a key last."""
        self._forget(now)
        return self._open.get(key) or self._ended.get(key)

    def _end(self, key: str, now: float) -> None:
        one = self._open.pop(key)
        one.ended = now
        self._ended.pop(key, None)
        self._ended[key] = one

    def _forget(self, now: float) -> None:
        while self._ended:
            key, oldest = next(iter(self._ended.items()))
            if len(self._ended) <= KEPT and now - oldest.ended <= SUBMISSION_KEPT_S:
                return
            del self._ended[key]
