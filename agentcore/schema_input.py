"""A tool's input that is described by a JSON Schema rather than by a model: commands of the user's, foreign tools.

The schema is what the model is told, and what an input is held to before anybody is asked about the call. The check
runs in the server itself, so only schemas that its owner wrote belong here; one of a stranger's may cost hours.
"""

from collections.abc import Mapping
from typing import Any, Self, TypeAlias

from pydantic import JsonValue, RootModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from agentcore.schema_check import MAX_PROBLEMS

_MAX_CHARS = 300


class SchemaInput(RootModel[dict[str, JsonValue]]):
    """An input that fits its schema; `root` is the object."""


Model: TypeAlias = type[SchemaInput]


def schema_input(schema: Mapping[str, Any]) -> Model:
    """The model of an input that has to fit `schema`. Raises: ValueError for what is no schema of an object."""
    import jsonschema_rs

    if schema.get("type") != "object":
        raise ValueError('the schema must describe an object: give it "type": "object"')
    try:
        validator = jsonschema_rs.validator_for(dict(schema), retriever=_refuse)
    except ValueError as error:
        raise ValueError(f"it is no JSON Schema: {_first_line(error)}") from error

    class Input(SchemaInput):
        @classmethod
        def model_validate(cls, obj: Any, **kwargs: Any) -> Self:
            """Raises: ValidationError with what is wrong, each with its place."""
            parsed = super().model_validate(obj, **kwargs)
            problems: list[InitErrorDetails] = []
            for problem in validator.iter_errors(parsed.root):
                told = PydanticCustomError("json_schema", "{told}", {"told": problem.message[:_MAX_CHARS]})
                problems.append({"type": told, "loc": tuple(problem.instance_path), "input": None})
                if len(problems) == MAX_PROBLEMS:
                    break
            if problems:
                raise ValidationError.from_exception_data("Input", problems)
            return parsed

        @classmethod
        def model_json_schema(cls, *args: object, **kwargs: object) -> dict[str, Any]:
            return dict(schema)

    return Input


def _refuse(uri: str) -> Any:
    """No schema may make the server read a file or open a connection."""
    raise ValueError("references to other documents are not followed")


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:_MAX_CHARS]
