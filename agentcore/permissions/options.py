"""The options of a command, read as programs read them: clusters, values in the same word or the next, cut names.

What a program's options mean is a table (`programs`); here is how a command line is held against one. A long option may
be cut short as long as it is clear which is meant: each beginning counts as every option that begins so.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from agentcore.permissions.words import HOLE, Word


class Kind(Enum):
    RUNS = auto()
    """Runs another program, or changes which one runs. Its value may be a command line."""
    WRITES = auto()
    """Writes a file where nobody expects the program to."""
    MAKES = auto()
    """Names the file that the program is there to write."""
    READS = auto()
    """Names a file to read."""
    FOLDER = auto()
    """Names the folder to work in."""
    TAKES = auto()
    """Takes some other value."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one program that matter here; all others are taken for ones without a value."""

    kinds: Mapping[str, Kind]
    flags: frozenset[str] = frozenset()
    """Of these: those without a value."""
    is_single: bool = False
    """Long options have one dash, and are never cut: `find -exec`."""
    is_bundled: bool = False
    """The first word holds options without a dash: `tar xf a`."""

    def has_value(self, option: str) -> bool:
        return option in self.kinds and option not in self.flags

    def meant(self, name: str) -> tuple[str, ...]:
        """The options that a long name, perhaps a cut one, may be."""
        if name in self.kinds:
            return (name,)
        if self.is_single:
            return (name[1:],) if name.startswith("--") and name[1:] in self.kinds else ()
        return tuple(one for one in self.kinds if one.startswith(name))


@dataclass(frozen=True, slots=True)
class Given:
    """One option of a command."""

    option: str
    kinds: frozenset[Kind]
    value: Word | None
    at: int
    """The place of its word."""


@dataclass(slots=True)
class Arguments:
    """What stands behind the name of a program."""

    given: list[Given] = field(default_factory=list)
    operands: list[tuple[int, Word]] = field(default_factory=list)
    """With their places."""

    def of(self, *kinds: Kind) -> Iterator[Given]:
        return (one for one in self.given if not one.kinds.isdisjoint(kinds))


NO_OPTIONS = Options({})


def read_arguments(options: Options, words: Sequence[Word]) -> Arguments:
    """Take the words of a command apart; the first is the program."""
    return _Reader(options, words).read()


def rest_of(word: Word, start: int) -> Word:
    """A word without its first characters, which are known."""
    shape = word.shape[start:] if word.shape[:start] == word.loose[:start] else ""
    return Word(word.raw, word.loose[start:], word.is_quoted, shape)


class _Reader:
    def __init__(self, options: Options, words: Sequence[Word]) -> None:
        self._options = options
        self._words = words
        self._found = Arguments()
        self._at = 1

    def read(self) -> Arguments:
        words = self._words
        while self._at < len(words):
            word, at = words[self._at], self._at
            text = word.loose
            if text == "--":
                self._found.operands += enumerate(words[at + 1 :], at + 1)
                break
            if at == 1 and self._options.is_bundled and not text.startswith("-"):
                self._bundle(word)
            elif text.startswith("--") or (self._options.is_single and text.startswith("-") and text != "-"):
                self._long(word)
            elif text.startswith("-") and text != "-":
                self._cluster(word)
            else:
                self._found.operands.append((at, word))
            self._at += 1
        return self._found

    def _long(self, word: Word) -> None:
        at = self._at
        name, equals, _ = word.loose.partition("=")
        known, hole, _ = name.partition(HOLE)
        if hole:
            options = tuple(one for one in self._options.kinds if one.startswith(known))
            self._take(at, known, options, Word(HOLE, HOLE))
            return
        options = self._options.meant(name)
        value = rest_of(word, len(name) + 1) if equals else None
        if value is None and any(map(self._options.has_value, options)):
            value = self._next()
        self._take(at, name, options, value)

    def _cluster(self, word: Word) -> None:
        at = self._at
        for place, letter in enumerate(word.loose[1:], 2):
            if letter == HOLE:
                options = tuple(one for one in self._options.kinds if not one.startswith("--"))
                self._take(at, "-", options, Word(HOLE, HOLE))
                return
            option = f"-{letter}"
            if not self._options.has_value(option):
                self._take(at, option, (option,), None)
                continue
            rest = rest_of(word, place)
            self._take(at, option, (option,), rest if rest.loose else self._next())
            return

    def _bundle(self, word: Word) -> None:
        at = self._at
        for letter in word.loose:
            option = f"-{letter}"
            value = self._next() if self._options.has_value(option) else None
            self._take(at, option, (option,), value)

    def _next(self) -> Word | None:
        if self._at + 1 >= len(self._words):
            return None
        self._at += 1
        return self._words[self._at]

    def _take(self, at: int, name: str, options: Sequence[str], value: Word | None) -> None:
        kinds = frozenset(self._options.kinds[one] for one in options if one in self._options.kinds)
        self._found.given.append(Given(options[0] if len(options) == 1 else name, kinds, value, at))
