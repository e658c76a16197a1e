"""One conversation: its journal, its model, its tools and its gate, put together.

No logic of HTTP or UI. State changes are plain functions; `run` is the one thing that takes time. Whatever happens
in a run, it ends with exactly one `done` - unless the process stops, and then the journal is left as it is, so that
the run goes on when the session is loaded again.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

import anyio
from anyio import to_thread
from pydantic import JsonValue

from agentcore import leftovers
from agentcore.assembly import Parts
from agentcore.attachments import PromptBlock
from agentcore.background.room import Listener
from agentcore.caps import safe_text
from agentcore.checkpoints.session import Undoing
from agentcore.errors import NotFound, NothingToUndo, StorageUnavailable, Unprocessable
from agentcore.events import (
    Cleared,
    Notice,
    PermissionRequest,
    PermissionResolved,
    QueuedPrompt,
    QueueUpdate,
    SessionUpdated,
    Undone,
)
from agentcore.ids import new_prompt_id, new_run_id
from agentcore.log_ids import logging_for
from agentcore.marks import kill_group
from agentcore.messages import Message, ToolCall
from agentcore.notes import cut_worktrees_note, undo_note
from agentcore.origin import Origin
from agentcore.permissions.rules import parse_rule
from agentcore.ports.hooks import Hooks, SessionSource
from agentcore.results import Earlier, RunResult, removed_prompt, result_of
from agentcore.run import Runner
from agentcore.session import BackgroundTask, DeferredCall, Settings, StandingRule, Submission
from agentcore.sessions.fold import History, OpenRun, accept, begin, forget_unsaid_wake, keep, to_write, updated
from agentcore.sessions.log import JournalLog
from agentcore.sessions.records import Begin, Disposition, Note, Prompt, Written
from agentcore.sessions.store import OpenSession
from agentcore.sessions.waiting import shown
from agentcore.structured import OutputSchema
from agentcore.wiretap import listening

__all__ = ["Agent", "Disposition", "Earlier", "Parts", "RunResult", "removed_prompt", "result_of"]

logger = logging.getLogger(__name__)

OTHER_BODY = (
    "This Idempotency-Key came with another body before. Use a new key for a new request, and the same body for the"
    " same one."
)
_NOTHING_TO_UNDO = "Each run of this session left every file as it was, was undone already, or is not kept any more."


class Agent:
    """One conversation. At most one run at a time: the caller sees to that."""

    def __init__(self, session: OpenSession, parts: Parts, source: SessionSource = "startup") -> None:
        """`source` says whether it was begun, loaded or forked."""
        self.id = session.id
        self.log: JournalLog = session.log
        self.attachments = parts.attachments
        self.history: History = session.history
        self._parts = parts
        forget_unsaid_wake(session.history)
        session.history.queue.hides_texts = parts.guard.is_on
        if session.history.run is None:
            session.history.context = None  # a resume is a fresh context; an interrupted run goes on with its own
        self._runner = Runner(session, parts, source)

    # --- what it is ---

    @property
    def settings(self) -> Settings:
        return self.history.settings

    @property
    def model(self) -> str:
        """`provider/model` of the next run."""
        return self._runner.model

    @property
    def cwd(self) -> Path:
        return Path(self.history.meta.cwd)

    @property
    def open_run(self) -> OpenRun | None:
        """The run that has no `done` yet, going on or interrupted."""
        return self.history.run

    @property
    def partial(self) -> Message | None:
        """The assistant message being streamed, as far as it was shown."""
        return self._runner.partial

    # --- state changes ---

    def accept(
        self,
        text: str,
        attachments: tuple[PromptBlock, ...] = (),
        output_schema: Mapping[str, JsonValue] | None = None,
        submission: Submission | None = None,
        disposition: Disposition = "started",
    ) -> Prompt:
        """Take a prompt into the journal: from here on it is not lost. Raises: StorageUnavailable."""
        prompt = Prompt(
            prompt_id=new_prompt_id(),
            run_id=new_run_id(),
            text=safe_text(text),
            attachments=attachments,
            output_schema=None if output_schema is None else dict(output_schema),
            submission=submission,
            after_seq=None if submission is None else self.log.last_seq,
            disposition=disposition,
            is_unchecked=self._parts.guard.is_on or self._parts.hooks.has_prompt_hooks,
            ts=round(self._parts.clock.now(), 3),
        )
        self.log.record(prompt)
        accept(self.history, prompt)
        if disposition in ("queued", "interrupting"):
            self.announce_queue()
        return prompt

    def begin_next(self) -> bool:
        """Make the first prompt of the queue the open run; whether there was one. Raises: StorageUnavailable."""
        prompt = self.history.queue.first
        if prompt is None:
            return False
        record = Begin(prompt_id=prompt.prompt_id, run_id=prompt.run_id, ts=round(self._parts.clock.now(), 3))
        self.log.record(record)
        begin(self.history, record)
        self.announce_queue()
        return True

    def wake(self) -> bool:
        """Make the telling of background tasks that have ended the open run; whether there is something to tell.

        Raises: StorageUnavailable.
        """
        if not self.has_news:
            return False
        now = round(self._parts.clock.now(), 3)
        wake = Prompt(prompt_id=new_prompt_id(), run_id=new_run_id(), text="", is_wake=True, ts=now)
        self.log.record(wake)
        accept(self.history, wake)
        return True

    def reopen_run(self) -> None:
        """Make the rest of a suspended run a run of its own. Raises: StorageUnavailable."""
        run = self.history.run
        if run is not None and run.is_suspended:
            self._runner.reopen(run)

    def queued(self, prompt_id: str) -> QueuedPrompt | None:
        """A prompt that waits for its run, with its whole text."""
        prompt = self.history.queue.find(prompt_id)
        return None if prompt is None else shown(prompt)

    def edit_queued(self, prompt_id: str, text: str) -> None:
        """Change the text of a prompt that waits for its run. Raises: KeyError, StorageUnavailable."""
        changed = self.history.queue[prompt_id].model_copy(update={"text": safe_text(text)})
        self.log.record(changed)
        accept(self.history, changed)
        self.announce_queue()

    def keep_queued(self, prompt_ids: Sequence[str]) -> None:
        """Let just these prompts of the queue wait, in this order. Raises: KeyError, StorageUnavailable."""
        prompts = [self.history.queue[prompt_id] for prompt_id in prompt_ids]
        self.log.emit(QueueUpdate(queue=self.history.queue.shown(prompts)))
        keep(self.history, prompt_ids, self._parts.clock.now())

    def announce_queue(self) -> None:
        self.log.emit(QueueUpdate(queue=self.history.queue.shown()))

    def answer_deferred(self, call: DeferredCall, output: str, *, is_error: bool) -> None:
        """Give a deferred call its result. Raises: StorageUnavailable."""
        self._runner.answer_deferred(call, output, is_error=is_error)

    async def check_output(self, text: str) -> str:
        """What the guard makes of a text from outside that is about to become a call's result."""
        return await self._parts.guard.check_output(text)

    async def looked_at(self, text: str) -> str:
        """What people may be shown of a prompt that no run has begun with: what the guard makes of it."""
        return await self._parts.guard.check_shown(text)

    def submitted(self, submission: Submission) -> Earlier | None:
        """The prompt that came under this key before. Raises: Unprocessable when that was another one."""
        earlier = self.history.submissions.find(submission.key, self._parts.clock.now())
        if earlier is None:
            return None
        if earlier.prompt.submission != submission:
            raise Unprocessable(OTHER_BODY)
        prompt, result = earlier.prompt, None
        if earlier.done is not None:
            result = result_of(earlier.done, earlier.error)
        elif not self._is_to_run(prompt.prompt_id):
            result = removed_prompt(prompt.prompt_id)
        return Earlier(prompt.prompt_id, prompt.after_seq or 0, prompt.disposition, result)

    def _is_to_run(self, prompt_id: str) -> bool:
        """Whether a prompt is in the run that is open, or waits for one."""
        history, run = self.history, self.open_run
        waiting = {prompt.prompt_id for prompt in (*history.queue.prompts, *history.inbox.waiting)}
        return prompt_id in waiting or (run is not None and prompt_id in (run.prompt.prompt_id, *run.steered))

    def abandon_run(self) -> RunResult | None:
        """End an interrupted or suspended run that nobody goes on with: pair its calls, keep its prompt, say `done`.

        What it came to; None where there is no run.
        """
        return self._runner.abandon()

    def update(self, change: SessionUpdated) -> None:
        """Change settings; mode counts at once, model and effort from the next run."""
        self.log.emit(change)
        self.history.settings = updated(self.settings, change)

    def clear(self) -> None:
        """Begin a fresh context; the history stays readable."""
        self.log.emit(Cleared())
        self.history.transcript.clear()
        self.history.context = None
        self._runner.hearing.begin_anew()

    def add_note(self, text: str) -> None:
        """Let the model learn something with the next prompt; kept across restarts, used once."""
        self.log.record(Note(text=safe_text(text), ts=round(self._parts.clock.now(), 3)))
        self.history.notes.append(safe_text(text))

    def notice(self, level: Literal["info", "warning"], code: str, text: str) -> None:
        self.log.emit(Notice(level=level, code=code, text=text))

    def grant(self, call_id: str, rule: str, *, settled: bool, expires_at: float | None = None) -> None:
        """Put a permission rule in force, until a Unix time if one is given; see SessionGate.grant."""
        self._parts.gate.grant(call_id, replace(parse_rule(rule), expires_at=expires_at), settled=settled)

    def adopt(self, rule: str, origin: Origin, expires_at: float | None = None) -> None:
        """An allow rule was written into a file of the user's: it is in force, and stands there from now on."""
        self._parts.gate.standing.adopt(replace(parse_rule(rule, origin), expires_at=expires_at))

    def will_write(self, answer: PermissionResolved) -> None:
        """The rule of an answer that is in the journal is about to be written down; see `App.persist`."""
        to_write(self.history, answer)

    def note_written(self, request_id: str) -> None:
        """It was, or nobody will try again. A journal that does not take this has it written again at the next load."""
        with suppress(StorageUnavailable):
            self.log.record(Written(request_id=request_id))
            self.history.unwritten.pop(request_id, None)

    def rules(self) -> tuple[StandingRule, ...]:
        """The permission rules in force, those of files included."""
        return tuple(self._parts.gate.standing.listed(self.id))

    def revoke(self, rule_id: str) -> bool:
        """Take back a grant of this session; whether there was one. Raises: StorageUnavailable."""
        return self._parts.gate.standing.revoke(self.id, rule_id)

    def drop_rule(self, rule_id: str) -> None:
        """An allow rule was taken out of a file: it is in force no more."""
        self._parts.gate.standing.drop(rule_id)

    def rule_for(self, request: PermissionRequest, input: Mapping[str, JsonValue]) -> str:
        """The narrowest rule that would allow a request's call with this input. Raises: Unprocessable."""
        call = ToolCall(id=request.call_id, name=request.tool_name, input=dict(input))
        if request.agent is not None:
            return self._parts.delegation.rule_for(request, call)
        return self._parts.gate.rule_for(call, self._parts.toolbox[request.tool_name].spec)

    async def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Check an `output_schema` before its prompt is accepted. Raises: BadRequest."""
        await OutputSchema(schema).check()

    def check_input(self, request: PermissionRequest, input: Mapping[str, JsonValue]) -> None:
        """Check an input that a person puts in the place of a request's. Raises: Unprocessable."""
        if request.agent is not None:
            self._parts.delegation.check_input(request, input)
            return
        tool = self._parts.toolbox.get(request.tool_name)
        if tool is None:
            raise Unprocessable(f"There is no tool {request.tool_name!r} any more.")
        asked = ToolCall(id=request.call_id, name=request.tool_name, input=request.input)
        self._parts.gate.check_replacement(asked, input, tool.spec)

    def claim(self) -> None:
        """Make the open run cancellable from now on, before `run` has begun to run."""
        self._runner.claim()

    def interrupt(self) -> None:
        """Cancel the claimed run at once; what was shown is kept, calls are paired."""
        self._runner.interrupt()

    def suspend(self) -> None:
        """Let the run end at its next turn's border, to be gone on with later."""
        self._runner.suspend()

    @property
    def is_suspending(self) -> bool:
        """Somebody wants the run to end at its next border, or wanted it and it did."""
        return self._runner.is_suspending

    @property
    def is_stopping(self) -> bool:
        """The process stops: nothing is begun any more."""
        return self._runner.is_stopping

    def pause(self) -> None:
        """Let the run stop at its next turn's border, or at once where it only waits to ask a model again.

        It stays open and goes on when the session is loaded again.
        """
        self._runner.pause()

    def end_cut_compaction(self) -> None:
        """Say the end of a compaction that the end of a process cut off: the conversation is as it was."""
        self._runner.end_cut_compaction()

    def sweep_worktrees(self) -> tuple[str, ...]:
        """Remove the worktrees of subagents in which nothing was changed; the paths of the others. Blocking."""
        return self._parts.delegation.sweep()

    def end_cut_subagents(self, worktrees: Sequence[str] = ()) -> None:
        """Say the end of what subagents had begun that the end of a process cut off: none of them is gone on with.

        The model learns which of the `worktrees` are theirs.
        """
        cut = [
            path for path in worktrees if path.endswith(tuple(f"-{name}" for name in self.history.subagents.unfinished))
        ]
        leftovers.end_subagents(self.history, self.log, self._parts.compaction.strategy)
        if cut:
            self.add_note(cut_worktrees_note(cut))

    def end_cut_questions(self) -> None:
        """Let what servers of tools asked expire that the end of a process cut off. Raises: StorageUnavailable."""
        leftovers.end_questions(self.history, self.log)

    @property
    def hooks(self) -> Hooks:
        return self._parts.hooks

    async def look_for_servers(self) -> None:
        """Have the servers of tools that the session may use started, and wait for none of them."""
        await self._parts.servers.look(0)

    @property
    def subagents(self) -> Mapping[str, str | None]:
        """The labels of those that are at work, in the order in which they began, each with the id of the background
        task that it is, None for one that the run waits for."""
        return self._parts.delegation.at_work

    @property
    def awaited_servers(self) -> tuple[str, ...]:
        """The names of those that its run waits for now, because they are not connected yet."""
        return self._parts.servers.awaited

    def close(self) -> None:
        """Let go of the session. What is still going on leaves the journal as a SIGKILL would."""
        self._parts.background.forget()
        self._parts.servers.close()
        self.log.close()

    # --- background tasks ---

    @property
    def tasks(self) -> tuple[BackgroundTask, ...]:
        """Those that run, and the last ones that have ended, in the order in which they began."""
        return self.history.tasks.all

    @property
    def has_news(self) -> bool:
        """A background task has ended, and a run is to begin that tells the model."""
        return self.history.tasks.has_news

    def listen_to_tasks(self, listener: Listener) -> None:
        """Let `listener` be told of each task that ends, in the step in which it does, until the agent is closed."""
        self._parts.background.listener = listener

    async def stop_task(self, task_id: str) -> None:
        """End a background task; one that has ended stays as it is. Raises: NotFound."""
        if self.history.tasks.find(task_id) is None:
            raise NotFound(f"There is no background task {task_id[:40]!r} in this session. GET …/tasks lists them.")
        await self._parts.background.stop(task_id)

    async def stop_tasks(self) -> None:
        """End all of them, in bounded time, and let nothing begin in the background any more."""
        await self._parts.background.close()

    def kill_lost_tasks(self) -> None:
        """Kill what is left of the tasks that were alive when the process that ran them ended. Blocking."""
        for process in self.history.processes.values():
            kill_group(process.pid, process.start)

    def lose_tasks(self) -> None:
        """Say the end of those tasks. Nothing is left of them."""
        self.history.processes.clear()
        self._parts.background.lose()

    async def run(self) -> RunResult | None:
        """Take the open, claimed run to its end, from wherever the journal says it stands; None when it paused."""
        run = self.open_run
        with logging_for(self.id, None if run is None else run.prompt.run_id), listening(self._parts.tracer()):
            return await self._runner.run()

    async def compact(self) -> str | None:
        """Compact the claimed, idle conversation and return the summary; see `Runner.compact`."""
        with logging_for(self.id), listening(self._parts.tracer()):
            return await self._runner.compact()

    # --- undo ---

    async def preview_undo(self) -> Undone:
        """What `undo` would do now. Raises: NothingToUndo."""
        return _found(await to_thread.run_sync(self._parts.checkpoints.preview)).event

    async def undo(self) -> Undone:
        """Take back the file changes of the last run that made some; the session is claimed and without a run.

        What was taken back is announced durably before the run is forgotten: cut off in between, the next undo finds
        it taken back already. Raises: NothingToUndo, StorageUnavailable, TakenOver.
        """
        checkpoints = self._parts.checkpoints
        await self.log.sync()  # the lease: a session that was taken over is not touched
        with anyio.CancelScope(shield=True):
            undoing = _found(await to_thread.run_sync(checkpoints.undo))
            self.log.emit(undoing.event)
            self.add_note(undo_note(undoing.event))
            await self.log.sync()
            if undoing.is_final:
                await to_thread.run_sync(self._retire, undoing.number)
        return undoing.event

    def _retire(self, number: int) -> None:
        """Forget a run that was undone. What stays of it does no harm: it is passed over, and pruned some day."""
        try:
            self._parts.checkpoints.retire(number)
        except OSError:
            logger.warning("session %s: checkpoint %d was undone and cannot be removed", self.id, number, exc_info=True)

    def prune_checkpoints(self) -> None:
        """Forget checkpoints that are too old; those that cannot be looked at stay. Blocking."""
        try:
            self._parts.checkpoints.prune()
        except OSError:
            logger.warning("session %s: its checkpoints cannot be pruned", self.id, exc_info=True)


def _found(undoing: Undoing | None) -> Undoing:
    if undoing is None:
        raise NothingToUndo(_NOTHING_TO_UNDO)
    return undoing
