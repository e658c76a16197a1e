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
    """Model calls of this run."""
    text: str = ""
    """The visible text of this run's last assistant message."""

    def begin_run(self) -> None:
        self.run, self.run_cost_usd, self.turns, self.text = Usage(), 0.0, 0, ""

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
