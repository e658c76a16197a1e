"""The parts of a settings file in our words, each read by itself, with a sentence for what has no effect."""

from collections.abc import Iterable, Mapping
from typing import Any

from agentcore.errors import Unprocessable
from agentcore.hooks.reading import HookFile, read_hooks
from agentcore.origin import Origin
from agentcore.permissions.rulebook import EFFECTS, Rulebook, read_rules
from agentcore.settings.choices import KEYS, SECTIONS, BadChoice, Choices, check
from agentcore.settings.documents import Document
from agentcore.settings.names import did_you_mean, shown_name

_TABLES = ("permissions", "hooks", "mcp_servers", "tools")
OF_THE_PROCESS = ("aliases", "lsp", "providers")
_TOP_KEYS = (*Choices.model_fields, *_TABLES, *OF_THE_PROCESS)
_PERMISSIONS = (*EFFECTS, "additional_directories")


def given_choices(data: Mapping[str, Any]) -> dict[str, Any]:
    """What a document says about choices, by dotted key, known or not."""
    given: dict[str, Any] = {}
    for name, value in data.items():
        if name not in SECTIONS:
            given[name] = value
        elif isinstance(value, dict):
            given |= {f"{name}.{key}": inner for key, inner in value.items()}
    return given


def read_choices(document: Document) -> dict[str, Any]:
    for name in SECTIONS:
        if not isinstance(document.data.get(name, {}), dict):
            raise Unprocessable(f"`{name}` in {document.place(name)} is wrong: write [{name}]. Mend it.")
    choices = {}
    for key, value in given_choices(document.data).items():
        if key in KEYS:
            try:
                choices[key] = check(key, value)
            except BadChoice as error:
                place = document.place(*key.split("."))
                raise Unprocessable(f"`{key}` in {place} is wrong: {error}. Mend it.") from None
    return choices


def unknown_keys(document: Document) -> list[str]:
    """A sentence for each key that has no effect."""

    def said(key: str, known: Iterable[str], *section: str) -> str:
        shown = ".".join((*section, shown_name(key)))
        hint = did_you_mean(key, tuple(known))
        return f"`{shown}` in {document.place(*section, key)} has no effect in this version{hint}."

    data = document.data
    found = [said(key, _TOP_KEYS) for key in data if key not in _TOP_KEYS]
    for name, section in SECTIONS.items():
        known, table = section.model_fields, data.get(name, {})
        found += [said(key, known, name) for key in table if key not in known] if isinstance(table, dict) else []
    found += [said(key, _PERMISSIONS, "permissions") for key in data.get("permissions", {}) if key not in _PERMISSIONS]
    return found


def read_permissions(
    document: Document, origin: Origin, effects: Iterable[str]
) -> tuple[Rulebook, tuple[str, ...], list[str]]:
    """The rules of these effects, the further folders, and what is wrong with them. Raises: Unprocessable."""
    section = document.data.get("permissions", {})
    if not isinstance(section, dict):
        raise Unprocessable(f"`permissions` in {document.place('permissions')} is wrong: write [permissions]. Mend it.")
    rules, said = read_rules({effect: section[effect] for effect in effects if effect in section}, origin)
    folders = section.get("additional_directories", [])
    if isinstance(folders, list) and all(isinstance(one, str) and one for one in folders):
        return rules, tuple(folders), [*said]
    notice = f"`permissions.additional_directories` in {document.name} has no effect: it is no list of folders."
    return rules, (), [*said, notice]


def read_hook_section(document: Document, origin: Origin) -> tuple[HookFile, list[str]]:
    """The hooks of a file; `disableAllHooks` is a word of another agent's files alone."""
    words = document.data if document.syntax == "JSON" else {"hooks": document.data.get("hooks")}
    hooks = read_hooks(words, origin)
    return hooks, [document.place(*one.keys) + str(one).removeprefix(origin.name) for one in hooks.problems]
