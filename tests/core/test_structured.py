"""An answer of a given form is checked before it is called one."""

from typing import Any

import pytest
from pydantic import ValidationError

from agentcore.errors import BadRequest, RunFailed
from agentcore.messages import Block, Message, Text, ToolCall, ToolResult
from agentcore.structured import FINAL_ANSWER, FinalAnswer, OutputSchema, StructuredEnding

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["city"],
}


def message(role: str, *content: Block) -> Message:
    return Message.model_validate({"id": f"m-{role}", "role": role, "content": content})


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
def test_what_is_no_schema_is_refused_with_a_sentence(schema: dict[str, Any], word: str) -> None:
    with pytest.raises(BadRequest, match=word):
        OutputSchema(schema)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"city": "Paris"}', {"city": "Paris"}),
        ('```json\n{"city": "Paris", "people": 2}\n```', {"city": "Paris", "people": 2}),
        ('```\n{"city": "Paris"}```', {"city": "Paris"}),
    ],
)
def test_an_answer_that_fits_is_read(text: str, value: dict[str, Any]) -> None:
    assert OutputSchema(SCHEMA).read(text) == value


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
def test_an_answer_that_does_not_fit_says_why(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        OutputSchema(SCHEMA).read(text)


def test_the_tool_has_the_schema_and_checks_its_input() -> None:
    spec = FinalAnswer(OutputSchema(SCHEMA)).spec
    assert spec.definition().input_schema == SCHEMA
    spec.input.model_validate({"city": "Paris"})
    with pytest.raises(ValidationError, match="people"):
        spec.input.model_validate({"city": "Paris", "people": "many"})


def test_an_accepted_call_is_the_answer_and_a_refused_one_is_not() -> None:
    ending = StructuredEnding(OutputSchema(SCHEMA), by_tool=True)
    call = message("assistant", ToolCall(id="c", name=FINAL_ANSWER, input={"city": "Paris"}))
    accepted = [call, message("user", ToolResult(call_id="c", content="ok"))]
    refused = [call, message("user", ToolResult(call_id="c", content="no", is_error=True))]
    assert (ending.is_answered(accepted), ending.value(accepted)) == (True, {"city": "Paris"})
    assert (ending.is_answered(refused), ending.value(refused)) == (False, None)
    assert ending.value([]) is None


def test_an_answer_goes_back_twice_and_then_the_run_fails() -> None:
    ending = StructuredEnding(OutputSchema(SCHEMA), by_tool=False)
    bad, good = "Paris", '{"city": "Paris"}'
    assert ending.objection(good) is None
    assert "no JSON" in str(ending.objection(bad))
    assert ending.objection(bad) is not None
    with pytest.raises(RunFailed) as caught:
        ending.objection(bad)
    assert caught.value.reason == "invalid_structured_output"
    assert ending.value([message("assistant", Text(text=good))]) == {"city": "Paris"}


def test_a_text_in_place_of_the_tool_is_asked_for_again_unless_it_fits() -> None:
    ending = StructuredEnding(OutputSchema(SCHEMA), by_tool=True)
    assert FINAL_ANSWER in str(ending.objection("Paris"))
    assert ending.objection('{"city": "Paris"}') is None
