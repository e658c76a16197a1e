"""Where events go."""

from typing import Protocol

from agentcore.events import (
    Event,
)


class EventLog(Protocol):
    """Numbers events, journals the durable ones, and hands the bytes to its listeners."""

    @property
    def session(self) -> str:
        """The id of the session whose events these are."""
        ...

    @property
    def last_seq(self) -> int:
        """The highest number given out so far."""
        ...

    @property
    def last_ts(self) -> float:
        """Unix time of the last event, in seconds."""
        ...

    def emit(self, event: Event) -> int:
        """Number, encode and publish an event; return its number. Synchronous: never waits for a reader.

        Raises: StorageUnavailable when the journal cannot take it, TakenOver when another process owns it; then
        nothing was published.
        """
        ...

    def say_last(self, event: Event) -> int:
        """As `emit`, but it reaches the listeners even when the journal cannot be written: closing words."""
        ...

    async def sync(self) -> None:
        """Return when everything emitted so far survives a power cut. Raises: StorageUnavailable, TakenOver."""
        ...
