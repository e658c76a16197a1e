"""Tools that are commands of the user's: `[[tools]]` in his own settings. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from agentcore.origin import Origin
from agentcore.settings.documents import Document
from agentcore.settings.names import did_you_mean, shown_name

_Text = Annotated[str, StringConstraints(max_length=10_000)]


class ToolSection(BaseModel):
    """`[[tools]]` as it stands in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    description: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
    argv: Annotated[list[_Text], Field(min_length=1)]
    input_schema: Annotated[dict[str, Any], Field(alias="schema")] = {"type": "object", "properties": {}}
    tags: list[_Text] = []


@dataclass(frozen=True, slots=True)
class CommandTool:
    """A command that the model may call like a tool."""

    name: str
    description: str
    argv: tuple[str, ...]
    """Template: program and arguments, without a shell."""
    input_schema: Mapping[str, Any]
    """JSON Schema of its input, an object."""
    tags: tuple[str, ...]
    origin: Origin


def read_tools(entries: object, origin: Origin, document: Document) -> tuple[list[CommandTool], list[str]]:
    """The tools of a list, and a sentence for each that cannot be used."""
    if not isinstance(entries, list):
        return [], [f"`tools` in {document.place('tools')} is no list and has no effect: write [[tools]]."]
    tools: list[CommandTool] = []
    notices = []
    for number, entry in enumerate(entries, 1):
        try:
            tool = _read(entry, origin)
            if any(tool.name == one.name for one in tools):
                raise ValueError("there is one of that name before it")
            tools.append(tool)
        except ValueError as error:
            notices.append(f"Number {number} of [[tools]] in {document.name} cannot be used: {error}.")
    return tools, notices


def _read(entry: object, origin: Origin) -> CommandTool:
    if not isinstance(entry, dict):
        raise ValueError("it is no table")
    try:
        parsed = ToolSection.model_validate(entry)
    except ValidationError as error:
        raise ValueError(_told(error)) from None
    if parsed.input_schema.get("type") != "object":
        raise ValueError('`schema` is the JSON Schema of an object: it has type = "object"')
    return CommandTool(
        parsed.name, parsed.description, tuple(parsed.argv), parsed.input_schema, tuple(parsed.tags), origin
    )


def _told(error: ValidationError) -> str:
    first = error.errors(include_input=False, include_url=False)[0]
    key = ".".join(shown_name(str(part)) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = ("name", "description", "argv", "schema", "tags")
        return f"`{key}` is no key of it{did_you_mean(key, known)}"
    if first["type"] == "string_pattern_mismatch":
        return "its name has small letters, digits and underscores, and begins with a letter"
    return f"`{key}`: {first['msg'][:1].lower()}{first['msg'][1:]}"
