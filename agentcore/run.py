"""The running of one run: from the accepted prompt, or from wherever a crash left it, to its `done`.

Knows the session's journal and history, never a phase or a queue: who may run when is its caller's business. Whatever
happens in a run, it ends with exactly one `done` - unless the process stops, and then the journal is left as it is.
"""

import logging
from collections.abc import Sequence
from functools import partial

import anyio
from pydantic import JsonValue

from agentcore import leftovers
from agentcore.assembly import Assembly, Parts, ending_of
from agentcore.candidates import Candidate
from agentcore.caps import safe_text
from agentcore.errors import BadRequest, ProviderError, RunFailed, StorageUnavailable, Unprocessable
from agentcore.events import Done, Error, QueueUpdate, StopReason, UserMessage
from agentcore.hearing import Hearing
from agentcore.ids import new_run_id
from agentcore.loop import run_loop
from agentcore.messages import Message
from agentcore.notifications import notification
from agentcore.opening import Opening
from agentcore.ports.clock import Clock
from agentcore.ports.hooks import Halted, SessionSource
from agentcore.ports.tools import Outcome
from agentcore.results import RunResult, result_of
from agentcore.session import DeferredCall
from agentcore.sessions.fold import OpenRun, begin, end, said
from agentcore.sessions.records import Begin, Note
from agentcore.sessions.store import OpenSession
from agentcore.structured import StructuredEnding
from agentcore.walk import Paused, Walk

logger = logging.getLogger(__name__)

SERVERS_START_S = 5.0
"""What a run waits at most for servers of tools that are starting; it goes on without those that take longer."""
_INTERNAL = Error(code="internal", text="The run failed; the server's log has the details.")


