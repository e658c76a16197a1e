"""The running of one run: from the accepted prompt, or from wherever a crash left it, to its `done`.

Knows the session's journal and history, never a phase or a queue: who may run when is its caller's business. Whatever
happens in a run, it ends with exactly one `done` - unless the process stops, and then the journal is left as it is.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from pydantic import JsonValue

from agentcore.attachments import Attachments
from agentcore.batch import close_batch
from agentcore.budget import DEFAULT_MAX_TURNS, Limits
from agentcore.call import Calls, Refused
from agentcore.candidates import Candidate, CoolDowns
from agentcore.caps import safe_text
from agentcore.checkpoints.session import SessionCheckpoints
from agentcore.compaction.compactor import ContextCompactor, Plan, Scene
from agentcore.errors import BadRequest, ProviderError, RunFailed, StorageUnavailable, Unprocessable
from agentcore.estimate import tokens_of_fixed
from agentcore.events import Compacted, Done, Error, ModelEnd, Notice, QueueUpdate, StopReason, TurnEnd, UserMessage
from agentcore.ids import new_run_id
from agentcore.instructions import system_prompt
from agentcore.loop import Loop, run_loop
from agentcore.messages import Message, ToolCall
from agentcore.notes import with_notes
from agentcore.permissions.gate import SessionGate
from agentcore.ports import Clock, ModelRequest, Outcome, Tool
from agentcore.retry import Patience
from agentcore.session import DeferredCall, Settings
from agentcore.sessions.fold import OpenRun, begin, end, mended
from agentcore.sessions.records import Begin, Context, Deferral, Disposition, Prompt, Repair
from agentcore.sessions.store import OpenSession
from agentcore.structured import OutputSchema, StructuredEnding
from agentcore.turn import FAILED, Model, SideModel
from agentcore.usage import Usage
from agentcore.validator import Validator
from agentcore.walk import Paused, Walk

logger = logging.getLogger(__name__)

UNKNOWN_OUTCOME = (
    "outcome unknown: the server stopped while this ran. It may have taken effect in whole, in part or not at all;"
    " look before you repeat it."
)
INTERRUPTED_CALL = "interrupted by user"
_INTERNAL = Error(code="internal", text="The run failed; the server's log has the details.")


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended."""

    run_id: str
    prompt_id: str
    stop_reason: StopReason
    text: str
    usage: Usage
    turns: int
    cost_usd: float | None = None
    """The price of `usage`; None when that of one call is not known."""
    structured: dict[str, JsonValue] | None = None
    """The answer as `output_schema` describes it, checked; None where none was asked for or given."""
    error: Error | None = None
    steered: tuple[str, ...] = ()
    """Ids of the prompts that it took while it went on: its end is theirs."""


def result_of(done: Done, error: Error | None, steered: Sequence[str] = ()) -> RunResult:
    return RunResult(
        run_id=done.run_id,
        prompt_id=done.prompt_id or "",
        stop_reason=done.stop_reason,
        text=done.text,
        usage=done.usage,
        turns=done.turns,
        cost_usd=done.cost_usd,
        structured=done.structured,
        error=error,
        steered=tuple(steered),
    )


def removed_prompt(prompt_id: str) -> RunResult:
    """What a prompt came to that was taken out of the queue."""
    error = Error(code="prompt_removed", text="The prompt was removed from the queue before its run began.")
    return RunResult("", prompt_id, "interrupted", "", Usage(), 0, error=error)


@dataclass(frozen=True, slots=True)
class Earlier:
    """A prompt whose submission came again."""

    prompt_id: str
    after_seq: int
    """The last number before it was accepted."""
    disposition: Disposition
    result: RunResult | None
    """What it came to; None while it has not ended."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What an agent is made of besides its session."""

    tools: Mapping[str, Tool]
    gate: SessionGate
    candidates_of: Callable[[str], tuple[Candidate, ...]]
    """`provider/model` to that model and the ones that may stand in for it, in order of preference."""
    cool_downs: CoolDowns
    patience: Patience
    default_model: str
    clock: Clock
    attachments: Attachments
    compaction: Plan
    checkpoints: SessionCheckpoints


