"""What a PermissionRequest hook changes for good with its yes: `updatedPermissions`, read into rules and a mode. Pure.

It does what a person's `always` does, and no more: allow rules, for the session or in the user's own private files,
and the mode of the session.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentcore.events import Mode, Scope
from agentcore.permissions.rulebook import check_allow
from agentcore.permissions.rules import BadRule, parse_rule

MAX_UPDATES = 100
_SCOPES: Mapping[str, Scope] = {
    "session": "session",
    "localSettings": "project",
    "projectSettings": "project",  # nothing is ever written into a repository: the user's private file for it
    "userSettings": "user",
}
_MODES: Mapping[str, Mode] = {
    "default": "default",
    "manual": "default",
    "acceptEdits": "accept-edits",
    "plan": "plan",
    "auto": "auto",
    "dontAsk": "deny",
    "bypassPermissions": "yolo",
}


@dataclass(frozen=True, slots=True)
class Updates:
    rules: tuple[tuple[str, Scope], ...] = ()
    """Allow rules, each with how long it holds."""
    mode: Mode | None = None

    @property
    def of_session(self) -> "Updates":
        """Without what is written down."""
        return Updates(tuple((rule, scope) for rule, scope in self.rules if scope == "session"))


NO_UPDATES = Updates()


def read_updates(written: object, tell: Callable[[str], object]) -> Updates:
    """`tell` gets the end of a sentence for each entry that has no effect."""
    if not isinstance(written, list):
        if written is not None:
            tell("printed `updatedPermissions` that are no list: they have no effect")
        return Updates()
    rules: list[tuple[str, Scope]] = []
    mode: Mode | None = None
    for entry in written[:MAX_UPDATES]:
        kind = entry.get("type") if isinstance(entry, dict) else None
        if kind == "addRules" and entry.get("behavior") == "allow" and entry.get("destination") in _SCOPES:
            scope = _SCOPES[entry["destination"]]
            rules += [(rule, scope) for rule in _rules(entry.get("rules"), tell)]
        elif kind == "setMode" and entry.get("destination") == "session" and entry.get("mode") in _MODES:
            mode = _MODES[entry["mode"]]
        else:
            what = f"printed `updatedPermissions` ({str(kind)[:40]})"
            tell(f"{what} that are neither allow rules nor the session's mode: no effect")
    return Updates(tuple(rules), mode)


def _rules(written: object, tell: Callable[[str], object]) -> list[str]:
    rules: list[str] = []
    for one in written if isinstance(written, list) else [written]:
        try:
            rules.append(_rule(one))
        except BadRule as error:
            tell(f"printed a rule in `updatedPermissions` that cannot be used: {error}")
    return rules


def _rule(written: Any) -> str:
    """Raises: BadRule."""
    tool = written.get("toolName") if isinstance(written, dict) else None
    content = written.get("ruleContent") if isinstance(written, dict) else None
    if not isinstance(tool, str) or not (content is None or isinstance(content, str)):
        raise BadRule("it has no `toolName`")
    rule = parse_rule(f"{tool}({content})" if content else tool)
    check_allow(rule)
    return str(rule)
