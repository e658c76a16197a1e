"""JSON Schemas of pydantic models, as OpenAPI components.

Used by `openapi` alone, and never while the server runs. A model that the server reads is described as it must be
sent, one that the server sends as it will be read. The sentence below a field becomes its description; titles that
only repeat a field's name are left out.
"""

import ast
import copy
import inspect
import itertools
import textwrap
from collections.abc import Iterable
from typing import Any, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import ModelSchema

Schema: TypeAlias = dict[str, Any]
TEMPLATE = "#/components/schemas/{model}"


class ModelSchemas:
    """The schemas of a set of models and what they refer to."""

    def __init__(self, models: Iterable[tuple[type[BaseModel], bool]]) -> None:
        wanted = list(dict.fromkeys((model, _mode(is_read)) for model, is_read in models))
        self._references, found = models_json_schema(wanted, ref_template=TEMPLATE, schema_generator=_Described)
        self.definitions: dict[str, Schema] = {
            name: without_titles(schema) for name, schema in found.get("$defs", {}).items()
        }

    def reference(self, model: type[BaseModel], *, is_read: bool) -> Schema:
        return dict(self._references[model, _mode(is_read)])

    def name(self, model: type[BaseModel], *, is_read: bool) -> str:
        """The name of a model's component."""
        return str(self.reference(model, is_read=is_read)["$ref"]).rpartition("/")[2]

    def fields(self, model: type[BaseModel]) -> dict[str, tuple[Schema, bool]]:
        """The fields of a model that is read from strings: schema and whether it must be there."""
        schema = self._resolved(model)
        required = schema.get("required", [])
        fields = schema.get("properties", {})
        return {name: (_without_null(field), name in required) for name, field in fields.items()}

    def has_required(self, model: type[BaseModel]) -> bool:
        return bool(self._resolved(model).get("required"))

    def _resolved(self, model: type[BaseModel]) -> Schema:
        return self.definitions[self.name(model, is_read=True)]


class _Described(GenerateJsonSchema):
    """Adds the sentences below the fields of a model."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        for name, text in field_texts(schema["cls"]).items():
            field = described.get("properties", {}).get(name)
            if field is not None:
                field.setdefault("description", text)
        return described


def field_texts(model: type) -> dict[str, str]:
    """The strings below the fields of a class and its bases, by the name that the field has in JSON."""
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base.__module__.partition(".")[0] != "pydantic":
            texts.update(_own_field_texts(base))
    return texts


def _own_field_texts(model: type[BaseModel]) -> dict[str, str]:
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except OSError:  # made at run time: there is no source
        return {}
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    texts: dict[str, str] = {}
    for statement, below in itertools.pairwise(body):
        match statement, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                field = model.model_fields.get(name)
                texts[(field and field.alias) or name] = inspect.cleandoc(text)
            case _:
                pass
    return texts


def used(schemas: dict[str, Schema], document: Any) -> dict[str, Schema]:
    """The components that the document refers to, directly or through others, by name."""
    found: set[str] = set()
    open_ends = _referred(document)
    while open_ends:
        found |= open_ends
        open_ends = _referred([schemas[name] for name in open_ends]) - found
    return {name: schemas[name] for name in sorted(found)}


def _referred(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(_referred, node))
    if not isinstance(node, dict):
        return set()
    target = node.get("$ref")
    own = {target.removeprefix(TEMPLATE.format(model=""))} if isinstance(target, str) else set()
    return own.union(*map(_referred, node.values()))


def without_titles(schema: Any) -> Any:
    """Copy a schema without the titles that pydantic makes of names; a property called `title` stays."""
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_titles(field) for name, field in value.items()}
        if key in ("properties", "$defs")
        else without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def _mode(is_read: bool) -> JsonSchemaMode:
    return "validation" if is_read else "serialization"


def _without_null(field: Schema) -> Schema:
    """A query or a header is there or is not; it cannot be null."""
    field = copy.deepcopy(field)
    branches: list[Schema] = [branch for branch in field.pop("anyOf", []) if branch != {"type": "null"}]
    if field.get("default", ...) is None:
        del field["default"]
    if len(branches) == 1:
        return field | branches[0]
    return field | {"anyOf": branches} if branches else field
