"""Commands inside commands, for deny and ask rules and for what a line does to files: everything is looked into that
may hold one.

What cannot be looked into to its end is one more command of which nothing is known, so that each rule may mean it: a
shell that reads its lines, a line in a string that is not known, the bounds of this file.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from agentcore.permissions.git_commands import RUNNERS as GIT_RUNNERS
from agentcore.permissions.globs import can_meet
from agentcore.permissions.option_tables import options_of
from agentcore.permissions.options import Kind, read_arguments
from agentcore.permissions.programs import (
    CARRIERS,
    CARRY_AFTER,
    PLAIN,
    SCRIPT_RUNNERS,
    SHELLS,
    base_name,
    is_interpreters_name,
)
from agentcore.permissions.shell import Script, read_script
from agentcore.permissions.words import HOLE, Word, names
from agentcore.permissions.wrappers import MORE_ARGUMENTS

Words: TypeAlias = tuple[Word, ...]

ANYTHING: Words = (Word(HOLE, HOLE),)
"""A command of which nothing is known."""
MAX_DEPTH = 4
"""Of shell lines inside shell lines."""
MAX_SUFFIXES = 64
"""Of one command that are looked at as commands of their own."""
MAX_WORDS = 10_000
"""Of all commands together: as many as the longest line has, and then some."""
_BEHIND_ARROW = re.compile(r">[>|&]?[ \t]*['\"]?([^\s;&|()<>'\"]+)")
"""Files that a line writes of which some is not known."""
_FROM_ELSEWHERE = re.compile(r"-|/dev/stdin|/dev/fd/.*|/proc/.*/fd/.*")
"""Scripts that are not on the disk: the line itself, or what it is fed with, says what they are."""
_NAME_COMMANDS = names("alias hash enable")
"""Change what the names of commands mean."""
_FED = names("at batch crontab")
"""Run the lines that they are fed with."""
_PROGRAM = re.compile(r"[\w.+]")
"""How the name of a program begins; options do not."""
_COMPUTED = re.compile(r"\[.*(?:\$\(|`)", re.DOTALL)
_INSIDE: Mapping[str, re.Pattern[str]] = {
    "make": re.compile(r"\$[({]|`|!="),
    "sed": re.compile(r"(?:^|[;{\n$/\d])\s*e(?:\s|$)|[/|#,:][gpI\d]*e[gpI\d]*(?:[;}\n]|$)"),
    **dict.fromkeys(
        names("read declare typeset local export readonly let test [ printf unset wait mapfile readarray getopts"),
        _COMPUTED,
    ),
}
"""Arguments by which a program runs commands that stand in them: a makefile's, sed's, an element's number."""
_JOIN = names("eval ssh watch trap")
"""Put their arguments together into one line."""
_SETS_VARIABLES = names("env sudo doas")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")


def inner_commands(script: Script) -> tuple[Words, ...]:
    """Each command that a line may run, as its words: those in it and those in their arguments."""
    return _looked_into(script)[0]


def inner_scripts(script: Script) -> tuple[Script, ...]:
    """The shell lines in the arguments of a line's commands."""
    return _looked_into(script)[1]


@lru_cache(maxsize=256)
def doubtful_commands(script: Script) -> tuple[Words, ...]:
    """What may be commands: if a program that is not known here runs what its arguments name, or if what a variable
    holds is run."""
    texts = [one.raw.partition("=")[2] for segment in script.segments for one in segment.assignments]
    found = [suffix for words in inner_commands(script) for suffix in _carried_by_unknown(words)]
    return (*found, *(words for text in texts for words in _line_in(text.strip("'\""))))


def may_be(word: Word, wanted: frozenset[str]) -> bool:
    """Whether a program whose name holds a part that is not known may be one of these."""
    name = word.loose.rpartition("/")[2]
    return name in wanted or (HOLE in name and any(can_meet(one, name, HOLE) for one in wanted))


