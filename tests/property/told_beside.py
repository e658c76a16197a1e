"""What the lines of a journal say about what goes on beside the main agent: background tasks, and each subagent.

Part of the model in `told`. Promise: a task begins once, ends once and is told once, after its end; a subagent's calls
and results are paired and in order, nothing of it begins twice, and nothing of it is open behind its end.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Line = dict[str, Any]


@dataclass
class ToldTasks:
    states: dict[str, str] = field(default_factory=dict)
    """By id."""
    ends: list[str] = field(default_factory=list)
    """Those that have ended, in that order."""
    told: Counter[str] = field(default_factory=Counter)
    """How often a message named a task."""

    @property
    def alive(self) -> list[str]:
        return [name for name, state in self.states.items() if state in ("running", "stopping")]

    @property
    def untold(self) -> list[str]:
        return [name for name in self.ends if not self.told[name]]

    @property
    def has_news(self) -> bool:
        """Something is worth a run of its own."""
        return any(self.states[name] != "stopped" for name in self.untold)

    def update(self, line: Line) -> None:
        name, state = line["task_id"], line["state"]
        if state == "running":
            assert name not in self.states, "a task began under an id that was used"
        else:
            assert name in self.alive, "a task ended that is not there, or a second time"
        self.states[name] = state
        if name not in self.alive:
            self.ends.append(name)

    def tell(self, names: Iterable[str]) -> None:
        for name in names:
            assert name in self.untold, "a task was told before its end, or again"
            self.told[name] += 1


@dataclass
class ToldSubagent:
    call: str
    """The main agent's, which it is part of, or which began it in the background."""
    in_background: bool
    calls: list[str] = field(default_factory=list)
    """Open ones of its last answer, in order."""
    started: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    """That have no end."""
    is_calling: bool = False
    """A model call has no end."""

    @property
    def is_over(self) -> bool:
        """Nothing of it is open."""
        return not (self.calls or self.turns or self.is_calling)

    def read(self, line: Line, *, is_cancelled: bool, resolution: str) -> None:
        """`is_cancelled`: its run is; `resolution`: of the request about the call of the line, if there is one."""
        match line["type"]:
            case "turn_start":
                assert not is_cancelled, "a subagent of a cancelled run went on"
                self.turns += 1
            case "turn_end":
                self.turns -= 1
                assert self.turns >= 0
            case "model_start":
                assert not self.is_calling
                self.is_calling = True
            case "model_end":
                assert self.is_calling
                self.is_calling = False
            case "assistant_message":
                assert not self.calls, "an answer between calls and their results"
                self.calls = [block["id"] for block in line["message"]["content"] if block["type"] == "tool_use"]
                assert not set(self.calls) & set(self.started), "a call under an id that was used"
            case "tool_start":
                self._begin(line["call_id"], is_cancelled=is_cancelled, resolution=resolution)
            case "tool_end":
                assert line["call_id"] in self.calls, "a result without its call, or a second one"
                self.calls.remove(line["call_id"])
                self.started[line["call_id"]] += 0

    def _begin(self, name: str, *, is_cancelled: bool, resolution: str) -> None:
        assert name in self.calls, "a call that nobody made has begun"
        assert not is_cancelled, "a subagent of a cancelled run went on"
        assert resolution == "allowed", "run without an answer"
        self.started[name] += 1
        assert self.started[name] == 1, "a call of a subagent began twice"
