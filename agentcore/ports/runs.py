"""What a run needs of its session: what comes in, how it ends, what it may use."""

from collections.abc import Sequence
from typing import Literal, Protocol

from agentcore.messages import Message


class Steered(Protocol):
    """A prompt that is handed to the run that is going on."""

    @property
    def prompt_id(self) -> str: ...


class Ending(Protocol):
    """What decides whether a run may end with what the model said."""

    def is_answered(self, messages: Sequence[Message]) -> bool:
        """Whether the last batch of calls was the answer, so that the model is not asked again."""
        ...

    async def objection(self, answer: str, model: str) -> str | None:
        """What to tell the model in place of ending with this text. Raises: RunFailed when that is of no use.

        `model` (`provider/model`) is named in the sentence of that error.
        """
        ...


class Spending(Protocol):
    """Keeps a session within its budget."""

    async def stop(self, calls: int = 0) -> Literal["budget", "suspended"] | None:
        """Why the run must not go on to a model call, or to so many tool calls; None: it may.

        May wait for a person for as long as it takes. Raises: StorageUnavailable.
        """
        ...


class Compactor(Protocol):
    """Makes room in the context. What it did is in the transcript and in the journal when it returns."""

    async def make_room(self, turn: int) -> None:
        """Compact at the head of a turn, where the context is nearly full.

        Raises: RunFailed when no compaction can help; Paused, StorageUnavailable.
        """
        ...

    async def recover(self, turn: int) -> bool:
        """Compact after a context did not fit; False when that is off, was done in this run already, or there is
        nothing to compact.

        Raises: RunFailed when it does not help; Paused, StorageUnavailable.
        """
        ...
