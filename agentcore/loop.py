"""The agent loop: a model call, its tool calls, the next model call, until the model is done.

Mechanics only. It knows nothing of HTTP, project files, permissions or prompts: it is given a transcript, a
provider, the calls and a log. Where it stands is read off the transcript, so the same function begins a run and
goes on with one that a crash interrupted.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agentcore.batch import close_batch, run_batch
from agentcore.budget import Ledger, Limits
from agentcore.call import Calls
from agentcore.errors import RunFailed
from agentcore.events import StopReason, TurnEnd, TurnStart
from agentcore.messages import Message
from agentcore.ports import EventLog, ModelRequest, Provider
from agentcore.stops import Next, judge
from agentcore.transcript import Transcript
from agentcore.turn import CANCELLED, FAILED, Model

TURN_BUDGET_EXHAUSTED = "turn_budget_exhausted: not run, because this was the last model call that the run may make"


@dataclass(frozen=True, slots=True)
class Loop:
    """The parts that one conversation's runs are made of."""

    transcript: Transcript
    provider: Provider
    model: Model
    calls: Calls
    log: EventLog
    ledger: Ledger
    limits: Limits
    make_request: Callable[[], ModelRequest]
    must_pause: Callable[[], bool]
    """Asked before each turn is counted."""
    last_stop: str = ""
    """Why the model stopped in the turn that a crash interrupted."""


class Paused(Exception):
    """The run stopped at a turn's border and stays open: the process is stopping."""


async def run_loop(loop: Loop) -> StopReason:
    """Run turns until one ends the run; return why.

    Raises: ProviderError, RunFailed, StorageUnavailable, and Paused when it was told to stop at a border.
    """
    last = loop.transcript.last
    reason: StopReason | None = None
    if loop.transcript.open_calls:
        reason = await _finish_turn(loop)
    elif last is not None and last.role == "assistant":
        reason = _end_of(loop.last_stop, last)
    while reason is None:
        if loop.must_pause():
            raise Paused
        reason = "max_turns" if loop.ledger.turns >= loop.limits.max_turns else await _turn(loop)
    return reason


async def _turn(loop: Loop) -> StopReason | None:
    """One model call and its tool batch; None when another turn follows."""
    loop.ledger.turns += 1
    turn = loop.ledger.turns
    loop.log.emit(TurnStart(turn=turn))
    try:
        verdict = await loop.model.call(turn, loop.make_request(), loop.provider)
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
    return None