def is_whole(script: Script) -> bool:
    """Whether all commands of a line were looked at."""
    return _looked_into(script)[2]


@lru_cache(maxsize=256)
def _looked_into(script: Script) -> tuple[tuple[Words, ...], tuple[Script, ...], bool]:
    scripts: list[Script] = []
    commands: dict[Words, None] = {}
    count = 0
    for words in _commands_of(script, MAX_DEPTH, scripts):
        if words not in commands:
            count += len(words)
            commands[words] = None
        if count > MAX_WORDS:
            commands[ANYTHING] = None
            return tuple(commands), tuple(scripts[1:]), False
    return tuple(commands), tuple(scripts[1:]), True


def _commands_of(script: Script, depth: int, scripts: list[Script]) -> Iterator[Words]:
    """The commands of a shell line; it and those inside it are added to `scripts`."""
    scripts.append(script)
    for segment in script.segments:
        yield from _commands_in(segment.words, depth, scripts)


def _line(text: str, depth: int, scripts: list[Script], *, is_sure: bool = True) -> Iterator[Words]:
    """The commands of a line inside another. Unless it `is_sure` to be one, what cannot be read is none."""
    script = read_script(text)
    if (script.problem is not None and is_sure) or depth == 0:
        yield ANYTHING
    if depth > 0:
        yield from _commands_of(script, depth - 1, scripts)


def _commands_in(words: Words, depth: int, scripts: list[Script]) -> Iterator[Words]:
    yield words
    if not words:
        return
    yield from _behind(words, depth, scripts)
    name = base_name(words[0])
    more = (MORE_ARGUMENTS,) if name == "xargs" else ()
    for count, start in enumerate(_starts(words)):
        if count == MAX_SUFFIXES:
            yield ANYTHING
            break
        if not re.search(r"\s", words[start].loose):
            yield words[start:] + more
        yield from _behind(words[start:], depth, scripts)


def _behind(words: Words, depth: int, scripts: list[Script]) -> Iterator[Words]:
    """The commands of lines and options among the arguments of a program."""
    name = base_name(words[0])
    if name is None and may_be(words[0], SCRIPT_RUNNERS | CARRIERS):
        yield ANYTHING
    yield from _in_options(words, depth, scripts)
    if _runs_what_is_not_seen(name, words):
        yield ANYTHING
    if name in SCRIPT_RUNNERS:
        yield from _scripts_in(words, depth, scripts)
    elif name in CARRY_AFTER and (carried := words[_first_carried(name, words) - 1 :]):
        yield from _scripts_in(carried, depth, scripts)


def _runs_what_is_not_seen(name: str | None, words: Words) -> bool:
    """Whether some of what a command runs stands elsewhere, or in a language that is not read here."""
    values = [word.loose for word in words[1:]]
    if name in (".", "source"):
        return not values or words[1].starts_unknown or _FROM_ELSEWHERE.fullmatch(values[0]) is not None
    if name in _NAME_COMMANDS:
        return bool(values)
    inside = _INSIDE.get(name or "")
    return name in _FED or (inside is not None and any(map(inside.search, values)))


def _starts(words: Words) -> Iterator[int]:
    """Where the command that a program is told to run may begin."""
    name = base_name(words[0])
    for start in range(_first_carried(name, words), len(words)):
        if name not in _SETS_VARIABLES or not _VARIABLE.match(words[start].raw):
            yield start


def _first_carried(name: str | None, words: Words) -> int:
    """Where among its arguments a program may be told to run another one; behind the last word for nowhere."""
    if name in CARRIERS:
        return 1
    marks = CARRY_AFTER.get(name or "", frozenset())
    return next((at + 1 for at, word in enumerate(words) if at and word.value in marks), len(words) + 1)


