"""Checks a value against a JSON Schema, bytes in and bytes out: what `confined` runs for `structured`.

A small schema can cost a validator hours and gigabytes (`$ref` twice in each of forty definitions), so this never
runs in the server itself. Nothing that a schema refers to outside itself is read.
"""

from typing import Any

from pydantic_core import from_json, to_json

from agentcore.errors import Unprocessable

MAX_PROBLEMS = 10
_MAX_CHARS = 300


def check(request: bytes) -> bytes:
    """`{"schema": …, "value": …}` to the list of what is wrong with the value, empty where it fits; without a value
    only the schema is looked at. Raises: Unprocessable for what is no schema."""
    import jsonschema_rs

    asked: dict[str, Any] = from_json(request)
    try:
        validator = jsonschema_rs.validator_for(asked["schema"], retriever=_refuse)
    except ValueError as error:
        raise Unprocessable(str(error).partition("\n")[0][:_MAX_CHARS]) from error
    if "value" not in asked or validator.is_valid(asked["value"]):
        return b"[]"
    problems = []
    for problem in validator.iter_errors(asked["value"]):
        where = ".".join(map(str, problem.instance_path)) or "the answer"
        problems.append(f"{where}: {problem.message[:_MAX_CHARS]}")
        if len(problems) == MAX_PROBLEMS:
            break
    return to_json(problems)


def _refuse(uri: str) -> Any:
    """No schema may make a process read a file or open a connection."""
    raise ValueError("references to other documents are not followed")
