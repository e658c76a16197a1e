"""Whether a command of git does nothing but git's own work: it is held against a table of what is safe (`git_table`).

An option that is cut short is not in the table. Words that are no options, revisions and paths, may be anything but the
address of a helper program (`ext::`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentcore.permissions.git_table import ACTIONS, COMMANDS, GLOBAL
from agentcore.permissions.options import Kind, Options, rest_of
from agentcore.permissions.words import Word, names

_CARRY = names(
    """bisect submodule filter-branch filter-repo difftool mergetool shell daemon hook for-each-repo remote-ext
    remote-fd http-backend upload-pack receive-pack instaweb web--browse credential send-email fetch-pack
    send-pack merge-index"""
)
"""Run what their arguments say: no pattern means them, though it spells them."""
_READ_CONFIG = names("--get --get-all --get-regexp --list -l")
_NETWORK = names("archive bundle clone fetch ls-remote pull push remote submodule")
_HELPER = re.compile(r"\w+::", re.DOTALL)
RUNNERS = Options(
    {
        **dict.fromkeys(
            names(
                """-c -x -O -u --config --config-env --exec --upload-pack --receive-pack --extcmd --open-files-in-pager
            --tree-filter --index-filter --msg-filter --env-filter --commit-filter --parent-filter --tag-name-filter
            --to-command"""
            ),
            Kind.RUNS,
        ),
        **dict.fromkeys(names("-C -m --message --git-dir --work-tree --namespace --author --date"), Kind.TAKES),
    }
)
"""Options of git whose value may be a command line, whichever command they stand with."""
GLOBAL_OPTIONS = Options(
    {
        **dict.fromkeys(names("-c --config-env --exec-path"), Kind.RUNS),
        **dict.fromkeys(names("-C --git-dir --work-tree --namespace --super-prefix --attr-source"), Kind.TAKES),
        **dict.fromkeys((*GLOBAL, "-p", "--paginate", "--bare", "--help"), Kind.TAKES),
    },
    flags=frozenset({*GLOBAL, "-p", "--paginate", "--bare", "--help", "--exec-path"}),
)
"""Options of git itself, before the name of a command."""
_OPTION_LETTERS = re.compile(r"-[^-]=?<?|-#")


@dataclass(frozen=True, slots=True)
class _Allowed:
    longs: frozenset[str]
    letters: frozenset[str]
    with_value: frozenset[str]
    reads: frozenset[str]


def _allowed(text: str) -> _Allowed:
    words = text.split()
    bare = [word.rstrip("=<") for word in words]
    return _Allowed(
        longs=frozenset(word for word in bare if word.startswith("--")),
        letters=frozenset(word[1] for word in bare if not word.startswith("--")),
        with_value=frozenset(word[1] for word in words if _OPTION_LETTERS.fullmatch(word) and word[-1] in "=<"),
        reads=frozenset(word.rstrip("<") for word in words if word.endswith("<")),
    )


_TABLE = {name: _allowed(text) for name, text in COMMANDS.items()}


def why_not_plain(words: Sequence[Word], meant: frozenset[int], head: str) -> str | None:
    """Why a command of git may do more than git's own work; None where it does not.

    `meant`: places of words that are not looked at. `head`: what a pattern spells; a command that is not in the table
    is meant where it is spelled, with all behind it, unless it runs what its arguments say.
    """
    at = _command_at(words, meant)
    if at is None:
        return "an argument makes git run other programs or work in another place"
    if at == len(words):
        return None
    name = words[at].value
    if at in meant:
        return None
    allowed = _TABLE.get(name or "")
    rest = [(place, word) for place, word in enumerate(words[at + 1 :], at + 1) if place not in meant]
    if name is None or allowed is None:
        spelled = " ".join(word.raw for word in words[: at + 1])
        if name is not None and name not in _CARRY and f"{head} ".startswith(f"{spelled} "):
            return None
        return f"git {name or '…'} is not known to run nothing else"
    if not _is_safe_action(name, [word for _, word in rest]):
        return f"what git {name} would do is not known to run nothing else"
    if (odd := next(_odd_words(allowed, rest, is_network=name in _NETWORK), None)) is not None:
        return f"{odd[:40]} may make git {name} run other programs or write files"
    return None


def _command_at(words: Sequence[Word], meant: frozenset[int]) -> int | None:
    """The place of git's command behind options of git itself; None for one of these that is not safe."""
    at = 1
    while at < len(words) and words[at].loose.startswith("-"):
        if at in meant and words[at].raw == "-C":
            if at + 1 < len(words) and words[at + 1].starts_unknown:
                return None
            at += 1
        elif words[at].loose not in GLOBAL:
            return None
        at += 1
    return min(at, len(words))


def _is_safe_action(name: str, rest: Sequence[Word]) -> bool:
    if name == "config":
        return any(word.loose in _READ_CONFIG for word in rest)
    first = next((word for word in rest if not word.loose.startswith("-")), None)
    if first is None or name not in ACTIONS:
        return True
    return first.value in ACTIONS[name] or name == "reflog"  # of which branch


def _odd_words(allowed: _Allowed, rest: Sequence[tuple[int, Word]], *, is_network: bool) -> Iterator[str]:
    """The words that are no options of the table, and those that may be one."""
    is_option, is_file = True, False
    for _, word in rest:
        text = word.loose
        if is_file and not _is_own_file(word):
            yield f"the file {text}"
        is_value, is_file = is_file, False
        if is_option and text == "--":
            is_option = False
        elif is_option and word.starts_unknown and not is_value:
            yield "an argument that is not known before it runs"
        elif is_option and text.startswith("--"):
            name, equals, _ = text.partition("=")
            if name not in allowed.longs:
                yield f"the option {name}"
            if name in allowed.reads:
                is_file = not equals
                if equals and not _is_own_file(rest_of(word, len(name) + 1)):
                    yield f"the file {text}"
        elif is_option and text.startswith("-") and text != "-":
            odd, value = _odd_letters(allowed, text)
            if odd:
                yield f"the option {text}"
            if value is not None:
                is_file = not value
                if value and not _is_own_file(rest_of(word, len(text) - len(value))):
                    yield f"the file {text}"
        elif is_network and _HELPER.match(text):
            yield f"the address {text}"


def _odd_letters(allowed: _Allowed, text: str) -> tuple[bool, str | None]:
    """Whether a cluster holds a letter that is not in the table; and the rest of it, where that is a file."""
    if text[1:].isdigit() and "#" in allowed.letters:
        return False, None
    for at, letter in enumerate(text[1:], 2):
        if letter not in allowed.letters or not letter.isalnum():
            return True, None
        if letter in allowed.with_value:
            return False, text[at:] if f"-{letter}" in allowed.reads else None
    return False, None


def _is_own_file(word: Word) -> bool:
    """Whether a file to read is what the line gives, or lies in the folder: no way out of it."""
    value = word.value
    return value is not None and not value.startswith(("/", "~")) and ".." not in value.split("/")
