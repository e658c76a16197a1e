"""What the user says to a run that is going on, until the run takes it at its next border.

All methods are plain functions, so nothing is lost between the last look and the end of a run: once it is shut, `put`
refuses, and the caller starts a new run instead.
"""

from typing import Generic, TypeVar

from agentcore.ports.runs import Steered

S = TypeVar("S", bound=Steered)


class Inbox(Generic[S]):
    """Open from the beginning; a run shuts it with its end."""

    def __init__(self) -> None:
        self._waiting: dict[str, S] = {}
        self.is_open = True

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> tuple[S, ...]:
        return tuple(self._waiting.values())

    def put(self, prompt: S) -> bool:
        """Hand a message to the run. False, and nothing changed, when it takes none any more."""
        if self.is_open:
            self._waiting[prompt.prompt_id] = prompt
        return self.is_open

    def take(self) -> tuple[S, ...]:
        """Everything that waits, oldest first; it waits no more."""
        taken = tuple(self._waiting.values())
        self._waiting.clear()
        return taken

    def took(self, prompt_id: str | None) -> bool:
        """Note that a message is in the transcript; whether it waited here."""
        return prompt_id is not None and self._waiting.pop(prompt_id, None) is not None

    def shut(self) -> None:
        """Take nothing more; what waits can still be taken."""
        self.is_open = False

    def open(self) -> None:
        self.is_open = True
