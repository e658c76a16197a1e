"""Why a session is not moving: for a model, a tool, a person, a pause, a server, or for nothing.

Looks at what the session is made of and changes nothing. Where several things are waited for, the one that somebody
can do something about is named. Promise: what is said holds in the step in which it is said.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from agentcore.agent import Agent
from agentcore.events import PermissionRequest, WaitingFor
from agentcore.ports.clock import Clock
from agentcore.session import DeferredCall
from server.activity import Activity
from server.deferred import DeferredCalls
from server.phases import Phase
from server.queue import Queue
from server.requests import Requests
from server.schemas import OpenRequest, RunningCall, WaitsFor, Why, WhyDetail

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

Found: TypeAlias = tuple[WaitingFor, float, WhyDetail]
"""What is waited for, since when, and more about it."""


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
        is_busy = phase in (Phase.RUNNING, Phase.CLOSING)
        found = self._person() or (self._of_run() if is_busy else self._of_rest(phase))
        waiting_for, since, detail = found or self._nothing(phase, is_busy=is_busy)
        queued = detail.model_copy(update={"queued": len(self._queue)})
        return Why(state=_STATES[phase], waiting_for=waiting_for, since=since, detail=queued)

    def _person(self) -> Found | None:
        requests = self._requests.open
        if not requests:
            return None
        names = ", ".join(request.request_id for request in requests)
        is_question = all(request.kind == "question" for request in requests)
        text = f"A person has to answer {names}: POST …/permissions/{requests[0].request_id}."
        detail = WhyDetail(text=text, requests=tuple(map(_open, requests)))
        return "question" if is_question else "permission", requests[0].ts, detail

    def _of_run(self) -> Found | None:
        """What a run waits for that waits for no person."""
        activity, retry = self._activity, self._activity.retry
        running = [tool for tool in activity.tools.values() if not self._is_deferred(tool.call_id)]
        if retry is not None:
            model, until = (None, None) if retry.detail is None else (retry.detail.model, retry.detail.until)
            text = f"{model or 'The model'} failed, and is asked again at `until`."
            return "retry", retry.since, WhyDetail(text=text, model=model, until=until)
        if running:
            text = f"{', '.join(tool.tool_name for tool in running)} runs."
            calls = tuple(RunningCall(call_id=one.call_id, tool_name=one.tool_name, since=one.since) for one in running)
            return "tool", running[0].since, WhyDetail(text=text, calls=calls)
        if activity.model is not None:
            model = activity.model.model
            text = f"{model} was asked; it was last heard at `since`."
            return "model", activity.model.heard_at, WhyDetail(text=text, model=model)
        if servers := self._agent.awaited_servers:
            text = f"MCP servers are not connected yet: {', '.join(servers)}."
            return "mcp", activity.moved_at, WhyDetail(text=text, servers=servers)
        return None

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
        return None

    def _nothing(self, phase: Phase, *, is_busy: bool) -> Found:
        since = self._activity.moved_at if is_busy else self._activity.rested_at
        return "nothing", since, WhyDetail(text=_NOTHING[phase])

    def _is_deferred(self, call_id: str) -> bool:
        return any(call.call_id == call_id for call in self._deferred.open)

    def _outside(self, call: DeferredCall) -> RunningCall:
        began = self._activity.tools.get(call.call_id)
        since = None if began is None else began.since
        return RunningCall(call_id=call.call_id, tool_name=call.tool_name, since=since, token=call.token)


def _open(request: PermissionRequest) -> OpenRequest:
    return OpenRequest(request_id=request.request_id, kind=request.kind, tool_name=request.tool_name, since=request.ts)