def _in_options(words: Words, depth: int, scripts: list[Script]) -> Iterator[Words]:
    """The commands in options whose value is run: `tar --to-command='rm x'`, `git -c alias.x='!rm y'`."""
    name = base_name(words[0])
    options = GIT_RUNNERS if name == "git" else options_of(name)
    if options is None or Kind.RUNS not in options.kinds.values():
        return
    for one in read_arguments(options, words).of(Kind.RUNS):
        if one.value is None:
            continue
        text = one.value.value
        if text is None or _FROM_ELSEWHERE.fullmatch(text):
            yield ANYTHING
        elif name != "git" or re.search(r"[\s=!]", text):
            for part in {text, text.partition("=")[2]}:
                yield from _line(part.removeprefix("!"), depth, scripts, is_sure=False)


def _scripts_in(words: Words, depth: int, scripts: list[Script]) -> Iterator[Words]:
    """The commands of the shell lines among the arguments."""
    name, arguments = base_name(words[0]), words[1:]
    is_shell = name in SHELLS
    line = _line_of_shell(arguments) if is_shell else None
    if is_shell and line is None and _reads_its_lines(arguments):
        yield ANYTHING
    for word in arguments:
        if word.value is None and (word.is_quoted or word is line):
            scripts.append(Script(word.loose, writes=tuple(map(_word, _BEHIND_ARROW.findall(word.loose)))))
            yield ANYTHING
            yield from (tuple(map(_word, piece.split())) for piece in re.split(r"[;&|()\n`]+", word.loose))
        elif word.value is not None and (is_shell or re.search(r"[^\w./=:,@%+-]", word.value)):
            is_sure = word is line or (name in _JOIN and len(arguments) == 1)
            yield from _line(_without_option(word.value, is_shell=is_shell), depth, scripts, is_sure=is_sure)
        elif word.starts_unknown:
            yield (word,)
    if len(arguments) > 1 and name in _JOIN:
        values = [word.value for word in arguments if word.value is not None]
        yield from _line(" ".join(values), depth, scripts, is_sure=name == "eval")


def _line_of_shell(arguments: Words) -> Word | None:
    """The word that a shell runs as a line: the first behind `-c` that is no option."""
    has_line = any(re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*|--command(=.*)?", word.loose) for word in arguments)
    return next((word for word in arguments if not word.loose.startswith(("-", "+"))), None) if has_line else None


def _reads_its_lines(arguments: Words) -> bool:
    """Whether what a shell runs is what it is fed with."""
    first = next((word for word in arguments if not word.loose.startswith("-") or word.loose == "-"), None)
    flags = [word.loose for word in arguments if re.fullmatch(r"-[a-zA-Z]+", word.loose)]
    return first is None or _FROM_ELSEWHERE.fullmatch(first.loose) is not None or any("s" in one for one in flags)


def _without_option(text: str, *, is_shell: bool) -> str:
    """The line in `-S'rm x'` and `--split-string=rm x`."""
    if is_shell or not text.startswith("-"):
        return text
    return text.partition("=")[2] if text.startswith("--") else re.sub(r"-[a-zA-Z]*?[cSs]", "", text, count=1)


def _carried_by_unknown(words: Words) -> Iterator[Words]:
    name = base_name(words[0]) if words else None
    if name is None or name in PLAIN or name in CARRY_AFTER or is_interpreters_name(name) or not _PROGRAM.match(name):
        return
    for word in words[1:]:
        if word.value is not None and re.search(r"\s", word.value):
            yield from _line_in(_without_option(word.value, is_shell=False))
    if name in CARRIERS:
        return  # those are certain
    for start in range(1, min(len(words), MAX_SUFFIXES)):
        if not re.search(r"\s", words[start].loose) and words[start].raw != HOLE:
            yield words[start:]
    if len(words) > MAX_SUFFIXES:
        yield ANYTHING


def _line_in(text: str) -> Iterator[Words]:
    """The commands in a text that may be a shell line."""
    return (segment.words for segment in read_script(text).segments if segment.words)


def _word(text: str) -> Word:
    return Word(text, re.sub(r"['\"\\]", "", text))
