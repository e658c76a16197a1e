"""The phase of one session, and its runs one after another.

The one place where work begins and ends: prompts that were accepted, the rest of a run that was interrupted or
suspended, what came of background tasks, work that is no run. Every state change is a plain function, so every race
is decided by who was called first; the supervising task is the one thing that takes time. Promise: `status`, the busy
flag and the cancel handle change in one step. Knows the agent and its requests, never a client.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from anyio.abc import TaskGroup

from agentcore.agent import Agent, RunResult
from agentcore.errors import AgentError
from agentcore.events import Status, TaskState
from agentcore.log_ids import logging_for
from agentcore.ports.clock import Clock
from server.barrier import barrier
from server.phases import NotNow, Phase, Signal, next_phase
from server.problems import Problem
from server.requests import Requests
from server.side_jobs import SideJob
from server.waiters import Waiters

logger = logging.getLogger(__name__)

IDLE_PROMPT_S = 60.0
"""How long nothing is next before a person is told so: other agents wait about a minute, and who sits there knows."""
_NOT_NOW = {
    Phase.RUNNING: ("session_busy", "A run is going on. Wait for its `done`, or cancel it first."),
    Phase.CLOSING: ("session_closed", "The session is being closed. Load it again with POST /v1/sessions."),
    Phase.CLOSED: ("session_closed", "The session is closed. Load it again with POST /v1/sessions."),
}


class Supervisor:
    def __init__(self, agent: Agent, requests: Requests, waiters: Waiters, tasks: TaskGroup, clock: Clock) -> None:
        self._agent = agent
        self._clock = clock
        self._requests = requests
        self._waiters = waiters
        self._tasks = tasks
        self._job: SideJob[Any] | None = None
        """The work that is going on and is no run."""
        self._idle = anyio.Event()
        self._idle_since: float | None = None
        """When the last run ended, by the clock for durations, until a person was told; None: nobody is to be told."""
        self.phase = _phase_of(agent)
        if agent.open_run is not None and agent.open_run.is_cancelled:
            self.abandon()  # a prompt was accepted that interrupts it
        requests.close_lost()
        agent.listen_to_tasks(self._task_ended)
        if agent.history.was_busy:
            agent.log.say_last(Status(busy=False))  # the process that said `true` is gone

    # --- what it is ---

    @property
    def is_closing(self) -> bool:
        return self.phase in (Phase.CLOSING, Phase.CLOSED)

    @property
    def waits_for_answers(self) -> bool:
        return len(self._requests.of_run) > 0 or len(self._agent.history.deferrals) > 0

    @property
    def waits_for_deferred(self) -> bool:
        """No run can get further before somebody answers what was deferred."""
        if self.phase is Phase.SUSPENDED and self._requests.of_run and self._agent.settings.unattended == "defer":
            return True
        return self.phase in (Phase.SUSPENDED, Phase.INTERRUPTED) and len(self._agent.history.deferrals) > 0

    def refuse_closed(self) -> None:
        """Raises: Problem `session_closed` once the session is being closed."""
        if self.is_closing:
            raise Problem(*_NOT_NOW[self.phase])

    def refuse_busy(self) -> None:
        """Raises: Problem `session_busy` while a run is going on, `session_closed` as `refuse_closed`."""
        self.refuse_closed()
        if self.phase is Phase.RUNNING:
            raise Problem(*_NOT_NOW[Phase.RUNNING])

    # --- beginning ---

    def go_on(self) -> bool:
        """Begin what is next in a session without a run: the rest of its run, the first prompt of its queue, or the
        telling of background tasks that have ended.

        Raises: StorageUnavailable.
        """
        running = self._after(Signal.CLAIM)
        if self._agent.is_stopping or not self._open_next():
            return False
        self._start(running, self._supervise)
        return True

    def go_on_if_answered(self) -> None:
        """The last answer starts the rest of the run that waits for it. Raises: StorageUnavailable."""
        if self.phase in (Phase.INTERRUPTED, Phase.SUSPENDED) and not self.waits_for_answers:
            self.go_on()

    def wake(self) -> None:
        """Let the model learn what came of background tasks, where nothing goes on, and no person's prompt waits to be
        begun: with that it learns it as well."""
        if self.phase is Phase.IDLE and self._agent.has_news and not len(self._agent.history.queue):
            self.go_on_if_it_can()

    def _task_ended(self, task_id: str, state: TaskState) -> None:
        self._requests.close_task(task_id, "cancelled" if state == "stopped" else "expired")
        self.wake()

    def begin_job(self, job: SideJob[Any]) -> None:
        """Do what is no run; the session is busy meanwhile.

        Raises: Problem `session_busy` unless no run is going on or left unfinished.
        """
        self.refuse_busy()
        if self.phase is not Phase.IDLE:
            raise Problem("session_busy", "A run is unfinished. Go on with it, or cancel it first.")
        self._job = job
        self._start(self._after(Signal.CLAIM), self._do_job)

    def _start(self, running: Phase, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """The session is claimed: say so and let the work begin."""
        self.phase = running
        self._idle, self._idle_since = anyio.Event(), None
        self._claim()
        self._agent.log.say_last(Status(busy=True))
        with logging_for(self._agent.id):
            self._tasks.start_soon(self._guarded, work, name=f"run of {self._agent.id}")

    def _open_next(self) -> bool:
        """See to it that a run is open; whether there is one. Raises: StorageUnavailable."""
        if self._agent.open_run is not None:
            self._agent.reopen_run()
            return True
        return self._agent.begin_next() or self._agent.wake()

    def _claim(self) -> None:
        self._requests.begin_run()
        self._agent.claim()

    # --- ending early ---

    def cancel(self) -> bool:
        """End the run, whatever it does, and begin nothing; whether there was one that it ends."""
        if self.phase in (Phase.INTERRUPTED, Phase.SUSPENDED):
            self.abandon()
            return True
        if self.phase is not Phase.RUNNING or (self._job is not None and not self._job.is_cancellable):
            return False
        self._requests.close_all("cancelled")
        self._agent.interrupt()
        return True

    def suspend(self) -> bool:
        """Let the run end `suspended` at its next border; whether there is one. Calls stop waiting for a person."""
        if self.phase is not Phase.RUNNING or self._agent.open_run is None:
            return False
        self._agent.suspend()
        self._requests.put_off()
        return True

    def abandon(self) -> None:
        """End a run that nobody goes on with: its requests are cancelled, its calls paired, and who waits is told."""
        self._requests.close_all("cancelled")
        result = self._agent.abandon_run()
        self.phase = self._after(Signal.ABANDON)
        if result is not None:
            self._waiters.tell(result)

    async def close(self) -> None:
        """Cancel the run and wait for its end."""
        self.cancel()
        self.phase = self._after(Signal.CLOSE)
        while self.phase is not Phase.CLOSED:
            await self._idle.wait()

    def leave(self) -> None:
        """Let go of everything as it is: whoever waits is told that the server stops."""
        self.phase = Phase.CLOSED
        self._waiters.close()
        if self._job is not None:
            self._job.leave()

    # --- the tasks ---

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See to it that a session whose work cannot be ended is idle, and that nothing else ends with it."""
        try:
            await work()
        except Exception:
            logger.exception("the work of session %s could not be ended", self._agent.id)
            self._agent.log.say_last(Status(busy=False))
            self._rest(Signal.RUN_ENDED)

    async def _supervise(self) -> None:
        """The barrier of runs: whatever happens in one, the next one begins or the session is idle afterwards."""
        goes_on = True
        while goes_on:
            result: RunResult | None = None
            is_paused = False
            try:
                result = await self._agent.run()
                is_paused = result is None
            except Exception:
                logger.exception("the supervisor of session %s failed", self._agent.id)
            goes_on = self._end_run(result, is_paused=is_paused)

    async def _do_job(self) -> None:
        """Do the work that is no run; then what waited meanwhile begins, or the session is idle again."""
        assert self._job is not None
        await self._job.run(self._agent.id)
        self._job = None
        if self._follow(is_suspended=False):
            await self._supervise()
            return
        self._agent.log.say_last(Status(busy=False))
        self._rest(Signal.RUN_ENDED)

    def _end_run(self, result: RunResult | None, *, is_paused: bool) -> bool:
        """One step: the next run has begun, or it is idle again and everybody is told; whether there is a next run.

        A paused run leaves the journal as it is.
        """
        is_suspended = result is not None and result.stop_reason == "suspended"
        if not is_paused:
            if not is_suspended:
                is_cancelled = result is not None and result.stop_reason in ("taken_over", "budget")
                self._requests.close_all("cancelled" if is_cancelled else "expired")
            self._waiters.tell(result)
            if self._follow(is_suspended=is_suspended):
                return True
            self._agent.log.say_last(Status(busy=False))
        self._rest(Signal.RUN_SUSPENDED if is_suspended else Signal.RUN_ENDED)
        if not is_paused and self.phase is Phase.IDLE:
            self._idle_since = self._clock.monotonic()
        return False

    def call_person(self) -> None:
        """Where a run has ended and nothing was next for a while, hooks may tell the person, once, where one is there
        who can begin something. Not while it waits for something else: what asked has told of that, and a task begins
        the next run by itself."""
        agent, since = self._agent, self._idle_since
        if self.phase is not Phase.IDLE or since is None or self._clock.monotonic() - since < IDLE_PROMPT_S:
            return
        if self._requests.open or agent.history.tasks.running:
            return
        self._idle_since = None
        if agent.settings.unattended == "deny" or agent.is_stopping or agent.log.is_broken or agent.log.is_taken_over:
            return
        with barrier(f"notifying of session {agent.id}"):
            agent.hooks.notify("idle_prompt", "The run has ended: the session waits for your next prompt")

    def go_on_if_it_can(self) -> None:
        """Begin what is next, after something that took place whether or not that can begin now."""
        try:
            self.go_on()
        except AgentError:
            logger.warning("session %s: what is next waits, its journal cannot be written", self._agent.id)

    def _follow(self, *, is_suspended: bool) -> bool:
        """Begin the next run in the step in which one ended, if it can be. A suspended one is followed by its own rest,
        and only where the answers that it waits for came before its end."""
        agent = self._agent
        if self.phase is not Phase.RUNNING or agent.is_stopping or agent.log.is_broken or agent.log.is_taken_over:
            return False
        if is_suspended and (self.waits_for_answers or agent.is_suspending):
            return False
        try:
            if not self._open_next():
                return False
        except AgentError:
            logger.warning("session %s: what is next waits, its journal cannot be written", agent.id)
            return False
        self.phase = self._after(Signal.FOLLOW)
        self._claim()
        return True

    def _rest(self, signal: Signal) -> None:
        if self.phase is not Phase.CLOSED:
            self.phase = self._after(signal)
        self._idle.set()

    def _after(self, signal: Signal) -> Phase:
        try:
            return next_phase(self.phase, signal)
        except NotNow as error:
            raise Problem(*_NOT_NOW[error.phase]) from None


def _phase_of(agent: Agent) -> Phase:
    """The phase of a session that was just loaded."""
    if agent.open_run is None:
        return Phase.IDLE
    return Phase.SUSPENDED if agent.open_run.is_suspended else Phase.INTERRUPTED
