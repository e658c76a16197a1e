"""What a server asks in a call, put before a person: asked, answered, and over with its call."""

import json
import sys

import anyio
import pytest

from agentcore.errors import Unprocessable
from agentcore.events import PermissionRequest, PermissionResolved
from agentcore.mcp.offers import Offer
from agentcore.mcp.states import State
from agentcore.mcp.tool import Patience
from server.schemas import AnswerBody
from tests.fakes import call, say, use
from tests.mcp.housed import SDK, configured, ends, odd_server, run, served, until
from tests.mcp.serving import ASKING, WITHIN_S

pytestmark = pytest.mark.anyio


async def test_a_server_asks_a_person_through_the_way_of_every_question(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("asks")) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        answers = [
            AnswerBody(allow=True, answer=["green", "yes"]),
            AnswerBody(allow=True, answer="many"),
            AnswerBody(allow=True, answer="42"),
            AnswerBody(allow=True, answer="-"),
        ]
        events = await run(here, live, "go", answers)
        asked = [event for event in events if isinstance(event, PermissionRequest)]
        assert [(one.kind, one.tool_name, one.display) for one in asked] == [("question", "ask_user", "Tell me.")] * 4
        assert asked[0].reasons == ("the MCP server odd asks during a call",)
        assert asked[2].input == {"input": "That is no integer. How old? (integer)"}
        [(_, output, _)] = ends(events)
        assert json.loads(output) == {"action": "accept", "content": {"age": 42, "color": "green", "sure": True}}


@pytest.mark.parametrize(
    ("settings", "action"), [({"unattended": "deny"}, "decline"), ({"unattended": "defer"}, "cancel")]
)
async def test_a_question_that_nobody_answers_is_declined(tmp_path, monkeypatch, settings, action) -> None:
    async with served(tmp_path, monkeypatch, odd_server("asks")) as here:
        live = await here.house.session(**settings)
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        events = await run(here, live, "go")
        assert json.loads(ends(events)[0][1])["action"] == action
        order = [event.type for event in events]
        assert order.index("permission_resolved") < order.index("tool_end")


async def test_a_person_who_does_not_answer_declines(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("asks")) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        events = await run(here, live, "go", [AnswerBody(allow=False)])
        assert json.loads(ends(events)[0][1]) == {"action": "decline"}


async def test_a_question_uses_up_no_time_of_the_call(tmp_path, monkeypatch) -> None:
    told: list[str] = []
    for name in ("pause", "go_on"):
        real = getattr(Patience, name)
        monkeypatch.setattr(Patience, name, lambda self, name=name, real=real: (told.append(name), real(self)))
    async with served(tmp_path, monkeypatch, odd_server("asks")) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        live.prompt("go")
        await until(lambda: bool(live.requests.open))
        assert told == ["pause"]
        live.answer(live.requests.open[0].request_id, AnswerBody(allow=False))
        await until(lambda: not live.is_busy)
        assert told == ["pause", "go_on"]


async def test_a_server_cannot_send_a_person_to_an_address(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("asks-url")) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        events = await run(here, live, "go")
        assert not any(isinstance(event, PermissionRequest) for event in events)
        assert ends(events)[0][1] == '"decline"'


async def test_in_the_newest_protocol_what_is_missing_is_asked_and_our_model_is_not_to_be_had(
    tmp_path, monkeypatch
) -> None:
    async with served(tmp_path, monkeypatch, configured("asker", (sys.executable, "-I", str(ASKING)))) as here:
        live = await here.house.session()
        calls = [call(f"mcp__asker__{name}", name) for name in ("ask", "think", "where")]
        here.house.provider.script(*(use(one) for one in calls), say("Done."))
        events = await run(here, live, "go", [AnswerBody(allow=True, answer="red")])
        asked, thought, where = ends(events)
        assert asked == ("mcp__asker__ask", "red", False)
        assert "Client did not declare the sampling capability" in thought[1]
        assert where == ("mcp__asker__where", (tmp_path / "work").as_uri(), False)
        assert [event.display for event in events if isinstance(event, PermissionRequest)] == ["Which color?"]
        assert len(here.house.provider.requests) == 4


