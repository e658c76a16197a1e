"""Looking through what stands around a command: `timeout 5 git status` is `git status`.

For an allow rule only what changes nothing is taken off, and only where its options are understood. For deny and ask
everything is looked into that may hold a command.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from agentcore.permissions.programs import CARRIERS, CARRY_AFTER, SCRIPT_RUNNERS, SHELLS, base_name, is_safe_variable
from agentcore.permissions.shell import Script, Segment, read_script
from agentcore.permissions.words import HOLE, Word

_DURATION = r"\d+(?:\.\d+)?[smhd]?"
# A wrapper and all the words of its own, each with a blank behind it.
_WRAPPERS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"timeout (?:(?:--foreground|--preserve-status|-v|--verbose|-k {_DURATION}|--kill-after={_DURATION}"
        rf"|-s \w+|--signal=\w+) )*{_DURATION} ",
        r"time (?:-p )?",
        r"nice (?:-n -?\d+ |-\d+ |--adjustment=-?\d+ )?",
        r"nohup ",
        r"stdbuf (?:(?:-[ioe][L\d]\w*|--(?:input|output|error)=[L\d]\w*) )+",
        r"command (?!-)",
        r"builtin (?!-)",
        r"noglob ",
        r"xargs (?!-)",
    )
)
_MORE_ARGUMENTS = Word(HOLE, HOLE)
"""What `xargs` adds."""
MAX_DEPTH = 4
"""Of shell lines inside shell lines."""
MAX_SUFFIXES = 64
"""Of one command that are looked at as commands of their own."""


def unwrapped(segment: Segment) -> Segment:
    """The command inside its wrappers, without assignments that are safe: what an allow rule is compared with."""
    words = segment.words
    assignments = tuple(one for one in segment.assignments if not is_safe_variable(one.name))
    while (count := _own_words(words)) and count < len(words):
        more = (_MORE_ARGUMENTS,) if words[0].raw == "xargs" else ()
        words = words[count:] + more
    return Segment(words, assignments, segment.is_special)


def _own_words(words: Sequence[Word]) -> int:
    """How many words at the head belong to a wrapper."""
    text = " ".join(word.raw for word in words)
    for pattern in _WRAPPERS:
        if (match := pattern.match(text)) is not None:
            count = match[0].count(" ")
            return count if all(word.is_plain for word in words[:count]) else 0
    return 0


@lru_cache(maxsize=256)
def inner_commands(script: Script) -> tuple[tuple[Word, ...], ...]:
    """Each command that a line may run, as its words: those in it and those in their arguments."""
    return tuple(_commands_of(script, MAX_DEPTH))


def _commands_of(script: Script, depth: int) -> Iterator[tuple[Word, ...]]:
    for segment in script.segments:
        yield from _commands_in(segment.words, depth)


def _commands_in(words: tuple[Word, ...], depth: int) -> Iterator[tuple[Word, ...]]:
    yield words
    if not words or depth == 0:
        return
    name = base_name(words[0])
    more = (_MORE_ARGUMENTS,) if name == "xargs" else ()
    for start in range(_first_carried(name, words), min(len(words), MAX_SUFFIXES)):
        if name is not None and not re.search(r"\s", words[start].loose):
            yield words[start:] + more
        if base_name(words[start]) in SCRIPT_RUNNERS:
            yield from _scripts_in(words[start:], depth)
    if name in SCRIPT_RUNNERS:
        yield from _scripts_in(words, depth)
    elif name in CARRY_AFTER and (carried := words[_first_carried(name, words) - 1 :]):
        yield from _scripts_in(carried, depth)


def _first_carried(name: str | None, words: tuple[Word, ...]) -> int:
    """Where among its arguments a program may be told to run another one; behind the last word for nowhere."""
    if name is None or name in CARRIERS:
        return 1
    marks = CARRY_AFTER.get(name, frozenset())
    return next((at + 1 for at, word in enumerate(words) if at and word.value in marks), len(words) + 1)


def _scripts_in(words: tuple[Word, ...], depth: int) -> Iterator[tuple[Word, ...]]:
    """The commands of the shell lines among the arguments."""
    arguments = words[1:]
    is_shell = base_name(words[0]) in SHELLS
    if is_shell and all(word.raw.startswith("-") for word in arguments):
        yield (Word(HOLE, HOLE),)  # its lines come from what it reads
    for word in arguments:
        if word.value is None and word.is_quoted:
            yield from (tuple(map(_word, piece.split())) for piece in re.split(r"[;&|()\n`]+", word.loose))
        elif word.value is not None and (is_shell or re.search(r"[^\w./=:,@%+-]", word.value)):
            yield from _commands_of(read_script(word.value), depth - 1)
        elif word.starts_unknown:
            yield (word,)
    if len(arguments) > 1 and base_name(words[0]) in ("eval", "ssh", "watch", "trap"):
        values = [word.value for word in arguments if word.value is not None]
        yield from _commands_of(read_script(" ".join(values)), depth - 1)


def _word(text: str) -> Word:
    return Word(text, text)
