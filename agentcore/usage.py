"""What was spent, and what may be: tokens in four buckets that do not overlap, and the budget of a session."""

from typing import Annotated, Literal

from pydantic import Field

from agentcore.values import Value

LimitName = Literal["usd", "tokens", "time_s", "tool_calls"]
LIMITS: tuple[LimitName, ...] = ("usd", "tokens", "time_s", "tool_calls")
MAX_AMOUNT = 1e9  # of dollars and of seconds: above what anybody means, and far below what a float keeps exact
MAX_COUNT = 10**15  # of tokens and of calls: every JSON reader keeps it exact


class Usage(Value):
    """Token counts. The four buckets are disjoint: their sum is what the model read and wrote."""

    input: int = 0
    """Tokens read at full price: neither from the cache nor into it."""
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    """The part of `output` that was reasoning, where the vendor tells."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            reasoning=self.reasoning + other.reasoning,
        )

    @property
    def context_tokens(self) -> int:
        """Tokens of the context after this call: all that was read, and the answer."""
        return self.input + self.cache_read + self.cache_write + self.output


class Budget(Value):
    """What a session may use in all. A limit that is null or left out does not hold."""

    usd: Annotated[float, Field(gt=0, le=MAX_AMOUNT)] | None = None
    """US dollars. Held against the known prices alone: a call without one is told as notice `budget_unpriced`."""
    tokens: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = None
    """All four buckets: what the model read, from its cache as well, and what it wrote."""
    time_s: Annotated[float, Field(gt=0, le=MAX_AMOUNT)] | None = None
    """Seconds in which the model or tools were at work; calls side by side count once, waiting for people does not."""
    tool_calls: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = None
    """Calls that have begun. A batch that would go beyond is not begun."""

    def of(self, name: LimitName) -> float | int | None:
        amount: float | int | None = getattr(self, name)
        return amount

    def over(self, other: "Budget | None") -> "Budget":
        """The limits of `other` with those that were given here in their place; a null that was given lifts one."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return (other or Budget()).model_copy(update=given)


class Used(Value):
    """What a session has used of its budget, by the same names."""

    usd: float = 0.0
    """The sum of the prices that are known."""
    tokens: int = 0
    time_s: float = 0.0
    tool_calls: int = 0

    def of(self, name: LimitName) -> float | int:
        amount: float | int = getattr(self, name)
        return amount
