"""A loaded session: its agent, its bus, its permission requests and its phase.

Every state change is a plain function, so every race is decided by who was called first. The supervisor task is the
one thing that takes time. Promise: `status`, the busy flag and the cancel handle change in one step.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup
from pydantic import JsonValue

from agentcore.agent import Agent, Disposition, RunResult, removed_prompt
from agentcore.attachments import PromptBlock
from agentcore.errors import AgentError, RunFailed
from agentcore.events import Partial, SessionClosed, SessionUpdated, Status, Undone
from agentcore.ports import Clock
from agentcore.replies import Reply
from agentcore.session import Submission
from server import frames
from server.bus import Bus
from server.pending import Pending
from server.phases import NotNow, Phase, Signal, next_phase
from server.problems import Problem
from server.queue import Queue
from server.requests import Requests, check_answer, scope_of
from server.schemas import AnswerBody, PromptAccepted, SessionState, Snapshot, WaitsFor, WhenBusy

logger = logging.getLogger(__name__)

_NOT_NOW = {
    Phase.RUNNING: ("session_busy", "A run is going on. Wait for its `done`, or cancel it first."),
    Phase.CLOSING: ("session_closed", "The session is being closed. Load it again with POST /v1/sessions."),
    Phase.CLOSED: ("session_closed", "The session is closed. Load it again with POST /v1/sessions."),
}


_ANSWERS_FIRST = (
    "Deferred calls wait for their answers: POST …/deferred/{token} or …/permissions/{id} them, or cancel the run."
)
EXPIRED = "expired: nobody gave this call its result in time"
_TOLD: Mapping[Disposition, Literal["started", "queued", "steering"]] = {
    "started": "started",
    "queued": "queued",
    "steering": "steering",
    "interrupting": "started",
}


def _phase_of(agent: Agent) -> Phase:
    """The phase of a session that was just loaded."""
    if agent.open_run is None:
        return Phase.IDLE
    return Phase.SUSPENDED if agent.open_run.is_suspended else Phase.INTERRUPTED


class LiveSession:
    """`requests` is the asker that its agent is made with; `bind` takes the agent then."""

    agent: Agent
    bus: Bus
    queue: Queue

    def __init__(self, tasks: TaskGroup, clock: Clock) -> None:
        self.requests = Requests(clock)
        self._tasks = tasks
        self._clock = clock
        self._phase = Phase.IDLE
        self._waiters: dict[str, Reply[RunResult | None]] = {}
        self._compacted: Reply[str | AgentError | None] | None = None
        """Who asked for the compaction that is going on waits for it."""
        self._undone: Reply[Undone | AgentError | None] | None = None
        """Who asked for the undo that is going on waits for it."""
        self._idle = anyio.Event()
        self.used_at = clock.monotonic()
        """When somebody last used it, by the clock for durations; kept by the hub."""

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
        waiters = self._waiters  # no bound method: a closed session is freed without the collector
        self.queue = Queue(agent, lambda prompt_id: _tell_removed(waiters, prompt_id))
        self._phase = _phase_of(agent)
        if agent.open_run is not None and agent.open_run.is_cancelled:
            self._abandon()  # a prompt was accepted that interrupts it
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
    def is_taken_over(self) -> bool:
        """Another server owns it now: what is left to do here is to say so and to let go."""
        return self.agent.log.is_taken_over

    @property
    def is_in_use(self) -> bool:
        """Something goes on in it or waits for an answer, or somebody reads its stream."""
        return self.is_busy or self._waits_for_answers or len(self.queue) > 0 or bool(self.bus.cursors)

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
            suspended=self._phase is Phase.SUSPENDED,
            queued_prompts=len(self.queue),
            deferred=agent.history.deferrals.open,
            created=agent.history.meta.created,
            modified=round(agent.log.last_ts, 3),
            fork_of=agent.history.meta.fork_of,
        )

    def partial(self) -> Partial | None:
        """The message being streamed; belongs to the bus head of the same step."""
        message = self.agent.partial
        return None if message is None else Partial(seq=self.bus.head, message=message)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            last_seq=self.bus.head,
            session=self.state(),
            permissions=self.requests.open,
            queue=self.queue.shown(),
            partial=self.partial(),
        )

    # --- prompts ---

    def check_prompt(self, when_busy: WhenBusy = "reject") -> None:
        """Refuse early what `prompt` would refuse now. Raises: Problem."""
        self.refuse_closed()
        if self._phase is Phase.RUNNING and when_busy == "reject":
            raise Problem(*_NOT_NOW[Phase.RUNNING])
        if self._waits_for_deferred and when_busy in ("reject", "steer"):
            raise Problem("session_suspended", _ANSWERS_FIRST)

    def prompt(
        self,
        text: str,
        attachments: tuple[PromptBlock, ...] = (),
        output_schema: Mapping[str, JsonValue] | None = None,
        submission: Submission | None = None,
        when_busy: WhenBusy = "reject",
    ) -> PromptAccepted:
        """Accept a prompt and see to it that it runs: at once, later, or in the run that is going on.

        What waits already runs before it, unless it interrupts. Raises: Problem, BadRequest, StorageUnavailable.
        """
        self.check_prompt(when_busy)
        after_seq = self.bus.head
        how = self._disposition(when_busy)
        if how != "started":
            self.queue.refuse_full(text)
        prompt = self.agent.accept(text, attachments, output_schema, submission, how)
        if how == "steering":
            self.requests.withdraw()  # their calls have not started: they are skipped
        elif how == "interrupting":
            self._cancel()
        if self._phase is not Phase.RUNNING and not self._waits_for_deferred:
            self._go_on()
        return PromptAccepted(session=self.id, prompt_id=prompt.prompt_id, after_seq=after_seq, disposition=_TOLD[how])

    def _disposition(self, when_busy: WhenBusy) -> Disposition:
        """What becomes of a prompt that comes now. A run that nobody goes on with is ended for it."""
        run = self.agent.open_run
        if self._phase is Phase.RUNNING:
            if when_busy == "steer" and run is not None and self.agent.history.inbox.is_open:
                return "steering"
            return "interrupting" if when_busy == "interrupt" else "queued"
        if run is not None and not run.has_message and when_busy != "interrupt":
            return "queued"  # the prompt before it was accepted and never begun
        if run is not None and when_busy == "queue" and self._waits_for_deferred:
            return "queued"
        if run is not None:
            self._abandon()
        if len(self.queue):
            return "interrupting" if when_busy == "interrupt" else "queued"
        return "started"

    def again(self, submission: Submission) -> tuple[PromptAccepted, RunResult | None] | None:
        """What the prompt of this submission was told when it came first, and what it came to if it has ended; None
        when it never came. Goes on with its run where that was interrupted: who sends it again wants it done.

        Raises: Problem; Unprocessable when the key came with another body.
        """
        earlier = self.agent.submitted(submission)
        if earlier is None:
            return None
        run = self.agent.open_run
        if self._phase is Phase.INTERRUPTED and run is not None and run.prompt.prompt_id == earlier.prompt_id:
            self._go_on()
        accepted = PromptAccepted(
            session=self.id,
            prompt_id=earlier.prompt_id,
            after_seq=earlier.after_seq,
            disposition=_TOLD[earlier.disposition],
        )
        return accepted, earlier.result

    def resume_run(self) -> PromptAccepted:
        """Go on with an interrupted or suspended run, or begin with the queue.

        Raises: Problem `nothing_to_resume`, `session_busy` or `session_suspended`; StorageUnavailable.
        """
        self.refuse_busy()
        if self._phase is Phase.SUSPENDED and self._waits_for_deferred:
            raise Problem("session_suspended", _ANSWERS_FIRST)
        after_seq = self.bus.head
        if not self._go_on():
            raise Problem("nothing_to_resume", "No run of this session is unfinished. Send a prompt instead.")
        run = self.agent.open_run
        assert run is not None
        return PromptAccepted(session=self.id, prompt_id=run.prompt.prompt_id, after_seq=after_seq)

    def outcome_of(self, prompt_id: str) -> Reply[RunResult | None]:
        """What a prompt that is going on comes to; None when the server stops before its end."""
        return self._waiters.setdefault(prompt_id, Reply())

    def cancel(self) -> bool:
        """End the run at once: its requests are resolved `cancelled` in the same step. The queue goes on."""
        is_cancelled = self._cancel()
        if is_cancelled and self._phase is Phase.IDLE:
            self._go_on()
        return is_cancelled

    def suspend(self) -> bool:
        """Let the run end `suspended` at its next border. Calls stop waiting for a person, their requests stay open."""
        if self._phase is not Phase.RUNNING or self.agent.open_run is None:
            return False
        self.agent.suspend()
        self.requests.put_off()
        return True

    # --- settings ---

    def update(self, change: SessionUpdated) -> None:
        self.refuse_closed()
        self.agent.update(change)

    def clear(self) -> None:
        """Begin a fresh context. Raises: Problem `session_busy`."""
        self.refuse_busy()
        self._cancel()
        self.agent.clear()
        self._go_on()

    def compact(self) -> Reply[str | AgentError | None]:
        """Compact the conversation of an idle session, which is busy meanwhile, without a run and its `done`.

        The reply is the summary, or why there is none; None when the server stops before. Raises: Problem.
        """
        self._refuse_unfinished()
        self._compacted = outcome = Reply[str | AgentError | None]()
        self._start(self._after(Signal.CLAIM), self._compact)
        return outcome

    async def preview_undo(self) -> Undone:
        """What `undo` would do now. Raises: Problem, NothingToUndo."""
        self.refuse_busy()
        return await self.agent.preview_undo()

    def undo(self) -> Reply[Undone | AgentError | None]:
        """Take back the file changes of the last run that made some, in an idle session, which is busy meanwhile.

        The reply is what was done, or why nothing was; None when the server stops before. Raises: Problem.
        """
        self._refuse_unfinished()
        self._undone = outcome = Reply[Undone | AgentError | None]()
        self._start(self._after(Signal.CLAIM), self._undo)
        return outcome

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
        self._go_on_if_answered()
        return rule

    def answer_deferred(self, token: str, output: str, *, is_error: bool) -> None:
        """Give a deferred call its result; with the last one the run goes on.

        Raises: Problem `not_found` or `already_resolved`, StorageUnavailable.
        """
        self.refuse_closed()
        self.expire()
        deferrals = self.agent.history.deferrals
        call = deferrals.find(token)
        if call is None and deferrals.was_used(token):
            raise Problem("already_resolved", "The call has its result already, or was cancelled.")
        if call is None:
            raise Problem("not_found", f"No call of this session was deferred as {token[:40]!r}.")
        self.agent.answer_deferred(call, output, is_error=is_error)
        self._go_on_if_answered()

    def expire(self) -> None:
        """Close what has waited for its answer for too long, where no run sees to it. Raises: StorageUnavailable."""
        if self._phase not in (Phase.RUNNING, Phase.SUSPENDED):
            return
        self.requests.expire_overdue()
        now = self._clock.now()
        for call in self.agent.history.deferrals.open:
            if call.expires_at is not None and call.expires_at <= now:
                self.agent.answer_deferred(call, EXPIRED, is_error=True)
        if self._phase is Phase.SUSPENDED and not self.agent.is_suspending:
            self._go_on_if_answered()

    # --- the end ---

    async def close(self, reason: str) -> None:
        """Cancel the run, tell every reader, and let go of the journal, the queue in it. May be called twice."""
        self._cancel()
        self._phase = self._after(Signal.CLOSE)
        while self._phase is not Phase.CLOSED:
            await self._idle.wait()
        self.finish(lambda: self.agent.log.say_last(SessionClosed(reason=reason)))

    def unload(self, reason: str) -> None:
        """Let go of a session that is not busy; an interrupted run stays as it is, for the next load."""
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
        if self._compacted is not None:
            self._compacted.resolve(None)
        if self._undone is not None:
            self._undone.resolve(None)
        self.agent.close()

    # --- inside ---

    def _after(self, signal: Signal) -> Phase:
        try:
            return next_phase(self._phase, signal)
        except NotNow as error:
            raise Problem(*_NOT_NOW[error.phase]) from None

    def _waiting_for(self) -> WaitsFor | None:
        kinds = {request.kind for request in self.requests.open}
        if kinds:
            return "question" if kinds == {"question"} else "permission"
        if self.agent.waits_to_retry:
            return "retry"
        if self._phase is not Phase.RUNNING and self.agent.history.deferrals:
            return "tool"
        return "queue" if self._phase is Phase.IDLE and len(self.queue) else None

    @property
    def _waits_for_answers(self) -> bool:
        return self.waits_for_person or len(self.agent.history.deferrals) > 0

    @property
    def _waits_for_deferred(self) -> bool:
        """No run can get further before somebody answers what was deferred."""
        is_unattended = self.waits_for_person and self.agent.settings.unattended == "defer"
        is_open = self._phase in (Phase.SUSPENDED, Phase.INTERRUPTED)
        return is_open and (len(self.agent.history.deferrals) > 0 or (self._phase is Phase.SUSPENDED and is_unattended))

    def refuse_closed(self) -> None:
        """Raises: Problem `session_closed` once the session is being closed."""
        if self.is_closing:
            raise Problem(*_NOT_NOW[self._phase])

    def refuse_busy(self) -> None:
        """Raises: Problem `session_busy` while a run is going on, `session_closed` as `refuse_closed`."""
        self.refuse_closed()
        if self._phase is Phase.RUNNING:
            raise Problem(*_NOT_NOW[Phase.RUNNING])

    def _refuse_unfinished(self) -> None:
        """Raises: Problem `session_busy` unless no run is going on or left unfinished."""
        self.refuse_busy()
        if self._phase is not Phase.IDLE:
            raise Problem("session_busy", "A run is unfinished. Go on with it, or cancel it first.")

    # --- runs ---

    def _go_on_if_answered(self) -> None:
        """The last answer starts the rest of the run that waits for it."""
        if self._phase in (Phase.INTERRUPTED, Phase.SUSPENDED) and not self._waits_for_answers:
            self._go_on()

    def _go_on(self) -> bool:
        """Begin what is next in a session without a run: the rest of its run, or the first prompt of its queue.

        Raises: StorageUnavailable.
        """
        running = self._after(Signal.CLAIM)
        if self.agent.is_stopping or not self._open_next():
            return False
        self._start(running, self._supervise)
        return True

    def _start(self, running: Phase, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """The session is claimed: say so and let the work begin."""
        self._phase = running
        self._idle = anyio.Event()
        self._claim()
        self.agent.log.say_last(Status(busy=True))
        self._tasks.start_soon(work, name=f"run of {self.id}")

    def _open_next(self) -> bool:
        """See to it that a run is open; whether there is one. Raises: StorageUnavailable."""
        if self.agent.open_run is not None:
            self.agent.reopen_run()
            return True
        return self.agent.begin_next()

    def _claim(self) -> None:
        self.requests.begin_run()
        self.agent.claim()

    async def _supervise(self) -> None:
        """The barrier of runs: whatever happens in one, the next one begins or the session is idle afterwards."""
        goes_on = True
        while goes_on:
            result: RunResult | None = None
            is_paused = False
            try:
                result = await self.agent.run()
                is_paused = result is None
            except Exception:
                logger.exception("the supervisor of session %s failed", self.id)
            goes_on = self._end_run(result, is_paused=is_paused)

    async def _compact(self) -> None:
        """The barrier of a compaction that somebody asked for: it has its answer, then comes what waited meanwhile."""
        outcome: str | AgentError | None
        try:
            outcome = await self.agent.compact()
        except AgentError as error:
            outcome = error
        except Exception:
            logger.exception("the compaction of session %s failed", self.id)
            outcome = RunFailed("internal", "The compaction failed; the server's log has the details.")
        if self._compacted is not None:
            self._compacted.resolve(outcome)
            self._compacted = None
        await self._end_side_work()

    async def _undo(self) -> None:
        """The barrier of an undo: it has its answer, then comes what waited meanwhile."""
        outcome: Undone | AgentError
        try:
            outcome = await self.agent.undo()
        except AgentError as error:
            outcome = error
        except Exception:
            logger.exception("the undo of session %s failed", self.id)
            outcome = RunFailed("internal", "The undo failed; the server's log has the details.")
        if self._undone is not None:
            self._undone.resolve(outcome)
            self._undone = None
        await self._end_side_work()

    async def _end_side_work(self) -> None:
        """What was no run is over: what waited meanwhile begins, or the session is idle again."""
        if self._follow(is_suspended=False):
            await self._supervise()
            return
        self.agent.log.say_last(Status(busy=False))
        self._rest(Signal.RUN_ENDED)

    def _end_run(self, result: RunResult | None, *, is_paused: bool) -> bool:
        """One step: the next run has begun, or it is idle again and everybody is told; whether there is a next run.

        A paused run leaves the journal as it is.
        """
        is_suspended = result is not None and result.stop_reason == "suspended"
        if not is_paused:
            if not is_suspended:
                is_taken_over = result is not None and result.stop_reason == "taken_over"
                self.requests.close_all("cancelled" if is_taken_over else "expired")
            self._answer_waiters(result)
            if self._follow(is_suspended=is_suspended):
                return True
            self.agent.log.say_last(Status(busy=False))
        self._rest(Signal.RUN_SUSPENDED if is_suspended else Signal.RUN_ENDED)
        return False

    def _rest(self, signal: Signal) -> None:
        if self._phase is not Phase.CLOSED:
            self._phase = self._after(signal)
        self._idle.set()

    def _follow(self, *, is_suspended: bool) -> bool:
        """Begin the next run in the step in which one ended, if it can be. A suspended one is followed by its own rest,
        and only where the answers that it waits for came before its end."""
        if self._phase is not Phase.RUNNING or self.agent.is_stopping or self.is_broken or self.is_taken_over:
            return False
        if is_suspended and (self._waits_for_answers or self.agent.is_suspending):
            return False
        try:
            if not self._open_next():
                return False
        except AgentError:
            logger.warning("session %s: what is next waits, its journal cannot be written", self.id)
            return False
        self._phase = self._after(Signal.FOLLOW)
        self._claim()
        return True

    def _answer_waiters(self, result: RunResult | None) -> None:
        """Tell those who wait for this run's prompt, or for one that it took; all of them where nobody knows."""
        names = list(self._waiters) if result is None else [result.prompt_id, *result.steered]
        for name in names:
            waiter = self._waiters.pop(name, None)
            if waiter is not None:
                waiter.resolve(result)

    def _cancel(self) -> bool:
        """End the run, whatever it does; begin nothing."""
        if self._phase in (Phase.INTERRUPTED, Phase.SUSPENDED):
            self._abandon()
            return True
        if self._phase is not Phase.RUNNING:
            return False
        self.requests.close_all("cancelled")
        self.agent.interrupt()
        return True

    def _abandon(self) -> None:
        """End a run that nobody goes on with: its requests are cancelled, its calls paired."""
        self.requests.close_all("cancelled")
        self.agent.abandon_run()
        self._phase = self._after(Signal.ABANDON)


def _tell_removed(waiters: dict[str, Reply[RunResult | None]], prompt_id: str) -> None:
    """A queued prompt will never run: whoever waits for it is told."""
    waiter = waiters.pop(prompt_id, None)
    if waiter is not None:
        waiter.resolve(removed_prompt(prompt_id))
