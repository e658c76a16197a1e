"""What agents wait for, by what each of them does: one that pauses, tools that run, a model that is silent, a person.

Pure. Where several wait, the one that has waited longest is named.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from agentcore.events import SUBAGENT_TOOL, PermissionRequest, WaitingFor
from server.activity import Doing, ModelCall, ToolRun
from server.answers import OpenRequest, RunningCall, WhyDetail

Found: TypeAlias = tuple[WaitingFor, float, WhyDetail]
"""What is waited for, since when, and more about it."""
Doings: TypeAlias = Mapping[str | None, Doing]
"""By a subagent's label; None: the main agent."""


def of_person(requests: Sequence[PermissionRequest]) -> Found | None:
    if not requests:
        return None
    names = ", ".join(_named(request.request_id, request.agent) for request in requests)
    is_question = all(request.kind == "question" for request in requests)
    text = f"A person has to answer {names}: POST …/permissions/{requests[0].request_id}."
    detail = WhyDetail(text=text, requests=tuple(map(_open, requests)))
    return "question" if is_question else "permission", requests[0].ts, detail


def of_retry(doings: Doings) -> Found | None:
    paused = [(doing.retry.since, agent, doing.retry) for agent, doing in doings.items() if doing.retry is not None]
    if not paused:
        return None
    since, agent, retry = min(paused, key=lambda one: one[0])
    model, until = (None, None) if retry.detail is None else (retry.detail.model, retry.detail.until)
    text = f"{_named(model or 'The model', agent)} failed, and is asked again at `until`."
    return "retry", since, WhyDetail(text=text, agent=agent, model=model, until=until)


def of_tools(doings: Doings, is_deferred: Callable[[str], bool]) -> Found | None:
    """Those of subagents stand for the call that they are part of."""
    running = [(agent, tool) for agent, doing in doings.items() for tool in doing.tools.values()]
    running = [(agent, tool) for agent, tool in running if agent is not None or not is_deferred(tool.call_id)]
    if any(agent is not None and doing != Doing() for agent, doing in doings.items()):
        running = [(agent, tool) for agent, tool in running if tool.tool_name != SUBAGENT_TOOL]
    if not running:
        return None
    text = f"{', '.join(_named(tool.tool_name, agent) for agent, tool in running)} runs."
    since = min(tool.since for _, tool in running)
    return "tool", since, WhyDetail(text=text, calls=tuple(_call(agent, tool) for agent, tool in running))


def of_model(doings: Doings) -> Found | None:
    asked: list[tuple[str | None, ModelCall]] = [
        (agent, doing.model) for agent, doing in doings.items() if doing.model is not None
    ]
    if not asked:
        return None
    agent, call = min(asked, key=lambda one: one[1].heard_at)
    text = f"{_named(call.model, agent)} was asked; it was last heard at `since`."
    return "model", call.heard_at, WhyDetail(text=text, agent=agent, model=call.model)


def _named(what: str, agent: str | None) -> str:
    return what if agent is None else f"{what} (of {agent})"


def _open(request: PermissionRequest) -> OpenRequest:
    return OpenRequest(
        request_id=request.request_id,
        kind=request.kind,
        tool_name=request.tool_name,
        since=request.ts,
        agent=request.agent,
    )


def _call(agent: str | None, tool: ToolRun) -> RunningCall:
    return RunningCall(call_id=tool.call_id, tool_name=tool.tool_name, since=tool.since, agent=agent)
