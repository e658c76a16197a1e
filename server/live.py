"""A loaded session, as its clients see it: what it is, and what may be asked of it.

Its agent, its bus, its permission requests and its supervisor, put together. Every state change is a plain function:
what is refused has changed nothing, and every race is decided by who was called first.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from anyio.abc import TaskGroup
from pydantic import JsonValue

from agentcore.agent import Agent, Disposition, RunResult
from agentcore.attachments import PromptBlock
from agentcore.errors import AgentError
from agentcore.events import Partial, SessionClosed, SessionUpdated, Undone
from agentcore.ports.clock import Clock
from agentcore.replies import Reply
from agentcore.session import Submission
from agentcore.usage import Budget
from server import frames
from server.answers import BudgetState, PromptAccepted, SessionState, Snapshot, Why
from server.bus import Bus
from server.deferred import DeferredCalls
from server.disposition import Fate, Standing, fate_of
from server.last_words import CLOSING_S, LastWords
from server.pending import Pending
from server.phases import Phase
from server.problems import Problem
from server.queue import Queue
from server.requests import Granted, Requests, check_answer, scope_of
from server.schemas import AnswerBody, WhenBusy
from server.side_jobs import SideJob
from server.supervisor import Supervisor
from server.waiters import OutcomeReply, Waiters
from server.why import Waits

_ANSWERS_FIRST = (
    "Deferred calls wait for their answers: POST …/deferred/{token} or …/permissions/{id} them, or cancel the run."
)
_TOLD: Mapping[Disposition, Literal["started", "queued", "steering"]] = {
    "started": "started",
    "queued": "queued",
    "steering": "steering",
    "interrupting": "started",
}


class LiveSession:
    """`requests` is the asker that its agent is made with; `bind` takes the agent then."""

    agent: Agent
    bus: Bus
    queue: Queue
    deferred: DeferredCalls
    _last_words: LastWords
    _runs: Supervisor
    _waits: Waits

    def __init__(self, tasks: TaskGroup, clock: Clock) -> None:
        self.requests = Requests(clock)
        self._tasks = tasks
        self._clock = clock
        self._waiters = Waiters()
        self.used_at = clock.monotonic()
        """When somebody last used it, by the clock for durations; kept by the hub."""
        self.loaded_at = 0.0
        """Since when the hub has it, in Unix time; kept by the hub."""

    def bind(self, agent: Agent) -> None:
        history = agent.history
        self.agent = agent
        self.bus = bus = Bus(agent.log.last_seq)
        agent.log.listen(lambda seq, kind, line: bus.publish(seq, frames.frame(seq, kind, line)))
        self.requests.bind(
            agent.log,
            Pending(history.pending.values(), history.resolved, history.requests),
            history.answered,
            history.digests,
            lambda: history.settings,
            lambda: history.ledger.turns,
        )
        # nothing that is made here knows this object: a closed session is freed without the collector
        self.queue = Queue(agent, self._waiters.tell_removed)
        self.deferred = DeferredCalls(agent, self._clock)
        self._last_words = LastWords(agent.hooks)
        self._runs = Supervisor(agent, self.requests, self._waiters, self._tasks, self._clock)
        self._waits = Waits(agent, self.requests, self.deferred, self.queue, self._clock)

    # --- what it is ---

    @property
    def id(self) -> str:
        return self.agent.id

    @property
    def _phase(self) -> Phase:
        return self._runs.phase

    @property
    def is_busy(self) -> bool:
        return self._phase in (Phase.RUNNING, Phase.CLOSING)

    @property
    def is_closing(self) -> bool:
        """It takes nothing any more, though it may still be in the hub."""
        return self._runs.is_closing

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
        is_waited_for = self._runs.waits_for_answers or len(self.queue) > 0 or self.bus.is_held
        return self.is_busy or is_waited_for or bool(self.agent.history.tasks.running)

    @property
    def waits_for_person(self) -> bool:
        """The run gets no further without one."""
        return len(self.requests.of_run) > 0

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
            waiting_for=self._waits.waiting_for(self._phase),
            last_seq=self.bus.head,
            oldest_seq=self.bus.oldest,
            usage=agent.history.ledger.total,
            cost_usd=agent.history.ledger.total_cost_usd,
            budget=BudgetState(limits=settings.budget or Budget(), used=agent.history.ledger.used),
            pending_permissions=len(self.requests),
            interrupted=self._phase is Phase.INTERRUPTED,
            suspended=self._phase is Phase.SUSPENDED,
            queued_prompts=len(self.queue),
            running_tasks=len(agent.history.tasks.running),
            deferred=self.deferred.open,
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

    def why(self) -> Why:
        """Why it is not moving."""
        return self._waits.why(self._phase)

    # --- what it refuses ---

    def refuse_closed(self) -> None:
        """Raises: Problem `session_closed` once the session is being closed."""
        self._runs.refuse_closed()

    def refuse_busy(self) -> None:
        """Raises: Problem `session_busy` while a run is going on, `session_closed` as `refuse_closed`."""
        self._runs.refuse_busy()

    # --- prompts ---

    def check_prompt(self, when_busy: WhenBusy = "reject") -> None:
        """Refuse early what `prompt` would refuse now. Raises: Problem."""
        self.refuse_closed()
        if when_busy == "reject":
            self.refuse_busy()
        if self._runs.waits_for_deferred and when_busy in ("reject", "steer"):
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

        What waits already runs before it, unless it interrupts. Raises: Problem, StorageUnavailable.
        """
        self.check_prompt(when_busy)
        after_seq = self.bus.head
        fate = self._fate(when_busy)
        if fate.how != "started":
            self.queue.refuse_full(text)
        if fate.ends_unfinished:
            self.agent.log.check_writable()
            self._runs.abandon()
        prompt = self.agent.accept(text, attachments, output_schema, submission, fate.how)
        if fate.how == "steering":
            self.requests.withdraw()  # their calls have not started: they are skipped
        elif fate.how == "interrupting":
            self._runs.cancel()
        if self._phase is not Phase.RUNNING and not self._runs.waits_for_deferred:
            self._runs.go_on()
        return PromptAccepted(
            session=self.id, prompt_id=prompt.prompt_id, after_seq=after_seq, disposition=_TOLD[fate.how]
        )

    def _fate(self, when_busy: WhenBusy) -> Fate:
        """What becomes of a prompt that comes now."""
        run, inbox, is_running = self.agent.open_run, self.agent.history.inbox, self._phase is Phase.RUNNING
        standing = Standing(
            is_running=is_running,
            takes_messages=run is not None and inbox.is_open,
            has_unfinished=run is not None and not is_running,
            has_begun=run is not None and run.has_message,
            waits_for_deferred=self._runs.waits_for_deferred,
            waiting=len(self.queue) + len(inbox),
        )
        return fate_of(standing, when_busy)

    def again(self, submission: Submission) -> tuple[PromptAccepted, RunResult | None] | None:
        """What the prompt of this submission was told when it came first, and what it came to if it has ended; None
        when it never came. Goes on with its run where that was interrupted: who sends it again wants it done.

        Raises: Problem; Unprocessable when the key came with another body.
        """
        earlier = self.agent.submitted(submission)
        if earlier is None:
            return None
        if earlier.result is None and self._is_next(earlier.prompt_id):
            self._runs.go_on()
        accepted = PromptAccepted(
            session=self.id,
            prompt_id=earlier.prompt_id,
            after_seq=earlier.after_seq,
            disposition=_TOLD[earlier.disposition],
        )
        return accepted, earlier.result

    def _is_next(self, prompt_id: str) -> bool:
        """Whether a prompt that has not ended comes to its end as soon as the session goes on, and not before."""
        run, inbox = self.agent.open_run, self.agent.history.inbox
        if run is None:
            return self._phase is Phase.IDLE
        theirs = (run.prompt.prompt_id, *run.steered, *(prompt.prompt_id for prompt in inbox.waiting))
        return self._phase is Phase.INTERRUPTED and prompt_id in theirs

    def resume_run(self) -> PromptAccepted:
        """Go on with an interrupted or suspended run, or begin with the queue.

        Raises: Problem `nothing_to_resume`, `session_busy` or `session_suspended`; StorageUnavailable.
        """
        self.refuse_busy()
        if self._phase is Phase.SUSPENDED and self._runs.waits_for_deferred:
            raise Problem("session_suspended", _ANSWERS_FIRST)
        after_seq = self.bus.head
        if not self._runs.go_on():
            raise Problem("nothing_to_resume", "No run of this session is unfinished. Send a prompt instead.")
        run = self.agent.open_run
        assert run is not None
        return PromptAccepted(session=self.id, prompt_id=run.prompt.prompt_id, after_seq=after_seq)

    def outcome_of(self, prompt_id: str) -> OutcomeReply:
        """What a prompt that is going on comes to; None when the server stops before its end."""
        return self._waiters.reply_of(prompt_id)

    def cancel(self) -> bool:
        """End the run at once: its requests are resolved `cancelled` in the same step. The queue goes on."""
        is_cancelled = self._runs.cancel()
        if is_cancelled and self._phase is Phase.IDLE:
            self._runs.go_on_if_it_can()
        return is_cancelled

    def suspend(self) -> bool:
        """Let the run end `suspended` at its next border. Calls stop waiting for a person, their requests stay open."""
        return self._runs.suspend()

    # --- background tasks ---

    def wake(self) -> None:
        """Begin a run that tells the model what came of background tasks, if there is something to tell and nothing
        else goes on or comes first."""
        self._runs.wake()

    async def stop_task(self, task_id: str) -> None:
        """End a background task, and return when it has ended, or after some seconds.

        Raises: Problem `session_closed`, NotFound.
        """
        self.refuse_closed()
        await self.agent.stop_task(task_id)

    # --- settings ---

    def update(self, change: SessionUpdated) -> None:
        self.refuse_closed()
        self.agent.update(change)
        if change.budget is not None and self.requests.let_go_on():
            self._runs.go_on_if_answered()

    def clear(self) -> None:
        """Begin a fresh context. Raises: Problem `session_busy`."""
        self.refuse_busy()
        self._runs.cancel()
        self.agent.clear()
        if self.has_end_hooks:
            self._tasks.start_soon(self._last_words.say_cleared)
        self._runs.go_on()

    def compact(self) -> Reply[str | AgentError | None]:
        """Compact the conversation of an idle session, which is busy meanwhile, without a run and its `done`.

        The reply is the summary, or why there is none; None when the server stops before. Raises: Problem.
        """
        job = SideJob("compaction", self.agent.compact, is_cancellable=True)
        self._runs.begin_job(job)
        return job.outcome

    async def preview_undo(self) -> Undone:
        """What `undo` would do now. Raises: Problem, NothingToUndo."""
        self.refuse_busy()
        return await self.agent.preview_undo()

    def undo(self) -> Reply[Undone | AgentError | None]:
        """Take back the file changes of the last run that made some, in an idle session, which is busy meanwhile.

        The reply is what was done, or why nothing was; None when the server stops before. Raises: Problem.
        """
        job = SideJob("undo", self.agent.undo, is_cancellable=False)
        self._runs.begin_job(job)
        return job.outcome

    # --- permission requests ---

    def answer(self, request_id: str, body: AnswerBody) -> Granted | None:
        """Resolve a request; the first answer wins. Returns the rule that is now in force, if one was asked for.

        In an interrupted session the answer itself starts the rest of the run, and so does one that comes too late for
        the last request. Raises: Problem, Unprocessable;
        StorageUnavailable, and then the request is open as before.
        """
        self.refuse_closed()
        self.expire()
        request = self.requests.get(request_id)
        check_answer(request, body)
        rule = request.suggested_rules[0] if scope_of(body) != "once" else None
        if body.updated_input is not None:
            self.agent.check_input(request, body.updated_input)
            rule = rule and self.agent.rule_for(request, body.updated_input)
        expires_at = None if body.expires_in_s is None else round(self._clock.now() + body.expires_in_s, 3)
        granted = None if rule is None else Granted(rule, expires_at)
        resolved = self.requests.answer(request_id, body, granted)
        if rule is not None:
            self.agent.grant(request.call_id, rule, settled=resolved.scope != "session", expires_at=expires_at)
            self.agent.will_write(resolved)
        if resolved.mode is not None:
            self.agent.update(SessionUpdated(mode=resolved.mode, by=request_id))
        if resolved.budget is not None:
            self.agent.update(SessionUpdated(budget=resolved.budget, by=request_id))
            self.requests.let_go_on()  # several subagents may have asked for the same
        self._runs.go_on_if_answered()
        return granted

    def answer_deferred(self, token: str, output: str, *, is_error: bool) -> None:
        """Give a deferred call its result; with the last one the run goes on.

        Raises: Problem `not_found` or `already_resolved`, StorageUnavailable.
        """
        self.refuse_closed()
        self.expire()
        self.deferred.answer(token, output, is_error=is_error)
        self._runs.go_on_if_answered()

    def expire(self) -> None:
        """Close what has waited for its answer for too long; with the last of it the rest of a run starts.

        A run that waited for nothing stays as it is, for somebody to resume. Raises: StorageUnavailable.
        """
        if self._phase not in (Phase.RUNNING, Phase.SUSPENDED, Phase.INTERRUPTED):
            return
        closed = self.requests.expire_overdue() + self.deferred.expire()
        if closed and not self.agent.is_suspending:
            self._runs.go_on_if_answered()

    def call_person(self) -> None:
        """Let hooks tell the person that it has been idle for a while."""
        self._runs.call_person()

    # --- the end ---

    async def close(self, reason: str) -> None:
        """Cancel the run, stop what goes on in the background, tell every reader, and let go of the journal, the queue
        in it. May be called twice."""
        await self._runs.close()
        await self.agent.stop_tasks()
        await self.say_end(CLOSING_S)
        self.finish(lambda: self.agent.log.say_last(SessionClosed(reason=reason)))

    async def say_end(self, within_s: float) -> None:
        """Let hooks hear, once, that it ends; where another server has taken it over, it goes on there."""
        if self.has_end_hooks and not self.is_taken_over:
            await self._last_words.say(within_s)

    @property
    def has_end_hooks(self) -> bool:
        return self._last_words.has_listeners

    def leave(self) -> None:
        """Take nothing any more; an interrupted run stays as it is, for the next load."""
        self._runs.leave()

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
        self._runs.leave()
        self.agent.close()
