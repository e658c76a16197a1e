"""What one tool call passes through, from the registry to its result.

The order is fixed: registry, the hooks before it, validation, gate, `tool_start` and its barrier, execution, the hooks
after it, cap, `tool_end`. Whatever happens the call gets exactly one result; that of a deferred one comes later, from
outside, and passes no hook. A tool's failure is a result that the model can act on; only a broken journal,
cancellation, and a hook that ends the run leave this room as exceptions.
"""

import copy
import difflib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import anyio
from pydantic import BaseModel, ValidationError

from agentcore.budget import Ledger
from agentcore.caps import OUTPUT_LIMIT_BYTES, bounded_input, cap_output, safe_text
from agentcore.deferrals import Deferrals
from agentcore.errors import RunFailed
from agentcore.events import Notice, Todo, ToolEnd, ToolOutputDelta, ToolStart
from agentcore.messages import ToolCall
from agentcore.ports.clock import Clock
from agentcore.ports.guard import NO_GUARD, OutputGuard
from agentcore.ports.hooks import NO_HOOKS, AfterCall, BeforeCall, Halted, Hooks
from agentcore.ports.log import EventLog
from agentcore.ports.permission import Allow, Deny, Gate, HookSays, Later
from agentcore.ports.tools import Deferred, Outcome, Tool, ToolError, ToolRoom
from agentcore.session import DeferredCall
from agentcore.transcript import Transcript
from agentcore.turn import INTERRUPTED
from agentcore.walk import Paused

log = logging.getLogger(__name__)

GUARD_GRACE_S = 2.0  # 400 KB of the worst text

SERVER_TOOL = "mcp__"
"""How the names of servers' tools begin: the only ones that another tool may stand for."""
_NEAR_NAMES = 3
_NAME_CHARS = 64  # what vendors allow a tool's name to have


@dataclass(frozen=True, slots=True)
class Ready:
    """A call that may run: valid, and allowed."""

    call: ToolCall
    """With the effective input."""
    tool: Tool
    input: BaseModel
    context: tuple[str, ...] = ()
    """What hooks said about it, for the model: it goes with the result."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that will not run, and what the model is told."""

    call: ToolCall
    text: str
    has_started: bool = False
    """It began before the process stopped; its `tool_start` is in the journal."""
    notice: Notice | None = None
    """What people are told besides."""
    context: tuple[str, ...] = ()
    """As of `Ready`."""


@dataclass(slots=True)
class _Printed:
    """What a running call has shown so far: its result if it is cancelled."""

    pieces: list[str] = field(default_factory=list)

    def text_with(self, note: str) -> str:
        return "\n".join(piece for piece in ("".join(self.pieces), note) if piece)


