"""Prompts that came to nothing: their run failed, or was blocked, before the model had said a word.

The display history keeps them. The model is told them again while the context lasts, so that what it was sent before
stays as it was; a load begins a fresh context, and there they are left out. Part of the fold: the same lines give the
same answer every time.
"""

from dataclasses import dataclass, field

from agentcore.events import StopReason
from agentcore.transcript import Transcript

_CAME_TO_NOTHING: frozenset[StopReason] = frozenset({"error", "blocked"})


@dataclass(slots=True)
class _Piece:
    """Where the blocks of one message of a person lie: what is said twice in a row is one message."""

    message: int
    start: int
    count: int


@dataclass(slots=True)
class Unheard:
    _asked: list[_Piece] = field(default_factory=list)
    """Of the run that is going on, while it has no answer."""
    _failed: list[_Piece] = field(default_factory=list)

    def asked(self, transcript: Transcript, count: int) -> None:
        """A run's message was appended, and its last `count` blocks are what was asked; notes in front stay."""
        last = transcript.last
        if last is not None:
            self._asked.append(_Piece(len(transcript) - 1, len(last.content) - count, count))

    def answered(self) -> None:
        self._asked.clear()

    def ended(self, reason: StopReason) -> None:
        if reason in _CAME_TO_NOTHING:
            self._failed += self._asked
        self._asked = []

    def forget(self) -> None:
        """The transcript begins anew."""
        self._asked, self._failed = [], []

    def leave_out(self, transcript: Transcript) -> None:
        """Take what came to nothing out of the transcript."""
        failed, self._failed = self._failed, []
        if not failed:
            return
        messages = [*transcript.messages]
        for piece in reversed(failed):
            message = messages[piece.message]
            content = message.content[: piece.start] + message.content[piece.start + piece.count :]
            messages[piece.message] = message.model_copy(update={"content": content})
            for other in self._asked:
                if other.message == piece.message and other.start > piece.start:
                    other.start -= piece.count
        transcript.mend([message for message in messages if message.content])
