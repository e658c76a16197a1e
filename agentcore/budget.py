"""What a run may spend, and what it and its session have spent.

Everything is added up by the same methods while it happens and when a journal is read.
"""

from dataclasses import dataclass, field

from agentcore.usage import Usage, Used

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
    sent_on: int = 0
    """How often Stop hooks made the run of this prompt go on."""
    known_usd: float = 0.0
    """The sum of the prices that are known, of the session."""
    busy_ms: int = 0
    """How long the model and tools of the session were at work."""
    tool_calls: int = 0
    """Calls of the session that have begun."""
    _group: int | None = None
    _group_ms: int = 0
    """How long the longest call of the last group took: calls of a group run side by side."""

    def begin_run(self) -> None:
        self.go_on()
        self.turns, self.turns_before, self.text = 0, 0, ""
        self.has_overflowed, self.sent_on = False, 0

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
        self.known_usd = round(self.known_usd + (cost_usd or 0.0), 9)

    def asked_model(self, request_ms: int) -> None:
        """A model call is over, whatever it came to."""
        self.busy_ms += request_ms
        self._group = None

    def began_call(self, group: int) -> None:
        """A tool call has begun, as one of its batch's group."""
        self.tool_calls += 1
        if group != self._group:
            self._group, self._group_ms = group, 0

    def ended_call(self, duration_ms: int) -> None:
        """A tool call has its result."""
        more = max(0, duration_ms - self._group_ms)
        self.busy_ms += more
        self._group_ms += more

    @property
    def of_session(self) -> "Ledger":
        """The totals of the whole session, which a subagent's are part of."""
        return self

    @property
    def used(self) -> Used:
        """What the session has used of its budget."""
        tokens = self.total.context_tokens
        return Used(usd=self.known_usd, tokens=tokens, time_s=self.busy_ms / 1000, tool_calls=self.tool_calls)


@dataclass(slots=True)
class SubagentLedger(Ledger):
    """What a subagent spends: it has turns of its own, and everything counts to its session as well."""

    session: Ledger = field(default_factory=Ledger)

    @property
    def of_session(self) -> Ledger:
        return self.session

    def spend(self, usage: Usage, cost_usd: float | None) -> None:
        Ledger.spend(self, usage, cost_usd)
        self.session.spend(usage, cost_usd)

    def asked_model(self, request_ms: int) -> None:
        Ledger.asked_model(self, request_ms)
        self.session.busy_ms += request_ms

    def began_call(self, group: int) -> None:
        Ledger.began_call(self, group)
        self.session.tool_calls += 1

    def ended_call(self, duration_ms: int) -> None:
        before = self.busy_ms
        Ledger.ended_call(self, duration_ms)
        self.session.busy_ms += self.busy_ms - before


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return None
    return round(one + other, 9)  # a billionth of a dollar: below the price of any token, above the noise of floats
