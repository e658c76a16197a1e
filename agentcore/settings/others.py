"""Files that are not ours alone: what the user wrote for another agent (`imported`), and what comes with a repository
(`shared`), which may only tighten.

Nothing here refuses. A file that cannot be read as what it should be costs its part, and every change asks, since it
may have forbidden something.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agentcore.errors import Unprocessable
from agentcore.events import Mode
from agentcore.origin import Origin
from agentcore.permissions.rulebook import EFFECTS
from agentcore.settings.choices import KEYS, BadChoice, check
from agentcore.settings.documents import Document
from agentcore.settings.layers import Layer, unreadable
from agentcore.settings.names import few, shown_name, slip
from agentcore.settings.sections import (
    OF_THE_PROCESS,
    given_choices,
    read_hook_section,
    read_permissions,
    unknown_keys,
)
from agentcore.settings.servers import read_servers


def read_imported(document: Document, origin: Origin, *, with_allow: bool | None) -> Layer:
    """What the user wrote for another agent: hooks, deny and ask, closed modes, and `with_allow` what widens; None:
    nobody has said whether it does. The rest is not ours, so nothing is said about it."""
    try:
        effects = EFFECTS if with_allow else ("deny", "ask")
        rules, folders, notices = read_permissions(_in_our_words(document), origin, effects)
    except Unprocessable as error:
        return unreadable(origin, str(error))
    section = document.data.get("permissions", {})
    notices += _not_counting(section, document.name) if with_allow is None else []
    hooks, about_hooks = read_hook_section(document, origin)
    return Layer(
        origin=origin,
        rules=rules,
        closed_modes=tuple(mode for key, mode in _CLOSING.items() if section.get(key)),
        additional_directories=folders if with_allow else (),
        hooks=hooks,
        disabled_servers=_names(document.data.get("disabledMcpjsonServers")),
        notices=few([*notices, *about_hooks, *_slips(document)], document.name),
    )


_CLOSING: Mapping[str, Mode] = {"disableBypassPermissionsMode": "yolo", "disableAutoMode": "auto"}
"""What turns a mode off. The value is `"disable"`; whatever else stands there was hardly meant to leave it on."""


def _not_counting(section: Mapping[str, Any], name: str) -> Iterator[str]:
    """A sentence about what would widen, and needs a word of the user's in his settings here."""
    kinds = (("allow", "allow rule"), ("additionalDirectories", "further folder"))
    counts = [(len(section[key]), what) for key, what in kinds if isinstance(section.get(key), list) and section[key]]
    if counts:
        told = " and ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts)
        verb = "does" if counts[0][0] == 1 and len(counts) == 1 else "do"
        yield f"{told} of {name} {verb} not count: set import_allow = true in settings.toml, or false to leave it so."


def read_shared_json(document: Document, origin: Origin) -> Layer:
    """What a repository holds for another agent: it may tighten, and ask for approvals."""
    try:
        rules, _, notices = read_permissions(_in_our_words(document), origin, ("deny", "ask"))
    except Unprocessable as error:
        return unreadable(origin, str(error))
    hooks, about_hooks = read_hook_section(document, origin)
    sandbox = document.data.get("sandbox")
    is_confined = isinstance(sandbox, dict) and sandbox.get("enabled") is True
    return Layer(
        origin=origin,
        choices={"sandbox.enabled": True} if is_confined else {},
        rules=rules,
        hooks=hooks,
        disabled_servers=_names(document.data.get("disabledMcpjsonServers")),
        notices=few([*notices, *about_hooks, *_slips(document)], document.name),
        ignored=tuple(_loosening(document.data)),
    )


def read_shared_toml(document: Document, origin: Origin, may_tighten: Iterable[str]) -> Layer:
    """A repository's `.agentcore/settings.toml`: it may tighten, and ask for approvals."""
    try:
        rules, folders, notices = read_permissions(document, origin, ("deny", "ask"))
    except Unprocessable as error:
        return unreadable(origin, str(error))
    given = given_choices(document.data)
    choices: dict[str, Any] = {}
    for key in sorted(set(may_tighten) & set(given)):
        try:
            choices[key] = check(key, given[key])
        except BadChoice as error:
            notices.append(f"`{key}` in {document.place(*key.split('.'))} is wrong and has no effect: {error}.")
    hooks, about_hooks = read_hook_section(document, origin)
    servers, about_servers = read_servers(document.data.get("mcp_servers", {}), "mcp_servers", origin, document)
    loosening = [key for key in given if key in KEYS and key not in may_tighten]
    loosening += [key for key in ("tools", *OF_THE_PROCESS) if document.data.get(key)]
    loosening += ["permissions.allow"] if document.data.get("permissions", {}).get("allow") else []
    loosening += ["permissions.additional_directories"] if folders else []
    return Layer(
        origin=origin,
        choices=choices,
        rules=rules,
        hooks=hooks,
        mcp_servers=tuple(servers),
        notices=few([*notices, *unknown_keys(document), *about_hooks, *about_servers], document.name),
        ignored=tuple(loosening),
    )


def read_mcp_json(document: Document, origin: Origin) -> Layer:
    """A `.mcp.json`: the servers that a repository brings."""
    servers, notices = read_servers(document.data.get("mcpServers", {}), "mcpServers", origin, document)
    return Layer(origin=origin, mcp_servers=tuple(servers), notices=few(notices, document.name))


# --- the words of another agent ---

_LOOSENING: Mapping[str, Callable[[Any], bool]] = {
    "permissions.allow": bool,
    "permissions.additionalDirectories": bool,
    "permissions.defaultMode": bool,
    "permissions.disableAutoMode": bool,
    "permissions.disableBypassPermissionsMode": bool,
    "model": bool,
    "env": bool,
    "sandbox.enabled": lambda value: value is False,
    "disableAllHooks": bool,
    "enableAllProjectMcpServers": bool,
    "enabledMcpjsonServers": bool,
}
"""Keys of `.claude/settings.json` that a repository's file has without effect, and when that is worth a word. (The two
that forbid a mode are here because that is the server's `--allow-yolo` alone.)"""


def _loosening(data: Mapping[str, Any]) -> Iterable[str]:
    for key, matters in _LOOSENING.items():
        section, dot, name = key.partition(".")
        table = data.get(section, {}) if dot else data
        if isinstance(table, dict) and matters(table.get(name if dot else section)):
            yield key


def _in_our_words(document: Document) -> Document:
    section = document.data.get("permissions", {})
    if isinstance(section, dict) and "additionalDirectories" in section:
        section = {**section, "additional_directories": section["additionalDirectories"]}
    return Document(document.name, {**document.data, "permissions": section}, document.text, document.syntax)


def _slips(document: Document) -> list[str]:
    """Keys of another agent's file that can only be ours mistyped: what they forbid would be lost unseen."""
    known = ("permissions", "hooks")
    found = [(key, meant) for key in document.data if (meant := slip(key, known))]
    section = document.data.get("permissions")
    inner = section if isinstance(section, dict) else {}
    found += [(key, meant) for key in inner if (meant := slip(key, EFFECTS))]
    return [
        f"`{shown_name(key)}` in {document.place(key)} has no effect (did you mean `{meant}`?)." for key, meant in found
    ]


def _names(value: object) -> frozenset[str]:
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, list) else frozenset()
