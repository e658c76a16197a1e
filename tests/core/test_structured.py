"""An answer of a given form is checked before it is called one."""

from typing import Any

import anyio
import pytest

from agentcore.errors import BadRequest, RunFailed
from agentcore.messages import Block, Message, Text, ToolCall, ToolResult
from agentcore.ports.tools import ToolRoom
from agentcore.structured import FINAL_ANSWER, FinalAnswer, OutputSchema, StructuredEnding

pytestmark = pytest.mark.anyio

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["city"],
}


def message(role: str, *content: Block) -> Message:
    return Message.model_validate({"id": f"m-{role}", "role": role, "content": content})


async def made(schema: dict[str, Any]) -> OutputSchema:
    checked = OutputSchema(schema)
    await checked.check()
    return checked


@pytest.mark.parametrize(
    ("schema", "word"),
    [
        ({"type": "array"}, "object"),
        ({}, "object"),
        ({"type": "object", "properties": {"a": {"type": "nonsense"}}}, "JSON Schema"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "JSON Schema"),
        ({"type": "object", "$ref": "http://127.0.0.1:9/schema"}, "JSON Schema"),
        ({"type": "object", "properties": {"a": {"$ref": "file:///etc/hostname"}}}, "JSON Schema"),
        ({"type": "object", "description": "x" * 70_000}, "too large"),
    ],
)
async def test_what_is_no_schema_is_refused_with_a_sentence(schema: dict[str, Any], word: str) -> None:
    with pytest.raises(BadRequest, match=word):
        await made(schema)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"city": "Paris"}', {"city": "Paris"}),
        ('```json\n{"city": "Paris", "people": 2}\n```', {"city": "Paris", "people": 2}),
        ('```\n{"city": "Paris"}```', {"city": "Paris"}),
    ],
)
async def test_an_answer_that_fits_is_read(text: str, value: dict[str, Any]) -> None:
    assert await OutputSchema(SCHEMA).read(text) == value


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Paris", "no JSON"),
        ('{"city": "Paris"} and more', "no JSON"),
        ("[]", "no JSON object"),
        ('{"city": NaN}', "no JSON"),
        ('{"people": 2}', "city"),
        ('{"city": "Paris", "people": -1}', "people"),
        ('{"a":' * 100 + "1" + "}" * 100, "deeply"),
    ],
)
async def test_an_answer_that_does_not_fit_says_why(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        await OutputSchema(SCHEMA).read(text)


async def test_the_tool_has_the_schema_and_checks_its_input() -> None:
    tool = FinalAnswer(OutputSchema(SCHEMA))
    assert tool.spec.definition().input_schema == SCHEMA
    room = ToolRoom("c", lambda _: None)
    assert not (await tool.run(tool.spec.input.model_validate({"city": "Paris"}), room)).is_error
    refused = await tool.run(tool.spec.input.model_validate({"city": "Paris", "people": "many"}), room)
    assert refused.is_error
    assert "people" in refused.output


def exploding() -> dict[str, Any]:
    """Each of forty definitions refers twice to the next: 2^40 ways."""
    steps = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(40)}
    return {"type": "object", "$defs": {**steps, "a40": {"type": "object"}}, "$ref": "#/$defs/a0"}


def branching() -> dict[str, Any]:
    """An ordinary recursive schema; a deep value that fits neither branch is looked at in 2^depth ways."""
    branches = [{"properties": {"c": {"$ref": "#/$defs/n"}}, "required": [name]} for name in "xy"]
    return {"type": "object", "$defs": {"n": {"anyOf": branches}}, "$ref": "#/$defs/n"}


def nest(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"z": 1}
    for _ in range(depth):
        value = {"c": value}
    return value


@pytest.mark.parametrize(("schema", "value"), [(exploding(), {}), (branching(), nest(40))], ids=["$ref", "anyOf"])
async def test_a_schema_that_takes_for_ever_ends_the_run_and_not_the_server(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    checked = await made(schema)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.01)
            ticks += 1

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(tick)
            with pytest.raises(RunFailed) as caught:
                await checked.problems(value)
            tasks.cancel_scope.cancel()
    assert caught.value.reason == "invalid_structured_output"
    assert ticks > 20  # the event loop went on meanwhile


def test_an_accepted_call_is_the_answer_and_a_refused_one_is_not() -> None:
    ending = StructuredEnding(OutputSchema(SCHEMA), by_tool=True)
    call = message("assistant", ToolCall(id="c", name=FINAL_ANSWER, input={"city": "Paris"}))
    accepted = [call, message("user", ToolResult(call_id="c", content="ok"))]
    refused = [call, message("user", ToolResult(call_id="c", content="no", is_error=True))]
    assert (ending.is_answered(accepted), ending.value(accepted)) == (True, {"city": "Paris"})
    assert (ending.is_answered(refused), ending.value(refused)) == (False, None)
    assert ending.value([]) is None


def test_an_accepted_call_before_another_prompt_is_no_answer_to_it() -> None:
    ending = StructuredEnding(OutputSchema(SCHEMA), by_tool=True)
    call = message("assistant", ToolCall(id="c", name=FINAL_ANSWER, input={"city": "Paris"}))
    prompted = [call, message("user", ToolResult(call_id="c", content="ok"), Text(text="And now?"))]
    assert (ending.is_answered(prompted), ending.value(prompted)) == (False, None)


async def test_an_answer_goes_back_twice_and_then_the_run_fails() -> None:
    ending = StructuredEnding(OutputSchema(SCHEMA), by_tool=False)
    bad, good = "Paris", '{"city": "Paris"}'
    assert await ending.objection(good, "a/b") is None
    assert "no JSON" in str(await ending.objection(bad, "a/b"))
    assert await ending.objection(bad, "a/b") is not None
    with pytest.raises(RunFailed, match=r"^a/b gave 3 answers") as caught:
        await ending.objection(bad, "a/b")
    assert caught.value.reason == "invalid_structured_output"
    assert await ending.objection(good, "a/b") is None
    assert ending.value([message("assistant", Text(text=good))]) == {"city": "Paris"}


async def test_a_text_in_place_of_the_tool_is_asked_for_again_unless_it_fits() -> None:
    ending = StructuredEnding(OutputSchema(SCHEMA), by_tool=True)
    assert FINAL_ANSWER in str(await ending.objection("Paris", "a/b"))
    assert await ending.objection('{"city": "Paris"}', "a/b") is None