class Runner:
    """Runs one conversation's runs, one at a time."""

    def __init__(self, session: OpenSession, parts: Parts) -> None:
        self.id = session.id
        self.log = session.log
        self.history = session.history
        self._blobs = session.blobs
        self._parts = parts
        history = session.history
        self._model = Model(session.log, history.transcript, history.ledger, parts.clock, parts.patience)
        self._side = SideModel(session.log, history.transcript, history.ledger, parts.clock, parts.patience)
        self._journal = f"{session.directory}/journal*.jsonl"
        self._ending: StructuredEnding | None = None
        self._calls = self._calls_for(None)
        self._scope: anyio.CancelScope | None = None
        self._stopping = anyio.Event()
        self._is_suspending = False
        self._validator = Validator()
        self._walk: Walk | None = None

    @property
    def settings(self) -> Settings:
        return self.history.settings

    @property
    def model(self) -> str:
        """`provider/model` of the next run."""
        return self.settings.model or self._parts.default_model

    @property
    def partial(self) -> Message | None:
        """The assistant message being streamed, as far as it was shown."""
        draft = self._model.draft
        return None if draft is None else draft.message()

    @property
    def waits_to_retry(self) -> bool:
        """A model call failed, and the run waits before it makes it again."""
        return self._walk is not None and self._walk.is_pausing

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
        self._is_suspending = False
        self.history.inbox.open()

    def interrupt(self) -> None:
        """Cancel the claimed run at once; what was shown is kept, calls are paired."""
        if self._scope is not None:
            self._scope.cancel()

    def suspend(self) -> None:
        """Let the run end at its next turn's border, to be gone on with later."""
        self._is_suspending = True

    def pause(self) -> None:
        """Let the run stop at its next turn's border, or at once where it only waits to ask a model again.

        It stays open and goes on when the session is loaded again.
        """
        self._stopping.set()

    def abandon(self) -> None:
        """End an interrupted or suspended run that nobody goes on with: pair its calls, keep its prompt, say `done`."""
        run = self.history.run
        if run is None:
            return
        try:
            if run.is_suspended:
                run = self.reopen(run)  # it had its own `done`: this one is for the rest of it
            self._begin_message(run)
            self._close_what_a_crash_left(goes_on=False)
        except StorageUnavailable:
            logger.warning("session %s: its run is left as it is, its journal cannot be written", self.id)
        self._end(run, "interrupted", None)

    def reopen(self, run: OpenRun) -> OpenRun:
        """Make the rest of a suspended run a run of its own. Raises: StorageUnavailable."""
        record = Begin(prompt_id=run.prompt.prompt_id, run_id=new_run_id(), ts=round(self._parts.clock.now(), 3))
        self.log.record(record)
        begin(self.history, record)
        assert self.history.run is not None
        return self.history.run

    def answer_deferred(self, deferred: DeferredCall, output: str, *, is_error: bool) -> None:
        """Give a deferred call its result. Raises: StorageUnavailable."""
        self._calls.answer(deferred, self._turn, Outcome(safe_text(output), is_error=is_error))

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
                self._walk = self._make_walk(self._parts.candidates_of(self.model), None)
                return await self._compactor(self._walk).on_request()
        except Paused:
            return None
        finally:
            self._scope = self._walk = None
        raise Unprocessable("The compaction was cancelled: the conversation is as it was.")

    def end_cut_compaction(self) -> None:
        """Say the end of a compaction that the end of a process cut off: the conversation is as it was."""
        history, start = self.history, self.history.compacting
        if start is None:
            return
        if history.is_calling:
            self.log.emit(ModelEnd(turn=start.turn or 0, stop_reason=FAILED, request_ms=0))
            history.is_calling = False
        tokens = start.estimated_tokens
        strategy = self._parts.compaction.strategy
        self.log.emit(
            Compacted(turn=start.turn, strategy=strategy, ok=False, before_tokens=tokens, after_tokens=tokens)
        )
        history.compacting = None

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
            self._scope = self._walk = None
        if reason == "suspended" and scope.cancel_called:
            reason = "interrupted"
        return self._end(run, reason, error)

    async def _attempt(self, run: OpenRun) -> tuple[StopReason, Error | None]:
        """The barrier of a run: every failure becomes its closing error."""
        try:
            candidates = self._parts.candidates_of(self.model)
            self._parts.checkpoints.begin_run(run.prompt.run_id)
            self._begin_message(run)
            self._close_what_a_crash_left(goes_on=True)
            self._ending = ending = _ending_of(run.prompt, candidates)
            self._calls = self._calls_for(ending)
            self._walk = self._make_walk(candidates, ending)
            return await run_loop(self._loop(self._walk, ending)), None
        except ProviderError as error:
            return "error", Error(
                code=error.reason, text=str(error), retryable=error.is_retryable, retry_after=error.retry_after_s
            )
        except RunFailed as error:
            return "error", Error(code=error.reason, text=str(error))
        except (StorageUnavailable, BadRequest) as error:
            return "error", Error(code=error.code, text=str(error))
        except Paused:
            raise
        except Exception:
            logger.exception("run %s of session %s failed", run.prompt.run_id, self.id)
            return "error", _INTERNAL

    def _calls_for(self, ending: StructuredEnding | None) -> Calls:
        """The calls of a run, with the tool that its ending adds."""
        added = {} if ending is None or ending.tool is None else {ending.tool.spec.name: ending.tool}
        history, parts = self.history, self._parts
        tools, transcript, deferrals = {**parts.tools, **added}, history.transcript, history.deferrals
        log, clock = self.log, parts.clock

        # no bound method: a closed session is freed without the collector
        def defer(call: ToolCall, token: str) -> None:
            now, seconds = clock.now(), history.settings.expires_after_s
            expires_at = None if seconds is None else round(now + seconds, 3)
            deferred = DeferredCall(token=token, call_id=call.id, tool_name=call.name, expires_at=expires_at)
            log.record(Deferral(call=deferred, ts=round(now, 3)))
            deferrals.add(deferred)

        return Calls(tools, parts.gate, log, transcript, clock, deferrals, defer)

    def _make_walk(self, candidates: tuple[Candidate, ...], ending: StructuredEnding | None) -> Walk:
        return Walk(
            model=self._model,
            candidates=candidates,
            make_request=self._request_maker(ending),
            cool_downs=self._parts.cool_downs,
            patience=self._parts.patience,
            stopping=self._stopping,
            log=self.log,
            clock=self._parts.clock,
        )

    def _loop(self, walk: Walk, ending: StructuredEnding | None) -> Loop:
        limits = Limits(max_turns=self.settings.max_turns or DEFAULT_MAX_TURNS)
        history = self.history
        return Loop(
            transcript=history.transcript,
            walk=walk,
            calls=self._calls,
            log=self.log,
            ledger=history.ledger,
            limits=limits,
            must_pause=self._stopping.is_set,
            compactor=self._compactor(walk),
            must_suspend=lambda: self._is_suspending,
            inbox=history.inbox,
            deliver=self._deliver,
            last_stop=history.last_stop,
            ending=ending,
        )

    def _compactor(self, walk: Walk) -> ContextCompactor:
        history = self.history

        def fixed_tokens() -> int:
            context = self._context()
            return tokens_of_fixed(context.system, context.tools)

        scene = Scene(
            transcript=history.transcript,
            ledger=history.ledger,
            log=self.log,
            walk=walk,
            side=self._side,
            fixed_tokens=fixed_tokens,
            journal=self._journal,
            sound_messages=self._sound_messages,
        )
        return ContextCompactor(scene, self._parts.compaction)

    def _request_maker(self, ending: StructuredEnding | None) -> Callable[[Candidate], ModelRequest]:
        context, settings, transcript = self._context(), self.settings, self.history.transcript
        tools = context.tools if ending is None else ending.with_tool(context.tools)

        def make_request(candidate: Candidate) -> ModelRequest:
            if transcript.attachments.is_too_much:
                self._leave_old_files_out()
            return ModelRequest(
                model=candidate.model,
                system=context.system,
                tools=tools,
                messages=self._sound_messages(),
                session=self.id,
                max_tokens=settings.max_tokens,
                temperature=settings.temperature,
                effort=settings.effort,
                encoded=transcript.encoded,
                blob=self._shown_blob,
                output_schema=None if ending is None else ending.vendor_schema,
            )

        return make_request

    def _leave_old_files_out(self) -> None:
        """The conversation has shown more files than a request can hold: the oldest are no longer shown."""
        transcript = self.history.transcript
        count = transcript.attachments.leave_out(transcript.messages)
        transcript.encoded.clear()
        text = f"A request cannot hold more files: the oldest {count} are no longer shown to the model."
        self.log.emit(Notice(turn=self._turn, level="warning", code="files_left_out", text=text))

    def _shown_blob(self, blob: str) -> bytes:
        """Raises: KeyError for what is gone, or left out."""
        if blob in self.history.transcript.attachments.left_out:
            raise KeyError(blob)
        return self._blobs.get(blob)

    def _sound_messages(self) -> tuple[Message, ...]:
        """The transcript as every vendor takes it; what has to be mended for that is journaled and told."""
        messages = self.history.transcript.messages
        repaired = self._validator.check(messages)
        if repaired is None:
            return messages
        self.log.record(Repair(what=repaired.what, messages=repaired.messages))
        mended(self.history, repaired.messages)
        self.log.emit(Notice(turn=self._turn, level="warning", code="transcript_repaired", text=repaired.what))
        return repaired.messages

    def _context(self) -> Context:
        """What the model is told first; made and journaled once per fresh context."""
        if self.history.context is None:
            system = system_prompt(Path(self.history.meta.cwd), self._parts.clock.now(), self.settings.system_append)
            tools = tuple(self._parts.tools[name].spec.definition() for name in sorted(self._parts.tools))
            self.history.context = Context(system=system, tools=tools)
            self.log.record(self.history.context)
        return self.history.context

    def _begin_message(self, run: OpenRun) -> None:
        if run.has_message:
            return
        notes = self.history.notes
        self._say(with_notes(run.prompt.message("prompt"), notes))
        notes.clear()
        run.has_message = True

    def _deliver(self) -> None:
        """Bring what the user said meanwhile into the transcript."""
        run = self.history.run
        assert run is not None
        for prompt in self.history.inbox.take():
            self._say(prompt.message("steer"))
            run.steered.append(prompt.prompt_id)

    def _say(self, message: UserMessage) -> None:
        self.history.transcript.check_closed()
        self.log.emit(message)
        self.history.transcript.add_user(message.id, message.content)
        self.history.submissions.taken(message.prompt_id)

    def _close_what_a_crash_left(self, *, goes_on: bool) -> None:
        """End what was going on when the process stopped. In a run that goes on reads run again and the rest waits."""
        history = self.history
        if history.is_calling:
            self.log.emit(ModelEnd(turn=self._turn, stop_reason=FAILED, request_ms=0))
        for call in self._calls.open_calls:
            tool = self._parts.tools.get(call.name)
            is_rerun = goes_on and tool is not None and tool.spec.read_only
            if call.id in history.started and not is_rerun:
                self._calls.refuse(Refused(call, UNKNOWN_OUTCOME, has_started=True), self._turn)
        if not goes_on:
            close_batch(self._calls, self._turn, INTERRUPTED_CALL)
        if history.open_turn is not None and not self._calls.open_calls:
            self.log.emit(TurnEnd(turn=history.open_turn))
        history.started.clear()
        history.open_turn, history.is_calling = None, False
        if goes_on and history.is_unanswered:
            history.ledger.turns -= 1  # the turn begins again under its number: its call has answered nothing
            history.is_unanswered = False

    @property
    def _turn(self) -> int:
        return max(self.history.ledger.turns, 1)

    def _end(self, run: OpenRun, reason: StopReason, error: Error | None) -> RunResult:
        """Pair what is open, unless it is only suspended, and say `done`, once, whatever it takes."""
        self.history.inbox.shut()
        try:
            if reason == "suspended":
                self._keep_place()
            else:
                close_batch(self._calls, self._turn, INTERRUPTED_CALL)
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
        if left and reason != "suspended":
            self.log.say_last(QueueUpdate(queue=self.history.queue.shown()))
        return result_of(done, error, run.steered)

    def _keep_place(self) -> None:
        """Keep what the journal says about where a suspended run stands."""
        history = self.history
        history.open_turn = self._turn if self._calls.open_calls else None
        history.last_stop = self._model.last_stop or history.last_stop

    def _structured(self, reason: StopReason) -> dict[str, JsonValue] | None:
        if reason != "end_turn" or self._ending is None:
            return None
        return self._ending.value(self.history.transcript.messages)


def _ending_of(prompt: Prompt, candidates: tuple[Candidate, ...]) -> StructuredEnding | None:
    """How the run of a prompt with a schema may end: by the vendors' own means only where each of them has them."""
    if prompt.output_schema is None:
        return None
    is_native = all(one.provider.has_structured_output(one.model) for one in candidates)
    return StructuredEnding(OutputSchema(prompt.output_schema), by_tool=not is_native)
