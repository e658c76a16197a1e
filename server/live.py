"""A loaded session: its agent, its bus, its permission requests and its phase.

Every state change is a plain function, so every race is decided by who was called first. The supervisor task is the
one thing that takes time. Promise: `status`, the busy flag and the cancel handle change in one step.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Literal

import anyio
from anyio.abc import TaskGroup
from pydantic import JsonValue

from agentcore.agent import Agent, RunResult
from agentcore.attachments import PromptBlock
from agentcore.events import Partial, SessionClosed, SessionUpdated, Status
from agentcore.ports import Clock
from agentcore.replies import Reply
from server import frames
from server.bus import Bus
from server.pending import Pending
from server.phases import NotNow, Phase, Signal, next_phase
from server.problems import Problem
from server.requests import Requests, check_answer, scope_of
from server.schemas import AnswerBody, PromptAccepted, SessionState, Snapshot

logger = logging.getLogger(__name__)

_NOT_NOW = {
    Phase.RUNNING: ("session_busy", "A run is going on. Wait for its `done`, or cancel it first."),
    Phase.CLOSING: ("session_closed", "The session is being closed. Load it again with POST /v1/sessions."),
    Phase.CLOSED: ("session_closed", "The session is closed. Load it again with POST /v1/sessions."),
}


class LiveSession:
    """`requests` is the asker that its agent is made with; `bind` takes the agent then."""

    agent: Agent
    bus: Bus

    def __init__(self, tasks: TaskGroup, clock: Clock) -> None:
        self.requests = Requests(clock)
        self._tasks = tasks
        self._phase = Phase.IDLE
        self._waiters: dict[str, Reply[RunResult | None]] = {}
        self._idle = anyio.Event()

    def bind(self, agent: Agent) -> None:
        history = agent.history
        self.agent = agent
        self.bus = bus = Bus(agent.log.last_seq)
        agent.log.listen(lambda seq, kind, line: bus.publish(seq, frames.frame(seq, kind, line)))
        self.requests.bind(
            agent.log,
            Pending(history.pending.values(), history.resolved, history.requests),
            history.answered,
            lambda: history.settings,
            lambda: history.ledger.turns,
        )
        self._phase = Phase.IDLE if agent.open_run is None else Phase.INTERRUPTED
        if history.was_busy:
            agent.log.say_last(Status(busy=False))  # the process that said `true` is gone

    # --- what it is ---

    @property
    def id(self) -> str:
        return self.agent.id

    @property
    def is_busy(self) -> bool:
        return self._phase in (Phase.RUNNING, Phase.CLOSING)

    @property
    def is_closing(self) -> bool:
        """It takes nothing any more, though it may still be in the hub."""
        return self._phase in (Phase.CLOSING, Phase.CLOSED)

    @property
    def is_broken(self) -> bool:
        """Its journal cannot be written any more; loading it again is the way out."""
        return self.agent.log.is_broken

    @property
    def waits_for_person(self) -> bool:
        return len(self.requests) > 0

    def state(self) -> SessionState:
        agent, settings = self.agent, self.agent.settings
        provider, _, model = agent.model.partition("/")
        return SessionState(
            id=agent.id,
            title=settings.title,
            cwd=str(agent.cwd),
            provider=provider,
            model=model,
            effort=settings.effort,
            mode=settings.mode,
            unattended=settings.unattended,
            busy=self.is_busy,
            waiting_for=self._waiting_for(),
            last_seq=self.bus.head,
            oldest_seq=self.bus.oldest,
            usage=agent.history.ledger.total,
            cost_usd=agent.history.ledger.total_cost_usd,
            pending_permissions=len(self.requests),
            interrupted=self._phase is Phase.INTERRUPTED,
            created=agent.history.meta.created,
            modified=round(agent.log.last_ts, 3),
        )

    def partial(self) -> Partial | None:
        """The message being streamed; belongs to the bus head of the same step."""
        message = self.agent.partial
        return None if message is None else Partial(seq=self.bus.head, message=message)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            last_seq=self.bus.head, session=self.state(), permissions=self.requests.open, partial=self.partial()
        )

    # --- prompts ---

    def check_prompt(self) -> None:
        """Refuse early what `prompt` would refuse now. Raises: Problem."""
        if self._phase is not Phase.INTERRUPTED:
            self._after(Signal.CLAIM)

    def prompt(
        self,
        text: str,
        attachments: tuple[PromptBlock, ...] = (),
        output_schema: Mapping[str, JsonValue] | None = None,
    ) -> PromptAccepted:
        """Claim the session and hand the prompt to its supervisor. Raises: Problem, StorageUnavailable."""
        if self._phase is Phase.INTERRUPTED:
            self.cancel()
        following = self._after(Signal.CLAIM)
        after_seq = self.bus.head
        prompt = self.agent.accept(text, attachments, output_schema)
        self._start(following)
        return PromptAccepted(session=self.id, prompt_id=prompt.prompt_id, after_seq=after_seq)

    def resume_run(self) -> PromptAccepted:
        """Go on with an interrupted run. Raises: Problem `nothing_to_resume` or `session_busy`."""
        following = self._after(Signal.CLAIM)
        run = self.agent.open_run
        if self._phase is not Phase.INTERRUPTED or run is None:
            raise Problem("nothing_to_resume", "No run of this session is interrupted. Send a prompt instead.")
        after_seq = self.bus.head
        self._start(following)
        return PromptAccepted(session=self.id, prompt_id=run.prompt.prompt_id, after_seq=after_seq)

    def outcome_of(self, prompt_id: str) -> Reply[RunResult | None]:
        """What a prompt that is going on comes to; None when the server stops before its end."""
        return self._waiters.setdefault(prompt_id, Reply())

    def cancel(self) -> bool:
        """End the run at once: its requests are resolved `cancelled` in the same step."""
        if self._phase is Phase.INTERRUPTED:
            self._abandon()
            self._phase = self._after(Signal.ABANDON)
            return True
        if self._phase is not Phase.RUNNING:
            return False
        self.requests.close_all("cancelled")
        self.agent.interrupt()
        return True

    # --- settings ---

    def update(self, change: SessionUpdated) -> None:
        self.refuse_closed()
        self.agent.update(change)

    def clear(self) -> None:
        """Begin a fresh context. Raises: Problem `session_busy`."""
        self.refuse_closed()
        if self._phase is Phase.RUNNING:
            raise Problem(*_NOT_NOW[Phase.RUNNING])
        if self._phase is Phase.INTERRUPTED:
            self.cancel()
        self.agent.clear()

    # --- permission requests ---

    def answer(self, request_id: str, body: AnswerBody) -> str | None:
        """Resolve a request; the first answer wins. Returns the rule that is now in force, if one was asked for.

        In an interrupted session the answer itself starts the rest of the run. Raises: Problem, Unprocessable;
        StorageUnavailable, and then the request is open as before.
        """
        self.refuse_closed()
        request = self.requests.get(request_id)
        check_answer(request, body)
        rule = request.suggested_rules[0] if scope_of(body) != "once" else None
        if body.updated_input is not None:
            self.agent.check_input(request, body.updated_input)
            rule = rule and self.agent.rule_for(request, body.updated_input)
        resolved = self.requests.answer(request_id, body)
        if rule is not None:
            self.agent.grant(request.call_id, rule, settled=resolved.scope != "session")
        if resolved.mode is not None:
            self.agent.update(SessionUpdated(mode=resolved.mode, by=request_id))
        if self._phase is Phase.INTERRUPTED and not self.waits_for_person:
            self._start(self._after(Signal.CLAIM))
        return rule

    # --- the end ---

    async def close(self, reason: str) -> None:
        """Cancel the run, tell every reader, and let go of the journal. May be called twice."""
        self.cancel()
        self._phase = self._after(Signal.CLOSE)
        while self._phase is not Phase.CLOSED:
            await self._idle.wait()
        self.finish(lambda: self.agent.log.say_last(SessionClosed(reason=reason)))

    def pause(self) -> None:
        """Let the run stop at its next border: the server is stopping, and stopping is not cancelling."""
        self.agent.pause()

    def finish(self, last_words: Callable[[], object] = lambda: None, farewell: bytes = b"") -> None:
        """End the streams and let go of the journal as it is; a run that still goes on leaves no further trace."""
        if not self.bus.is_closed:
            last_words()
            self.bus.close(farewell)
        self._phase = Phase.CLOSED
        for waiter in self._waiters.values():
            waiter.resolve(None)
        self.agent.close()

    # --- inside ---

    def _after(self, signal: Signal) -> Phase:
        try:
            return next_phase(self._phase, signal)
        except NotNow as error:
            raise Problem(*_NOT_NOW[error.phase]) from None

    def _waiting_for(self) -> Literal["permission", "question", "retry"] | None:
        kinds = {request.kind for request in self.requests.open}
        if kinds:
            return "question" if kinds == {"question"} else "permission"
        return "retry" if self.agent.waits_to_retry else None

    def refuse_closed(self) -> None:
        """Raises: Problem `session_closed` once the session is being closed."""
        if self.is_closing:
            raise Problem(*_NOT_NOW[self._phase])

    def _start(self, running: Phase) -> None:
        """The session is claimed: say so and let the supervisor run."""
        self._phase = running
        self._idle = anyio.Event()
        self.agent.claim()
        self.agent.log.say_last(Status(busy=True))
        self._tasks.start_soon(self._supervise, name=f"run of {self.id}")

    async def _supervise(self) -> None:
        """The barrier of a run: whatever happens in it, the session is idle again afterwards."""
        result: RunResult | None = None
        is_paused = False
        try:
            result = await self.agent.run()
            is_paused = result is None
        except Exception:
            logger.exception("the supervisor of session %s failed", self.id)
        self._end_run(result, is_paused=is_paused)

    def _end_run(self, result: RunResult | None, *, is_paused: bool) -> None:
        """One step: idle again, and everybody is told. A paused run leaves the journal as it is."""
        if not is_paused:
            self.requests.close_all("expired")
            self.agent.log.say_last(Status(busy=False))
        if self._phase is not Phase.CLOSED:
            self._phase = self._after(Signal.RUN_ENDED)
        self._idle.set()
        if not is_paused:
            waiters, self._waiters = self._waiters, {}
            for waiter in waiters.values():
                waiter.resolve(result)

    def _abandon(self) -> None:
        """End the interrupted run: its requests are cancelled, its calls paired."""
        self.requests.close_all("cancelled")
        self.agent.abandon_run()
