"""When the budget of a session is used up, and by how much it is raised. Rules over values; asks nobody."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from agentcore.usage import LIMITS, MAX_AMOUNT, MAX_COUNT, Budget, LimitName, Used

LEAST_AMOUNT = 1e-9
"""Of dollars and of seconds, as exact as they are kept."""
NO_CALL = ""
"""The call of a request about the budget. No call of a model has this id, so no answer is taken for another's."""
RAISED_BY = ("perm-", "request")
"""What `by` of a `session_updated` begins with where an answer raised a limit."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A limit that does not let the session go on."""

    limit: LimitName
    amount: float | int
    """How high it is."""
    used: float | int
    calls: int
    """That wait to be run."""
    raises_to: float | int
    """How high it has to be, in steps of what it was at first."""

    def as_input(self) -> dict[str, JsonValue]:
        """What a person is shown, and what `raised` reads."""
        return {
            "limit": self.limit,
            "amount": self.amount,
            "used": self.used,
            "calls": self.calls,
            "raises_to": self.raises_to,
        }


def shortfall(budget: Budget, step: Budget, used: Used, calls: int) -> Shortfall | None:
    """The first limit that is used up, or that so many calls would go beyond; None where the session may go on."""
    for name in LIMITS:
        amount, need = budget.of(name), _need(name, used.of(name), calls)
        if amount is not None and need is not None and need >= amount:
            by = max(step.of(name) or amount, LEAST_AMOUNT)
            higher = _bounded(name, amount + by * (math.floor((need - amount) / by) + 1))
            if higher <= need:  # steps so small that they are lost beside what was used
                higher = _bounded(name, max(need + by, math.nextafter(need, math.inf)))
            return Shortfall(name, amount, used.of(name), calls, higher)
    return None


def _need(name: LimitName, used: float | int, calls: int) -> float | int | None:
    """What a limit has to be above; None where nothing is about to count against it."""
    if name != "tool_calls":
        return used
    return used + calls - 1 if calls else None


def _bounded(name: LimitName, amount: float) -> float | int:
    if name in ("tokens", "tool_calls"):
        return min(int(amount), MAX_COUNT)
    return min(max(round(amount, 9), LEAST_AMOUNT), MAX_AMOUNT)


def raised(budget: Budget, input: Mapping[str, JsonValue]) -> Budget:
    """The budget after a person allowed what a `Shortfall` says; the same where it is as high already, or lifted."""
    for name in LIMITS:
        amount, more = budget.of(name), input.get("raises_to")
        if name == input.get("limit") and amount is not None and isinstance(more, int | float) and more > amount:
            return budget.model_copy(update={name: _bounded(name, more)})
    return budget


def is_enough(budget: Budget, input: Mapping[str, JsonValue]) -> bool:
    """Whether what a `Shortfall` says was short is so no more."""
    for name in LIMITS:
        used, calls = input.get("used"), input.get("calls")
        if name == input.get("limit") and isinstance(used, int | float) and isinstance(calls, int):
            amount, need = budget.of(name), _need(name, used, calls)
            return amount is None or need is None or need < amount
    return False


def nearly_reached(budget: Budget, used: Used, warn_at: float) -> tuple[LimitName, ...]:
    """The limits of which the part `warn_at`, or more, is used."""
    return tuple(
        name for name in LIMITS if (amount := budget.of(name)) is not None and used.of(name) >= amount * warn_at
    )


def limits_from(usd: float | None, tokens: int | None, time_s: float | None, tool_calls: int | None) -> Budget | None:
    """A budget of the numbers in somebody's settings; None where there is no limit."""
    wanted = {"usd": usd, "tokens": tokens, "time_s": time_s, "tool_calls": tool_calls}
    given = {name: _bounded(name, amount) for name in LIMITS if (amount := wanted[name]) is not None}
    return Budget.model_validate(given) if given else None
