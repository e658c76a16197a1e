"""A subagent's view of its session: its events carry its label, and so do its questions. EventLog and Asker ports."""

from collections.abc import Callable
from dataclasses import replace

from agentcore.events import Event, Mode
from agentcore.limits import NO_CALL
from agentcore.ports.log import EventLog
from agentcore.ports.permission import Answer, Ask, Asker, Later


class LabelledLog:
    """Satisfies the EventLog port over the log of the session."""

    def __init__(self, log: EventLog, agent: str) -> None:
        self._log = log
        self._agent = agent

    @property
    def session(self) -> str:
        return self._log.session

    @property
    def last_seq(self) -> int:
        return self._log.last_seq

    @property
    def last_ts(self) -> float:
        return self._log.last_ts

    def emit(self, event: Event) -> int:
        return self._log.emit(event.model_copy(update={"agent": self._agent}))

    def say_last(self, event: Event) -> int:
        return self._log.say_last(event.model_copy(update={"agent": self._agent}))

    async def sync(self) -> None:
        await self._log.sync()


class LabelledAsker:
    """Satisfies the Asker port. A question about the budget is each subagent's own, under a name in the place of a
    call's."""

    def __init__(
        self,
        asker: Asker,
        agent: str,
        task_id: str | None,
        turn: Callable[[], int],
        session_mode: Callable[[], Mode],
    ) -> None:
        """`task_id` is that of the background task that the subagent is, if it is one; `turn` is the subagent's.
        `session_mode`: whatever mode the subagent has, in a session of mode deny nobody is asked."""
        self._session_mode = session_mode
        self._asker = asker
        self._agent = agent
        self._task_id = task_id
        self._turn = turn

    def was_asked(self, call_id: str, digest: str | None = None) -> bool:
        return self._asker.was_asked(self._own(call_id), digest)

    async def ask(self, question: Ask) -> Answer | Later:
        if question.kind != "budget" and self._session_mode() == "deny":
            return Answer(allow=False, by_person=False, reason="mode deny never asks")
        call = question.call.model_copy(update={"id": self._own(question.call.id)})
        return await self._asker.ask(
            replace(question, call=call, agent=self._agent, task_id=self._task_id, turn=self._turn() or None)
        )

    def _own(self, call_id: str) -> str:
        return f"{self._agent}:budget" if call_id == NO_CALL else call_id
