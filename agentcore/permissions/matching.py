"""What a rule covers, tool by tool: pure functions over a call, its tool and what is known about it.

A deny or ask rule is met as soon as any part of the call is meant. An allow rule has to mean all of it, and for a
shell line each command and each file in it has a rule of its own.
"""

import fnmatch
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from agentcore.messages import ToolCall
from agentcore.permissions import paths
from agentcore.permissions.commands import Match, approves, approves_line, meets
from agentcore.permissions.facts import Facts, Line
from agentcore.permissions.names import NAMED_BY, named_word
from agentcore.permissions.paths import Place
from agentcore.permissions.rules import ANY_TOOL, PATH_TOOLS, Rule, name_in
from agentcore.ports.tools import ToolSpec
from agentcore.web_address import parse_address


@dataclass(frozen=True, slots=True)
class Subject:
    """What rules are compared with."""

    call: ToolCall
    spec: ToolSpec
    facts: Facts

    def field(self, name: str) -> object:
        return (self.call.input or {}).get(name)


# --- deny and ask ---


def strongest(rules: Sequence[Rule], subject: Subject) -> tuple[Match, Rule | None]:
    """How the deny or ask rules meet a call, and the first that meets it most."""
    best, found = Match.NO, None
    for rule in rules:
        met = _met(rule, subject)
        if met > best:
            best, found = met, rule
        if best is Match.YES:
            break
    return best, found


def _met(rule: Rule, subject: Subject) -> Match:
    if rule.broken is not None and rule.tool == ANY_TOOL:
        return Match.NO if subject.spec.read_only else Match.YES
    line = subject.facts.line
    if line is not None and rule.tool in ("read", "edit", "write", "multi_edit"):
        return _met_in_line(rule, line, subject)
    if not _names(rule, subject, is_wide=True):
        return Match.NO
    if rule.spec is None or _has_value(rule.spec, subject):
        return Match.YES
    if subject.call.name == "bash":
        return Match.YES if line is None else meets(rule.spec, line.script)
    if subject.call.name == "web_fetch":
        return _as_match(_is_host(rule.spec, subject, with_subdomains=True))
    if subject.call.name in NAMED_BY:
        return _as_match(_is_named(rule.spec, subject) or _is_below(rule.spec, subject))
    places = subject.facts.places
    return _as_match(any(paths.forbids(rule, place, subject.facts.anchors) for place in places))


def _met_in_line(rule: Rule, line: Line, subject: Subject) -> Match:
    """A path rule and a shell line: redirections, and arguments of programs that read or change files.

    What only the shell will know may be any file.
    """
    reads = rule.tool == "read"
    named = (*line.writes, *line.changed, *(line.reads if reads else ()))
    if any(paths.forbids(rule, place, subject.facts.anchors) for place in named):
        return Match.YES
    possible = (*line.possible_changes, *(line.possible_reads if reads else ()))
    is_open = line.may_change or (reads and line.may_read) or line.unknown_write is not None
    is_possible = is_open or any(paths.forbids(rule, place, subject.facts.anchors) for place in possible)
    return Match.MAYBE if is_possible else Match.NO


def _as_match(is_met: bool) -> Match:
    return Match.YES if is_met else Match.NO


def is_removed(deny: Sequence[Rule], spec: ToolSpec) -> bool:
    """Whether a deny rule without a pattern forbids all that a tool does: then the model need not know it."""
    subject = Subject(ToolCall(id="", name=spec.name, input={}), spec, Facts())
    return any(rule.spec is None and _met(rule, subject) is Match.YES for rule in deny)


# --- allow ---


def is_allowed(rules: Sequence[Rule], subject: Subject, *, edits_are_allowed: bool) -> bool:
    """Whether allow rules mean all of a call. `edits_are_allowed`: files may be changed without a rule."""
    line = subject.facts.line
    if line is not None:
        return _is_line_allowed(rules, line, subject, edits_are_allowed=edits_are_allowed)
    return any(_allows(rule, subject) for rule in rules)


def _allows(rule: Rule, subject: Subject) -> bool:
    if rule.broken is not None or not _names(rule, subject, is_wide=False):
        return False
    if rule.spec is None:
        return True
    if subject.call.name == "web_fetch":
        return _is_host(rule.spec, subject, with_subdomains=False)
    if subject.call.name in NAMED_BY:
        return _is_named(rule.spec, subject)
    places = subject.facts.places
    return rule.tool in PATH_TOOLS and _all(paths.allows(rule, place, subject.facts.anchors) for place in places)


