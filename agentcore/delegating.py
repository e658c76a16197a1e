"""Subagents of one session: each a run of the loop over a transcript of its own, in the journal under its label.

What is the session's (rules, hooks, guard, checkpoints, budget) it shares; the run that waits for it ends with it, a
background task ends by itself. Nothing that is made here knows the agent: a closed session is freed without the
collector. Promise: every call of a subagent has its result, and the call that began it has one, unless the process
stops: then both are closed by the next load.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio
from anyio import to_thread
from pydantic import JsonValue

from agentcore.caps import safe_text
from agentcore.delegated import Lent, Subagent
from agentcore.errors import (
    AgentError,
    BadRequest,
    ProviderError,
    RunFailed,
    StorageUnavailable,
    TakenOver,
    Unprocessable,
)
from agentcore.events import Notice, PermissionRequest, UserMessage
from agentcore.ids import new_message_id
from agentcore.loop import run_loop
from agentcore.messages import Text, ToolCall
from agentcore.ports.hooks import Halted
from agentcore.ports.tools import Outcome, ToolError
from agentcore.subagents import words
from agentcore.subagents.hooks import CIRCLES, WentInCircles
from agentcore.subagents.tool import Order
from agentcore.walk import Paused
from agentcore.wiretap import speaking_as
from agentcore.within import one_line
from agentcore.worktrees import Worktree

MAX_AT_ONCE = 20  # the contract's "twenty at once": those that a run waits for; background tasks have a bound of theirs


@dataclass(frozen=True, slots=True)
class _End:
    """How a subagent's run ended."""

    output: str
    is_error: bool = False
    ends_run: bool = False


