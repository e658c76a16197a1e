"""The models that may answer a call, in order of preference, and which of them are left alone for a while."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agentcore.ports.clock import Clock
from agentcore.ports.models import Provider


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model and who serves it."""

    provider: Provider
    model: str
    """Without the provider's prefix."""

    @property
    def label(self) -> str:
        return f"{self.provider.name}/{self.model}"


class CoolDowns:
    """The models that failed lately: shared by all sessions of a process, forgotten with it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}
        """By label, on the clock's monotonic time; as many entries as models were ever asked."""

    def begin(self, candidate: Candidate, seconds: float) -> None:
        """Leave a model alone from now on; an earlier, longer cool-down stays."""
        until = self._clock.monotonic() + seconds
        self._until[candidate.label] = max(until, self._until.get(candidate.label, until))

    def end(self, candidate: Candidate) -> None:
        """The model has answered: whatever it was, it is over."""
        self._until.pop(candidate.label, None)

    def left_s(self, candidate: Candidate) -> float:
        """Seconds for which a model is still left alone; 0 when it may be asked."""
        until = self._until.get(candidate.label)
        return 0.0 if until is None else max(until - self._clock.monotonic(), 0.0)


def choose(candidates: Sequence[Candidate], cool_downs: CoolDowns, tried: Collection[Candidate]) -> Candidate | None:
    """The first model that was not tried and may be asked. With none tried and all cooling down it is the first."""
    for candidate in candidates:
        if candidate not in tried and not cool_downs.left_s(candidate):
            return candidate
    return None if tried else candidates[0]
