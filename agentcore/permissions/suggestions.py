"""The rules that `always` offers for a call: the narrowest that is of use first, then wider ones.

Each one is tried before it is offered: it settles this call.
"""

import re
from collections.abc import Iterator

from agentcore.messages import ToolCall
from agentcore.permissions.facts import Facts, Line
from agentcore.permissions.matching import Subject, is_allowed
from agentcore.permissions.names import NAMED_BY, named_word
from agentcore.permissions.programs import base_name, is_interpreter, why_no_pattern
from agentcore.permissions.rules import MAX_RULE_CHARS, BadRule, Rule, parse_rule
from agentcore.permissions.shell import Segment
from agentcore.permissions.words import names
from agentcore.permissions.wrappers import unwrapped
from agentcore.ports.tools import ToolSpec

MAX_SUGGESTIONS = 4

_TWO_WORDS = names(
    "git gh npm pnpm yarn bun cargo go docker kubectl pip uv poetry make just task dotnet mvn gradle terraform helm"
    " brew apt systemctl bundle rails composer mix swift flutter dart conda"
)
"""Programs whose first argument says what they do."""
_RUN_ANYTHING = names("run exec x dlx -- apply exec-env tool ssh")
"""First arguments behind which anything may stand."""
_WIDE = names(
    """ls cat tac head tail nl wc grep egrep fgrep rg ag sort uniq cut tr comm column fold paste rev seq diff cmp file
    stat du df tree which pwd date jq yq echo basename dirname realpath readlink md5sum sha1sum sha256sum sleep true
    false pytest ruff black isort mypy pyright flake8 pylint tox nox tsc jest vitest mocha eslint prettier stylelint
    webpack vite rollup esbuild gofmt rustc rustfmt gcc clang cmake ctest ninja javac ant phpunit rspec rubocop rake
    mkdir touch ps uname id whoami hostname uptime"""
)
"""Programs of which a pattern of one word is offered by itself: they show, check or build."""


def suggested_rules(call: ToolCall, spec: ToolSpec, facts: Facts) -> tuple[Rule, ...]:
    """Rules that would each settle this call for the next time, the narrowest first; none where nothing does."""
    subject = Subject(call, spec, facts)
    found: dict[str, Rule] = {}
    for text in _candidates(subject):
        if len(found) == MAX_SUGGESTIONS:
            break
        try:
            rule = parse_rule(text)
        except BadRule:
            continue
        if is_allowed([rule], subject, edits_are_allowed=False):
            found.setdefault(str(rule), rule)
    return tuple(found.values())


def _candidates(subject: Subject) -> Iterator[str]:
    if subject.call.name == "bash":
        if subject.facts.line is not None:
            yield from _for_line(subject.facts.line)
    elif subject.call.name == "web_fetch":
        url = subject.field("url")
        if isinstance(url, str) and (host := re.match(r"(?:https?://)?([\w.-]+)", url)) is not None:
            yield f"WebFetch(domain:{host[1]})"
    elif subject.facts.places:
        yield from _for_places(subject)
    else:
        named = subject.field(NAMED_BY.get(subject.call.name, ""))
        if isinstance(named, str) and "*" not in named:
            yield str(Rule(subject.call.name, named_word(named)))
        yield str(Rule(subject.call.name))


def _for_line(line: Line) -> Iterator[str]:
    text = line.script.text.strip()
    if len(text) <= MAX_RULE_CHARS // 2:
        yield f"Bash({_escaped(text)})"
    open_segments = [
        segment for segment, harmless in zip(line.script.segments, line.harmless, strict=True) if not harmless
    ]
    if len(open_segments) == 1 and not line.writes and line.unknown_write is None:
        yield from (f"Bash({spec})" for spec in _patterns_for(open_segments[0]))


def _patterns_for(segment: Segment) -> Iterator[str]:
    """The command by itself, and the pattern of its first words."""
    if not segment.words or segment.is_special:
        return
    inner = unwrapped(segment)
    yield " ".join(_escaped(word.raw) for word in inner.words)
    name = base_name(inner.words[0])
    if name is None or is_interpreter(inner) or why_no_pattern(inner) is not None:
        return
    if name in _TWO_WORDS:
        second = inner.words[1] if len(inner.words) > 1 else None
        if second is None or not second.is_plain or second.raw.startswith("-") or second.raw in _RUN_ANYTHING:
            yield from _three_words(inner)
            return
        yield f"{_escaped(inner.words[0].raw)} {_escaped(second.raw)}:*"
    elif name in _WIDE and "/" not in inner.words[0].raw:
        yield f"{_escaped(inner.words[0].raw)}:*"


def _three_words(segment: Segment) -> Iterator[str]:
    """`npm run build:*`: the script that is named, never whatever may be."""
    words = segment.words[:3]
    if len(words) < 3 or words[1].raw != "run" or words[0].raw not in ("npm", "pnpm", "yarn", "bun"):
        return
    if words[2].is_plain and not words[2].raw.startswith("-"):
        yield f"{' '.join(_escaped(word.raw) for word in words)}:*"


def _for_places(subject: Subject) -> Iterator[str]:
    tool = "Edit" if subject.spec.edits else "Read" if subject.spec.read_only else subject.call.name
    shown = [_shown(place.named.as_posix(), subject.facts.anchors.cwd.as_posix()) for place in subject.facts.places]
    own = str(Rule(subject.call.name, shown[0]))
    if len(shown) == 1:
        yield own
        folder = shown[0].rpartition("/")[0]
        if folder:
            yield f"{tool}({folder}/**)"
    yield tool


def _shown(path: str, cwd: str) -> str:
    """A path as a pattern that means it alone: from the working folder, else from the root."""
    inside = path.removeprefix(f"{cwd}/")
    escaped = re.sub(r"([*?\[\]\\!#])", r"\\\1", inside)
    return f"./{escaped}" if inside != path else f"/{escaped}"


def _escaped(text: str) -> str:
    """A text as a pattern that means it alone."""
    return re.sub(r"([\\*])", r"\\\1", text)
