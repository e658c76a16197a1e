"""The agent loop: a model call, its tool calls, the next model call, until the model is done.

Mechanics only. It knows nothing of HTTP, project files, permissions or prompts: it is given a transcript, a walk
through the models, the calls and a log. Where it stands is read off the transcript, so the same function begins a run
and goes on with one that a crash interrupted.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agentcore.batch import close_batch, run_batch
from agentcore.budget import Ledger, Limits
from agentcore.call import Calls
from agentcore.errors import RunFailed
from agentcore.events import StopReason, TurnEnd, TurnStart, UserMessage
from agentcore.ids import new_message_id
from agentcore.messages import Message, Text
from agentcore.ports import Ending, EventLog
from agentcore.stops import Next, judge
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
    last_stop: str = ""
    """Why the model stopped in the turn that a crash interrupted."""
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
    while reason is None or await _is_sent_back(loop, reason):
        if loop.must_pause():
            raise Paused
        reason = "max_turns" if loop.ledger.turns >= loop.limits.max_turns else await _turn(loop)
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
    try:
        verdict = await loop.walk.call(turn)
        if verdict.next is not Next.TOOLS:  # calls see to it themselves, with one barrier for message and `tool_start`
            await loop.log.sync()
        match verdict.next:
            case Next.TOOLS:
                return await _tool_round(loop, turn)
            case Next.AGAIN:
                return None
            case Next.END:
                return verdict.reason
            case Next.FAIL:
                raise RunFailed(verdict.code, verdict.text)
    finally:
        loop.log.emit(TurnEnd(turn=turn))


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
    """Go on with a turn whose calls a crash left open."""
    turn = max(loop.ledger.turns, 1)
    try:
        return await _tool_round(loop, turn)
    finally:
        loop.log.emit(TurnEnd(turn=turn))


async def _tool_round(loop: Loop, turn: int) -> StopReason | None:
    """Bring every open call to its result."""
    if turn >= loop.limits.max_turns:
        close_batch(loop.calls, turn, TURN_BUDGET_EXHAUSTED)  # no turn is left to read the results
        return "max_turns"
    await run_batch(loop.calls, turn)
    return "end_turn" if _is_answered(loop) else None
