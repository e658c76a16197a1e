"""The agent loop: a model call, its tool calls, the next model call, until the model is done.

Mechanics only. It knows nothing of HTTP, project files, permissions or prompts: it is given a transcript, a walk
through the models, the calls and a log. Where it stands is read off the transcript, so the same function begins a run
and goes on with one that a crash interrupted.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel

from agentcore.batch import NOT_STARTED, close_batch, run_batch
from agentcore.budget import Ledger, Limits
from agentcore.call import Calls
from agentcore.errors import ProviderError, RunFailed
from agentcore.events import Notice, StopReason, TurnEnd, TurnStart, UserMessage
from agentcore.ids import new_message_id
from agentcore.inbox import Inbox
from agentcore.messages import Message, Text, ToolCall, ToolResult
from agentcore.ports.hooks import NO_HOOKS, Halted, Heard, Hooks
from agentcore.ports.log import EventLog
from agentcore.ports.runs import Compactor, Ending, Spending
from agentcore.stops import OVERFLOW, Next, Verdict, judge
from agentcore.transcript import Transcript
from agentcore.turn import CANCELLED, FAILED
from agentcore.walk import Paused, Walk

MAX_SENT_ON = 5  # the contract's bound on how often Stop hooks make a run go on
TURN_BUDGET_EXHAUSTED = "turn_budget_exhausted: not run, because this was the last model call that the run may make"
BUDGET_EXHAUSTED = "budget_exhausted: not run, because the budget of the session is used up"


@dataclass(frozen=True, slots=True)
class Loop:
    """The parts that one conversation's runs are made of."""

    transcript: Transcript
    walk: Walk
    calls: Calls
    log: EventLog
    ledger: Ledger
    limits: Limits
    must_pause: Callable[[], bool]
    """Asked before each turn is counted."""
    compactor: Compactor
    """Makes room at the head of each turn, and once where the context did not fit."""
    inbox: Inbox[Any]
    """What the user says meanwhile; shut when the run ends."""
    deliver: Callable[[], Awaitable[None]]
    """Bring what waits in the inbox into the transcript, and what else the model has to learn before its next turn."""
    must_suspend: Callable[[], bool]
    """Asked before each turn is counted."""
    spending: Spending
    """Asked before each turn and before each batch."""
    last_stop: str = ""
    """Why the model stopped in the turn that a crash or a suspension interrupted."""
    ending: Ending | None = None
    """Asked before the run ends well; None: whatever the model says is its answer."""
    hooks: Hooks = NO_HOOKS


async def run_loop(loop: Loop) -> StopReason:
    """Run turns until one ends the run; return why.

    Raises: ProviderError, RunFailed, StorageUnavailable, Halted by a hook, and Paused when it was told to stop: at a
    turn's border, or while it waits to ask a model again.
    """
    last = loop.transcript.last
    reason: StopReason | None = None
    if loop.transcript.open_calls:
        reason = await _finish_turn(loop)
    elif last is not None and last.role == "assistant":
        reason = _end_of(loop.last_stop, last)
    elif _is_answered(loop):
        reason = "end_turn"
    while True:
        if reason == "end_turn" and (await _is_sent_back(loop) or (not loop.inbox and await _is_sent_on(loop))):
            reason = None
        if reason is not None and not (reason == "end_turn" and loop.inbox):
            break
        was_done = reason == "end_turn"
        await anyio.lowlevel.checkpoint_if_cancelled()  # it may have come during a sync, which hears nothing
        reason = _at_border(loop) or await loop.spending.stop() or _at_border(loop)  # a person may have taken days
        if reason is None:
            await loop.deliver()
            is_done = was_done and _is_last_word(loop)  # nothing that waited was let through
            reason = "end_turn" if is_done else await _turn(loop)
    loop.inbox.shut()  # in the step of the last look: whoever is refused from now on begins a run instead
    return reason


def _is_last_word(loop: Loop) -> bool:
    last = loop.transcript.last
    return last is not None and last.role == "assistant"


def _at_border(loop: Loop) -> StopReason | None:
    """Why no further turn begins, if none does. Raises: Paused."""
    if loop.must_pause():
        raise Paused
    if loop.must_suspend():
        return "suspended"
    return "max_turns" if loop.ledger.turns >= loop.limits.max_turns else None


def _is_answered(loop: Loop) -> bool:
    return loop.ending is not None and loop.ending.is_answered(loop.transcript.messages)


async def _is_sent_back(loop: Loop) -> bool:
    """Whether the model has to answer again, because what it said may not end the run; it is told why."""
    if loop.ending is None or _is_answered(loop):
        return False
    objection = await loop.ending.objection(_answer(loop), loop.walk.answered_by)
    if objection is None:
        return False
    _say(loop, objection)
    return True


async def _is_sent_on(loop: Loop) -> bool:
    """Whether the user's hooks make the model go on, though it is done; it is told why. Raises: Halted."""
    sent_on = loop.ledger.sent_on
    heard = await loop.hooks.stopping(_answer(loop), is_continued=sent_on > 0)
    if heard.is_halt:
        raise Halted
    if not heard.context:
        return False
    if sent_on >= MAX_SENT_ON:
        text = f"The run ends, though a Stop hook would have it go on: it has done so {MAX_SENT_ON} times."
        loop.log.emit(Notice(level="warning", code="stop_hook_overruled", text=text))
        return False
    _say(loop, *heard.context)
    loop.ledger.sent_on += 1
    return True


