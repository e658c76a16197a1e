"""What a run may spend, and what it has spent."""

from dataclasses import dataclass, field

from agentcore.usage import Usage

DEFAULT_MAX_TURNS = 200  # the contract's default; counts model calls, not tools
DEFAULT_CONTEXT_WINDOW = 128_000  # tokens, where neither provider nor catalogue knows


@dataclass(frozen=True, slots=True)
class Limits:
    max_turns: int = DEFAULT_MAX_TURNS
    """Model calls in one run."""


@dataclass(slots=True)
class Ledger:
    """Running totals: of the session, and of the run at hand."""

    total: Usage = field(default_factory=Usage)
    run: Usage = field(default_factory=Usage)
    total_cost_usd: float | None = 0.0
    """The price of `total`; None once a call had no known price: a sum without it would be wrong, and too small."""
    run_cost_usd: float | None = 0.0
    """The price of `run`, by the same rule."""
    turns: int = 0
    """Model calls for this prompt: the number of its last turn."""
    turns_before: int = 0
    """Those of them that runs made which were suspended."""
    text: str = ""
    """The visible text of this run's last assistant message."""
    has_overflowed: bool = False
    """A context of this run did not fit and was compacted: that is done once."""

    def begin_run(self) -> None:
        self.go_on()
        self.turns, self.turns_before, self.text = 0, 0, ""
        self.has_overflowed = False

    def go_on(self) -> None:
        """Begin the run that goes on with a suspended one: it counts its own, and numbers its turns on."""
        self.run, self.run_cost_usd, self.turns_before = Usage(), 0.0, self.turns

    @property
    def turn(self) -> int:
        """The number of the turn at hand; 1 before the first."""
        return max(self.turns, 1)

    @property
    def run_turns(self) -> int:
        """Model calls of this run."""
        return self.turns - self.turns_before

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        """Add one call and its price; None where that is not known."""
        self.run += usage
        self.total += usage
        self.run_cost_usd = _sum(self.run_cost_usd, cost_usd)
        self.total_cost_usd = _sum(self.total_cost_usd, cost_usd)


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return None
    return round(one + other, 9)  # a billionth of a dollar: below the price of any token, above the noise of floats
