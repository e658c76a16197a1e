"""What a server lists, each entry held to what the SDK asks of it: one that is wrong would make it refuse them all."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

MAX_LISTED = 1_000
"""Tools, or prompts, of one server; more than that no model finds its way in."""
_MOST_MISTAKES = 100
_MOST_CHARS = 200
_METHODS = {"tools": "tools/list", "prompts": "prompts/list"}
"""By the key that holds their entries."""
_FIRST_VERSION = "2025-11-25"
"""Of the protocol, until it is known; as the SDK has it."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An entry that cannot be used."""

    kind: str
    """"tool" or "prompt"."""
    name: str | None
    why: str
    """The end of a sentence about it, in a stranger's words; not safe to show."""


def leave_out(result: dict[str, Any], version: str | None) -> list[LeftOut]:
    """Take out of the lists in a result what cannot be used, and what is beyond their bounds.

    And what results of tools are to look like: the SDK would hold them to that right here, and a schema of a stranger
    may cost hours.
    """
    left_out = list[LeftOut]()
    for key in _METHODS:
        entries = result.get(key)
        if isinstance(entries, list):
            found = [(entry, _what_is_wrong(entry, key, version)) for entry in entries[:MAX_LISTED]]
            entries[:] = [entry for entry, wrong in found if wrong is None]
            left_out += (LeftOut(key[:-1], _name(entry), wrong) for entry, wrong in found if wrong is not None)
    return left_out


def _what_is_wrong(entry: object, key: str, version: str | None) -> str | None:
    from pydantic import ValidationError

    if isinstance(entry, dict):
        entry.pop("outputSchema", None)
    try:
        for adapter in _adapters(key, version or _FIRST_VERSION):
            adapter.validate_python([entry], by_name=False)
        from_json(to_json(entry))  # as deep as messages go; a list with anything far deeper the SDK refuses
    except ValidationError as error:
        return f"{_place(error)} makes no sense"
    except ValueError:
        return "it is nested too deeply"
    return None


def _place(error: "ValidationError") -> str:
    """Of the first mistake, where there are so few that all may be looked at."""
    if error.error_count() > _MOST_MISTAKES:
        return "it"
    path = error.errors(include_input=False, include_url=False, include_context=False)[0]["loc"][1:]
    return f"`{'.'.join(str(part)[:_MOST_CHARS] for part in path)[:_MOST_CHARS]}`" if path else "it"


@cache
def _adapters(key: str, version: str) -> "tuple[TypeAdapter[Any], ...]":
    """The two checks that the SDK makes: of the version that is spoken, and of what it makes of all versions."""
    from mcp_types.methods import MONOLITH_RESULTS, SERVER_RESULTS
    from pydantic import TypeAdapter

    rows = (SERVER_RESULTS.get((_METHODS[key], version)), MONOLITH_RESULTS[_METHODS[key]])
    kinds: list[Any] = [row.model_fields[key].annotation for row in rows if isinstance(row, type)]
    return tuple(map(TypeAdapter, kinds))


def _name(entry: object) -> str | None:
    name = entry.get("name") if isinstance(entry, dict) else None
    return name[:_MOST_CHARS] if isinstance(name, str) and name else None