def _answer(loop: Loop) -> str:
    last = loop.transcript.last
    return last.text if last is not None and last.role == "assistant" else ""


def _say(loop: Loop, *texts: str) -> None:
    """Tell the model something in the user's place."""
    message = UserMessage(id=new_message_id(), content=tuple(Text(text=text) for text in texts), source="hook")
    loop.log.emit(message)
    loop.transcript.add_user(message.id, message.content)


async def _turn(loop: Loop) -> StopReason | None:
    """One model call and its tool batch; None when another turn follows."""
    loop.ledger.turns += 1
    turn = loop.ledger.turns
    loop.log.emit(TurnStart(turn=turn))
    reason: StopReason | None = None
    try:
        await loop.compactor.make_room(turn)
        verdict = await _answered(loop, turn)
        if verdict.next is not Next.TOOLS:  # calls see to it themselves, with one barrier for message and `tool_start`
            await loop.log.sync()
        match verdict.next:
            case Next.TOOLS:
                reason = await _tool_round(loop, turn)
            case Next.AGAIN:
                pass
            case Next.END:
                reason = verdict.reason
            case Next.FAIL:
                raise RunFailed(verdict.code, verdict.text)
    except Paused:
        reason = _left_open(loop)
        raise
    finally:
        _end_turn(loop, turn, reason)
    return reason


def _left_open(loop: Loop) -> StopReason | None:
    """How a turn stands that the stopping process leaves: a call that was cut off is closed by who goes on with it."""
    return "suspended" if loop.transcript.open_calls else None


def _end_turn(loop: Loop, turn: int, reason: StopReason | None) -> None:
    """A turn whose calls wait for their answers is not over: its end comes in the run that goes on with it."""
    if reason != "suspended":
        loop.log.emit(TurnEnd(turn=turn))


async def _answered(loop: Loop, turn: int) -> Verdict:
    """Have the model asked; once more where its context did not fit and room could be made."""
    try:
        verdict = await loop.walk.call(turn)
    except ProviderError as error:
        if error.kind != "context_overflow" or not await loop.compactor.recover(turn):
            raise
    else:
        if verdict != OVERFLOW or not await loop.compactor.recover(turn):
            return verdict
    return await loop.walk.call(turn)


def _end_of(stop: str, message: Message) -> StopReason | None:
    """How a run ends whose last message is there and only its end was missing; None when another turn follows."""
    if stop == CANCELLED:
        return "interrupted"
    if stop == FAILED:
        raise RunFailed("server_error", "The model call had failed when the server stopped. Send the prompt again.")
    verdict = judge(stop, message.content)
    if verdict.next is Next.FAIL:
        raise RunFailed(verdict.code, verdict.text)
    return verdict.reason if verdict.next is Next.END else None


async def _finish_turn(loop: Loop) -> StopReason | None:
    """Go on with a turn whose calls a crash or a suspension left open."""
    turn = max(loop.ledger.turns, 1)
    reason: StopReason | None = None
    try:
        reason = await _tool_round(loop, turn)
    except Paused:
        reason = _left_open(loop)
        raise
    finally:
        _end_turn(loop, turn, reason)
    return reason


async def _tool_round(loop: Loop, turn: int) -> StopReason | None:
    """Bring every open call to its result, but for those whose answer comes later."""
    if turn >= loop.limits.max_turns:
        close_batch(loop.calls, turn, TURN_BUDGET_EXHAUSTED)  # no turn is left to read the results
        return "max_turns"
    stop = await _stop_before_batch(loop, turn)
    if stop is not None:
        return stop
    await run_batch(loop.calls, turn, loop.inbox)
    if loop.calls.open_calls:
        return "suspended"
    heard = await loop.hooks.after_batch(_last_batch(loop))
    if _is_answered(loop):
        return _unless_halted(heard, "end_turn")
    if heard.context:
        _say(loop, *heard.context)
    return _unless_halted(heard, None)


async def _stop_before_batch(loop: Loop, turn: int) -> StopReason | None:
    """Keep the calls that wait to be run within the budget; without one they are closed, unless they wait on."""
    try:
        stop = await loop.spending.stop(len(loop.calls.undispatched))
    except anyio.get_cancelled_exc_class():
        close_batch(loop.calls, turn, NOT_STARTED)
        raise
    if stop == "budget":
        close_batch(loop.calls, turn, BUDGET_EXHAUSTED)
    return stop


def _unless_halted(heard: Heard, reason: StopReason | None) -> StopReason | None:
    """Raises: Halted."""
    if heard.is_halt or heard.blocked is not None:
        raise Halted
    return reason


def _last_batch(loop: Loop) -> list[tuple[ToolCall, ToolResult]]:
    """The calls of the last message of the model, with their results."""
    assistant, results = loop.transcript.messages[-2:]
    found = {block.call_id: block for block in results.content if isinstance(block, ToolResult)}
    return [(loop.calls.meant(call), found[call.id]) for call in assistant.tool_calls]
