"""The subagents of one session as its journal tells them: which labels were used, and what of them has no end.

A subagent's transcript is its own, so nothing of its messages is kept here. Read forward, what has begun is taken out
again with its end: for a subagent that came to its end nothing is left, for one that was cut off what has to be closed.
"""

from dataclasses import dataclass, field

from agentcore.budget import Ledger, SubagentLedger
from agentcore.events import (
    AssistantMessage,
    Compacted,
    CompactionStart,
    ModelEnd,
    ModelStart,
    NumberedEvent,
    ToolEnd,
    ToolStart,
    TurnEnd,
    TurnStart,
    UsageReport,
)
from agentcore.messages import ToolCall


@dataclass(slots=True)
class Unfinished:
    """What a subagent has begun and not ended."""

    ledger: SubagentLedger
    turn: int | None = None
    is_calling: bool = False
    """A model call has no `model_end`."""
    compacting: CompactionStart | None = None
    calls: dict[str, ToolCall] = field(default_factory=dict)
    """Without a result, by id, in order."""
    started: set[str] = field(default_factory=set)
    """Those of them that have begun."""

    @property
    def is_nothing(self) -> bool:
        return self.turn is None and not self.is_calling and self.compacting is None and not self.calls


class Subagents:
    def __init__(self, ledger: Ledger) -> None:
        """`ledger` is the session's: what its subagents spend counts there."""
        self._ledger = ledger
        self._unfinished: dict[str, Unfinished] = {}
        self._numbers: dict[str, int] = {}
        """The highest number of a label, by what it begins with."""

    @property
    def unfinished(self) -> dict[str, Unfinished]:
        """By label."""
        return self._unfinished

    def new_label(self, kind: str) -> str:
        """A label that was never used in this session: `explore-1`."""
        number = self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return f"{kind}-{number}"

    def saw(self, label: str) -> None:
        """The label is used."""
        kind, _, number = label.rpartition("-")
        if number.isdecimal():
            self._numbers[kind] = max(self._numbers.get(kind, 0), int(number))

    def follow(self, label: str, event: NumberedEvent, *, is_copy: bool) -> None:
        """Take an event of a subagent. `is_copy`: it is another session's, and nothing in it was spent by this one."""
        self.saw(label)
        one = self._unfinished.get(label) or Unfinished(SubagentLedger(session=self._ledger))
        self._unfinished[label] = one
        _apply(one, event, is_copy=is_copy)
        if one.is_nothing:
            del self._unfinished[label]


def _apply(one: Unfinished, event: NumberedEvent, *, is_copy: bool) -> None:
    match event:
        case TurnStart(turn=turn):
            one.turn = turn
        case TurnEnd():
            one.turn = None
        case ModelStart():
            one.is_calling = True
        case ModelEnd(request_ms=request_ms):
            one.is_calling = False
            if not is_copy:
                one.ledger.asked_model(request_ms)
        case CompactionStart():
            one.compacting = event
        case Compacted():
            one.compacting = None
        case AssistantMessage(message=message):
            one.calls = {call.id: call for call in message.tool_calls}
        case UsageReport(spent=spent, spent_usd=spent_usd):
            one.ledger.spend(spent, spent_usd)
        case ToolStart(call_id=call_id, group=group):
            one.started.add(call_id)
            if not is_copy:
                one.ledger.began_call(group)
        case ToolEnd(call_id=call_id):
            one.calls.pop(call_id, None)
            one.started.discard(call_id)
            if not is_copy:
                one.ledger.ended_call(event.worked_ms)
        case _:
            pass
