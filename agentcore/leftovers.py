"""What the end of a process left half done in a session's journal, brought to its end when the session goes on.

Every start gets its end, every call its result. What a call did that was cut off is not known, and it says so.
"""

from collections.abc import Mapping, Set

from agentcore.batch import NOT_STARTED, close_batch
from agentcore.call import Calls, Refused
from agentcore.events import Compacted, CompactionStrategy, ModelEnd, TurnEnd
from agentcore.ports import EventLog, Tool
from agentcore.sessions.fold import History
from agentcore.turn import FAILED

UNKNOWN_OUTCOME = (
    "outcome unknown: the server stopped while this ran. It may have taken effect in whole, in part or not at all;"
    " look before you repeat it."
)


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


def _end_model_call(history: History, log: EventLog, turn: int) -> None:
    if history.is_calling:
        log.emit(ModelEnd(turn=turn, stop_reason=FAILED, request_ms=0))
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
