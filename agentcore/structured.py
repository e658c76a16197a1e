"""An answer of a given form: what a prompt's `output_schema` asks for, and whether the answer keeps to it.

Where the vendor holds its model to a schema, the answer is the text of the last message. Elsewhere the model is given
the tool `final_answer`, whose input has that schema; a call of it that was accepted is the answer. Either way the
value is checked here, and an answer that does not fit goes back to the model with what is wrong, a few times.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from pydantic import JsonValue, RootModel, model_validator
from pydantic_core import from_json, to_json

from agentcore.caps import bounded_input
from agentcore.errors import BadRequest, RunFailed
from agentcore.messages import Message, ToolResult
from agentcore.ports import Outcome, ToolDefinition, ToolRoom, ToolSpec

FINAL_ANSWER = "final_answer"
MAX_SCHEMA_BYTES = 64 * 1024
MAX_OBJECTIONS = 2  # a model that fails three times does not understand what is asked of it
_MAX_NAMED = 10

_ACCEPTED = "The answer is accepted."
_USE_THE_TOOL = f"Give your answer by calling {FINAL_ANSWER}; a text alone is not taken."


class OutputSchema:
    """A JSON Schema that an answer has to satisfy."""

    def __init__(self, schema: Mapping[str, JsonValue]) -> None:
        """Raises: BadRequest for what is no schema of an object, refers to another document, or is too large."""
        import jsonschema_rs  # with the first schema: most sessions never have one

        if bounded_input(dict(schema)) is None or len(to_json(schema)) > MAX_SCHEMA_BYTES:
            raise BadRequest(f"output_schema is too large: give at most {MAX_SCHEMA_BYTES // 1024} KiB, less nested.")
        if schema.get("type") != "object":
            raise BadRequest('output_schema must describe an object: give it "type": "object".')
        try:
            self._validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
        except ValueError as error:
            said = str(error).partition("\n")[0]
            raise BadRequest(f"output_schema is no JSON Schema that can be used: {said[:300]}.") from error
        self.schema = schema

    def problems(self, value: object) -> str:
        """What is wrong with a value, one line each; empty where it fits."""
        lines = []
        for error in self._validator.iter_errors(value):
            where = ".".join(map(str, error.instance_path)) or "the answer"
            lines.append(f"- {where}: {error.message[:300]}")
            if len(lines) == _MAX_NAMED:
                break
        return "\n".join(lines)

    def read(self, text: str) -> dict[str, JsonValue]:
        """Parse an answer's text. Raises: ValueError with what is wrong, for the model."""
        try:
            value = from_json(_unfenced(text), allow_inf_nan=False)
        except ValueError:
            raise ValueError("- the answer: it is no JSON") from None
        answer = bounded_input(value)
        if answer is None:
            raise ValueError("- the answer: it is no JSON object, or is nested too deeply")
        if problems := self.problems(answer):
            raise ValueError(problems)
        return answer


class FinalAnswer:
    """The tool by which a model answers where its vendor cannot hold it to a schema."""

    def __init__(self, schema: OutputSchema) -> None:
        self.spec = ToolSpec(
            name=FINAL_ANSWER,
            description="Give the final answer to the prompt. Call it once, alone, when everything else is done.",
            input=_input_model(schema),
            read_only=True,
        )

    async def run(self, input: Any, room: ToolRoom) -> Outcome:
        return Outcome(_ACCEPTED)

    def preview(self, input: Any) -> str | None:
        return None


class StructuredEnding:
    """Lets a run end only with an answer that fits. Satisfies the Ending port."""

    def __init__(self, schema: OutputSchema, *, by_tool: bool) -> None:
        self._schema = schema
        self.tool = FinalAnswer(schema) if by_tool else None
        """What the run's tools have to hold besides."""
        self._objections = 0

    @property
    def schema(self) -> Mapping[str, JsonValue]:
        return self._schema.schema

    def with_tool(self, tools: Sequence[ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """The tools that the model is told of, sorted by name."""
        added = [] if self.tool is None else [self.tool.spec.definition()]
        return tuple(sorted((*tools, *added), key=lambda tool: tool.name))

    def is_answered(self, messages: Sequence[Message]) -> bool:
        return _accepted_call(messages) is not None

    def objection(self, answer: str) -> str | None:
        """What to tell the model in place of ending. Raises: RunFailed when it was told often enough."""
        try:
            self._schema.read(answer)
        except ValueError as problems:
            if self._objections == MAX_OBJECTIONS:
                raise RunFailed(
                    "invalid_structured_output",
                    f"The model gave {MAX_OBJECTIONS + 1} answers that do not fit output_schema. Simplify the schema,"
                    " or use another model.",
                ) from None
            self._objections += 1
            return _USE_THE_TOOL if self.tool else _told(str(problems))
        return None

    def value(self, messages: Sequence[Message]) -> dict[str, JsonValue] | None:
        """The answer of a run that has ended well; None where there is none (the run ended otherwise)."""
        if (called := _accepted_call(messages)) is not None:
            return called
        last = messages[-1] if messages else None
        if last is None or last.role != "assistant":
            return None
        try:
            return self._schema.read(last.text)
        except ValueError:
            return None


def _told(problems: str) -> str:
    return f"Your answer does not have the form that was asked for:\n{problems}\nAnswer again, with the JSON alone."


def _accepted_call(messages: Sequence[Message]) -> dict[str, JsonValue] | None:
    """The input of a `final_answer` that the last batch accepted."""
    if len(messages) < 2 or messages[-1].role != "user":
        return None
    accepted = {block.call_id for block in messages[-1].content if isinstance(block, ToolResult) and not block.is_error}
    calls = (call for call in messages[-2].tool_calls if call.name == FINAL_ANSWER and call.id in accepted)
    return next((dict(call.input) for call in calls if call.input is not None), None)


def _input_model(schema: OutputSchema) -> type[RootModel[dict[str, JsonValue]]]:
    """A model for the tool's input that is checked by the schema and described by it."""

    class Answer(RootModel[dict[str, JsonValue]]):
        @model_validator(mode="after")
        def _fits(self) -> Self:
            if problems := schema.problems(self.root):
                raise ValueError(f"it does not have the form that was asked for:\n{problems}")
            return self

        @classmethod
        def model_json_schema(cls, *args: object, **kwargs: object) -> dict[str, Any]:
            return dict(schema.schema)

    return Answer


def _unfenced(text: str) -> str:
    """The text without the Markdown fence that models put around JSON."""
    text = text.strip()
    if text.startswith("```") and text.endswith("```"):
        text = text[3:-3].removeprefix("json")
    return text


def _refuse(uri: str) -> Any:
    """No schema may make this process read a file or open a connection."""
    raise ValueError("references to other documents are not followed")
