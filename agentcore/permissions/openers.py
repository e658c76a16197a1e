"""Which programs open the files that their arguments name, and which of their words are files: tables.

As far as rules about files and protected places are concerned; only a sandbox can hold the other programs to them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from agentcore.permissions.option_tables import options_of
from agentcore.permissions.options import NO_OPTIONS, Arguments, Kind, Options, read_arguments, rest_of
from agentcore.permissions.programs import PLAIN, base_name, is_interpreters_name, program_of
from agentcore.permissions.sed import is_plain_sed
from agentcore.permissions.words import HOLE, Word, names

_READERS = names(
    """cat tac head tail nl less more bat rev fold fmt column pr expand unexpand paste join comm shuf tsort look split
    csplit base32 iconv pandoc grep egrep fgrep rg ag ack sed awk gawk mawk cut sort uniq wc od xxd hexdump strings
    base64 diff cmp file stat cp mv ln scp rsync tar zip gzip source . python node bash sh jq yq md5sum sha1sum
    sha256sum sha512sum b2sum cksum tee zcat gunzip install 7z"""
)
_WRITERS = names(
    """tee cp mv ln install touch mkdir rm rmdir unlink shred truncate chmod chown chgrp rsync patch sed perl ed vi vim
    nano nvim emacs sponge gzip gunzip bzip2 xz zstd"""
)
_AWKS = names("awk gawk mawk")
_CHANGE_BELOW = names("rm mv chmod chown chgrp find rsync")
"""Change what lies in the folders that they are given."""
_IN_PLACE = re.compile(r"-[a-zA-Z]*i.*|--i.*")
"""Of sed: without it a plain script only prints."""
_TEXT_FIRST = names("grep egrep fgrep rg ag ack sed jq awk gawk mawk")
"""Their first argument is a text to look for or a script, not a file, unless an option gives it."""
_GIVE_TEXT = ("-e", "-f", "-E", "--regexp", "--file", "--expression", "--from-file", "--exec")

_TEXT_BEHIND: Mapping[str, re.Pattern[str]] = {
    "bash": re.compile(r"-[a-zA-Z]*c"),
    "sh": re.compile(r"-[a-zA-Z]*c"),
    "python": re.compile(r"-[a-zA-Z]*[cm]"),
    "node": re.compile(r"-e|-p|-pe|--eval|--print"),
}
"""Behind such an option stands what they run, as text or by a name."""


_WALKERS = names("grep egrep fgrep rg ag ack diff cp ln mv scp rsync tar zip 7z")
"""Read what lies in the folders that they are given."""
_WALK_ALONE = names("rg ag ack")
"""Read the working folder where they are given nothing, without what is hidden."""
_RECURSIVE = re.compile(r"-[a-zA-Z]*[rR].*|--(dereference-)?recursive")
_WITH_HIDDEN = re.compile(r"-[a-zA-Z.]*[.u][a-zA-Z.]*|--hidden|--no-ignore.*|--unrestricted|-a|--all-.*")
_INTO_LAST = names("cp mv ln install scp rsync")
_CHANGED_LAST = names("scp csplit")
_CHANGED_BEHIND_FIRST = names("uniq xxd split csplit")
"""Read their first file and write the next."""
_FORMATTERS = names(
    "black isort ruff prettier eslint gofmt rustfmt clang-format gzip gunzip bzip2 bunzip2 xz unxz zstd"
)
_ONLY_NAME = names(
    """ls stat du df tree basename dirname realpath readlink echo printf : true false cd pushd popd which whereis type
    test [ export unset pgrep pkill kill killall sleep seq whoami id uname git gh find fd grep egrep fgrep rg ag
    ack"""
)
"""Show nothing of what is in the files that they name; or what of their words are files is known."""
_CARRY_FILES = names("tar zip 7z rsync scp cp mv")


@dataclass(frozen=True, slots=True)
class Files:
    """The words of one command that may be files, by what it does to them."""

    reads: tuple[Word, ...] = ()
    changes: tuple[Word, ...] = ()
    touches: tuple[Word, ...] = ()
    """All that may be files: of a program that is not known it may read them."""
    may_change: bool = False
    """It may change those as well."""
    folders: tuple[Word, ...] = ()
    """Where it is told to work."""
    walks: bool = False
    """Reads what lies in folders among `reads`."""
    changes_below: bool = False
    """Changes what lies in folders among `changes`."""
    walks_hidden: bool = True
    is_exact: bool = True
    """Its words are files and nothing else, so one that is not known is a file that is not known."""


def files_of(words: tuple[Word, ...]) -> Files:
    """What a command other than git does to the files that it names."""
    name = program_of(base_name(words[0]) or "")
    arguments = read_arguments(options_of(name) or NO_OPTIONS, words)
    named = file_words(name, words, arguments) if name in _READERS | _WRITERS else ()
    by_kind = {kind: tuple(one.value for one in arguments.of(kind) if one.value is not None) for kind in Kind}
    made = (*by_kind[Kind.WRITES], *by_kind[Kind.MAKES])
    if name == "dd":
        made = tuple(rest_of(word, 3) for word in words[1:] if word.loose.startswith("of="))
        read = tuple(rest_of(word, 3) for word in words[1:] if word.loose.startswith("if="))
    else:
        read = (*by_kind[Kind.READS], *(_sources(name, named, arguments) if name in _READERS else ()))
    changed = (*made, *(named if changes_files(words) else ()))
    if name in _CHANGED_LAST:
        changed = (*changed, *(word for _, word in arguments.operands[-1:]))
    if name == "find" and any(one.option == "-delete" for one in arguments.given):
        changed = (*changed, *find_roots(words))
    if name in _CHANGED_BEHIND_FIRST:
        changed = (*changed, *(word for _, word in arguments.operands[1:]))
    is_walker = name in _WALKERS or (name in _READERS and any(_RECURSIVE.fullmatch(word.loose) for word in words[1:]))
    if is_walker and (name in _WALK_ALONE or name.endswith("grep")) and not _names_files(name, words, arguments):
        read = (*read, Word(".", "."))
    may_change = (name not in _READERS and name not in PLAIN) or name in _FORMATTERS
    return Files(
        reads=(*read, *(made if name in _CARRY_FILES else ())),
        changes=changed,
        touches=() if name in _ONLY_NAME else tuple(map(_value_in, words[1:])),
        may_change=may_change,
        folders=by_kind[Kind.FOLDER] + (_folder_of_env(words) if name == "env" else ()),
        walks=is_walker,
        changes_below=name in _CHANGE_BELOW,
        walks_hidden=name not in _WALK_ALONE or any(_WITH_HIDDEN.fullmatch(word.loose) for word in words[1:]),
        is_exact=not is_interpreters_name(name) and name not in ("source", "."),
    )


def _sources(name: str, named: tuple[Word, ...], arguments: Arguments) -> tuple[Word, ...]:
    """Without the last word of what copies into that."""
    if name not in _INTO_LAST or len(arguments.operands) < 2 or next(arguments.of(Kind.MAKES), None) is not None:
        return named
    return tuple(word for word in named if word is not arguments.operands[-1][1])


def find_roots(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The folders that `find` looks through."""
    rest = words[1:]
    end = next((at for at, word in enumerate(rest) if word.loose.startswith(("-", "(", "!"))), len(rest))
    return rest[:end] or (Word(".", "."),)


def _names_files(name: str, words: tuple[Word, ...], arguments: Arguments) -> bool:
    """Whether a search names where to look, behind what to look for."""
    if name not in _WALK_ALONE and not any(_RECURSIVE.fullmatch(word.loose) for word in words[1:]):
        return True  # it reads what it is fed with
    return len(arguments.operands) > (0 if _has_text(arguments) else 1)


def _has_text(arguments: Arguments) -> bool:
    """Whether an option gives what to look for, or the script."""
    return any(text.startswith(one.option) for one in arguments.given for text in _GIVE_TEXT)


def _folder_of_env(words: tuple[Word, ...]) -> tuple[Word, ...]:
    return tuple(one.value for one in read_arguments(_ENV, words).of(Kind.FOLDER) if one.value is not None)


_ENV = Options({"-C": Kind.FOLDER, "--chdir": Kind.FOLDER, "-u": Kind.TAKES, "--unset": Kind.TAKES, "-S": Kind.RUNS})


def _value_in(word: Word) -> Word:
    """The value in an option that holds one: `--file=x`, `-tx`."""
    text = word.loose
    if not text.startswith("-") or text.startswith(HOLE):
        return word
    if "=" in text:
        return rest_of(word, text.index("=") + 1)
    return rest_of(word, 2) if not text.startswith("--") and re.search(r"[./~]", text) else word


def changes_files(words: tuple[Word, ...]) -> bool:
    """Whether a command changes the files that its arguments name."""
    name = base_name(words[0])
    if name in _AWKS:
        return any(word.loose.endswith("inplace") for word in words[1:])
    if name != "sed":
        return name in _WRITERS
    values = [word.loose for word in words[1:]]
    return any(map(_IN_PLACE.fullmatch, values)) or not is_plain_sed(values)


def file_words(name: str, words: tuple[Word, ...], arguments: Arguments) -> tuple[Word, ...]:
    """The arguments that may be files, and the values of options of which nothing is known."""
    if (behind := _TEXT_BEHIND.get(name)) is not None:
        return tuple(_value_in(word) for before, word in pairwise(words) if not behind.fullmatch(before.loose))
    is_text_first = name in _TEXT_FIRST and not _has_text(arguments)
    known = {one.at for one in arguments.given if one.kinds}
    others = [_value_in(words[at]) for at in dict.fromkeys(one.at for one in arguments.given) if at not in known]
    return (*(word for _, word in arguments.operands[is_text_first:]), *others)
