"""A permission rule as text and value: `Tool` or `Tool(spec)`. What it covers is said in `matching`."""

import hashlib
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentcore.origin import Origin
from agentcore.permissions.names import is_known, native_name, spelled

Effect: TypeAlias = Literal["allow", "ask", "deny"]

SESSION = Origin("session")
"""Of a rule that a person granted, which stands in no file."""
ANY_TOOL = "*"
PATH_TOOLS = frozenset({"read", "write", "edit", "multi_edit", "grep", "glob", "ls"})
"""Their specs are patterns of paths."""
MAX_RULE_CHARS = 20_000  # twice the longest command that a rule can settle, all of it escaped

_RULE = re.compile(r"([A-Za-z*][\w*.-]*)(?:\((.*)\))?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z]\w*")


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
    return Rule(tool, spec, origin)


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