class Calls:
    """Runs the tool calls of one conversation against an immutable set of tools."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        gate: Gate,
        log: EventLog,
        transcript: Transcript,
        clock: Clock,
        deferrals: Deferrals,
        defer: Callable[[ToolCall, str], None],
        ledger: Ledger,
        hooks: Hooks = NO_HOOKS,
        guard: OutputGuard = NO_GUARD,
    ) -> None:
        """`defer` journals that a call's result comes later, under a token, and adds it to `deferrals`."""
        self._tools = tools
        self._gate = gate
        self._log = log
        self._transcript = transcript
        self._clock = clock
        self._deferrals = deferrals
        self._defer = defer
        self._hooks = hooks
        self._ledger = ledger
        self._guard = guard

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        return self._transcript.open_calls

    @property
    def undispatched(self) -> tuple[ToolCall, ...]:
        """The open calls without those that were deferred: these began, and are never run again."""
        return tuple(call for call in self.open_calls if not self._deferrals.is_deferred(call.id))

    def position_of(self, call: ToolCall) -> int:
        """Place of an open call in its batch, from 0, the finished ones counted."""
        return self._transcript.position_of(call)

    async def can_run_beside_others(self, call: ToolCall) -> bool:
        """Whether the call declares itself parallel-safe, is valid, and waits for nobody."""
        call = self.meant(call)
        tool = self._tools.get(call.name)
        if tool is None or not tool.spec.parallel_safe:
            return False
        checked = self._check(call)
        return isinstance(checked, Ready) and not await self._gate.needs_answer(checked.call, checked.tool)

    async def authorise(self, call: ToolCall) -> Ready | Refused | Later:
        """Hear the hooks, check the call and ask the gate; may wait for a person. With `Later` the call stays open.

        Raises: Halted; RunFailed when a hook put something in its place that is no call.
        """
        call = self.meant(call)
        if self._tools.get(call.name) is None or call.input is None:
            checked = self._check(call)
            assert isinstance(checked, Refused)
            return checked
        heard = await self._hooks.before_call(call)
        if heard.is_halt:
            raise Halted
        decided = await self._decide(call, self._rewritten(call, heard), heard.says)
        return decided if isinstance(decided, Later) else replace(decided, context=heard.context)

    async def _decide(self, call: ToolCall, effective: ToolCall, says: HookSays) -> Ready | Refused | Later:
        """`call` is what the model asked for: what is gated about it is gated, whatever a hook made of it."""
        checked = self._check(effective)
        if isinstance(checked, Refused):
            return checked
        may_wait = says.verdict == "ask" or effective is not call
        if may_wait or await self._gate.needs_answer(checked.call, checked.tool):
            await self._log.sync()  # a person may take days: the model's answer must not depend on that
        match await self._gate.decide(call, checked.call, checked.tool, checked.input, says):
            case Deny(reason):
                return Refused(call, await self._guard.check_output(reason))
            case Later() as later:
                return later
            case Allow(input=replaced) if replaced is not None:
                # A person changed the input; it was validated before the answer was taken.
                return self._check(effective.model_copy(update={"input": dict(replaced)}))
            case Allow():
                return checked

    def _rewritten(self, call: ToolCall, heard: BeforeCall) -> ToolCall:
        """The call that hooks put in the place of the model's, if any. Raises: RunFailed when it is none."""
        if heard.tool_name is None and heard.input is None:
            return call
        name = call.name if heard.tool_name is None else heard.tool_name
        if name not in self._tools:
            raise RunFailed(
                "invalid_hook_output",
                f"A hook put the tool {name[:_NAME_CHARS]!r} in the place of {call.name}, and there is no such tool."
                " Mend the hook.",
            )
        input = call.input if heard.input is None else bounded_input(heard.input)
        if input is None:
            raise RunFailed(
                "invalid_hook_output",
                f"A hook gave {call.name} an input that is no JSON object, or is nested too deeply. Mend the hook.",
            )
        return call.model_copy(update={"name": name, "input": input})

    async def execute(self, ready: Ready, turn: int, group: int, position: int) -> None:
        """Run an allowed call to its `tool_end`, or until it is deferred. Raises: Halted, when it has its result."""
        call = ready.call
        await anyio.lowlevel.checkpoint_if_cancelled()  # what came before may have waited for nothing
        self._log.emit(
            ToolStart(
                turn=turn,
                call_id=call.id,
                tool_name=call.name,
                input=copy.deepcopy(call.input or {}),
                group=group,
                position=position,
            )
        )
        self._ledger.began_call(group)
        started, printed = self._clock.monotonic(), _Printed()
        outcome: Outcome | Deferred | None = None
        duration_ms, heard = 0, AfterCall()
        checked: Outcome | None = None
        try:
            # The last barrier before an irreversible effect: the message that asked for it and what may have happened
            # are on disk, so a crash neither pays for the model's call again nor hides this one.
            await self._log.sync()
            started = self._clock.monotonic()
            outcome = await self._run(ready, turn, printed)
            duration_ms = self._ms_since(started)
            if isinstance(outcome, Outcome):
                heard = await self._hooks.after_call(call, outcome, duration_ms)
                checked = await self._guard.check_outcome(_as_heard(outcome, heard))
        except anyio.get_cancelled_exc_class():
            if not isinstance(outcome, Outcome):  # else it has run, and only its hooks or the guard were cut off
                outcome = Outcome(printed.text_with(INTERRUPTED), is_error=True)
                duration_ms = self._ms_since(started)
            self._finish(call, turn, await self._checked_at_last(outcome), duration_ms, ready.context)
            raise
        if checked is not None:
            self._finish(call, turn, checked, duration_ms, (*ready.context, *heard.context))
        else:
            assert isinstance(outcome, Deferred)
            self._defer(call, outcome.token)
            self._gate.settled(call)
            await self._log.sync()  # whoever has the token may answer from now on, whatever becomes of this process
        if heard.is_halt or (isinstance(outcome, Outcome) and outcome.ends_run):
            raise Halted

    async def _checked_at_last(self, outcome: Outcome) -> Outcome:
        """What a call came to that is being cancelled, past the guard; what takes that too long is left out."""
        if not self._guard.is_on:
            return outcome
        with anyio.move_on_after(GUARD_GRACE_S, shield=True):
            return await self._guard.check_outcome(outcome)
        return Outcome(INTERRUPTED, is_error=True)

    def _ms_since(self, started: float) -> int:
        return round((self._clock.monotonic() - started) * 1000)

    def answer(self, deferred: DeferredCall, turn: int, outcome: Outcome) -> None:
        """Close a deferred call with what came from outside."""
        call = next(call for call in self.open_calls if call.id == deferred.call_id)
        self._finish(call, turn, outcome, 0)

    def refuse(self, refused: Refused, turn: int) -> None:
        """Close a call that does not run."""
        if refused.notice is not None:
            self._log.emit(refused.notice.model_copy(update={"turn": turn}))
        output, truncated = cap_output(refused.text)
        end = ToolEnd(
            turn=turn,
            call_id=refused.call.id,
            tool_name=refused.call.name,
            output=_with_context(output, refused.context),
            is_error=True,
            cancelled=not (refused.has_started or self._deferrals.is_deferred(refused.call.id)),
            truncated=truncated,
        )
        self._close(refused.call, end)

    def meant(self, call: ToolCall) -> ToolCall:
        """The call of a server's tool that another tool stands for; from here on nobody is told of that one."""
        tool, input = self._tools.get(call.name), call.input
        if tool is None or not tool.spec.calls_another or input is None:
            return call
        name, inner = input.get("name"), input.get("input", {})
        if not isinstance(name, str) or not name.startswith(SERVER_TOOL) or not isinstance(inner, dict):
            return call  # the tool itself says what is wrong
        return call.model_copy(update={"name": name, "input": inner})

    def _check(self, call: ToolCall) -> Ready | Refused:
        tool = self._tools.get(call.name)
        if tool is None:
            return self._unknown(call)
        if call.input is None:
            text = f"The input of {call.name} was cut off or is no JSON object. Call it again with complete JSON."
            return Refused(call, text)
        try:
            # Its own deep copy: nothing a tool does to its input reaches the transcript.
            parsed = tool.spec.input.model_validate(copy.deepcopy(call.input))
        except ValidationError as error:
            return Refused(call, _explain(call.name, error))
        return Ready(call, tool, parsed)

    def _unknown(self, call: ToolCall) -> Refused:
        name = call.name[:_NAME_CHARS]
        near = difflib.get_close_matches(name, self._tools, n=_NEAR_NAMES) or sorted(self._tools)
        told = f"There is no tool {name!r}. Use one of: {', '.join(near)}."
        notice = Notice(level="warning", code="unknown_tool", text=f"The model called an unknown tool: {name!r}.")
        return Refused(call, told, notice=notice)

    async def _run(self, ready: Ready, turn: int, printed: _Printed) -> Outcome | Deferred:
        spec = ready.tool.spec

        def say(text: str) -> None:
            text = safe_text(text)
            printed.pieces.append(text)
            if not self._guard.is_on:  # nothing is shown that was not checked, and half a number cannot be
                self._log.emit(ToolOutputDelta(turn=turn, call_id=ready.call.id, text=text))

        try:
            with anyio.move_on_after(spec.timeout_s) as scope:
                outcome = await ready.tool.run(ready.input, ToolRoom(call_id=ready.call.id, say=say))
                if isinstance(outcome, Deferred) and self._deferrals.was_used(outcome.token):
                    raise ValueError(f"{spec.name} deferred twice under one token")
                return outcome
        except ToolError as error:
            return Outcome(str(error), is_error=True)
        except Paused:
            raise  # the process stops: what the call did so far is left as it is
        except Exception:
            log.exception("tool %s failed in call %s", spec.name, ready.call.id)
            return Outcome(f"{spec.name} failed with an internal error; the server's log has the details.", True)
        assert scope.cancelled_caught
        note = f"[{spec.name} did not finish within {spec.timeout_s:g} s and was stopped]"
        return Outcome(printed.text_with(note), is_error=True)

    def _finish(
        self, call: ToolCall, turn: int, outcome: Outcome, duration_ms: int, context: Sequence[str] = ()
    ) -> None:
        tool = self._tools.get(call.name)  # a deferred call may outlive its tool
        limit = OUTPUT_LIMIT_BYTES if tool is None else tool.spec.output_limit_bytes
        output, truncated = cap_output(outcome.output, limit)
        for event in outcome.events:
            self._log.emit(event.model_copy(update={"turn": turn}))
            if isinstance(event, Todo):
                self._transcript.todos = event.items
        end = ToolEnd(
            turn=turn,
            call_id=call.id,
            tool_name=call.name,
            output=_with_context(output, context),
            attachments=outcome.attachments,
            display=None if outcome.display is None else safe_text(outcome.display),
            is_error=outcome.is_error,
            duration_ms=duration_ms,
            truncated=truncated,
        )
        self._close(call, end)

    def _close(self, call: ToolCall, end: ToolEnd) -> None:
        self._log.emit(end)
        self._ledger.ended_call(end.worked_ms)
        self._transcript.add_result(end.result())
        self._deferrals.settle(call.id)
        self._gate.settled(call)


def _as_heard(outcome: Outcome, heard: AfterCall) -> Outcome:
    """What hooks left of it. Where they replaced it nothing is shown besides: it may be what they took out."""
    if heard.output is None:
        return outcome
    return replace(outcome, output=heard.output, display=None, attachments=())


def _with_context(output: str, context: Sequence[str]) -> str:
    """The capped output, and behind it, whole, what hooks said: their texts have a bound of their own."""
    return "\n\n".join(part for part in (output, *context) if part)


def _explain(name: str, error: ValidationError) -> str:
    lines = [f"The input of {name} is not valid:"]
    for problem in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in problem["loc"]) or "input"
        lines.append(f"- {where}: {problem['msg']}")
    return "\n".join(lines)