def _is_line_allowed(rules: Sequence[Rule], line: Line, subject: Subject, *, edits_are_allowed: bool) -> bool:
    specs = [rule.spec for rule in rules if rule.tool == "bash" and rule.broken is None]
    if None in specs:
        return True
    patterns = [spec for spec in specs if spec is not None]
    if any(approves_line(spec, line.script) for spec in patterns):
        return True
    if line.unknown_write is not None:
        return False
    ruled = [any(approves(spec, segment) for spec in patterns) for segment in line.script.segments]
    if not any(ruled) or not all(map(max, ruled, line.harmless)):
        return False
    return edits_are_allowed or all(_may_write(rules, place, subject) for place in line.writes)


def _may_write(rules: Sequence[Rule], place: Place, subject: Subject) -> bool:
    writers = (rule for rule in rules if rule.tool in ("edit", "write") and rule.broken is None)
    return any(paths.allows(rule, place, subject.facts.anchors) for rule in writers)


# --- by name, host and value ---


def _names(rule: Rule, subject: Subject, *, is_wide: bool) -> bool:
    """Whether a rule's tool is the call's. `is_wide`: a rule that forbids reading also forbids changing."""
    name, spec = subject.call.name.lower(), subject.spec
    if rule.tool == name:
        return True
    if rule.tool == "edit":
        return spec.edits
    if rule.tool == "read":
        return bool(spec.paths) and (spec.read_only or (is_wide and spec.edits))
    if "*" in rule.tool:
        return fnmatch.fnmatchcase(name, rule.tool)
    return rule.tool.startswith("mcp__") and "__" not in rule.tool[5:] and name.startswith(f"{rule.tool}__")


def _has_value(spec: str, subject: Subject) -> bool:
    """Whether `field:value` is what the call says; `*` in the value stands for anything.

    Of a shell command, `field:*` is the command of that name: `timeout`, `command` and `description` are both.
    """
    field, colon, wanted = spec.partition(":")
    known = subject.spec.input.model_fields
    is_prefix = subject.call.name == "bash" and wanted.strip() == "*"
    if not colon or is_prefix or (field not in known and "root" not in known):  # a JSON Schema describes any field
        return False
    value = subject.field(field)
    if value is None:
        return False
    text = str(value).lower() if isinstance(value, bool) else str(value)
    readings = _spellings(text) if (subject.call.name, field) == ("web_fetch", "url") else (text,)
    return any(fnmatch.fnmatchcase(reading, _escaped(wanted.strip())) for reading in readings)


def _spellings(url: str) -> tuple[str, ...]:
    """An address as it stands, as it would be fetched, and as the server there may read it.

    Only rules that ask or deny may speak of the whole of an address, so any of the three counts.
    """
    try:
        fetched = str(parse_address(url))
    except ValueError:
        return (url,)  # nothing is fetched
    return url, fetched, unquote(fetched)


def _escaped(text: str) -> str:
    return text.replace("[", "[[]").replace("?", "[?]")


def _is_host(spec: str, subject: Subject, *, with_subdomains: bool) -> bool:
    """Whether the URL's host is the one of a `domain:` rule: `*.example.com` are all below it."""
    url = subject.field("url")
    host = _host_of(url) if isinstance(url, str) else None
    if host is None:
        return with_subdomains  # what cannot be read is not allowed, and may be forbidden
    wanted = spec.removeprefix("domain:")
    parent = wanted.removeprefix("*.")
    if wanted != parent or with_subdomains:
        return host.endswith(f".{parent}") or (host == parent and (with_subdomains or wanted == parent))
    return host == wanted


def _host_of(url: str) -> str | None:
    """The host that would be connected to; None for what is not fetched."""
    try:
        return parse_address(url).host
    except ValueError:
        return None


def _is_named(spec: str, subject: Subject) -> bool:
    name = subject.field(NAMED_BY[subject.call.name])
    return isinstance(name, str) and fnmatch.fnmatchcase(named_word(name).lower(), _escaped(name_in(spec).lower()))


def _is_below(spec: str, subject: Subject) -> bool:
    """Whether `name:*`, read as all that stands below a name, means it: `web:*` and the command `web:build`."""
    name = subject.field(NAMED_BY[subject.call.name])
    is_group = spec.strip().endswith(":*")
    return is_group and isinstance(name, str) and named_word(name).lower().startswith(f"{name_in(spec).lower()}:")


def _all(found: Iterator[bool]) -> bool:
    """As `all`, but nothing is not everything."""
    results = list(found)
    return bool(results) and all(results)