class Runner:
    """Runs one conversation's runs, one at a time."""

    def __init__(self, session: OpenSession, parts: Parts, source: SessionSource) -> None:
        self.id = session.id
        self.log = session.log
        self.history = session.history
        self._parts = parts
        self._stopping = parts.delegation.stopping
        self._assembly = Assembly(session, parts, self._stopping)
        self.hearing = Hearing(session, parts.hooks, source)
        self._opening = Opening(
            session.history,
            session.log,
            self.hearing,
            parts.surroundings,
            parts.expander,
            parts.guard,
            parts.servers,
            partial(_note, session, parts.clock),
        )
        self._ending: StructuredEnding | None = None
        self._calls = self._assembly.calls(None)
        self._scope: anyio.CancelScope | None = None
        self._is_suspending = False
        self._has_blocked = False
        """Something that was said to the run was not let through, and only a `queue_update` tells that it is gone."""

    @property
    def model(self) -> str:
        """`provider/model` of the next run."""
        return self.history.settings.model or self._parts.default_model

    @property
    def partial(self) -> Message | None:
        """The assistant message being streamed, as far as it was shown."""
        draft = self._assembly.model.draft
        return None if draft is None else draft.message()

    @property
    def is_suspending(self) -> bool:
        """Somebody wants the run to end at its next border, or wanted it and it did."""
        return self._is_suspending

    @property
    def is_stopping(self) -> bool:
        """The process stops: nothing is begun any more."""
        return self._stopping.is_set()

    # --- what ends it early ---

    def claim(self) -> None:
        """Make the open run cancellable from now on, before `run` has begun to run."""
        self._scope = anyio.CancelScope()
        self._parts.delegation.is_suspending = self._is_suspending = False
        self.history.inbox.open()

    def interrupt(self) -> None:
        """Cancel the claimed run at once; what was shown is kept, calls are paired."""
        if self._scope is not None:
            self._scope.cancel()

    def suspend(self) -> None:
        """Let the run end at its next turn's border, to be gone on with later."""
        self._parts.delegation.is_suspending = self._is_suspending = True

    def pause(self) -> None:
        """Let the run stop at its next turn's border, or at once where it only waits to ask a model again.

        It stays open and goes on when the session is loaded again.
        """
        self._stopping.set()

    def abandon(self) -> RunResult | None:
        """End an interrupted or suspended run that nobody goes on with: pair its calls, keep its prompt, say `done`.

        What it came to; None where there is no run.
        """
        run = self.history.run
        if run is None:
            return None
        try:
            if run.is_suspended:
                run = self.reopen(run)  # it had its own `done`: this one is for the rest of it
            leftovers.give_up(self.history, self.log, self._calls)
            self._say_first(run, self._opening.as_typed(run))
        except StorageUnavailable:
            logger.warning("session %s: its run is left as it is, its journal cannot be written", self.id)
        self.hearing.left(run)
        return self._end(run, "interrupted", None)

    def reopen(self, run: OpenRun) -> OpenRun:
        """Make the rest of a suspended run a run of its own. Raises: StorageUnavailable."""
        record = Begin(prompt_id=run.prompt.prompt_id, run_id=new_run_id(), ts=round(self._parts.clock.now(), 3))
        self.log.record(record)
        begin(self.history, record)
        assert self.history.run is not None
        return self.history.run

    def answer_deferred(self, deferred: DeferredCall, output: str, *, is_error: bool) -> None:
        """Give a deferred call its result. Raises: StorageUnavailable."""
        self._calls.answer(deferred, self.history.ledger.turn, Outcome(safe_text(output), is_error=is_error))

    # --- compaction outside of a run ---

    async def compact(self) -> str | None:
        """Compact the claimed, idle conversation and return the summary; None when the process stops.

        Raises: Unprocessable when there is nothing to compact or it was cancelled, and ProviderError when there is no
        summary: then the conversation is as it was. BadRequest, StorageUnavailable.
        """
        scope = self._scope
        if scope is None:
            raise RuntimeError("claim the session first")
        try:
            with scope:
                candidates = self._parts.candidates_of(self.model)
                await self._opening.look_around(candidates)
                walk = self._assembly.walk(candidates, None)
                return await self._assembly.compactor(walk).on_request()
        except Paused:
            return None
        finally:
            self._scope = None
        raise Unprocessable("The compaction was cancelled: the conversation is as it was.")

    def end_cut_compaction(self) -> None:
        """Say the end of a compaction that the end of a process cut off: the conversation is as it was."""
        leftovers.end_compaction(self.history, self.log, self._parts.compaction.strategy)

    # --- the run ---

    async def run(self) -> RunResult | None:
        """Take the open, claimed run to its end, from wherever the journal says it stands; None when it paused."""
        run, scope = self.history.run, self._scope
        if run is None or scope is None:
            raise RuntimeError("accept a prompt and claim the run first")
        reason: StopReason = "interrupted"
        error: Error | None = None
        try:
            with scope:
                reason, error = await self._attempt(run)
        except Paused:
            return None
        finally:
            self._scope = None
        if reason == "suspended" and scope.cancel_called:
            reason = "interrupted"
        await self._let_hooks_hear(run, reason, error)
        return self._end(run, reason, error)

    async def _let_hooks_hear(self, run: OpenRun, reason: StopReason, error: Error | None) -> None:
        """Before the `done`, so that who waits for that waits for them as well; a cancel cuts them short."""
        self._scope = scope = anyio.CancelScope()
        try:
            with scope:
                await self.hearing.end(run, reason, error)
        finally:
            self._scope = None

    async def _attempt(self, run: OpenRun) -> tuple[StopReason, Error | None]:
        """The barrier of a run: every failure becomes its closing error."""
        try:
            if run.prompt.is_wake and not run.has_message:
                self._wake(run)
            candidates = self._parts.candidates_of(self.model)
            self._parts.checkpoints.begin_run(run.prompt.run_id)
            self._parts.guard.begin_run()
            await self._parts.servers.look(SERVERS_START_S)
            if not await self._begin_message(run, candidates):
                return "blocked", None
            if (wanted := self._parts.in_use.model) is not None:
                candidates = self._parts.candidates_of(wanted)
            leftovers.go_on(self.history, self.log, self._calls, self._parts.toolbox)
            self._ending = ending = ending_of(run.prompt, candidates)
            self._calls = calls = self._assembly.calls(ending)
            walk = self._assembly.walk(candidates, ending)
            loop = self._assembly.loop(walk, calls, ending, lambda: self._is_suspending, partial(self._deliver, walk))
            return await run_loop(loop), None
        except ProviderError as error:
            return "error", Error(
                code=error.reason, text=str(error), retryable=error.is_retryable, retry_after=error.retry_after_s
            )
        except RunFailed as error:
            return "error", Error(code=error.reason, text=str(error))
        except (StorageUnavailable, BadRequest) as error:
            return "error", Error(code=error.code, text=str(error))
        except Halted:
            return "hook_stopped", None
        except Paused:
            raise
        except Exception:
            logger.exception("run %s of session %s failed", run.prompt.run_id, self.id)
            return "error", _INTERNAL

    def _wake(self, run: OpenRun) -> None:
        """Begin a run with what came of background tasks. Before anything waits or fails: with this message they are
        told, else the next run would begin for them at once."""
        self.hearing.put_off()
        message = notification(self.history.tasks.untold, run.prompt.prompt_id)
        self._say(message)
        run.message_id, run.has_message = message.id, True

    async def _begin_message(self, run: OpenRun, candidates: Sequence[Candidate]) -> bool:
        """Say what a person prompted; False where it was blocked."""
        message = None if run.has_message else self._opening.as_typed(run)
        goes_on = self._parts.in_use.begin(run.prompt.prompt_id)
        try:
            await self._opening.look_around(candidates)
            if run.has_message and not goes_on:
                self._parts.in_use.recall(await self._opening.used_skills(run))
            if run.has_message:
                return True
            message = await self._opening.of_prompt(run)
        finally:  # a cancel included: what may be said is not lost
            self._say_first(run, message)
        return message is not None

    def _say_first(self, run: OpenRun, message: UserMessage | None) -> None:
        if run.has_message or message is None:
            return
        self._say(message)
        self.history.notes.clear()
        run.message_id, run.has_message = message.id, True

    async def _deliver(self, walk: Walk) -> None:
        """Bring what the user said meanwhile into the transcript, and what came of background tasks."""
        run, inbox = self.history.run, self.history.inbox
        assert run is not None
        opened: dict[str, UserMessage | None] = {}
        while new := [one for one in inbox.waiting if one.prompt_id not in opened]:
            for one in new:
                opened[one.prompt_id] = await self._opening.of_steer(one.message("steer"))
        for one in inbox.take():  # in the step of the last look
            message = opened[one.prompt_id]
            if message is not None:
                self._say(message)
            else:
                self._has_blocked = True
                self.history.submissions.taken(one.prompt_id)  # this run's end is its own
            run.steered.append(one.prompt_id)
        if untold := self.history.tasks.untold:
            self._say(notification(untold))
        self._follow_skills(walk)

    def _follow_skills(self, walk: Walk) -> None:
        """Ask the model that a skill has chosen meanwhile; a run with a schema stays with those that it began with,
        since its answer depends on what they can do."""
        wanted = self._parts.in_use.model
        if wanted is not None and self._ending is None:
            candidates = self._parts.candidates_of(wanted)
            if walk.candidates[0] != candidates[0]:
                walk.go_over_to(candidates)

    def _say(self, message: UserMessage) -> None:
        self.history.transcript.check_closed()
        self.log.emit(message)
        self.history.transcript.add_user(message.id, message.content)
        self.history.submissions.taken(message.prompt_id)
        said(self.history, message)

    def _end(self, run: OpenRun, reason: StopReason, error: Error | None) -> RunResult:
        """Pair what is open, unless it is only suspended, and say `done`, once, whatever it takes."""
        self.history.inbox.shut()
        try:
            if reason == "suspended":
                self._keep_place()
            else:
                self._parts.in_use.end()
                leftovers.give_up(self.history, self.log, self._calls)  # what a crash left too, if it never went on
        except StorageUnavailable:
            logger.warning("session %s: calls stay open, its journal cannot be written", self.id)
        except Exception:
            logger.exception("run %s of session %s could not be closed", run.prompt.run_id, self.id)
            reason, error = "error", _INTERNAL
        if self.log.is_taken_over:
            reason, error = "taken_over", None  # whatever it was that noticed it first
        ledger, prompt = self.history.ledger, run.prompt
        if error is not None:
            self.history.submissions.failed(error)
            self.log.say_last(error)
        done = Done(
            run_id=prompt.run_id,
            prompt_id=prompt.prompt_id,
            stop_reason=reason,
            text=ledger.text,
            usage=ledger.run,
            cost_usd=ledger.run_cost_usd,
            turns=ledger.run_turns,
            structured=self._structured(reason),
        )
        self.history.submissions.ended(done, self._parts.clock.now())
        self._ending, left = None, len(self.history.inbox)
        end(self.history, reason)
        self.log.say_last(done)
        if (left or self._has_blocked) and reason != "suspended":
            self._has_blocked = False
            self.log.say_last(QueueUpdate(queue=self.history.queue.shown()))
        return result_of(done, error, run.steered)

    def _keep_place(self) -> None:
        """Keep what the journal says about where a suspended run stands."""
        history = self.history
        history.open_turn = history.ledger.turn if self._calls.open_calls else None
        history.last_stop = self._assembly.model.last_stop or history.last_stop

    def _structured(self, reason: StopReason) -> dict[str, JsonValue] | None:
        if reason != "end_turn" or self._ending is None:
            return None
        return self._ending.value(self.history.transcript.messages)


def _note(session: OpenSession, clock: Clock, text: str) -> None:
    """Let the model learn something with the next prompt. Raises: StorageUnavailable."""
    session.log.record(Note(text=text, ts=round(clock.now(), 3)))
    session.history.notes.append(text)
