"""What a word of a shell line may be when the shell is done with it: braces, and the variables of the line itself.

A fresh shell knows what its environment and its own line give a variable; where it may be anything else, the text
keeps its `HOLE`. `GLOB` stands where files on the disk decide.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from agentcore.permissions.shell import Script
from agentcore.permissions.words import CLOSE, COMMA, HOLE, HOME, NAMED, OPEN, Word, names

MAX_SPELLINGS = 64
MAX_DEPTH = 4
"""Of variables that are made of others."""
MAX_STEPS = 500
"""Of putting one value into one text; behind them a word may be anything."""
_SETTERS = names(
    "read mapfile readarray printf getopts declare typeset local export readonly unset let eval source . wait coproc"
)
"""Commands that may change variables by their names."""
_OF_THE_SHELL = re.compile(
    r"BASH.*|COMP_.*|DIRSTACK|EPOCH.*|EUID|FUNCNAME|GROUPS|HIST.*|HOST.*|IFS|LINENO|MACHTYPE|MAPFILE|OLDPWD|OPT.*"
    r"|OSTYPE|PATH|PIPESTATUS|PPID|PS\d|S?RANDOM|READLINE.*|REPLY|SECONDS|SHELL.*|SHLVL|UID|_"
)
"""Variables that the shell sets by itself."""
_VARIABLE = re.compile(f"{NAMED}(\\w+){NAMED}")
_INNER_BRACES = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")

Variables = Mapping[str, tuple[str, ...]]
"""What variables may hold, as shapes. One that is not here may hold anything."""


def variables_of(scripts: Sequence[Script], home: str, folders: Sequence[str] | None) -> Variables:
    """`scripts`: a line and those inside it. `folders`: where it may be working; None where that is not known."""
    found: dict[str, tuple[str, ...]] = {}
    unknown = {name for script in scripts for name in _set_by_name(script)}
    for script in scripts:
        for one in script.variables:
            if one.value is None:
                unknown.add(one.name)
            else:
                found[one.name] = (*found.get(one.name, ("",)), shape_of(one.value))
    known = {
        name: shapes
        for name, shapes in found.items()
        if name not in unknown and name not in os.environ and not _OF_THE_SHELL.fullmatch(name)
    }
    if "HOME" not in found and "HOME" not in unknown:
        known["HOME"] = (home,)
    if folders is not None and "PWD" not in found and "PWD" not in unknown:
        known["PWD"] = tuple(folders)
    return known


def spellings(word: Word, variables: Variables) -> tuple[str, ...]:
    """The texts that a word may be, each with `HOLE` and `GLOB` where it is not known."""
    try:
        steps = iter(range(MAX_STEPS))
        found = [text for shape in _braced(shape_of(word)) for text in _filled(shape, variables, MAX_DEPTH, steps)]
    except StopIteration:
        return (HOLE,)
    return (HOLE,) if len(found) > MAX_SPELLINGS else tuple(dict.fromkeys(found))


def shape_of(word: Word) -> str:
    return word.shape or word.loose.replace(HOME, f"{NAMED}HOME{NAMED}")


def _set_by_name(script: Script) -> set[str]:
    found = set[str]()
    for segment in script.segments:
        if segment.name in _SETTERS or segment.name is None:
            found |= {name for word in segment.words[1:] for name in re.findall(r"[A-Za-z_]\w*", word.raw)}
    return found


def _braced(shape: str) -> list[str]:
    """The texts that braces make: `{a,b}` two, `{}` and `{a}` themselves."""
    shapes = [shape]
    while any((found := _INNER_BRACES.search(one)) for one in shapes):
        more = list[str]()
        for one in shapes:
            found = _INNER_BRACES.search(one)
            if found is None:
                more.append(one)
                continue
            before, inner, after = one[: found.start()], found[1], one[found.end() :]
            if COMMA in inner:
                more += [before + part + after for part in inner.split(COMMA)]
            else:
                more.append(before + (HOLE if ".." in inner else f"{{{inner}}}") + after)
        shapes = more
        if len(shapes) > MAX_SPELLINGS:
            return [HOLE]
    return [one.replace(OPEN, "{").replace(COMMA, ",").replace(CLOSE, "}") for one in shapes]


def _filled(shape: str, variables: Variables, depth: int, steps: Iterator[int]) -> list[str]:
    """Raises: StopIteration when it takes too many steps."""
    found = _VARIABLE.search(shape)
    if found is None:
        return [shape]
    values = variables.get(found[1])
    if values is None or depth == 0:
        return _filled(shape.replace(found[0], HOLE), variables, depth, steps)
    texts = list[str]()
    for value in values:
        next(steps)
        bare = HOLE if re.search(r"\s", value) else value  # outside of quotes a blank makes two words of it
        for inner in [text for one in _braced(bare) for text in _filled(one, variables, depth - 1, steps)]:
            texts += _filled(shape.replace(found[0], inner), variables, depth, steps)
    return texts
