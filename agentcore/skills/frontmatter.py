"""The head of a `SKILL.md`: a few lines of YAML between two lines of dashes.

Every scalar stays the text that it is: no dates, no objects, nothing is made of it. Keys that mean nothing here are
left alone, so that files written for other agents work as they are.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_HEAD_CHARS = 16_384
"""Ten times what is listed of a description."""
MAX_BRACKETS = 200
"""The parser's time grows with the square of them."""
_HEAD = re.compile(r"\A---[ \t]*\n(.*?)(?:^|\n)---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_BARE = re.compile(r"""^([\w-]+:[ \t]+)(?!["'|>\[{&*!])(\S.*)$""", re.MULTILINE)
"""A key with a value that is not quoted: people write colons into sentences."""
_TRUE, _FALSE = frozenset({"true", "yes", "on", "1"}), frozenset({"false", "no", "off", "0"})


class BadHead(Exception):
    """The head cannot be read; `line` counts in the file, from 1."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


@dataclass(frozen=True, slots=True)
class Head:
    """What the head says. A value of the wrong kind counts as missing, and `odd` says so."""

    values: Mapping[str, Any] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)

    def text(self, key: str) -> str:
        value = self.values.get(key, "")
        if isinstance(value, str):
            return value.strip()
        self.odd.append(f"`{key}` is no text")
        return ""

    def is_on(self, key: str, *, otherwise: bool, when_odd: bool) -> bool:
        """A switch; `when_odd` is the careful side, for a word that is neither yes nor no."""
        value = self.values.get(key)
        if value is None:
            return otherwise
        word = value.strip().lower() if isinstance(value, str) else ""
        if word in _TRUE | _FALSE:
            return word in _TRUE
        self.odd.append(f"`{key}` is neither true nor false")
        return when_odd

    def words(self, key: str) -> tuple[str, ...]:
        """A list, or a text with commas or blanks between its parts; not within parentheses or braces."""
        value = self.values.get(key, "")
        if isinstance(value, str):
            return _parts(value)
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return tuple(part.strip() for part in value if part.strip())
        self.odd.append(f"`{key}` is no list of words")
        return ()


def split(text: str) -> tuple[str, str]:
    """The head, empty where there is none, and the body. Raises: BadHead for one without an end."""
    found = _HEAD.match(text)
    if found is not None:
        return found[1], text[found.end() :]
    if text.startswith("---\n"):
        raise BadHead(1, "its frontmatter has no end")
    return "", text


def read_head(head: str) -> Head:
    """Raises: BadHead."""
    if len(head) > MAX_HEAD_CHARS:
        raise BadHead(1, f"its frontmatter is longer than {MAX_HEAD_CHARS:,} characters")
    if head.count("[") + head.count("{") > MAX_BRACKETS:
        raise BadHead(1, f"its frontmatter has more than {MAX_BRACKETS} brackets")
    try:
        found = _loaded(head)
    except BadHead:
        found = _loaded_leniently(head)
    if found is None:
        return Head()
    if not isinstance(found, dict):
        raise BadHead(2, "its frontmatter holds no keys")
    return Head({str(key): value for key, value in found.items()})


def typed(text: str, key: str) -> Any:
    """The value of one key of a head that can be read, with numbers and switches; None where there is none."""
    import yaml  # late: a start does not wait for it

    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        return read_head(text).values.get(key)
    return found.get(key) if isinstance(found, dict) else None


def _loaded_leniently(head: str) -> Any:
    """As other agents read it: a sentence with a colon in it is a sentence. Raises: BadHead, with the first reason."""
    try:
        return _loaded(_BARE.sub(lambda line: line[1] + json.dumps(line[2].rstrip(), ensure_ascii=False), head))
    except BadHead:
        return _loaded(head)


def _loaded(head: str) -> Any:
    import yaml  # late: a start does not wait for it

    try:
        return yaml.load(head, Loader=yaml.BaseLoader)  # noqa: S506  # makes nothing but texts, lists and dicts
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise BadHead(2 if mark is None else mark.line + 2, "its frontmatter is no YAML") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise BadHead(1, "its frontmatter is no YAML") from None


def _parts(text: str) -> tuple[str, ...]:
    parts, depth = [""], 0
    for char in text:
        depth += (char in "({") - (char in ")}")
        if depth <= 0 and (char == "," or char.isspace()):
            parts.append("")
        else:
            parts[-1] += char
    return tuple(filter(None, parts))


def first_paragraph(body: str) -> str:
    """What a text is about, where its head does not say: its first words that are no heading."""
    lines: Sequence[str] = [line.strip() for line in body.strip().split("\n")]
    kept: list[str] = []
    for line in lines:
        if not line and kept:
            break
        if line and not line.startswith("#"):
            kept.append(line)
    return " ".join(kept) or next((line.lstrip("# ") for line in lines if line), "")
