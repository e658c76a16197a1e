"""Command patterns: what `Bash(git *)` covers.

`*` stands for anything, blanks included. ` *` at the end, or `:*`, also for nothing: `ls *` covers `ls` and `ls -l`,
not `lsof`. `\\*` and `\\\\` are the characters themselves. A pattern without `*` is one command, or a whole line.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from agentcore.permissions.git_commands import GLOBAL_OPTIONS
from agentcore.permissions.globs import STAR, can_meet, fits
from agentcore.permissions.inner import Words, doubtful_commands, inner_commands
from agentcore.permissions.option_tables import options_of
from agentcore.permissions.options import NO_OPTIONS, read_arguments
from agentcore.permissions.programs import (
    LOOKED_THROUGH,
    SHELL_LIKE,
    base_name,
    first_name,
    is_interpreter,
    is_interpreters_name,
    why_no_pattern,
)
from agentcore.permissions.shell import Script, Segment
from agentcore.permissions.words import HOLE, HOME, Word
from agentcore.permissions.wrappers import unwrapped


class Match(IntEnum):
    """How a deny or ask rule meets a call; the highest counts."""

    NO = 0
    MAYBE = 1
    """It depends on what only the shell will know."""
    YES = 2


@dataclass(frozen=True, slots=True)
class Pattern:
    tokens: tuple[str, ...]
    """Single characters; `*` as the empty text."""
    head: str
    """The text before the first `*`."""
    is_exact: bool

    def fits(self, text: str) -> bool:
        return fits(self.tokens, text) or (self._ends_openly and fits(self.tokens[:-2], text))

    def can_meet(self, text: str) -> bool:
        """Whether some filling of the holes in `text` fits."""
        return can_meet(self.tokens, text, HOLE) or (self._ends_openly and can_meet(self.tokens[:-2], text, HOLE))

    @property
    def _ends_openly(self) -> bool:
        """` *` at the end also stands for nothing."""
        return self.tokens[-2:] == (" ", STAR)


@lru_cache(maxsize=1024)
def pattern_of(spec: str) -> Pattern:
    tokens = _tokens(spec.strip())
    if tokens[-2:] == (":", ""):
        tokens = (*tokens[:-2], " ", "")
    first = tokens.index(STAR) if STAR in tokens else len(tokens)
    return Pattern(tokens, "".join(tokens[:first]), STAR not in tokens)


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
    unsafe = "".join(f"{one.raw} " for one in inner.assignments)
    spelled = "".join(f"{one.raw} " for one in segment.assignments)  # a rule may name the safe ones too
    text = " ".join(word.raw for word in inner.words)
    return any(_approves(pattern, segment, inner, assigned, text) for assigned in {unsafe, spelled})


def _approves(pattern: Pattern, segment: Segment, inner: Segment, assigned: str, text: str) -> bool:
    if not pattern.fits(assigned + text):
        return False
    if pattern.is_exact:
        return _is_certain(segment)
    head = pattern.head.removeprefix(assigned)
    if not pattern.head.startswith(assigned) or why_no_pattern(inner, head) is not None:
        return False
    if is_interpreter(inner) and not _means_interpreter(head):
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


def _means_interpreter(head: str) -> bool:
    """Whether what a pattern says before its first `*` is an interpreter; of a shell, whether it goes on to what that
    runs: a file, or a text in quotes."""
    name = first_name(head)
    if name not in SHELL_LIKE:
        return is_interpreters_name(name)
    words = head.split(" ")
    return len(words) > 1 and (
        re.match(r"[\w./~]", words[1]) is not None or re.match(r"\S+ '[^']*' ", head) is not None
    )


def why_it_settles_nothing(spec: str) -> str | None:
    """Why no command is approved by an allow pattern, and what to write in its place; None where some may be."""
    pattern = pattern_of(spec)
    if pattern.is_exact:
        return None
    head = _ASSIGNED.sub("", pattern.head)
    first, *others = head.split(" ")
    words = tuple(Word(text, text) for text in (first, *others[:-1]))  # the last may go on behind the `*`
    segment, name = Segment(words), first_name(head)
    if name in LOOKED_THROUGH:
        return f"{name} is looked through, so write the rule for the command behind it, as in `Bash(npm test:*)`"
    if name in SHELL_LIKE:
        means = f"`Bash({name} scripts/build.sh *)` with the script, or the whole command without `*`"
        return None if _means_interpreter(head) else f"{name} runs any command line, so name what it runs: {means}"
    if (why := why_no_pattern(segment, head)) is not None:
        return f"{why}, so name what it runs: write the whole command, without `*`"
    return None


_ASSIGNED = re.compile(r"(?:\w+=\S* )+")


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
    texts, doubtful = command_texts(script)
    if _is_line(spec, script) or any(map(pattern.fits, texts)):
        return Match.YES
    if any(map(pattern.fits, doubtful)) or any(HOLE in text and pattern.can_meet(text) for text in (*texts, *doubtful)):
        return Match.MAYBE
    return Match.NO


@lru_cache(maxsize=256)
def command_texts(script: Script) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Each command of a line in the ways a rule may spell it, with `HOLE` where it is not known; and those of which it
    is not certain that they are commands."""
    texts: dict[str, None] = {script.text.strip(): None}
    doubtful: dict[str, None] = {}
    for segment in script.segments:
        if segment.assignments:
            whole = [*(one.raw for one in segment.assignments), *(word.raw for word in segment.words)]
            texts[" ".join(whole)] = None
    for words in inner_commands(script):
        if words:
            texts |= dict.fromkeys(_spelled(words))
            known, unknown = _without_options(words)
            texts |= dict.fromkeys(text for one in known for text in _spelled(one))
            doubtful |= dict.fromkeys(text for one in unknown for text in _spelled(one))
    for words in doubtful_commands(script):
        doubtful |= dict.fromkeys(_spelled(words))
    return tuple(texts), tuple(doubtful)


def _spelled(words: Words) -> Iterator[str]:
    """A command as it is written, and as its program gets it, with the folder of the program and without."""
    yield " ".join(word.raw for word in words)
    program, *rest = (word.loose.replace(HOME, HOLE) for word in words)
    yield " ".join([program, *rest])
    yield " ".join([program.rpartition("/")[2], *rest])


def _without_options(words: Words) -> tuple[list[Words], list[Words]]:
    """A command without what stands before its first argument: `git -C x push` is `git push`. Secondly the same where
    it is not known whether the last of these options takes a value."""
    name = base_name(words[0])
    options = GLOBAL_OPTIONS if name == "git" else options_of(name) or NO_OPTIONS
    arguments = read_arguments(options, words)
    first = arguments.operands[0][0] if arguments.operands else len(words)
    if first == 1:
        return [], []
    without = (words[0], *words[first:])
    is_known = all(one.kinds or "=" in words[one.at].loose for one in arguments.given if one.at < first)
    if is_known:
        return [without], []
    return [], [without, (words[0], *words[first + 1 :])]
