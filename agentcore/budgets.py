"""The spending of a session, put together: the same for its main agent and for each subagent, but for who asks."""

from agentcore.events import SessionUpdated
from agentcore.ports.permission import Asker
from agentcore.sessions.fold import updated
from agentcore.sessions.records import BudgetTold
from agentcore.sessions.store import OpenSession
from agentcore.spending import SessionSpending


def spending_of(session: OpenSession, asker: Asker | None, warn_at: float) -> SessionSpending:
    """`asker` brings a question about the budget to whoever can answer it."""
    history, log = session.history, session.log

    def change(what: SessionUpdated) -> None:
        log.emit(what)
        history.settings = updated(history.settings, what)

    def remember(limit: str, amount: float) -> None:
        log.record(BudgetTold(limit=limit, amount=amount))
        history.budget_told[limit] = amount

    return SessionSpending(
        ledger=history.ledger,
        settings=lambda: history.settings,
        change=change,
        log=log,
        asker=asker,
        warn_at=warn_at,
        told=history.budget_told,
        remember=remember,
    )
