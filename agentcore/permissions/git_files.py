"""Which files a command of git shows or changes, as far as rules about files are concerned."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agentcore.permissions.git_commands import GLOBAL_OPTIONS
from agentcore.permissions.options import Kind, Options, read_arguments
from agentcore.permissions.repositories import is_plain_key
from agentcore.permissions.words import GLOB, HOLE, Word, names

_SHOW = names(
    "show diff log blame annotate cat-file grep archive format-patch whatchanged diff-tree diff-index diff-files"
    " range-diff stash difftool bundle merge-file"
)
"""Print what is in files."""
_ONLY_NAMES = names("log whatchanged stash")
"""Of these: do so only where an option says it."""
_CONTENT = re.compile(
    r"-[a-zA-Z0-9]*[pucmLUGSWa].*|--patch.*|--unified.*|--word-diff.*|--color-words.*|--cc|--function-context|--binary|--text"
    r"|--full-diff|--remerge-diff|--diff-merges.*|--ext-diff|--textconv|show"
)
_NO_CONTENT = re.compile(
    r"--(stat|shortstat|numstat|dirstat|summary|name-only|name-status|quiet|check|no-patch|raw)(=.*)?|-s|-q"
)
_CHANGE = names("checkout restore rm mv clean apply am read-tree checkout-index")
_READ_CONFIG = re.compile(r"--get.*|--list|-l|--show-.*|get|list")
_EDIT_CONFIG = re.compile(r"-e|--ed.*|edit|--rem.*|--ren.*|rename-section")
_OPTIONS = Options(
    {
        **dict.fromkeys(("-o", "--output", "--output-directory"), Kind.WRITES),
        **dict.fromkeys(("-F", "--file", "--contents", "--ignore-revs-file", "--exclude-from"), Kind.READS),
        **dict.fromkeys(("-m", "--message", "--format", "--pretty", "--prefix", "-b", "-e"), Kind.TAKES),
    }
)
_MAGIC = re.compile(r":(?:\([^)]*\)|[/!^]+)?")
_AS_GLOB = str.maketrans({"*": GLOB, "?": GLOB, "[": GLOB})


@dataclass(frozen=True, slots=True)
class GitFiles:
    reads: tuple[Word, ...] = ()
    """Words that may be paths, or a revision and a path: `paths_in` takes them apart."""
    changes: tuple[Word, ...] = ()
    shows_all: bool = False
    """Where none of `reads` is a path: what is tracked."""
    setting: str | None = None
    """What it sets in git's configuration, where that may name a program."""


def git_files(words: Sequence[Word]) -> GitFiles:
    outer = read_arguments(GLOBAL_OPTIONS, words)
    if not outer.operands:
        return GitFiles()
    at, command = outer.operands[0]
    arguments = read_arguments(_OPTIONS, words[at:])
    written = tuple(one.value for one in arguments.of(Kind.WRITES) if one.value is not None)
    named = tuple(one.value for one in arguments.of(Kind.READS) if one.value is not None)
    rest = words[at + 1 :]
    operands = _behind_dashes(rest) or tuple(word for _, word in arguments.operands)
    if command.value == "config":
        return GitFiles(setting=_setting(rest, operands))
    if command.value in _CHANGE:
        return GitFiles(named, (*written, *operands))
    if command.value in _SHOW and _shows_content(command.loose, rest):
        return GitFiles((*named, *operands), written, shows_all=True)
    return GitFiles(named, written)


def paths_in(text: str) -> set[str]:
    """The paths that a word of git may mean: `HEAD:a.py`, `:(top)a.py`, `*.py`."""
    bare = _MAGIC.sub("", text, count=1) if text.startswith(":") else text
    found = {bare, bare.partition(":")[2], bare.rpartition(":")[2]} - {""}
    return {one.translate(_AS_GLOB) for one in found}


def _behind_dashes(words: Sequence[Word]) -> tuple[Word, ...]:
    at = next((at for at, word in enumerate(words) if word.loose == "--"), None)
    return () if at is None else tuple(words[at + 1 :])


def _setting(words: Sequence[Word], operands: Sequence[Word]) -> str | None:
    if any(_READ_CONFIG.fullmatch(word.loose) for word in words) or len(operands) < 2:
        edits = any(_EDIT_CONFIG.fullmatch(word.loose) for word in words)
        return "git config --edit" if edits else None
    name = next((word.loose for word in operands if "." in word.loose), HOLE)
    section, _, rest = name.lower().partition(".")
    return (
        None if is_plain_key(f"{section}.{rest.rpartition('.')[2]}") else f"git config {name.replace(HOLE, '…')[:80]}"
    )


def _shows_content(command: str, words: Sequence[Word]) -> bool:
    values = [word.loose for word in words]
    shows = any(map(_CONTENT.fullmatch, values))
    return shows if command in _ONLY_NAMES else shows or not any(map(_NO_CONTENT.fullmatch, values))
