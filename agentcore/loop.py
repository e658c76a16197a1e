"""The agent loop: a model call, its tool calls, the next model call, until the model is done.

Mechanics only. It knows nothing of HTTP, project files, permissions or prompts: it is given a transcript, a walk
through the models, the calls and a log. Where it stands is read off the transcript, so the same function begins a run
and goes on with one that a crash interrupted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio.lowlevel

from agentcore.batch import close_batch, run_batch
from agentcore.budget import Ledger, Limits
from agentcore.call import Calls
from agentcore.errors import ProviderError, RunFailed
from agentcore.events import StopReason, TurnEnd, TurnStart, UserMessage
from agentcore.ids import new_message_id
from agentcore.inbox import Inbox
from agentcore.messages import Message, Text
from agentcore.ports import Compactor, Ending, EventLog
from agentcore.stops import OVERFLOW, Next, Verdict, judge
from agentcore.transcript import Transcript
from agentcore.turn import CANCELLED, FAILED
from agentcore.walk import Paused, Walk

TURN_BUDGET_EXHAUSTED = "turn_budget_exhausted: not run, because this was the last model call that the run may make"


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
    deliver: Callable[[], None]
    """Bring what waits in the inbox into the transcript."""
    must_suspend: Callable[[], bool]
    """Asked before each turn is counted."""
    last_stop: str = ""
    """Why the model stopped in the turn that a crash or a suspension interrupted."""
    ending: Ending | None = None
    """Asked before the run ends well; None: whatever the model says is its answer."""


async def run_loop(loop: Loop) -> StopReason:
    """Run turns until one ends the run; return why.

    Raises: ProviderError, RunFailed, StorageUnavailable, and Paused when it was told to stop: at a turn's border, or
    while it waits to ask a model again.
    """
    last = loop.transcript.last
    reason: StopReason | None = None
    if loop.transcript.open_calls:
        reason = await _finish_turn(loop)
    elif last is not None and last.role == "assistant":
        reason = _end_of(loop.last_stop, last)
    elif _is_answered(loop):
        reason = "end_turn"
    while reason is None or await _is_sent_back(loop, reason) or (reason == "end_turn" and loop.inbox):
        await anyio.lowlevel.checkpoint_if_cancelled()  # it may have come during a sync, which hears nothing
        if loop.must_pause():
            raise Paused
        if loop.must_suspend():
            reason = "suspended"
        elif loop.ledger.turns >= loop.limits.max_turns:
            reason = "max_turns"
        else:
            loop.deliver()
            reason = await _turn(loop)
    loop.inbox.shut()  # in the step of the last look: whoever is refused from now on begins a run instead
    return reason


def _is_answered(loop: Loop) -> bool:
    return loop.ending is not None and loop.ending.is_answered(loop.transcript.messages)


async def _is_sent_back(loop: Loop, reason: StopReason) -> bool:
    """Whether the model has to answer again, because what it said may not end the run; it is told why."""
    if reason != "end_turn" or loop.ending is None or _is_answered(loop):
        return False
    last = loop.transcript.last
    answer = last.text if last is not None and last.role == "assistant" else ""
    objection = await loop.ending.objection(answer, loop.walk.answered_by)
    if objection is None:
        return False
    message = UserMessage(id=new_message_id(), content=(Text(text=objection),), source="hook")
    loop.log.emit(message)
    loop.transcript.add_user(message.id, message.content)
    return True


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
    finally:
        _end_turn(loop, turn, reason)
    return reason


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
    finally:
        _end_turn(loop, turn, reason)
    return reason


async def _tool_round(loop: Loop, turn: int) -> StopReason | None:
    """Bring every open call to its result, but for those whose answer comes later."""
    if turn >= loop.limits.max_turns:
        close_batch(loop.calls, turn, TURN_BUDGET_EXHAUSTED)  # no turn is left to read the results
        return "max_turns"
    await run_batch(loop.calls, turn, loop.inbox)
    if loop.calls.open_calls:
        return "suspended"
    return "end_turn" if _is_answered(loop) else None
