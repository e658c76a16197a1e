"""What the lines of a journal say about a session, read one by one without the server's own folds.

The model beside the machine: each line is checked against what the ones before it allow. Promise: numbers only grow,
calls and results are paired and in order, a run has one `done`, a prompt is in exactly one place, and no effect begins
twice. What goes on beside the main agent is in `told_beside`.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.crash.stories import STRIDE
from tests.property.told_beside import ToldSubagent, ToldTasks

Line = dict[str, Any]
READS_ONLY = frozenset({"look", "hand_over"})
"""Tools that may begin again after a crash."""


_SHARED = frozenset({"permission_request", "permission_resolved"})
"""What is one table for all agents."""


def has_number(line: bytes) -> bool:
    """Whether a line is an event."""
    return b'"seq":' in line[:80]


@dataclass
class Told:
    prompts: dict[str, str] = field(default_factory=dict)
    """Texts of all that were accepted, by id."""
    run: str | None = None
    """The prompt whose run has no last `done`."""
    is_suspended: bool = False
    is_cancelled: bool = False
    """The open run was cancelled: it begins nothing more."""
    waiting: list[str] = field(default_factory=list)
    """The queue."""
    interrupting: set[str] = field(default_factory=set)
    """Prompts that ended a run: they come first in the queue."""
    inbox: list[str] = field(default_factory=list)
    steered: list[str] = field(default_factory=list)
    """What the open run took."""
    said: Counter[str] = field(default_factory=Counter)
    """How often the message of a prompt is in the transcript."""
    ended: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    unheard: set[str] = field(default_factory=set)
    """Texts that no model has answered before their run failed."""
    calls: list[str] = field(default_factory=list)
    """Open calls of the last answer, in order."""
    started: Counter[str] = field(default_factory=Counter)
    deferred: dict[str, str] = field(default_factory=dict)
    """Calls that wait for their answer from outside, by token."""
    requests: dict[str, str] = field(default_factory=dict)
    """Resolutions of permission requests, empty for open ones."""
    asked: dict[str, str] = field(default_factory=dict)
    """The request of a call."""
    tasks: ToldTasks = field(default_factory=ToldTasks)
    subagents: dict[str, ToldSubagent] = field(default_factory=dict)
    """By label, those that are over included."""
    task_of: dict[str, str] = field(default_factory=dict)
    """The background task that asked, by request."""
    asked_by: dict[str, str] = field(default_factory=dict)
    """The subagent that asked, by request."""
    wakes: set[str] = field(default_factory=set)
    """Prompts that nobody sent: their runs began by themselves."""
    in_background: set[str] = field(default_factory=set)
    """Calls that began a subagent in the background."""
    is_busy: bool = False
    turns: int = 0
    """Turns that have no end."""
    is_compacting: bool = False
    numbers: list[int] = field(default_factory=list)
    """Of the durable events."""
    last: int = -1
    runs: set[str] = field(default_factory=set)
    """Runs that had their `done`."""
    _asking: list[str] = field(default_factory=list)
    """Texts of the run that have no answer yet."""

    def read(self, lines: Iterable[bytes]) -> "Told":
        for line in lines:
            entry = json.loads(line)
            if "seq" in entry:
                assert entry["seq"] > self.last, "a number that is not above the last one"
                self.last = entry["seq"]
                self.numbers.append(self.last)
            understood = getattr(self, f"_{entry['type']}", None)
            if entry.get("agent") is not None and entry["type"] not in _SHARED:
                self._of_subagent(entry)
            elif understood is not None:
                understood(entry)
                self.check_places()
        return self

    @property
    def open_requests(self) -> list[str]:
        return [name for name, resolution in self.requests.items() if not resolution]

    @property
    def requests_of_run(self) -> list[str]:
        """Open ones that end with the run."""
        return [name for name in self.open_requests if name not in self.task_of]

    @property
    def requests_of_main(self) -> list[str]:
        """Open ones of the main agent's own calls."""
        return [name for name in self.requests_of_run if name not in self.asked_by]

    @property
    def is_at_rest(self) -> bool:
        goes_on = self.is_busy or self.run or self.tasks.alive
        return not (goes_on or self.waiting or self.inbox or self.open_requests or self.deferred)

    def check_places(self) -> None:
        """Every prompt that was accepted is in exactly one place."""
        steered = self.steered if self.run is not None else []
        running = [self.run] if self.run is not None else []
        places = Counter([*running, *self.waiting, *self.inbox, *steered, *self.ended, *self.removed])
        assert places == Counter(self.prompts.keys()), f"prompts lost or in two places: {places}, {self.prompts}"
        assert all(count <= 1 for count in self.said.values()), f"a prompt was said twice: {self.said}"

    # --- prompts ---

    def _prompt(self, line: Line) -> None:
        name, how = line["prompt_id"], line.get("disposition", "started")
        is_new = name not in self.prompts
        self.prompts[name] = line["text"]
        if line.get("is_wake"):
            assert self.tasks.has_news, "a run began by itself, and there is nothing to tell"
            assert not self.waiting, "a run began by itself before a prompt that waits"
            self.wakes.add(name)
        if not is_new:
            return
        if how == "started":
            assert self.run is None
            self._begin_run(name)
        elif how == "steering":
            self.inbox.append(name)
        elif how == "interrupting":
            self.interrupting.add(name)
            self.is_cancelled = self.run is not None
            self._put_first([name])
        else:
            self.waiting.append(name)

    def _begin(self, line: Line) -> None:
        name = line["prompt_id"]
        if name == self.run:
            assert self.is_suspended
            self.is_suspended = False
            return
        assert self.run is None
        assert name == self.waiting.pop(0), "the queue was not taken in its order"
        self._begin_run(name)

    def _begin_run(self, name: str) -> None:
        self.run, self.steered, self._asking, self.is_cancelled = name, [], [], False

    def _put_first(self, names: list[str]) -> None:
        at = next((n for n, one in enumerate(self.waiting) if one not in self.interrupting), len(self.waiting))
        self.waiting[at:at] = names

    def _queue_update(self, line: Line) -> None:
        now = [prompt["prompt_id"] for prompt in line["queue"]]
        assert len(set(now)) == len(now)
        assert set(now) <= set(self.waiting)
        self.removed |= set(self.waiting) - set(now)
        self.waiting = now

    def _user_message(self, line: Line) -> None:
        assert not self.calls, "a message between calls and their results"
        name = line.get("prompt_id")
        self.tasks.tell(line.get("task_ids", ()))
        assert (line["source"] == "notification") == bool(line.get("task_ids"))
        if name is None:
            return
        self.said[name] += 1
        if name not in self.wakes:
            self._asking.append(self.prompts[name])
        if line["source"] == "steer":
            assert self.run is not None
            self.inbox.remove(name)
            self.steered.append(name)
        else:
            assert name == self.run

    def _done(self, line: Line) -> None:
        assert line["run_id"] not in self.runs, "a second done"
        assert self.run is not None, "a done without its run"
        assert line["prompt_id"] == self.run
        assert not self.is_suspended
        self.runs.add(line["run_id"])
        if line["stop_reason"] == "suspended":
            self.is_suspended = True
            return
        assert not self.calls, "a run ended and left calls open"
        assert self.said[self.run] == 1, "a prompt ended and was never said"
        if line["stop_reason"] == "error":
            self.unheard |= set(self._asking)
        self.ended |= {self.run, *self.steered}
        self.run, left, self.inbox = None, self.inbox, []
        self._put_first(left)

    # --- calls ---

    def _assistant_message(self, line: Line) -> None:
        assert not self.calls, "an answer between calls and their results"
        self._asking = []
        self.calls = [block["id"] for block in line["message"]["content"] if block["type"] == "tool_use"]
        assert not set(self.calls) & set(self.started), "a call under an id that was used"

    def _tool_start(self, line: Line) -> None:
        name = line["call_id"]
        assert name in self.calls, "a call that nobody made has begun"
        assert name not in self.deferred.values(), "a deferred call was run again"
        assert not self.is_cancelled, "a cancelled run went on"
        assert self.requests.get(self.asked.get(name, ""), "allowed") == "allowed", "run without an answer"
        self.started[name] += 1
        assert self.started[name] == 1 or line["tool_name"] in READS_ONLY, "an effect began twice"
        if line["tool_name"] == "task" and line["input"].get("run_in_background"):
            self.in_background.add(name)

    def _tool_end(self, line: Line) -> None:
        assert line["call_id"] in self.calls, "a result without its call, or a second one"
        self.calls.remove(line["call_id"])
        self.started[line["call_id"]] += 0
        for subagent in self.subagents.values():
            assert subagent.in_background or subagent.call != line["call_id"] or subagent.is_over, (
                "left open by its end"
            )
        self.deferred = {token: call for token, call in self.deferred.items() if call != line["call_id"]}

    def _deferred(self, line: Line) -> None:
        call = line["call"]
        assert call["call_id"] in self.calls
        self.deferred[call["token"]] = call["call_id"]

    def _permission_request(self, line: Line) -> None:
        name, agent = line["request_id"], line.get("agent")
        assert name not in self.requests, "a request under an id that was used"
        assert line["call_id"] in (self.calls if agent is None else self.subagents[agent].calls)
        if agent is not None:
            self.asked_by[name] = agent
        if "task_id" in line:
            assert line["task_id"] in self.tasks.alive
            self.task_of[name] = line["task_id"]
        self.requests[name] = ""
        self.asked[line["call_id"]] = line["request_id"]

    def _permission_resolved(self, line: Line) -> None:
        assert self.requests[line["request_id"]] == "", "a request was resolved twice"
        self.requests[line["request_id"]] = line["resolution"]

    # --- the rest ---

    def _status(self, line: Line) -> None:
        assert line["busy"] is not self.is_busy, "a status that is no edge"
        self.is_busy = line["busy"]

    def _task_update(self, line: Line) -> None:
        self.tasks.update(line)

    def _session_closed(self, line: Line) -> None:
        assert not self.tasks.alive, "a session was closed, and something goes on in it"
        assert all(subagent.is_over for subagent in self.subagents.values())

    def _of_subagent(self, line: Line) -> None:
        label = line["agent"]
        if line["type"] == "user_message" and "for_call" in line:
            assert label not in self.subagents, "a subagent under a label that was used"
            call = line["for_call"]
            assert call in self.started
            self.subagents[label] = ToldSubagent(call, call in self.in_background)
            return
        subagent = self.subagents[label]
        request = self.asked.get(line.get("call_id", ""), "")
        is_cancelled = self.is_cancelled and not subagent.in_background
        subagent.read(line, is_cancelled=is_cancelled, resolution=self.requests.get(request, "allowed"))

    def _load(self, line: Line) -> None:
        if self.run in self.wakes and not self.said[self.run]:
            del self.prompts[self.run]  # it told nothing: what it was to tell is still to be told
            self.run = None
        assert line["base"] > self.last
        assert line["base"] % STRIDE == 0
        self.last = line["base"]

    def _turn_start(self, line: Line) -> None:
        assert not self.is_cancelled, "a cancelled run went on"
        self.turns += 1

    def _turn_end(self, line: Line) -> None:
        self.turns -= 1
        assert self.turns >= 0

    def _compaction_start(self, line: Line) -> None:
        assert not self.is_compacting
        self.is_compacting = True

    def _compacted(self, line: Line) -> None:
        assert self.is_compacting
        self.is_compacting = False

    def _repair(self, line: Line) -> None:
        assert "messages" not in line, f"a transcript had to be mended: {line['what']}"
