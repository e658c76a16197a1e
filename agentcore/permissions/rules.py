"""A permission rule as text and value: `Tool` or `Tool(spec)`. What it covers is said in `matching`."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, TypeAlias

from agentcore.origin import Origin
from agentcore.permissions.names import NAMED_BY, is_known, named_word, native_name, spelled

Effect: TypeAlias = Literal["allow", "ask", "deny"]

SESSION = Origin("session")
"""Of a rule that a person granted, which stands in no file."""
ANY_TOOL = "*"
PATH_TOOLS = frozenset({"read", "write", "edit", "multi_edit", "grep", "glob", "ls"})
"""Their specs are patterns of paths."""
MAX_RULE_CHARS = 20_000  # twice the longest command that a rule can settle, all of it escaped

_RULE = re.compile(r"([A-Za-z*][\w*.-]*)(?:\((.*)\))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z]\w*")
_FIELD = re.compile(r"[A-Za-z_-]\w*:(?!\*$)")
_ANY_ARGUMENTS = re.compile(r"(?:\s+|:)\*$")


class BadRule(ValueError):
    """The text is no rule; the sentence says why."""


@dataclass(frozen=True, slots=True)
class Rule:
    tool: str
    """Native name, lower case; may hold `*`."""
    spec: str | None = None
    """None: all that the tool does."""
    origin: Origin = SESSION
    broken: str | None = None
    """What was written, where it could not be read and is held as widely as it may have been meant."""
    expires_at: float | None = None
    """Of an allow rule: Unix time in seconds from which on it allows nothing more; None: it stays."""

    def __str__(self) -> str:
        if self.broken is not None:
            return self.broken
        name = spelled(self.tool)
        return name if self.spec is None else f"{name}({self.spec})"


def parse_rule(text: str, origin: Origin = SESSION) -> Rule:
    """Read a rule. Raises: BadRule."""
    text = text.strip()
    if len(text) > MAX_RULE_CHARS:
        raise BadRule(f"it is longer than {MAX_RULE_CHARS} characters")
    match = _RULE.fullmatch(text)
    if match is None:
        raise BadRule("it is neither a tool's name, such as `Bash`, nor one with a pattern, such as `Bash(git *)`")
    tool, spec = native_name(match[1]), match[2]
    if spec is None or spec == "*" or (tool == "web_fetch" and spec == "domain:*"):
        return Rule(tool, None, origin)
    if not spec.strip():
        raise BadRule("there is nothing between its parentheses: leave them out, or say what they mean")
    if "\0" in spec:
        raise BadRule("it contains a NUL character")
    if tool == "web_fetch":
        spec = _domain(spec)
    elif tool in PATH_TOOLS:
        _check_path(spec)
    elif tool in NAMED_BY:
        _check_name(spec, spelled(tool))
    return Rule(tool, spec, origin)


def parse_entry(entry: object, origin: Origin = SESSION) -> Rule:
    """An entry of an allow list: a rule, or `{rule, expires_at}` with a time. Raises: BadRule."""
    expiring: Mapping[str, object] = entry if isinstance(entry, Mapping) else {}
    if expiring.keys() != {"rule", "expires_at"}:
        return parse_rule(_text(entry), origin)
    return replace(parse_rule(_text(expiring["rule"]), origin), expires_at=_time(expiring["expires_at"]))


def _text(entry: object) -> str:
    """Raises: BadRule."""
    if not isinstance(entry, str):
        raise BadRule("it is no text")
    return entry


def _time(value: object) -> float:
    """Raises: BadRule."""
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.timestamp()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise BadRule("`expires_at` is a time with its zone, such as 2026-12-31T18:00:00Z")


def held_widely(text: str, origin: Origin) -> Rule:
    """A deny or ask rule that cannot be read, over all that it may have meant: the tool it names, else every change."""
    match = _NAME.match(text.strip())
    name = native_name(match[0]) if match else ""
    names_a_tool = is_known(name) or name.startswith("mcp__")
    return Rule(name if names_a_tool else ANY_TOOL, None, origin, broken=text[:200])


def rule_id(effect: Effect, rule: Rule, session: str | None = None) -> str:
    """A name for a standing rule, the same in each process: 16 hex digits."""
    parts = "\0".join((effect, str(rule), rule.origin.name, session or ""))
    return hashlib.sha256(parts.encode(errors="surrogateescape")).hexdigest()[:16]


def _check_path(spec: str) -> None:
    """Raises: BadRule for what gitignore reads as no pattern, or as the opposite of one."""
    if spec.startswith(("!", "#")) or "\n" in spec:
        raise BadRule("a path begins with neither `!` nor `#`, and has one line: put a backslash before the character")


def name_in(spec: str) -> str:
    """The name that a rule such as `Skill(deploy)` means; ` *` and `:*` behind it stand for any arguments."""
    return named_word(_ANY_ARGUMENTS.sub("", spec.strip()))


def _check_name(spec: str, tool: str) -> None:
    """Raises: BadRule for what is neither a name nor `field:value`: it would mean nothing."""
    if not _FIELD.match(spec) and not re.fullmatch(r"[^\s()]+", name_in(spec)):
        raise BadRule(f"what {tool} may be used with is a name, such as `{tool}(deploy)`, whatever its arguments")


def _domain(spec: str) -> str:
    """Raises: BadRule unless it is `domain:` and a host, or another `field:value`."""
    field, colon, value = spec.partition(":")
    value = value.strip()
    if not colon or not value:
        raise BadRule("what WebFetch may fetch is said by `domain:`, such as `WebFetch(domain:example.com)`")
    if field != "domain":
        return spec
    host = value.removeprefix("*.")
    if not re.fullmatch(r"[^\s/:@*?#\\]+", host):
        raise BadRule(f"`{value[:80]}` is no host name: leave out scheme, port and path")
    return f"domain:{value.removesuffix(host)}{_ascii(host)}"


def _ascii(host: str) -> str:
    """A host as addresses have it. Raises: BadRule."""
    host = host.lower().rstrip(".")
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise BadRule(f"`{host[:80]}` is no host name") from None
