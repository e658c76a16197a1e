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
    turns: int = 0
    """Model calls of this run."""
    text: str = ""
    """The visible text of this run's last assistant message."""

    def begin_run(self) -> None:
        self.run, self.turns, self.text = Usage(), 0, ""

    def spend(self, usage: Usage) -> None:
        self.run += usage
        self.total += usage
