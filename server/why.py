"""Why a session is not moving: for a model, a tool, a person, a pause, a server, or for nothing.

Looks at what the session is made of and changes nothing. Where several things are waited for, the one that somebody
can do something about is named. Promise: what is said holds in the step in which it is said.
"""

from collections.abc import Mapping
from typing import Literal

from agentcore.agent import Agent
from agentcore.ports.clock import Clock
from agentcore.session import DeferredCall
from server.activity import Activity, Doing
from server.answers import RunningCall, SubagentWait, Why, WhyDetail
from server.deferred import DeferredCalls
from server.phases import Phase
from server.queue import Queue
from server.requests import Requests
from server.schemas import WaitsFor
from server.waits import Doings, Found, of_model, of_person, of_retry, of_tools

_NOTHING: Mapping[Phase, str] = {
    Phase.IDLE: "It waits for a prompt.",
    Phase.RUNNING: "It is at work between two steps: hooks, checks or the disk.",
    Phase.INTERRUPTED: "A run is unfinished since a server stopped: POST …/resume goes on with it, a prompt or"
    " POST …/cancel ends it.",
    Phase.SUSPENDED: "The last run is suspended: POST …/resume goes on with it, a prompt or POST …/cancel ends it.",
    Phase.CLOSING: "It is being closed, and its run is ending.",
    Phase.CLOSED: "It is closed.",
}
_STATES: Mapping[Phase, Literal["idle", "running", "interrupted", "suspended", "closing"]] = {
    Phase.IDLE: "idle",
    Phase.RUNNING: "running",
    Phase.INTERRUPTED: "interrupted",
    Phase.SUSPENDED: "suspended",
    Phase.CLOSING: "closing",
    Phase.CLOSED: "closing",
}


class Waits:
    def __init__(
        self,
        agent: Agent,
        requests: Requests,
        deferred: DeferredCalls,
        queue: Queue,
        clock: Clock,
    ) -> None:
        self._agent = agent
        self._requests = requests
        self._deferred = deferred
        self._queue = queue
        self._activity = Activity(clock, agent.history.modified)
        agent.log.listen(
            self._activity.take
        )  # nothing that holds the log: a closed session is freed without a collector

    def waiting_for(self, phase: Phase) -> WaitsFor | None:
        """What it waits for; None for nothing."""
        found = self.why(phase).waiting_for
        return None if found == "nothing" else found

    def why(self, phase: Phase) -> Why:
        self._activity.keep(self._agent.subagents.keys())
        is_busy = phase in (Phase.RUNNING, Phase.CLOSING)
        found = of_person(self._requests.open) or (self._of_run() if is_busy else self._of_rest(phase))
        waiting_for, since, detail = found or self._nothing(phase, is_busy=is_busy)
        more = {"queued": len(self._queue), "subagents": self._of_subagents()}
        return Why(state=_STATES[phase], waiting_for=waiting_for, since=since, detail=detail.model_copy(update=more))

    def _of_run(self) -> Found | None:
        """What a run waits for that waits for no person: what its main agent does, and those that it handed work to."""
        activity = self._activity
        doings = self._doings(in_background=False)
        if found := of_retry(doings) or of_tools(doings, self._is_deferred) or of_model(doings):
            return found
        if servers := self._agent.awaited_servers:
            text = f"MCP servers are not connected yet: {', '.join(servers)}."
            return "mcp", activity.moved_at, WhyDetail(text=text, servers=servers)
        return None

    def _doings(self, *, in_background: bool) -> Doings:
        """The main agent with the subagents that its run waits for, or those in the background alone."""
        activity = self._activity
        doings: dict[str | None, Doing] = {} if in_background else {None: activity.main}
        for label, task_id in self._agent.subagents.items():
            if label in activity.subagents and (task_id is not None) == in_background:
                doings[label] = activity.subagents[label]
        return doings

    def _of_subagents(self) -> tuple[SubagentWait, ...]:
        return tuple(self._of_subagent(label, task_id) for label, task_id in self._agent.subagents.items())

    def _of_subagent(self, label: str, task_id: str | None) -> SubagentWait:
        asked = [request for request in self._requests.open if request.agent == label]
        doings: Doings = {label: self._activity.subagents.get(label, Doing())}
        found = of_person(asked) or of_retry(doings) or of_tools(doings, self._is_deferred) or of_model(doings)
        waiting_for, since, detail = found or self._nothing(Phase.RUNNING, is_busy=True)
        return SubagentWait(
            agent=label,
            task_id=task_id,
            waiting_for=waiting_for,
            since=since,
            model=detail.model,
            until=detail.until,
        )

    def _of_rest(self, phase: Phase) -> Found | None:
        """What a session waits for that is not busy and waits for no person."""
        if deferred := self._deferred.open:
            calls = tuple(map(self._outside, deferred))
            text = f"Results are to come from outside: {', '.join(call.tool_name for call in calls)}."
            since = min((call.since for call in calls if call.since is not None), default=self._activity.rested_at)
            return "tool", since, WhyDetail(text=text, calls=calls)
        if phase is Phase.IDLE and len(self._queue):
            text = "Prompts wait in the queue since the server started: POST …/resume begins with the first."
            return "queue", self._queue.shown()[0].ts, WhyDetail(text=text)
        if phase is Phase.IDLE:  # what else goes on in the background holds nothing up
            return of_retry(self._doings(in_background=True))
        return None

    def _nothing(self, phase: Phase, *, is_busy: bool) -> Found:
        since = self._activity.moved_at if is_busy else self._activity.rested_at
        return "nothing", since, WhyDetail(text=_NOTHING[phase])

    def _is_deferred(self, call_id: str) -> bool:
        return any(call.call_id == call_id for call in self._deferred.open)

    def _outside(self, call: DeferredCall) -> RunningCall:
        began = self._activity.main.tools.get(call.call_id)
        since = None if began is None else began.since
        return RunningCall(call_id=call.call_id, tool_name=call.tool_name, since=since, token=call.token)
