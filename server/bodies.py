"""Reads what a client sent into a model, or says which field to change.

The only place where request bytes become values; routes get models and trust them. JSON is taken strictly: a name
given twice, NaN, an infinite number, half a surrogate pair or very deep nesting is refused, since two readers
could understand it differently. Promise: whatever is sent, the failure is a 400 with a sentence that names the
field; values are never repeated in it, but for plain words where a list of words is expected.
"""

import json
import math
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from server.problems import Problem
from server.schemas import FORMS

T = TypeVar("T", bound=BaseModel)

MAX_QUERY_FIELDS = 64
MAX_NAMED = 5  # problems named in the sentence; `details` has up to MAX_DETAILS
MAX_DETAILS = 50
MAX_NAME = 80  # characters of a field name that are repeated


async def read_body(request: Request, model: type[T]) -> T:
    """Read the JSON body; an empty one counts as `{}`. Raises: Problem `bad_request`."""
    return parse_body(await request.body(), model)


def parse_body(raw: bytes, model: type[T]) -> T:
    """Parse the bytes of a body. Raises: Problem `bad_request`."""
    raw = raw if raw.strip() else b"{}"
    _check_json(raw)
    try:
        return model.model_validate_json(raw, strict=True)
    except ValidationError as error:
        raise _refusal("the request body", error, model) from None


def read_query(request: Request, model: type[T]) -> T:
    """Read the query. A parameter that is unknown or given twice is refused. Raises: Problem `bad_request`."""
    raw = request.scope["query_string"]
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_QUERY_FIELDS)
    except ValueError:  # UnicodeDecodeError is one
        raise Problem("bad_request", "The query cannot be read; send name=value pairs in UTF-8.") from None
    return _validate_strings("the query", _unique(pairs, "query parameter"), model)


def read_headers(request: Request, model: type[T]) -> T:
    """Read the headers that the model names (`last_event_id` is `Last-Event-ID`); the others are not its matter.

    Raises: Problem `bad_request`.
    """
    wanted = {name.replace("_", "-"): name for name in model.model_fields}
    found = [(wanted[name], value) for name, value in request.headers.items() if name in wanted]
    return _validate_strings("the headers", _unique(found, "header"), model)


def _validate_strings(what: str, values: dict[str, str], model: type[T]) -> T:
    try:
        return model.model_validate_strings(values)
    except ValidationError as error:
        raise _refusal(what, error, model) from None


def _unique(pairs: Sequence[tuple[str, str]], kind: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise Problem("bad_request", f"The {kind} {_quoted(name)} is given twice; send it once.")
        values[name] = value
    return values


def _check_json(raw: bytes) -> None:
    """Refuse what the model's own parser would let pass: doubled names, NaN, infinite numbers, non-objects."""
    try:
        value = json.loads(
            raw.decode(), object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite
        )
    except UnicodeDecodeError:
        raise Problem("bad_request", "The request body is not UTF-8.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise Problem("bad_request", f"The request body is not JSON ({where}); send one JSON object.") from None
    except RecursionError:
        raise Problem("bad_request", "The request body is nested too deeply.") from None
    except ValueError:  # more digits than Python converts
        raise Problem("bad_request", "The request body has a number that is too large.") from None
    if not isinstance(value, dict):
        raise Problem("bad_request", "The request body is not a JSON object; send {…}.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise Problem("bad_request", f"The request body has {_quoted(name)} twice in one object; send it once.")
        values[name] = value
    return values


def _refuse_constant(name: str) -> NoReturn:
    raise Problem("bad_request", f"The request body has {name}, which is not JSON.")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise Problem("bad_request", "The request body has a number that is too large.")
    return number


def _refusal(what: str, error: ValidationError, model: type[BaseModel]) -> Problem:
    errors = error.errors(include_url=False, include_input=False, include_context=True)
    fields = [{"field": _path(item), "problem": _problem(item, model)} for item in errors[:MAX_DETAILS]]
    named = "; ".join(
        f"{_quoted(field['field'])} {field['problem']}" if field["field"] else field["problem"]
        for field in fields[:MAX_NAMED]
    )
    more = f"; and {len(errors) - MAX_NAMED} more" if len(errors) > MAX_NAMED else ""
    return Problem("bad_request", f"Cannot use {what}: {named}{more}.", {"fields": fields})


def _path(error: ErrorDetails) -> str:
    return ".".join(_short(str(part)) for part in error["loc"])


def _problem(error: ErrorDetails, model: type[BaseModel]) -> str:
    """Say what is wrong with a field as the end of a sentence that begins with its name."""
    match error["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden" if len(error["loc"]) == 1:
            return f"is not known here; known are: {_known(model)}"
        case "extra_forbidden":
            return "is not known here"
        case "string_pattern_mismatch":
            return FORMS.get(str(error.get("ctx", {}).get("pattern")), "has not the form that /openapi.yaml tells")
        case "json_invalid":
            return "it holds a character or a nesting that JSON does not allow"
        case _:
            text = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
            return text[:1].lower() + text[1:]


def _known(model: type[BaseModel]) -> str:
    return ", ".join(field.alias or name for name, field in model.model_fields.items()) or "none"


def _quoted(name: str) -> str:
    return f'"{_short(name)}"'


def _short(name: str) -> str:
    return name if len(name) <= MAX_NAME else name[:MAX_NAME] + "…"
