"""What SessionStart hooks export for the commands of their session: the lines that they append to `CLAUDE_ENV_FILE`.

`export NAME=value` and `declare -x NAME="value"`, as a shell reads them; nothing in them is run. Promise: a line that
would have to be run, or means something else, is left out with a sentence, and no secret gets into a command.
"""

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from agentcore.environment import command_environ
from agentcore.folders import make_private, read_regular

VARIABLE = "CLAUDE_ENV_FILE"
FILE_NAME = "exports.sh"
MAX_FILE_BYTES = 256 * 1024
MAX_VARIABLES = 500
_HEAD = re.compile(r"(?:export|declare\s+-x)\s+")
_NAME = re.compile(r"[A-Za-z_]\w*")
_SPECIAL = frozenset("`|&<>()")


class Exports:
    """Of one session. Its file lies beside the journal, closed to every tool of the model."""

    def __init__(self, folder: Path, environ: Mapping[str, str], withheld: Collection[str] = ()) -> None:
        """`environ` is what `$NAME` in a value means at first; `withheld` are names that no command gets. Blocking:
        reads what an earlier process left."""
        self.file = folder / FILE_NAME
        self._environ = command_environ(environ)
        self._withheld = frozenset(withheld)
        self.variables: Mapping[str, str] = {}
        self.read()

    def begin(self, *, has_writers: bool) -> None:
        """Forget all of it: a fresh context begins, and hooks may write anew. Blocking. Raises: OSError."""
        self.variables = {}
        if not has_writers:
            self.file.unlink(missing_ok=True)
            return
        make_private(self.file.parent)
        os.close(os.open(self.file, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600))

    def read(self) -> list[str]:
        """Take what the file says by now; a sentence for each line that is left out. Blocking."""
        try:
            text = read_regular(self.file, MAX_FILE_BYTES).decode(errors="replace")
        except FileNotFoundError:
            return []
        except (OSError, ValueError):
            return [f"{VARIABLE} cannot be read, or is larger than {MAX_FILE_BYTES // 1024} KiB: it is left out."]
        told: list[str] = []
        variables = read_exports(text, self._environ, told.append)
        kept = command_environ({name: value for name, value in variables.items() if name not in self._withheld})
        told += [f"{name} in {VARIABLE} looks like a secret: no command gets it." for name in variables.keys() - kept]
        self.variables = kept
        return told


def read_exports(text: str, environ: Mapping[str, str], tell: Callable[[str], object]) -> dict[str, str]:
    """The variables that a text exports, in order; `tell` gets a sentence for each line that is left out."""
    found: dict[str, str] = {}
    reader = _Reader(text.replace("\r\n", "\n"), environ, found)
    for line, problem in reader.run():
        tell(f"Line {line} of {VARIABLE} is left out: {problem}.")
    return found


class _Bad(Exception):
    """The rest of the line cannot be used."""


class _Reader:
    def __init__(self, text: str, environ: Mapping[str, str], found: dict[str, str]) -> None:
        self._text = text
        self._environ = environ
        self._found = found
        self._at = 0

    def run(self) -> Iterator[tuple[int, str]]:
        """Read all lines; yield number and problem of each that is none."""
        while self._at < len(self._text):
            start = self._at
            try:
                self._line()
            except _Bad as bad:
                yield self._text.count("\n", 0, start) + 1, str(bad)
                end = self._text.find("\n", max(self._at, start))
                self._at = len(self._text) if end < 0 else end + 1

    def _line(self) -> None:
        self._skip_blanks()
        if self._peek() in ("\n", "", "#"):
            self._skip_line()
            return
        new: dict[str, str] = {}
        while self._peek() not in ("\n", "", "#"):
            if head := _HEAD.match(self._text, self._at):
                self._at = head.end()
                continue
            name = _NAME.match(self._text, self._at)
            if name is None or self._text[name.end() : name.end() + 1] != "=":
                raise _Bad("it is no `export NAME=value`")
            self._at = name.end() + 1
            new[name[0]] = self._value()
            self._skip_blanks()
        self._skip_line()
        if len(self._found | new) > MAX_VARIABLES:
            raise _Bad(f"there are more than {MAX_VARIABLES} variables")
        self._found.update(new)

    def _value(self) -> str:
        value: list[str] = []
        while (char := self._peek()) not in ("", "\n", " ", "\t", ";"):
            self._at += 1
            match char:
                case "'":
                    value.append(self._until_quote())
                case '"':
                    value.extend(self._quoted())
                case "\\":
                    value.append(self._take() if self._peek() != "\n" else self._take()[:0])
                case "$":
                    value.append(self._expanded())
                case _ if char in _SPECIAL:
                    raise _Bad("it would have to be run")
                case _:
                    value.append(char)
        return "".join(value)

    def _quoted(self) -> Iterator[str]:
        while (char := self._take()) != '"':
            match char:
                case "":
                    raise _Bad("a quote has no end")
                case "\\":
                    following = self._take()
                    if following != "\n":
                        yield following if following in ("$", "`", '"', "\\") else f"\\{following}"
                case "$":
                    yield self._expanded()
                case "`":
                    raise _Bad("it would have to be run")
                case _:
                    yield char

    def _until_quote(self) -> str:
        end = self._text.find("'", self._at)
        if end < 0:
            raise _Bad("a quote has no end")
        text, self._at = self._text[self._at : end], end + 1
        return text

    def _expanded(self) -> str:
        """What stands for `$NAME` and `${NAME}`."""
        has_brace = self._peek() == "{"
        name = _NAME.match(self._text, self._at + has_brace)
        if name is None:
            if self._peek() in ("", "\n", " ", "\t", '"', ";", "/", ":", "."):
                return "$"
            raise _Bad("it would have to be run")
        self._at = name.end()
        if has_brace and self._take() != "}":
            raise _Bad("it would have to be run")
        return self._found.get(name[0], self._environ.get(name[0], ""))

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        self._at += 1
        return char

    def _skip_blanks(self) -> None:
        while self._peek() in (" ", "\t", ";"):
            self._at += 1

    def _skip_line(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end + 1
