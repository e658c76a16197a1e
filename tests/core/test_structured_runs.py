"""A prompt with an `output_schema` ends with an answer that fits it, or says that there is none."""

from pathlib import Path
from typing import Any

import pytest

from agentcore.errors import ProviderError
from agentcore.events import Done, Error, NumberedEvent, ToolEnd, UserMessage
from agentcore.messages import Text
from tests.daemon import running
from tests.fakes import FakeProvider, House, Turn, call, house, say, use

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PARIS = '{"city":"Paris"}'


async def ask(home: House, *, by_tool: bool, **settings: object) -> list[NumberedEvent]:
    home.provider.keeps_to_schema = not by_tool
    live = await home.session(**settings)
    live.prompt("Which city?", (), SCHEMA)
    await home.until_idle(live)
    return home.events(live)


def done(events: list[NumberedEvent]) -> Done:
    [last] = [event for event in events if isinstance(event, Done)]
    return last


def sent_back(events: list[NumberedEvent]) -> list[str]:
    return [
        block.text
        for event in events
        if isinstance(event, UserMessage) and event.source == "hook"
        for block in event.content
        if isinstance(block, Text)
    ]


async def test_a_vendor_that_keeps_to_schemas_is_given_the_schema_and_its_text_is_the_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.script(say(PARIS))
        events = await ask(home, by_tool=False)
        [request] = home.provider.requests
    assert done(events).structured == {"city": "Paris"}
    assert (done(events).stop_reason, done(events).text) == ("end_turn", PARIS)
    assert request.output_schema == SCHEMA
    assert "final_answer" not in [tool.name for tool in request.tools]


async def test_an_answer_that_does_not_fit_goes_back_with_what_is_wrong(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.script(say("Paris"), say('{"town":"Paris"}'), say(PARIS))
        events = await ask(home, by_tool=False)
        assert [request.messages[-1].role for request in home.provider.requests] == ["user"] * 3
    assert done(events).structured == {"city": "Paris"}
    assert done(events).turns == 3
    first, second = sent_back(events)
    assert "no JSON" in first
    assert "city" in second


async def test_after_three_answers_that_do_not_fit_the_run_says_so(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.script(say("a"), say("b"), say("c"))
        events = await ask(home, by_tool=False)
    assert (done(events).stop_reason, done(events).structured) == ("error", None)
    [error] = [event for event in events if isinstance(event, Error)]
    assert error.code == "invalid_structured_output"
    assert error.text.startswith("fake/fake gave 3 answers")


async def test_elsewhere_the_model_answers_by_a_tool_and_is_not_asked_again(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.script(use(call("final_answer", city="Paris")))
        events = await ask(home, by_tool=True, mode="deny")
        [request] = home.provider.requests
    names = [tool.name for tool in request.tools]
    assert names == sorted(names)
    [definition] = [tool for tool in request.tools if tool.name == "final_answer"]
    assert definition.input_schema == SCHEMA
    assert request.output_schema is None
    assert (done(events).stop_reason, done(events).structured) == ("end_turn", {"city": "Paris"})
    assert events[-1].type == "status"


async def test_a_call_that_does_not_fit_is_an_error_the_model_can_mend(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.script(
            use(call("final_answer", "c1", town="Paris")),
            say("It is Paris."),
            use(call("final_answer", "c2", city="Paris")),
        )
        events = await ask(home, by_tool=True)
    assert [event.is_error for event in events if isinstance(event, ToolEnd)] == [True, False]
    assert ["final_answer" in text for text in sent_back(events)] == [True]
    assert done(events).structured == {"city": "Paris"}


async def test_the_tool_is_there_for_that_prompt_alone(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.keeps_to_schema = False
        home.provider.script(use(call("final_answer", city="Paris")), say("Hello."))
        live = await home.session()
        live.prompt("Which city?", (), SCHEMA)
        await home.until_idle(live)
        events = await home.run(live, "Hello?")
        first, second = home.provider.requests
    assert [tool.name for tool in first.tools if tool not in second.tools] == ["final_answer"]
    assert (done(events).text, done(events).structured) == ("Hello.", None)


async def test_a_run_that_ends_otherwise_has_no_structured_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.script(say('{"city":"Par', stop="max_tokens"))
        events = await ask(home, by_tool=False)
    assert (done(events).stop_reason, done(events).structured) == ("max_tokens", None)


async def test_a_crash_behind_the_answer_loses_nothing_of_it(tmp_path: Path) -> None:
    """The process ends between the result of `final_answer` and `done`: the answer is read off the journal."""
    async with house(tmp_path) as home:
        home.provider.keeps_to_schema = False
        home.provider.script(use(call("final_answer", city="Paris")))
        live = await home.session()
        live.prompt("Which city?", (), SCHEMA)
        await home.until_idle(live)
        session = live.id
    [journal] = (tmp_path / "data" / "sessions").glob(f"*/{session}/journal.jsonl")
    lines = journal.read_bytes().split(b"\n")
    end = next(place for place, line in enumerate(lines) if b'"type":"tool_end"' in line)
    journal.write_bytes(b"\n".join(lines[: end + 1]) + b"\n")
    async with house(tmp_path) as home:
        live = await home.reload(session)
        live.resume_run()
        await home.until_idle(live)
        assert home.provider.requests == []
        assert done(home.events(live)).structured == {"city": "Paris"}


async def test_over_http_the_answer_carries_it(tmp_path: Path) -> None:
    script = {
        "scenes": [
            {
                "turns": [
                    {"text": "Let me see.", "tool_calls": [{"name": "final_answer", "input": {"city": "Paris"}}]},
                ]
            }
        ]
    }
    with running(tmp_path) as daemon:
        model = daemon.script("city", script)
        async with daemon.client() as http:
            session = (await http.post("/v1/sessions", json={"model": model})).json()["id"]
            body = {"text": "Which city?", "wait": True, "output_schema": SCHEMA}
            answer = await http.post(f"/v1/sessions/{session}/prompt", json=body)
            assert answer.json()["structured"] == {"city": "Paris"}
            body["output_schema"] = {"type": "array"}
            refused = await http.post(f"/v1/sessions/{session}/prompt", json=body)
            assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
            state = (await http.get(f"/v1/sessions/{session}")).json()
            assert state["busy"] is False


async def test_the_next_prompt_with_a_schema_gets_an_answer_of_its_own(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.provider.keeps_to_schema = False
        home.provider.script(
            use(call("final_answer", "c1", city="Paris")), use(call("final_answer", "c2", city="Rome"))
        )
        live = await home.session()
        for _ in range(2):
            live.prompt("Which city?", (), SCHEMA)
            await home.until_idle(live)
        answers = [event for event in home.events(live) if isinstance(event, Done)]
    assert [(answer.structured, answer.turns) for answer in answers] == [({"city": "Paris"}, 1), ({"city": "Rome"}, 1)]


async def test_a_stand_in_that_keeps_to_no_schema_is_given_the_tool(tmp_path: Path) -> None:
    stand_in = FakeProvider("other")
    stand_in.keeps_to_schema = False
    async with house(tmp_path, fallbacks=[stand_in]) as home:
        home.provider.script(Turn(fails=ProviderError("auth", "No.")))
        stand_in.script(use(call("final_answer", city="Rome")))
        live = await home.session()
        live.prompt("Which city?", (), SCHEMA)
        await home.until_idle(live)
        assert done(home.events(live)).structured == {"city": "Rome"}
        [asked] = stand_in.requests
    assert "final_answer" in [tool.name for tool in asked.tools]
