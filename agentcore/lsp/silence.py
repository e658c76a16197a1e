"""Whether changes still wait for a language server: not for one that said nothing while two of them did.

A server that hangs would cost each change its whole patience. One word of the server, whatever it is about, ends that.
"""

from dataclasses import dataclass

MAX_WAITS = 2


@dataclass(frozen=True, slots=True)
class Moment:
    """When a change began to wait."""

    words: int
    waits: int


class Silence:
    def __init__(self) -> None:
        self._words = 0
        """Chunks that came from the server."""
        self._waits = 0
        """One after the other, in which none came."""

    @property
    def is_long(self) -> bool:
        return self._waits >= MAX_WAITS

    def end(self) -> None:
        """The server said something."""
        self._words += 1
        self._waits = 0

    def now(self) -> Moment:
        return Moment(self._words, self._waits)

    def note_wait(self, since: Moment) -> bool:
        """A change waited in vain; return whether this made the silence long.

        Changes that wait at the same time are one wait.
        """
        if since.words != self._words or self._waits > since.waits:
            return False
        self._waits += 1
        return self._waits == MAX_WAITS
