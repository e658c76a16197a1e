"""Command patterns: what `Bash(git *)` covers.

`*` stands for anything, blanks included. ` *` at the end, or `:*`, also for nothing: `ls *` covers `ls` and `ls -l`,
not `lsof`. `\\*` and `\\\\` are the characters themselves. A pattern without `*` is one command, or a whole line.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from agentcore.permissions.programs import base_name, is_interpreter, why_no_pattern
from agentcore.permissions.shell import Script, Segment
from agentcore.permissions.words import HOLE, HOME, Word
from agentcore.permissions.wrappers import inner_commands, unwrapped


class Match(IntEnum):
    """How a deny or ask rule meets a call; the highest counts."""

    NO = 0
    MAYBE = 1
    """It depends on what only the shell will know."""
    YES = 2


@dataclass(frozen=True, slots=True)
class Pattern:
    regex: re.Pattern[str]
    tokens: tuple[str, ...]
    """Single characters; `*` as the empty text."""
    head: str
    """The text before the first `*`."""
    is_exact: bool


@lru_cache(maxsize=1024)
def pattern_of(spec: str) -> Pattern:
    tokens = _tokens(spec.strip())
    if tokens[-2:] == (":", ""):
        tokens = (*tokens[:-2], " ", "")
    source = "".join(".*" if token == "" else re.escape(token) for token in tokens)
    if tokens[-2:] == (" ", ""):
        source = source.removesuffix(re.escape(" ") + ".*") + r"(?: .*)?"
    first = tokens.index("") if "" in tokens else len(tokens)
    return Pattern(re.compile(source, re.DOTALL), tokens, "".join(tokens[:first]), "" not in tokens)


def _tokens(spec: str) -> tuple[str, ...]:
    found = re.findall(r"\\[\\*]|[\s\S]", spec)
    return tuple("" if one == "*" else one[-1] for one in found)


# --- allow ---


def approves(spec: str, segment: Segment) -> bool:
    """Whether an allow pattern means this command."""
    inner = unwrapped(segment)
    pattern = pattern_of(spec)
    if segment.is_special or not inner.words:
        return False
    if not inner.words[0].is_plain or HOLE in inner.words[0].loose:
        return False
    assigned = "".join(f"{one.raw} " for one in inner.assignments)
    text = assigned + " ".join(word.raw for word in inner.words)
    if not pattern.regex.fullmatch(text):
        return False
    if pattern.is_exact:
        return _is_certain(segment)
    if not pattern.head.startswith(assigned) or why_no_pattern(inner) is not None:
        return False
    if is_interpreter(inner) and not _names_a_program(pattern.head.removeprefix(assigned)):
        return False
    return not _leaves_its_path(pattern, inner.words)


def approves_line(spec: str, script: Script) -> bool:
    """Whether an allow pattern is this very line."""
    return _is_line(spec, script) and all(map(_is_certain, script.segments))


def _is_line(spec: str, script: Script) -> bool:
    pattern = pattern_of(spec)
    return pattern.is_exact and "".join(pattern.tokens) == script.text.strip()


def _is_certain(segment: Segment) -> bool:
    """Whether it would run the same program the next time: what runs others has no unknown arguments."""
    inner = unwrapped(segment)
    if not inner.words:
        return True
    decisive = inner.words if why_no_pattern(inner) is not None else inner.words[: 3 if is_interpreter(inner) else 0]
    return all(word.value is not None for word in decisive)


def _names_a_program(head: str) -> bool:
    """Whether what a pattern says of an interpreter goes on to what it runs: a file, a module, a text in quotes."""
    words = head.split(" ")
    if len(words) > 2 and words[1] == "-m":
        return re.match(r"\w", words[2]) is not None
    return len(words) > 1 and (
        re.match(r"[\w./~]", words[1]) is not None or re.match(r"\S+ '[^']*' ", head) is not None
    )


def _leaves_its_path(pattern: Pattern, words: tuple[Word, ...]) -> bool:
    """Whether a pattern that names a folder is led out of it."""
    spec = "".join(pattern.tokens)
    if "/" not in spec:
        return False
    if ".." not in spec and any(".." in word.loose.split("/") for word in words):
        return True
    at = pattern.head.count(" ")
    return pattern.head.endswith("/") and at < len(words) and words[at].value is None


# --- deny and ask ---


def meets(spec: str, script: Script) -> Match:
    """How a deny or ask pattern meets a line: any command in it, whatever stands around it."""
    pattern = pattern_of(spec)
    if _is_line(spec, script):
        return Match.YES
    best = Match.NO
    for text in command_texts(script):
        if pattern.regex.fullmatch(text):
            return Match.YES
        if best is Match.NO and HOLE in text and _can_meet(pattern.tokens, text):
            best = Match.MAYBE
    return best


@lru_cache(maxsize=256)
def command_texts(script: Script) -> tuple[str, ...]:
    """Each command of a line in the ways a rule may spell it, with `HOLE` where it is not known."""
    texts: dict[str, None] = {script.text.strip(): None}
    for segment in script.segments:
        if segment.assignments:
            whole = [*(one.raw for one in segment.assignments), *(word.raw for word in segment.words)]
            texts[" ".join(whole)] = None
    for words in inner_commands(script):
        if not words:
            continue
        texts[" ".join(word.raw for word in words)] = None
        rest = [word.loose.replace(HOME, HOLE) for word in words[1:]]
        texts[" ".join([words[0].loose.replace(HOME, HOLE), *rest])] = None
        if (name := base_name(words[0])) is not None:
            texts[" ".join([name, *rest])] = None
    return tuple(texts)


def _can_meet(tokens: tuple[str, ...], text: str) -> bool:
    """Whether some filling of the holes in `text` fits the pattern: two patterns that have a text in common."""
    if tokens[-2:] == (" ", "") and _can_meet(tokens[:-2], text):
        return True
    row = [False] * (len(text) + 1)
    row[0] = True
    for at, char in enumerate(text):
        row[at + 1] = row[at] and char == HOLE
    for token in tokens:
        fresh = [row[0] and token == ""]
        for at, char in enumerate(text):
            if token == "" or char == HOLE:
                fits = row[at + 1] or fresh[at] or (token == "" and row[at]) or (char == HOLE and row[at])
            else:
                fits = token == char and row[at]
            fresh.append(fits)
        row = fresh
    return row[-1]
