"""One conversation: its journal, its model, its tools and its gate, put together.

No logic of HTTP or UI. State changes are plain functions; `run` is the one thing that takes time. Whatever happens
in a run, it ends with exactly one `done` - unless the process stops, and then the journal is left as it is, so that
the run goes on when the session is loaded again.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio
from pydantic import JsonValue

from agentcore.attachments import Attachments, PromptBlock
from agentcore.batch import close_batch
from agentcore.budget import DEFAULT_MAX_TURNS, Limits
from agentcore.call import Calls, Refused
from agentcore.candidates import Candidate, CoolDowns
from agentcore.caps import safe_text
from agentcore.errors import BadRequest, ProviderError, RunFailed, StorageUnavailable, Unprocessable
from agentcore.events import (
    Cleared,
    Done,
    Error,
    ModelEnd,
    Notice,
    PermissionRequest,
    SessionUpdated,
    StopReason,
    TurnEnd,
    UserMessage,
)
from agentcore.ids import new_message_id, new_prompt_id, new_run_id
from agentcore.instructions import system_prompt
from agentcore.loop import Loop, run_loop
from agentcore.messages import Message, Text, ToolCall
from agentcore.permissions.gate import SessionGate
from agentcore.permissions.rules import narrowest_rule, parse_rule
from agentcore.ports import Clock, ModelRequest, Tool
from agentcore.retry import Patience
from agentcore.session import Settings
from agentcore.sessions.fold import History, OpenRun, title_from, updated
from agentcore.sessions.log import JournalLog
from agentcore.sessions.records import Context, Prompt
from agentcore.sessions.store import OpenSession
from agentcore.structured import OutputSchema, StructuredEnding
from agentcore.turn import FAILED, Model
from agentcore.usage import Usage
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


class Agent:
    """One conversation. At most one run at a time: the caller sees to that."""

    def __init__(self, session: OpenSession, parts: Parts) -> None:
        self.id = session.id
        self.log: JournalLog = session.log
        self.attachments = parts.attachments
        self._blobs = session.blobs
        self.history: History = session.history
        self._parts = parts
        history = session.history
        if history.run is None:
            history.context = None  # a resume is a fresh context; an interrupted run goes on with its own
        self._model = Model(session.log, history.transcript, history.ledger, parts.clock, parts.patience)
        self._ending: StructuredEnding | None = None
        self._calls = self._calls_for(None)
        self._scope: anyio.CancelScope | None = None
        self._stopping = anyio.Event()
        self._walk: Walk | None = None

    # --- what it is ---

    @property
    def settings(self) -> Settings:
        return self.history.settings

    @property
    def model(self) -> str:
        """`provider/model` of the next run."""
        return self.settings.model or self._parts.default_model

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
        draft = self._model.draft
        return None if draft is None else draft.message()

    @property
    def waits_to_retry(self) -> bool:
        """A model call failed, and the run waits before it makes it again."""
        return self._walk is not None and self._walk.is_pausing

    # --- state changes ---

    def accept(
        self,
        text: str,
        attachments: tuple[PromptBlock, ...] = (),
        output_schema: Mapping[str, JsonValue] | None = None,
    ) -> Prompt:
        """Take a prompt into the journal: from here on it is not lost. Raises: StorageUnavailable."""
        prompt = Prompt(
            prompt_id=new_prompt_id(),
            run_id=new_run_id(),
            text=safe_text(text),
            attachments=attachments,
            output_schema=None if output_schema is None else dict(output_schema),
            ts=round(self._parts.clock.now(), 3),
        )
        self.log.record(prompt)
        self.history.run = OpenRun(prompt)
        self.history.ledger.begin_run()
        if self.settings.title is None:
            self.history.settings = self.settings.model_copy(update={"title": title_from(prompt.text)})
        return prompt

    def abandon_run(self) -> None:
        """End an interrupted run that nobody goes on with: pair its calls, keep its prompt, say `done`."""
        run = self.history.run
        if run is None:
            return
        try:
            self._begin_message(run)
            self._close_what_a_crash_left(goes_on=False)
        except StorageUnavailable:
            logger.warning("session %s: its run is left as it is, its journal cannot be written", self.id)
        self._end(run, "interrupted", None)

    def update(self, change: SessionUpdated) -> None:
        """Change settings; mode counts at once, model and effort from the next run."""
        self.log.emit(change)
        self.history.settings = updated(self.settings, change)

    def clear(self) -> None:
        """Begin a fresh context; the history stays readable."""
        self.log.emit(Cleared())
        self.history.transcript.clear()
        self.history.context = None

    def notice(self, level: str, code: str, text: str) -> None:
        self.log.emit(Notice(level="warning" if level == "warning" else "info", code=code, text=text))

    def grant(self, call_id: str, rule: str, *, settled: bool) -> None:
        """Put a permission rule in force; see SessionGate.grant."""
        parsed = parse_rule(rule)
        if parsed is None:
            raise ValueError(f"no permission rule: {rule[:80]!r}")
        self._parts.gate.grant(call_id, parsed, settled=settled)

    def rule_for(self, request: PermissionRequest, input: Mapping[str, JsonValue]) -> str:
        """The narrowest rule that would allow a request's call with this input."""
        return str(narrowest_rule(ToolCall(id=request.call_id, name=request.tool_name, input=dict(input))))

    async def check_schema(self, schema: Mapping[str, JsonValue]) -> None:
        """Check an `output_schema` before its prompt is accepted. Raises: BadRequest."""
        await OutputSchema(schema).check()

    def check_input(self, request: PermissionRequest, input: Mapping[str, JsonValue]) -> None:
        """Check an input that a person puts in the place of a request's. Raises: Unprocessable."""
        tool = self._parts.tools.get(request.tool_name)
        if tool is None:
            raise Unprocessable(f"There is no tool {request.tool_name!r} any more.")
        asked = ToolCall(id=request.call_id, name=request.tool_name, input=request.input)
        self._parts.gate.check_replacement(asked, input, tool.spec)

    def claim(self) -> None:
        """Make the open run cancellable from now on, before `run` has begun to run."""
        self._scope = anyio.CancelScope()

    def interrupt(self) -> None:
        """Cancel the claimed run at once; what was shown is kept, calls are paired."""
        if self._scope is not None:
            self._scope.cancel()

    def pause(self) -> None:
        """Let the run stop at its next turn's border, or at once where it only waits to ask a model again.

        It stays open and goes on when the session is loaded again.
        """
        self._stopping.set()

    def close(self) -> None:
        """Let go of the session. A run that is still going on leaves the journal as a SIGKILL would."""
        self.log.close()

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
        return self._end(run, reason, error)

    async def _attempt(self, run: OpenRun) -> tuple[StopReason, Error | None]:
        """The barrier of a run: every failure becomes its closing error."""
        try:
            candidates = self._parts.candidates_of(self.model)
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
        return Calls({**parts.tools, **added}, parts.gate, self.log, history.transcript, parts.clock)

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
            last_stop=history.last_stop,
            ending=ending,
        )

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
                messages=transcript.messages,
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
        self.notice("warning", "files_left_out", text)

    def _shown_blob(self, blob: str) -> bytes:
        """Raises: KeyError for what is gone, or left out."""
        if blob in self.history.transcript.attachments.left_out:
            raise KeyError(blob)
        return self._blobs.get(blob)

    def _context(self) -> Context:
        """What the model is told first; made and journaled once per fresh context."""
        if self.history.context is None:
            system = system_prompt(self.cwd, self._parts.clock.now(), self.settings.system_append)
            tools = tuple(self._parts.tools[name].spec.definition() for name in sorted(self._parts.tools))
            self.history.context = Context(system=system, tools=tools)
            self.log.record(self.history.context)
        return self.history.context

    def _begin_message(self, run: OpenRun) -> None:
        if run.has_message:
            return
        text, attachments = run.prompt.text, run.prompt.attachments
        message = UserMessage(
            id=new_message_id(),
            prompt_id=run.prompt.prompt_id,
            # before the text: that is how models read pictures best; an empty text is refused by vendors
            content=(*attachments, *((Text(text=text),) if text else ())),
            display_text=text if attachments else None,
        )
        self.history.transcript.check_closed()
        self.log.emit(message)
        self.history.transcript.add_user(message.id, message.content)
        run.has_message = True

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
        """Pair what is open and say `done`, once, whatever it takes."""
        try:
            close_batch(self._calls, self._turn, INTERRUPTED_CALL)
        except StorageUnavailable:
            logger.warning("session %s: calls stay open, its journal cannot be written", self.id)
        except Exception:
            logger.exception("run %s of session %s could not be closed", run.prompt.run_id, self.id)
            reason, error = "error", _INTERNAL
        ledger, prompt = self.history.ledger, run.prompt
        if error is not None:
            self.log.say_last(error)
        done = Done(
            run_id=prompt.run_id,
            prompt_id=prompt.prompt_id,
            stop_reason=reason,
            text=ledger.text,
            usage=ledger.run,
            cost_usd=ledger.run_cost_usd,
            turns=ledger.turns,
            structured=self._structured(reason),
        )
        self.history.run, self._ending = None, None
        self.log.say_last(done)
        return RunResult(
            run_id=prompt.run_id,
            prompt_id=prompt.prompt_id,
            stop_reason=reason,
            text=ledger.text,
            usage=ledger.run,
            turns=ledger.turns,
            cost_usd=ledger.run_cost_usd,
            structured=done.structured,
            error=error,
        )

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
