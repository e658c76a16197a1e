"""`GET …/why` of a session with subagents: what they wait for is what it waits for, and each is named with its own."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.errors import ProviderError
from agentcore.messages import ToolCall
from agentcore.ports.models import TextPart
from tests.fakes import Turn, call, say, use
from tests.server.test_why_http import BEGIN, CHOOSE, MODEL, Served, answer, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as served:
        yield served


def task(number: int = 1, **more: object) -> ToolCall:
    given = {"description": "Look", "prompt": f"piece {number}", "subagent_type": "general-purpose", **more}
    return call("task", f"t{number}", **given)


def wait(waiting_for: str, since: float = BEGIN, number: int = 1, **more: object) -> dict[str, Any]:
    return {"agent": f"general-purpose-{number}", "waiting_for": waiting_for, "since": since, **more}


def overloaded() -> Turn:
    return Turn(fails=ProviderError("overloaded", "Too much.", retry_after_s=25))


async def begin(served: Served, *turns: Turn, **settings: object) -> str:
    served.provider.script(*turns)
    session = await served.create(**settings)
    await served.prompt(session)
    return session


async def test_a_subagent_that_waits_to_ask_again_is_what_its_session_waits_for(served: Served) -> None:
    served.pause.holds = True
    session = await begin(served, use(task()), overloaded())
    why = await served.until_waiting(session, "retry")
    waits = wait("retry", model=MODEL, until=BEGIN + 25)
    expected = {"agent": "general-purpose-1", "model": MODEL, "until": BEGIN + 25, "subagents": [waits]}
    assert why == answer("running", "retry", BEGIN, **expected)
    text = (await served.http.get(f"/v1/sessions/{session}/why")).json()["detail"]["text"]
    assert "general-purpose-1" in text
    await served.http.post(f"/v1/sessions/{session}/cancel", json={})
    assert await served.until_idle(session) == answer("idle", "nothing", BEGIN)


async def test_a_silent_model_of_a_subagent_is_named_with_the_time_since_it_was_last_heard(served: Served) -> None:
    session = await begin(served, use(task()), Turn([TextPart("Half")], holds=anyio.Event()))
    await served.provider.streaming.wait()
    served.clock.time += 50
    why = await served.until_waiting(session, "model")
    expected = {"agent": "general-purpose-1", "model": MODEL, "subagents": [wait("model", model=MODEL)]}
    assert why == answer("running", "model", BEGIN, **expected)


async def test_a_model_of_a_subagent_that_speaks_is_not_silent(served: Served) -> None:
    opens = anyio.Event()
    session = await begin(served, use(task()), Turn([TextPart("Half")], opens=opens, holds=anyio.Event()))
    await served.until_waiting(session, "model")
    served.clock.time += 50
    opens.set()
    await served.provider.streaming.wait()
    assert (await served.why(session))["since"] == BEGIN + 50


async def test_a_tool_of_a_subagent_stands_for_the_call_that_it_is_part_of(served: Served) -> None:
    session = await begin(served, use(task()), use(call("hold", "c1")), say("Held."), say("Done."))
    why = await served.until(session, lambda why: any("agent" in one for one in why["detail"]["calls"]))
    running = {
        "call_id": "general-purpose-1_c1",
        "tool_name": "hold",
        "since": BEGIN,
        "agent": "general-purpose-1",
    }
    assert why == answer("running", "tool", BEGIN, calls=[running], subagents=[wait("tool")])
    served.hold.ends.set()
    assert await served.until_idle(session) == answer("idle", "nothing", BEGIN)


@pytest.mark.parametrize(
    ("asked", "waiting_for", "kind"),
    [
        (call("bash", "c1", command="make all"), "permission", "tool"),
        (call("ask_user", "c1", **CHOOSE), "question", "question"),
    ],
)
async def test_a_question_of_a_subagent_says_whose_it_is(
    served: Served, asked: ToolCall, waiting_for: str, kind: str
) -> None:
    session = await begin(served, use(task()), use(asked), mode="default")
    why = await served.until_waiting(session, waiting_for)
    request = {"request_id": "perm-1", "kind": kind, "tool_name": asked.name, "since": BEGIN}
    request["agent"] = "general-purpose-1"
    assert why == answer("running", waiting_for, BEGIN, requests=[request], subagents=[wait(waiting_for)])


async def test_of_several_each_is_named_and_a_pause_is_told_first(served: Served) -> None:
    served.pause.holds = True
    session = await begin(served, use(task(1), task(2)), use(call("hold", "c1")), overloaded())
    why = await served.until(session, lambda why: len(why["detail"]["subagents"]) == 2 and "until" in why["detail"])
    kinds = {one["agent"]: one["waiting_for"] for one in why["detail"]["subagents"]}
    assert (why["waiting_for"], sorted(kinds.values())) == ("retry", ["retry", "tool"])
    assert kinds[why["detail"]["agent"]] == "retry"


async def test_what_waits_in_the_background_holds_up_no_run(served: Served) -> None:
    served.pause.holds = True
    session = await begin(served, use(task(run_in_background=True)), overloaded(), overloaded())
    why = await served.until(session, lambda why: len(why["detail"]["subagents"]) == 1 and "until" in why["detail"])
    waits = wait("retry", task_id="bg-1", model=MODEL, until=BEGIN + 25)
    assert (why["waiting_for"], why["detail"]["subagents"]) == ("retry", [waits])
    assert "agent" not in why["detail"]  # the main agent's own pause


async def test_a_pause_in_the_background_of_an_idle_session_is_told(served: Served) -> None:
    served.pause.holds = True
    session = await begin(served, use(task(run_in_background=True)), overloaded(), overloaded())
    await served.until(session, lambda why: len(why["detail"]["subagents"]) == 1 and "until" in why["detail"])
    await served.http.post(f"/v1/sessions/{session}/cancel", json={})
    why = await served.until_idle(session)
    told = wait("retry", task_id="bg-1", model=MODEL, until=BEGIN + 25)
    expected = {"agent": "general-purpose-1", "model": MODEL, "until": BEGIN + 25, "subagents": [told]}
    assert why == answer("idle", "retry", BEGIN, **expected)
    await served.http.delete(f"/v1/sessions/{session}/tasks/bg-1")
    assert (await served.until_waiting(session, "nothing"))["detail"]["subagents"] == []
