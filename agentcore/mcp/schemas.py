"""The input of a stranger's tool: what the model is told of it, and what a call is held to.

A JSON Schema of a stranger can cost its reader hours, gigabytes or the process (`$ref` twice in each of forty
definitions; one that leads to itself). What is read in this process is therefore measured first: references are
followed on paper, and only what stays small is given to the validator. Of the rest only the outermost object is
looked at; the server itself checks the whole. Nothing outside of a schema is ever read.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from agentcore.schema_input import Model, SchemaInput, schema_input

MAX_SCHEMA_BYTES = 64 * 1024
MAX_DEPTH = 40
MAX_STEPS = 5_000
"""Of reading it with all its references followed; the largest schemas of real servers take a few hundred."""
MAX_PATTERN_CHARS = 500
MAX_PATTERNS = 50

_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What every vendor takes as the name of a field."""
_TOLD = ("type", "properties", "required", "additionalProperties", "description", "$defs", "definitions")
"""What vendors take at the top: some refuse every request with `anyOf` there."""
_UNMEASURED = frozenset({"$dynamicRef", "$recursiveRef", "$id", "$schema", "$anchor", "$dynamicAnchor", "$vocabulary"})
"""What may change where a reference leads."""
_VALUES = frozenset({"const", "enum", "default", "examples", "required", "type"})
"""Keywords that hold no schemas."""
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"})
"""Keywords that hold schemas by a name, which is no keyword."""
_DRAFT = re.compile(r"https?://json-schema\.org/(?:draft-0[67]|draft/20(?:19-09|20-12))/schema#?")
"""Versions of the language that the validator has with it."""
_AT_THE_TOP = frozenset({"$schema", "$defs", "definitions"})
"""Known at the top; definitions are walked where a reference leads to them."""


class BadSchema(ValueError):
    """A tool cannot be used because of it; `str(error)` is the end of a sentence."""


class _TooMuch(Exception):
    """It may be fine, and costs too much to be sure."""


def input_of(schema: Mapping[str, Any]) -> Model:
    """The model of a tool's input. Raises: BadSchema."""
    if schema.get("type") != "object":
        raise BadSchema('its input is no object ("type": "object")')
    try:
        size = len(json.dumps(schema))
    except (RecursionError, ValueError, TypeError):
        raise BadSchema("its input schema is nested too deeply") from None
    if size > MAX_SCHEMA_BYTES:
        raise BadSchema(f"its input schema is larger than {MAX_SCHEMA_BYTES // 1024} KiB")
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise BadSchema("its input schema is no JSON Schema")
    for name in properties:
        if not _PROPERTY.fullmatch(name):
            raise BadSchema("a field of its input has a name that no model takes")
    _refuse_remote(schema)
    told = {key: schema[key] for key in _TOLD if key in schema} | {"properties": properties}
    try:
        _Measure(schema).take()
    except _TooMuch:
        return _shallow(told)
    dialect = schema.get("$schema")
    is_known = isinstance(dialect, str) and _DRAFT.fullmatch(dialect) is not None
    checked = {key: value for key, value in schema.items() if is_known or key != "$schema"}
    try:
        return _told_as(schema_input(checked), told)
    except ValueError as error:
        raise BadSchema(f"its input schema is no JSON Schema ({error})"[:300]) from None


def _refuse_remote(schema: Mapping[str, Any]) -> None:
    """Raises: BadSchema for a reference that leads out of the schema."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise BadSchema("its input schema is nested too deeply")
        if isinstance(node, dict):
            for key, value in node.items():
                if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(value, str) and value[:1] != "#":
                    raise BadSchema("its input schema refers to another document, which is not followed")
            waiting += [(value, depth + 1) for value in node.values()]
        elif isinstance(node, list):
            waiting += [(value, depth + 1) for value in node]


class _Measure:
    """Follows the references of a schema, without checking anything, and counts."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._steps = 0
        self._patterns = 0
        self._following: set[str] = set()

    def take(self) -> None:
        """Raises: _TooMuch; BadSchema for a reference that leads nowhere."""
        self._walk({key: value for key, value in self._schema.items() if key not in _AT_THE_TOP}, 0)

    def _walk(self, node: Any, depth: int) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS or depth > MAX_DEPTH:
            raise _TooMuch
        if isinstance(node, list):
            for value in node:
                self._walk(value, depth + 1)
        if not isinstance(node, dict):
            return
        if node.keys() & _UNMEASURED:
            raise _TooMuch
        self._look_at_patterns(node)
        reference = node.get("$ref")
        if isinstance(reference, str):
            self._follow(reference, depth)
        for key, value in node.items():
            if key in _BY_NAME and isinstance(value, dict):
                for inner in value.values():
                    self._walk(inner, depth + 1)
            elif key not in _VALUES:
                self._walk(value, depth + 1)

    def _follow(self, reference: str, depth: int) -> None:
        if reference in self._following:
            raise _TooMuch  # it leads to itself
        self._following.add(reference)
        self._walk(self._target(reference), depth + 1)
        self._following.discard(reference)

    def _target(self, reference: str) -> Any:
        node: Any = self._schema
        for part in _parts(reference):
            if isinstance(node, dict) and part in node:
                node = node[part]
            elif isinstance(node, list) and part.isdigit() and int(part) < len(node):
                node = node[int(part)]
            else:
                raise BadSchema("a reference in its input schema leads nowhere")
        return node

    def _look_at_patterns(self, node: Mapping[str, Any]) -> None:
        found = [node.get("pattern")]
        by_name = node.get("patternProperties")
        found += by_name if isinstance(by_name, dict) else ()
        for pattern in found:
            if isinstance(pattern, str):
                self._patterns += 1
                if len(pattern) > MAX_PATTERN_CHARS or self._patterns > MAX_PATTERNS:
                    raise _TooMuch


def _parts(reference: str) -> Iterator[str]:
    """The steps of a JSON pointer behind `#`."""
    for part in reference[1:].split("/")[1:]:
        yield part.replace("~1", "/").replace("~0", "~").replace("%25", "%")


def _told_as(model: Model, told: Mapping[str, Any]) -> Model:
    class Input(model):  # type: ignore[valid-type, misc]  # the base is made at run time
        @classmethod
        def model_json_schema(cls, *args: object, **kwargs: object) -> dict[str, Any]:
            return dict(told)

    return Input


def _shallow(told: Mapping[str, Any]) -> Model:
    """Hold an input to its required fields alone."""
    required = [name for name in told.get("required", ()) if isinstance(name, str)]

    class Input(SchemaInput):
        @classmethod
        def model_validate(cls, obj: Any, **kwargs: Any) -> Self:
            parsed = super().model_validate(obj, **kwargs)
            problems: list[InitErrorDetails] = [
                {"type": PydanticCustomError("json_schema", "is required"), "loc": (name,), "input": None}
                for name in required
                if name not in parsed.root
            ]
            if problems:
                raise ValidationError.from_exception_data("Input", problems)
            return parsed

        @classmethod
        def model_json_schema(cls, *args: object, **kwargs: object) -> dict[str, Any]:
            return dict(told)

    return Input
