"""What the end of a process left half done in a session's journal, brought to its end when the session goes on.

Every start gets its end, every call its result. What a call did that was cut off is not known, and it says so.
"""

from collections.abc import Mapping, Sequence, Set

from agentcore.batch import NOT_STARTED, close_batch
from agentcore.call import Calls, Refused
from agentcore.events import (
    Compacted,
    CompactionStrategy,
    ModelEnd,
    PermissionRequest,
    PermissionResolved,
    ToolEnd,
    TurnEnd,
)
from agentcore.ports.log import EventLog
from agentcore.ports.tools import Tool
from agentcore.sessions.fold import History
from agentcore.sessions.subagents import Unfinished
from agentcore.turn import FAILED

UNKNOWN_OUTCOME = (
    "outcome unknown: the server stopped while this ran. It may have taken effect in whole, in part or not at all;"
    " look before you repeat it."
)

SUBAGENT_GONE = "not run: the server stopped, and its subagent with it"


def go_on(history: History, log: EventLog, calls: Calls, tools: Mapping[str, Tool]) -> None:
    """End what was going on in a run that goes on: reads run again, and what had not begun waits for its turn.

    Raises: StorageUnavailable.
    """
    _end_model_call(history, log, history.ledger.turn)
    readers = {name for name, tool in tools.items() if tool.spec.read_only}
    _close_cut_calls(history, calls, readers)
    _end_turn(history, log, calls)
    if history.is_unanswered:
        history.ledger.turns -= 1  # the turn begins again under its number: its call has answered nothing
        history.is_unanswered = False


def give_up(history: History, log: EventLog, calls: Calls) -> None:
    """End what was going on in a run that nobody goes on with. Raises: StorageUnavailable."""
    _end_model_call(history, log, history.ledger.turn)
    _close_cut_calls(history, calls, frozenset())
    close_batch(calls, history.ledger.turn, NOT_STARTED)
    _end_turn(history, log, calls)


def end_compaction(history: History, log: EventLog, strategy: CompactionStrategy) -> None:
    """Say the end of a compaction that was cut off: the conversation is as it was. Raises: StorageUnavailable."""
    start = history.compacting
    if start is None:
        return
    _end_model_call(history, log, start.turn or 0)
    tokens = start.estimated_tokens
    log.emit(Compacted(turn=start.turn, strategy=strategy, ok=False, before_tokens=tokens, after_tokens=tokens))
    history.compacting = None


def end_subagents(history: History, log: EventLog, strategy: CompactionStrategy) -> None:
    """End what the subagents of a process that is no more had begun: none of them is gone on with.

    Their requests expire and each of their calls gets a result. Raises: StorageUnavailable.
    """
    _expire(history, log, [request for request in history.pending.values() if request.agent is not None])
    for label, one in tuple(history.subagents.unfinished.items()):
        for event in _ends_of(one, strategy):
            labelled = event.model_copy(update={"agent": label})
            log.emit(labelled)
            history.subagents.follow(label, labelled, is_copy=False)


def end_questions(history: History, log: EventLog) -> None:
    """Let what servers asked inside of calls expire: what asked is gone, and no answer reaches anybody.

    Raises: StorageUnavailable.
    """
    is_open = history.transcript.is_open
    asked = [
        one
        for one in history.pending.values()
        if one.kind == "question" and one.agent is None and one.task_id is None and not is_open(one.call_id)
    ]
    _expire(history, log, asked)


def _expire(history: History, log: EventLog, requests: Sequence[PermissionRequest]) -> None:
    for request in requests:
        resolved = PermissionResolved(
            agent=request.agent,
            turn=request.turn,
            request_id=request.request_id,
            call_id=request.call_id,
            resolution="expired",
        )
        log.emit(resolved)
        del history.pending[request.request_id]
        history.resolved[request.request_id] = "expired"


def _ends_of(one: Unfinished, strategy: CompactionStrategy) -> list[ModelEnd | Compacted | ToolEnd | TurnEnd]:
    """In the order in which they would have come."""
    turn = one.turn or 1
    ends: list[ModelEnd | Compacted | ToolEnd | TurnEnd] = []
    if one.is_calling:
        ends.append(ModelEnd(turn=turn, stop_reason=FAILED, request_ms=0))
    if (start := one.compacting) is not None:
        tokens = start.estimated_tokens
        ends.append(Compacted(turn=turn, strategy=strategy, ok=False, before_tokens=tokens, after_tokens=tokens))
    for call in one.calls.values():
        has_started = call.id in one.started
        text = UNKNOWN_OUTCOME if has_started else SUBAGENT_GONE
        ends.append(
            ToolEnd(
                turn=turn, call_id=call.id, tool_name=call.name, output=text, is_error=True, cancelled=not has_started
            )
        )
    if one.turn is not None:
        ends.append(TurnEnd(turn=turn))
    return ends


def _end_model_call(history: History, log: EventLog, turn: int) -> None:
    if history.is_calling:
        log.emit(ModelEnd(turn=turn, stop_reason=FAILED, request_ms=0, beside=history.is_calling_beside))
        history.is_calling = False


def _close_cut_calls(history: History, calls: Calls, repeatable: Set[str]) -> None:
    """Close the calls that had begun, but for those whose tool may run again."""
    for call in calls.open_calls:
        if history.started.get(call.id, call.name) not in repeatable and call.id in history.started:
            calls.refuse(Refused(call, UNKNOWN_OUTCOME, has_started=True), history.ledger.turn)


def _end_turn(history: History, log: EventLog, calls: Calls) -> None:
    """Nothing of the turn goes on any more; it has its end, unless calls of it still wait."""
    if history.open_turn is not None and not calls.open_calls:
        log.emit(TurnEnd(turn=history.open_turn))
    history.started.clear()
    history.open_turn = None
