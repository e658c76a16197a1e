"""Whether a JSON Schema is of the part that the vendor can enforce (`strict`).

Its rules: every object names all its properties as required and allows no others, and the root is an object. Of the
keywords only those are let through here that its guide to structured outputs allows for every model: a schema with
another one is sent all the same, only not as strict.
"""

from collections.abc import Iterator

from pydantic import JsonValue

_KEYWORDS = frozenset(
    [
        "$defs",
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "description",
        "enum",
        "items",
        "properties",
        "required",
        "title",
        "type",
    ]
)


def meets_strict_rules(schema: dict[str, JsonValue]) -> bool:
    return schema.get("type") == "object" and "anyOf" not in schema and _is_strict(schema)


def _is_strict(schema: JsonValue) -> bool:
    if not isinstance(schema, dict) or not schema.keys() <= _KEYWORDS:
        return False
    return _is_closed(schema) and all(map(_is_strict, _inner(schema)))


def _is_closed(schema: dict[str, JsonValue]) -> bool:
    """Whether it describes no object, or one whose properties are all required and the only ones."""
    kinds, properties = schema.get("type"), schema.get("properties", {})
    is_object = kinds == "object" or (isinstance(kinds, list) and "object" in kinds) or "properties" in schema
    if not is_object:
        return True
    required = schema.get("required", [])
    return (
        schema.get("additionalProperties") is False
        and isinstance(properties, dict)
        and isinstance(required, list)
        and all(name in required for name in properties)
        and len(required) == len(properties)
    )


def _inner(schema: dict[str, JsonValue]) -> Iterator[JsonValue]:
    """The schemas directly inside of this one."""
    for key in ("properties", "$defs"):
        members = schema.get(key, {})
        yield from members.values() if isinstance(members, dict) else [members]
    choices = schema.get("anyOf", [])
    yield from choices if isinstance(choices, list) else [choices]
    if "items" in schema:
        yield schema["items"]
