"""All rules that hold for a session, and the reading of the lists that a settings file holds."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from agentcore.origin import Origin
from agentcore.permissions.commands import why_it_settles_nothing
from agentcore.permissions.names import SPELLING, is_known
from agentcore.permissions.rules import PATH_TOOLS, BadRule, Effect, Rule, held_widely, parse_entry, parse_rule

EFFECTS: tuple[Effect, ...] = get_args(Effect)
_SHOWN_CHARS = 80
_MCP_ALLOW = re.compile(r"mcp__[^*]+__.*")
_FIELD = re.compile(r"[A-Za-z_-]\w*:")
_PATTERNED = PATH_TOOLS | {"bash", "skill", "task"}
"""Tools whose spec is a pattern for the command, a path or a name; `field:value` besides, for deny and ask."""


@dataclass(frozen=True, slots=True)
class Rulebook:
    """The rules of a session in three lists. Immutable."""

    allow: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()

    def __add__(self, other: "Rulebook") -> "Rulebook":
        return Rulebook(self.allow + other.allow, self.ask + other.ask, self.deny + other.deny)

    def of(self, effect: Effect) -> tuple[Rule, ...]:
        lists: Mapping[Effect, tuple[Rule, ...]] = {"allow": self.allow, "ask": self.ask, "deny": self.deny}
        return lists[effect]


def read_rules(lists: Mapping[str, Any], origin: Origin) -> tuple[Rulebook, tuple[str, ...]]:
    """The rules of a `permissions` section, `{allow?: [...], ask?: [...], deny?: [...]}`, and a sentence for each entry
    that does not mean what it says.

    What cannot be read never widens: a broken deny denies the tool that it names, or every change; a broken ask asks
    about it; a broken allow allows nothing. Of a shared origin only deny and ask count.
    """
    read: dict[Effect, tuple[Rule, ...]] = {}
    notices: list[str] = []
    for effect in EFFECTS:
        read[effect] = tuple(_read_list(effect, lists.get(effect, []), origin, notices))
    return Rulebook(read["allow"], read["ask"], read["deny"]), tuple(notices)


def _read_list(effect: Effect, entries: object, origin: Origin, notices: list[str]) -> Sequence[Rule]:
    where = f"`permissions.{effect}` in {origin.name}"
    if not isinstance(entries, list):
        notices.append(f"{where} is no list of rules{_AND_SO[effect]}.")
        return () if effect == "allow" else (held_widely(str(entries), origin),)
    if effect == "allow" and origin.is_shared:
        if entries:
            notices.append(f"{where} is not followed: a repository can forbid and ask, not allow.")
        return ()
    rules = []
    for entry in entries:
        try:
            rule = _read_entry(effect, entry, origin)
        except BadRule as error:
            notices.append(
                f"The rule {str(entry)[:_SHOWN_CHARS]!r} of {where} cannot be read: {error}{_AND_SO[effect]}."
            )
            if effect != "allow":
                rules.append(held_widely(str(entry), origin))
            continue
        rules.append(rule)
        if effect == "allow" and rule.tool == "bash" and rule.spec and (why := why_it_settles_nothing(rule.spec)):
            notices.append(f"The rule {str(rule)[:_SHOWN_CHARS]!r} of {where} settles nothing by itself: {why}.")
        if meant := _mistyped(rule.tool):
            notices.append(f"The rule {str(rule)[:_SHOWN_CHARS]!r} of {where} names no built-in tool: {meant} is one.")
    return rules


_AND_SO: Mapping[Effect, str] = {
    "allow": ", so it allows nothing",
    "ask": ", so every call that it may mean is asked about",
    "deny": ", so every call that it may mean is denied",
}


def _read_entry(effect: Effect, entry: object, origin: Origin) -> Rule:
    if effect == "allow":
        rule = parse_entry(entry, origin)
        check_allow(rule)
        return rule
    if not isinstance(entry, str):  # what forbids does not expire
        raise BadRule("it is no text")
    return parse_rule(entry, origin)


def check_allow(rule: Rule) -> None:
    """Raises: BadRule for what may forbid and ask but not allow."""
    if "*" in rule.tool and not _MCP_ALLOW.fullmatch(rule.tool):
        raise BadRule("`*` in the name of a tool that is allowed stands only behind a server, as in `mcp__server__*`")
    is_domain = rule.tool == "web_fetch" and rule.spec is not None and rule.spec.startswith("domain:")
    if rule.spec is None or is_domain or rule.tool in _PATTERNED:
        return
    if _FIELD.match(rule.spec):
        raise BadRule("`field:value` can forbid and ask, not allow")
    raise BadRule(f"{rule.tool} takes no pattern")


def _mistyped(tool: str) -> str | None:
    """The tool that a name was probably meant for. Other names stay: MCP servers and commands bring tools."""
    if is_known(tool) or "_" in tool or "*" in tool:
        return None
    near = difflib.get_close_matches(tool, [spelling.lower() for spelling in SPELLING.values()], n=1, cutoff=0.75)
    return next((spelling for spelling in SPELLING.values() if [spelling.lower()] == near), None)
