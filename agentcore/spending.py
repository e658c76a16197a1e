"""Keeps a session within its budget: tells a person in time, and asks before it goes beyond.

Satisfies the Spending port. The budget is read anew at each look, so one that was raised meanwhile counts at once.
Where nobody can be asked, the run ends `budget`; where nobody waits for the answer, it ends `suspended` and goes on
with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from agentcore.budget import Ledger
from agentcore.events import Notice, SessionUpdated
from agentcore.limits import NO_CALL, Shortfall, nearly_reached, raised, shortfall
from agentcore.messages import ToolCall
from agentcore.permissions.gate import digest_of
from agentcore.ports.log import EventLog
from agentcore.ports.permission import Ask, Asker, Later
from agentcore.session import Settings
from agentcore.usage import Budget, LimitName

TOOL_NAME = "budget"
"""What stands in the place of a tool's name in the request."""
_UNITS: Mapping[LimitName, str] = {
    "usd": "US dollars",
    "tokens": "tokens",
    "time_s": "seconds of work",
    "tool_calls": "tool calls",
}


@dataclass(frozen=True, slots=True)
class SessionSpending:
    """Of one session."""

    ledger: Ledger
    settings: Callable[[], Settings]
    change: Callable[[SessionUpdated], None]
    """Journals a change of the settings and makes it."""
    log: EventLog
    asker: Asker | None
    warn_at: float
    """The part of a limit at which a person is told."""
    told: Mapping[str, float]
    """What a person was told about, and how high the limit was then."""
    remember: Callable[[str, float], None]
    """Journals that a person was told, and adds it to `told`."""

    async def stop(self, calls: int = 0) -> Literal["budget", "suspended"] | None:
        while (short := self._shortfall(calls)) is not None:
            if self.asker is None:
                return "budget"
            await self.log.sync()  # a person may take days: what the model has said must not depend on that
            answer = await self.asker.ask(_question(short))
            if isinstance(answer, Later):
                return "suspended"
            if not answer.allow:
                return "budget"
            self._raise(short)
        return None

    def _shortfall(self, calls: int) -> Shortfall | None:
        settings = self.settings()
        budget = settings.budget
        if budget is None:
            return None
        self._warn(budget)
        return shortfall(budget, settings.budget_step or budget, self.ledger.used, calls)

    def _raise(self, short: Shortfall) -> None:
        """Raise a limit that an asker allowed, unless that was done with the answer."""
        budget = self.settings().budget or Budget()
        higher = raised(budget, short.as_input())
        if higher != budget:
            self.change(SessionUpdated(budget=higher, by="request"))

    def _warn(self, budget: Budget) -> None:
        """Tell of each limit that is nearly reached, once, and again only when it is another."""
        used = self.ledger.used
        for name in nearly_reached(budget, used, self.warn_at):
            amount = budget.of(name) or 0
            text = f"The session has used {_number(used.of(name))} of {_told(name, amount)}."
            self._tell("budget_warning", text, name, amount)
        if budget.usd is not None and self.ledger.total_cost_usd is None:
            text = "A model call of this session has no known price: its limit in dollars holds for the others alone."
            self._tell("budget_unpriced", f"{text} Limit `tokens` as well.", what="unpriced", amount=0.0)

    def _tell(self, code: str, text: str, what: str, amount: float) -> None:
        if self.told.get(what) != amount:
            self.log.emit(Notice(turn=self.ledger.turns or None, level="warning", code=code, text=text))
            self.remember(what, amount)


def _question(short: Shortfall) -> Ask:
    call = ToolCall(id=NO_CALL, name=TOOL_NAME, input=short.as_input())
    wants = f", and {short.calls} more would run" if short.limit == "tool_calls" else ""
    text = f"The session has used {_number(short.used)} of {_told(short.limit, short.amount)}{wants}."
    return Ask(
        kind="budget",
        call=call,
        digest=digest_of(call.name, call.input or {}),
        reasons=("the budget of this session is used up",),
        suggested_rules=(),
        display=f"{text} Allow to raise the limit to {_number(short.raises_to)}; deny to end the run.",
    )


def _told(name: LimitName, amount: float) -> str:
    return f"{_number(amount)} {_UNITS[name]}"


def _number(amount: float) -> str:
    return f"{amount:.4f}".rstrip("0").rstrip(".")