@pytest.mark.parametrize("how", ["suspend", "cancel"])
async def test_in_the_newest_protocol_a_question_ends_with_its_run(tmp_path, monkeypatch, how: str) -> None:
    async with served(tmp_path, monkeypatch, configured("asker", (sys.executable, "-I", str(ASKING)))) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__asker__ask")), say("Done."))
        live.prompt("go")
        await until(lambda: bool(live.requests.open))
        getattr(live, how)()
        await until(lambda: not live.is_busy)
        assert (live.requests.open, live.requests._waits) == ((), {})


async def test_a_question_ends_with_the_call_that_it_was_asked_in(tmp_path, monkeypatch) -> None:
    """Else the session would go on waiting for an answer that nobody wants."""
    async with served(tmp_path, monkeypatch, odd_server("abandons")) as here:
        live = await here.house.session()
        go_on = tmp_path / "go_on"
        here.house.provider.script(use(call("mcp__odd__echo", text=str(go_on))), say("Done."))
        live.prompt("go")
        await until(lambda: bool(live.requests.open))
        go_on.touch()
        await until(lambda: not live.is_busy)
        events = here.house.events(live)
        assert ends(events) == [("mcp__odd__echo", "never mind", False)]
        asked = [event.request_id for event in events if isinstance(event, PermissionRequest)]
        resolved = [event for event in events if isinstance(event, PermissionResolved)]
        assert [(one.request_id, one.resolution) for one in resolved] == [(one, "cancelled") for one in asked]
        order = [event.type for event in events]
        assert order.index("permission_resolved") < order.index("tool_end")
        assert live.requests.open == ()
        assert live.requests._waits == {}


async def test_a_question_ends_with_the_run_that_was_cancelled(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("asks")) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        live.prompt("go")
        await until(lambda: bool(live.requests.open))
        live.cancel()
        await until(lambda: not live.is_busy)
        assert live.requests.open == ()
        assert live.requests._waits == {}


async def test_a_question_does_not_outlive_a_run_that_is_suspended(tmp_path, monkeypatch) -> None:
    """Else its rest would wait for an answer that reaches nobody."""
    async with served(tmp_path, monkeypatch, odd_server("asks")) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        live.prompt("go")
        await until(lambda: bool(live.requests.open))
        live.suspend()
        await until(lambda: not live.is_busy)
        assert live.requests.open == ()
        events = here.house.events(live)
        [resolved] = [event for event in events if isinstance(event, PermissionResolved)]
        assert resolved.resolution == "cancelled"
        assert json.loads(ends(events)[0][1]) == {"action": "cancel"}


async def test_a_session_is_closed_while_a_server_asks(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("asks")) as here:
        live, other = await here.house.session(), await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")))
        live.prompt("go")
        await until(lambda: bool(live.requests.open))
        with anyio.fail_after(WITHIN_S):
            await here.house.hub.close(live, "closed")
        assert live.requests._waits == {}
        [server] = other.agent._parts.servers._held.values()
        assert server.state is State.READY


async def test_a_server_cannot_use_the_model(tmp_path, monkeypatch) -> None:
    async with served(tmp_path, monkeypatch, odd_server("samples")) as here:
        live = await here.house.session()
        here.house.provider.script(use(call("mcp__odd__echo", text="x")), say("Done."))
        events = await run(here, live, "go")
        said = json.loads(ends(events)[0][1])
        assert said["capabilities"] == ["elicitation", "roots"]
        assert said["error"]["code"] == -32600
        assert len(here.house.provider.requests) == 2


@pytest.mark.parametrize("by", ["main agent", "subagent"])
async def test_a_tool_that_went_while_a_person_was_asked_about_it_is_an_answer_that_cannot_stand(
    tmp_path, monkeypatch, by
) -> None:
    async with served(tmp_path, monkeypatch, SDK) as here:
        live = await here.house.session()
        count = use(call("mcp__sdk__count", "c1", to=1))
        task = use(call("task", "t1", description="d", prompt="p", subagent_type="general-purpose"))
        here.house.provider.script(*([task] if by == "subagent" else []), count, say("Done."))
        live.prompt("go")
        await until(lambda: bool(live.requests.open))
        [request] = live.requests.open
        here.views[0]._held["sdk"].offer = Offer()  # as if it was given up
        for more in ({}, {"always": True}):
            with pytest.raises(Unprocessable, match="There is no tool 'mcp__sdk__count' any more"):
                live.answer(request.request_id, AnswerBody(allow=True, updated_input={"to": 2}, **more))
        live.answer(request.request_id, AnswerBody(allow=True))
        await until(lambda: not live.is_busy)