class Delegation:
    """Satisfies the Delegates protocol of the tool `task`."""

    def __init__(self, lent: Lent) -> None:
        self._lent = lent
        self._places = anyio.Semaphore(MAX_AT_ONCE)
        self._alive: dict[str, Subagent] = {}
        """By label."""
        self._told: set[str] = set()
        """Notices about what files of agents name and there is not."""
        self.stopping = anyio.Event()
        """Set when the process stops; that of the session's runs."""
        self.is_suspending = False
        """Somebody wants the run that goes on to end at its next border."""

    # --- the protocol ---

    def check(self, order: Order) -> None:
        lent = self._lent
        if order.is_isolated and lent.session.history.settings.mode == "plan":
            raise ToolError("Plan mode changes nothing, and a worktree is a change: leave isolation out.")
        if order.model is not None:
            self._check_model(order.model)

    async def run(self, order: Order, say: Callable[[str], None], task_id: str | None = None) -> Outcome:
        if task_id is not None:
            return await self._carry_out(order, say, task_id)
        await self._places.acquire()
        try:
            return await self._carry_out(order, say, None)
        finally:
            self._places.release()

    async def _carry_out(self, order: Order, say: Callable[[str], None], task_id: str | None) -> Outcome:
        label = self._lent.session.history.subagents.new_label(order.kind.label)
        worktree = await self._worktree(label) if order.is_isolated else None
        remark: str | None = None
        try:
            end = await self._run(self._made(order, label, worktree, task_id), order, say)
        finally:
            if worktree is not None:
                with anyio.CancelScope(shield=True):  # bounded by what git may take
                    remark = await to_thread.run_sync(self._lent.worktrees.leave, worktree)
        output = end.output if remark is None else f"{end.output}\n\n[{remark}]"
        return Outcome(output, is_error=end.is_error, ends_run=end.ends_run)

    # --- after the end of a process ---

    def sweep(self) -> tuple[str, ...]:
        """Remove the worktrees in which nothing was changed; the paths of the others. Blocking; nothing runs yet."""
        return self._lent.worktrees.sweep(f"{self._lent.session.id}-")

    # --- for those who look, and who answer ---

    @property
    def at_work(self) -> Mapping[str, str | None]:
        """Labels, in the order in which they began, each with the background task that it is, if it is one."""
        return {label: subagent.task_id for label, subagent in self._alive.items()}

    def check_input(self, request: PermissionRequest, input: Mapping[str, JsonValue]) -> None:
        """Check an input in the place of one that a subagent asked about. Raises: Unprocessable."""
        subagent = self._asking(request)
        tool = subagent.tools.get(request.tool_name)
        if tool is None:
            raise Unprocessable(f"There is no tool {request.tool_name!r} any more.")
        asked = ToolCall(id=request.call_id, name=request.tool_name, input=request.input)
        subagent.gate.check_replacement(asked, input, tool.spec)

    def rule_for(self, request: PermissionRequest, call: ToolCall) -> str:
        """The narrowest rule that would allow such a call of the subagent that asks; `check_input` comes first.

        Raises: Unprocessable.
        """
        subagent = self._asking(request)
        return subagent.gate.rule_for(call, subagent.tools[request.tool_name].spec)

    def _asking(self, request: PermissionRequest) -> Subagent:
        """Whoever asks waits, so it is there."""
        return self._alive[request.agent or ""]

    # --- one subagent ---

    async def _worktree(self, label: str) -> Worktree:
        """Raises: ToolError."""
        name, made = f"{self._lent.session.id}-{label}", list[Worktree]()
        with anyio.CancelScope(shield=True):  # one that is half made would be nobody's
            made.append(await to_thread.run_sync(self._lent.worktrees.make, name))
        return made[0]

    def _made(self, order: Order, label: str, worktree: Worktree | None, task_id: str | None) -> Subagent:
        stopping = self.stopping if task_id is None else anyio.Event()  # a task is left where it is
        model = self._model(order)
        return Subagent(self._lent, order.kind, label, model, worktree, stopping, task_id)

    async def _run(self, subagent: Subagent, order: Order, say: Callable[[str], None]) -> _End:
        self._alive[subagent.label] = subagent
        try:
            return await self._barrier(subagent, order)
        except anyio.get_cancelled_exc_class():
            say(subagent.text)
            raise
        finally:
            del self._alive[subagent.label]
            await subagent.close()

    async def _barrier(self, subagent: Subagent, order: Order) -> _End:
        """Every way in which its run ends is something that the main agent is told. Raises: Paused."""
        try:
            await self._begin(subagent, order)
            is_waited_for = subagent.task_id is None
            with speaking_as(subagent.label):
                reason = await run_loop(subagent.loop(lambda: is_waited_for and self.is_suspending))
        except WentInCircles:
            return _End(words.with_remark(subagent.text, CIRCLES), is_error=True)
        except (ProviderError, RunFailed) as error:
            return _End(words.failed(subagent.text, str(error)), is_error=True)
        except Halted:
            return _End(words.result(subagent.text, "hook_stopped"), is_error=True, ends_run=True)
        except (StorageUnavailable, TakenOver, Paused):
            raise
        except (AgentError, ToolError) as error:
            return _End(words.failed(subagent.text, str(error)), is_error=True)
        return _End(words.result(subagent.text, reason), is_error=reason != "end_turn")

    async def _begin(self, subagent: Subagent, order: Order) -> None:
        """Tell it its task. Raises: Halted, StorageUnavailable."""
        heard = await subagent.hooks.started()
        skills = await self._skills(subagent, order)
        prompt = safe_text(order.prompt)
        message = UserMessage(
            id=new_message_id(),
            content=tuple(Text(text=text) for text in (*skills, prompt, *heard.context)),
            display_text=prompt if skills or heard.context else None,
            for_call=order.call_id,
            for_task=subagent.task_id,
        )
        subagent.log.emit(message)
        subagent.transcript.add_user(message.id, message.content)
        if heard.is_halt:
            raise Halted

    async def _skills(self, subagent: Subagent, order: Order) -> tuple[str, ...]:
        """The skills that its file names, past the guard; what is wrong with others is told."""
        loaded = await subagent.skilled.preload()
        for sentence in loaded.left_out:
            self._tell_once("skill_ignored", f"The agent {order.kind.name} names skills. {sentence}")
        return tuple([await self._lent.guard.check_output(text) for text in loaded.texts])

    # --- its model ---

    def _check_model(self, name: str) -> None:
        """Another model may be chosen, not another vendor: that is the user's to do. Raises: ToolError."""
        own = self._lent.candidates_of(self._session_model)
        try:
            chosen = self._lent.candidates_of(name)[0]
        except BadRequest as error:
            raise ToolError(f"{error} Leave `model` out for your own.") from error
        if chosen.provider.name != own[0].provider.name and chosen.label not in {one.label for one in own}:
            raise ToolError(f"A subagent's model is one of {own[0].provider.name}: leave `model` out for your own.")

    def _tell_once(self, code: str, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._lent.session.log.emit(Notice(level="warning", code=code, text=text))

    def _model(self, order: Order) -> str:
        """That of the order, else of its kind, else the session's; one of a file that there is not is told."""
        if order.model is not None:
            return order.model
        named = order.kind.model
        if named is None:
            return self._session_model
        try:
            self._lent.candidates_of(named)
        except BadRequest:
            name = one_line(named, 80)
            told = f"The agent {order.kind.name} names the model {name!r}, which there is not: it has the session's."
            self._tell_once("settings_ignored", told)
            return self._session_model
        return named

    @property
    def _session_model(self) -> str:
        return self._lent.session.history.settings.model or self._lent.default_model
