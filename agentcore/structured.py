"""An answer of a given form: what a prompt's `output_schema` asks for, and whether the answer keeps to it.

Where every model that may answer is held to a schema by its vendor, the answer is the text of the last message.
Elsewhere the model is given the tool `final_answer`, whose input has that schema; a call of it that was accepted is
the answer. (The tool is there for that run alone, so the vendor's cache of the conversation begins anew with it.)
Either way the value is checked here, and an answer that does not fit goes back to the model with what is wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import JsonValue, RootModel
from pydantic_core import from_json, to_json

from agentcore.caps import bounded_input
from agentcore.confined import Bounds, Confinement, TooMuch
from agentcore.errors import BadRequest, RunFailed, Unprocessable
from agentcore.messages import Message, ToolResult
from agentcore.ports.models import ToolDefinition
from agentcore.ports.tools import Outcome, ToolRoom, ToolSpec

FINAL_ANSWER = "final_answer"
MAX_SCHEMA_BYTES = 64 * 1024
MAX_OBJECTIONS = 2  # a model that fails three times does not understand what is asked of it

_CHECKS = Confinement("agentcore.schema_check:check", Bounds(memory_bytes=512 * 1024 * 1024, cpu_s=2, wall_s=6.0))
_ACCEPTED = "The answer is accepted."
_USE_THE_TOOL = f"Give your answer by calling {FINAL_ANSWER}; a text alone is not taken."


class OutputSchema:
    """A JSON Schema that an answer has to satisfy."""

    def __init__(self, schema: Mapping[str, JsonValue]) -> None:
        """Raises: BadRequest for what is no object's schema at first sight, or is too large; see `check`."""
        if bounded_input(dict(schema)) is None or len(to_json(schema)) > MAX_SCHEMA_BYTES:
            raise BadRequest(f"output_schema is too large: give at most {MAX_SCHEMA_BYTES // 1024} KiB, less nested.")
        if schema.get("type") != "object":
            raise BadRequest('output_schema must describe an object: give it "type": "object".')
        self.schema = schema

    async def check(self) -> None:
        """Raises: BadRequest for what is no JSON Schema, or refers to another document."""
        try:
            await _CHECKS.run(to_json({"schema": self.schema}))
        except Unprocessable as error:
            raise BadRequest(f"output_schema is no JSON Schema that can be used: {error}.") from error
        except TooMuch as error:
            raise BadRequest("output_schema takes too long to read: simplify it.") from error

    async def problems(self, value: object) -> str:
        """What is wrong with a value, one line each; empty where it fits. Raises: RunFailed when it cannot be told."""
        try:
            found: list[str] = from_json(await _CHECKS.run(to_json({"schema": self.schema, "value": value})))
        except (TooMuch, Unprocessable) as error:
            raise RunFailed(
                "invalid_structured_output",
                "It takes too long to check this answer against output_schema. Simplify the schema: fewer"
                " alternatives that refer to themselves.",
            ) from error
        return "\n".join(f"- {problem}" for problem in found)

    async def read(self, text: str) -> dict[str, JsonValue]:
        """Parse an answer's text. Raises: ValueError with what is wrong, for the model; RunFailed."""
        try:
            value = from_json(_unfenced(text), allow_inf_nan=False)
        except ValueError:
            raise ValueError("- the answer: it is no JSON") from None
        answer = bounded_input(value)
        if answer is None:
            raise ValueError("- the answer: it is no JSON object, or is nested too deeply")
        if problems := await self.problems(answer):
            raise ValueError(problems)
        return answer


class FinalAnswer:
    """The tool by which a model answers where its vendor cannot hold it to a schema."""

    def __init__(self, schema: OutputSchema) -> None:
        self._schema = schema
        self.spec = ToolSpec(
            name=FINAL_ANSWER,
            description="Give the final answer to the prompt. Call it once, alone, when everything else is done.",
            input=_input_model(schema.schema),
            read_only=True,
        )

    async def run(self, input: Any, room: ToolRoom) -> Outcome:
        try:
            problems = await self._schema.problems(input.root)
        except RunFailed as error:
            return Outcome(str(error), is_error=True)
        return Outcome(_told(problems), is_error=True) if problems else Outcome(_ACCEPTED)

    def preview(self, input: Any) -> str | None:
        return None


class StructuredEnding:
    """Lets a run end only with an answer that fits. Satisfies the Ending port."""

    def __init__(self, schema: OutputSchema, *, by_tool: bool) -> None:
        self._schema = schema
        self.tool = FinalAnswer(schema) if by_tool else None
        """What the run's tools have to hold besides."""
        self._objections = 0
        self._answer: dict[str, JsonValue] | None = None

    @property
    def vendor_schema(self) -> Mapping[str, JsonValue] | None:
        """What the vendor is to hold its model to; None where the model answers by the tool."""
        return None if self.tool else self._schema.schema

    def with_tool(self, tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """The tools that the model is told of, sorted by name."""
        added = [] if self.tool is None else [self.tool.spec.definition()]
        return tuple(sorted((*tools, *added), key=lambda tool: tool.name))

    def is_answered(self, messages: Sequence[Message]) -> bool:
        return _accepted_call(messages) is not None

    async def objection(self, answer: str, model: str) -> str | None:
        """What to tell `model` in place of ending. Raises: RunFailed when it was told often enough."""
        try:
            self._answer = await self._schema.read(answer)
        except ValueError as problems:
            if self._objections == MAX_OBJECTIONS:
                raise RunFailed(
                    "invalid_structured_output",
                    f"{model} gave {MAX_OBJECTIONS + 1} answers that do not fit output_schema. Simplify the schema, or"
                    " use another model.",
                ) from None
            self._objections += 1
            return _USE_THE_TOOL if self.tool else _told(str(problems))
        return None

    def value(self, messages: Sequence[Message]) -> dict[str, JsonValue] | None:
        """The answer of a run that has ended well."""
        return _accepted_call(messages) or self._answer


def _told(problems: str) -> str:
    return f"Your answer does not have the form that was asked for:\n{problems}\nAnswer again, with the JSON alone."


def _accepted_call(messages: Sequence[Message]) -> dict[str, JsonValue] | None:
    """The input of a `final_answer` that the last batch accepted; None once anything was said after it."""
    if len(messages) < 2 or messages[-1].role != "user":
        return None
    results = [block for block in messages[-1].content if isinstance(block, ToolResult)]
    if len(results) < len(messages[-1].content):
        return None  # another prompt is there already: that answer was the one before
    accepted = {result.call_id for result in results if not result.is_error}
    calls = (call for call in messages[-2].tool_calls if call.name == FINAL_ANSWER and call.id in accepted)
    return next((dict(call.input) for call in calls if call.input is not None), None)


def _input_model(schema: Mapping[str, JsonValue]) -> type[RootModel[dict[str, JsonValue]]]:
    """Any object, described by the schema: `FinalAnswer` itself checks it, where that cannot hold up the server."""

    class Answer(RootModel[dict[str, JsonValue]]):
        @classmethod
        def model_json_schema(cls, *args: object, **kwargs: object) -> dict[str, Any]:
            return dict(schema)

    return Answer


def _unfenced(text: str) -> str:
    """The text without the Markdown fence that models put around JSON."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json")
    return text
