"""Prompts that came to nothing: their run failed, or was blocked, before the model had said a word.

The display history keeps them. The model is told them again while the context lasts, so that what it was sent before
stays as it was; a load begins a fresh context, and there they are left out. Part of the fold: the same lines give the
same answer every time.
"""

from dataclasses import dataclass, field

from agentcore.events import StopReason
from agentcore.messages import Block, Message
from agentcore.transcript import Transcript

_CAME_TO_NOTHING: frozenset[StopReason] = frozenset({"error", "blocked"})


@dataclass(slots=True)
class Unheard:
    """Knows the blocks themselves, not their places: what is said twice in a row, and what a compaction holds aside,
    moves into another message."""

    _asked: list[Block] = field(default_factory=list)
    """Of the run that is going on, while it has no answer."""
    _failed: list[Block] = field(default_factory=list)

    def asked(self, transcript: Transcript, count: int) -> None:
        """A run's message was appended, and its last `count` blocks are what was asked; notes in front stay."""
        last = transcript.last
        if last is not None:
            self._asked += last.content[len(last.content) - count :]

    def answered(self) -> None:
        self._asked.clear()

    def ended(self, reason: StopReason) -> None:
        if reason == "suspended":
            return  # its rest is a run of its own, and may still be answered
        if reason in _CAME_TO_NOTHING:
            self._failed += self._asked
        self._asked = []

    def forget(self) -> None:
        """The transcript begins anew."""
        self._asked, self._failed = [], []

    def leave_out(self, transcript: Transcript) -> None:
        """Take what came to nothing out of the transcript."""
        failed = {id(block) for block in self._failed}
        if failed:
            left = [_without(message, failed) for message in transcript.messages]
            transcript.mend([message for message in left if message.content])
            self._failed = []


def _without(message: Message, blocks: set[int]) -> Message:
    content = tuple(block for block in message.content if id(block) not in blocks)
    return message if len(content) == len(message.content) else message.model_copy(update={"content": content})
