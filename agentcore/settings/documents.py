"""Settings files as documents: read with care, and where one is broken a sentence names the file and the line.

What comes with a repository is opened without following a link out of it. Blocks: call it in a worker. A file that
two readers could understand differently (a JSON name given twice) counts as broken. No sentence repeats a value: it
may be a key.
"""

import errno
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal, NoReturn

from agentcore.files import open_regular, opened_folder
from agentcore.folders import read_regular
from agentcore.ports.tools import ToolError

MAX_FILE_BYTES = 1024 * 1024
MAX_DEPTH = 64  # objects and lists within one another; hooks need six
MAX_SEARCHES = 50
"""For lines of keys in a file; more notices than that nobody reads."""
Syntax = Literal["TOML", "JSON"]

_LINE = re.compile(r"at line (\d+)")
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class Broken(Exception):
    """A file cannot be read as what it should be; `str(error)` says which one, where, and what to do."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file that could be read."""

    name: str
    """As people are told it."""
    data: Mapping[str, Any]
    text: str
    syntax: Syntax
    _searches: Iterator[int] = field(default_factory=count, repr=False, compare=False)

    def place(self, *keys: str) -> str:
        """The file, and the line of a key in it where that is certain; the last of `keys` is the key itself.

        Each search costs a look at the whole text: of thousands of mistakes the first ones have a line."""
        line = self._line_of(keys) if next(self._searches) < MAX_SEARCHES else None
        return self.name if line is None else f"{self.name} (line {line})"

    def _line_of(self, keys: tuple[str, ...]) -> int | None:
        key = re.escape(keys[-1])
        if self.syntax == "JSON":
            found = [match.start() for match in re.finditer(rf'"{key}"\s*:', self.text)]
        else:
            dotted = r"\.".join(rf'"?{re.escape(one)}"?' for one in keys)
            section = r"\.".join(rf'"?{re.escape(one)}"?' for one in keys[:-1])
            start = re.search(rf"^[ \t]*\[{section}\]", self.text, re.MULTILINE) if section else None
            pattern = rf'^[ \t]*(?:"?{key}"?[ \t]*=|\[+{dotted}[\].])'
            behind = start.end() if start else 0
            found = [match.start() for match in re.finditer(pattern, self.text[behind:], re.MULTILINE)]
            found = [behind + place for place in found]
        return self.text.count("\n", 0, found[0]) + 1 if len(found) == 1 else None


def read_own(file: Path, name: str, syntax: Syntax) -> Document | None:
    """A file of the user's, which may be a link to wherever he keeps it; None when there is none. Raises: Broken."""
    try:
        data = read_regular(file, MAX_FILE_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from None
    return parse(data, name, syntax)


def read_shared(file: Path, top: Path, name: str, syntax: Syntax) -> Document | None:
    """A file that comes with a repository, and lies with all its links inside `top` (resolved). Raises: Broken."""
    try:
        data = _read_within(file, top)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, ToolError) as error:
        raise _unreadable(name, error) from None
    return parse(data, name, syntax)


def _read_within(file: Path, top: Path) -> bytes:
    real = _resolved(file)
    if not real.is_relative_to(top):
        raise ValueError("a link leads out of the project")
    with opened_folder(real.parent) as folder, open_regular(folder, real.name) as opened:
        data = opened.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise ValueError(f"larger than {MAX_FILE_BYTES} bytes")
    return data


def _resolved(file: Path) -> Path:
    """Raises: OSError, ValueError."""
    try:
        return file.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: of a loop of links, before 3.13
        if isinstance(error, OSError) and error.errno != errno.ELOOP:
            raise
        raise ValueError("its links lead round in a circle") from None


def parse(data: bytes, name: str, syntax: Syntax) -> Document:
    """Read the bytes of a file. Raises: Broken."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Broken(f"{name} cannot be read: it is not UTF-8. Mend it.") from None
    try:
        found = tomllib.loads(text) if syntax == "TOML" else _json(text)
    except RecursionError:
        raise _too_deep(name) from None
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        raise Broken(f"{name} is no TOML {f'at line {line[1]}' if line else 'at its end'}. Mend it.") from None
    except json.JSONDecodeError as error:
        raise Broken(f"{name} is no JSON at line {error.lineno}. Mend it.") from None
    except ValueError as error:
        raise _unreadable(name, error) from None
    if not isinstance(found, dict):
        raise Broken(f"{name} must hold a JSON object. Mend it.")
    _demand_plain(found, name)
    return Document(name, found, text, syntax)


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number) if text.strip() else {}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice in one object")
    return found


def _no_number(_word: str) -> NoReturn:
    raise ValueError("it holds a number that is none")


def _demand_plain(data: dict[str, Any], name: str) -> None:
    """Raises: Broken for what is nested too deeply, and for text that cannot be written out again."""
    level: list[Any] = [data]
    for _ in range(MAX_DEPTH):
        texts = [one for one in level if isinstance(one, str)]
        if any(_HALF_PAIR.search(text) for text in texts):
            raise Broken(f"{name} cannot be read: it holds half a surrogate pair. Mend it.")
        level = [part for one in level for part in _parts(one)]
        if not level:
            return
    raise _too_deep(name)


def _parts(value: object) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return value if isinstance(value, list) else []


def _too_deep(name: str) -> Broken:
    return Broken(f"{name} is nested too deeply. Mend it.")


def _unreadable(name: str, error: Exception) -> Broken:
    """Only sentences of our own are told: those of the system hold paths."""
    if isinstance(error, ToolError):
        error = ValueError("no regular file")
    why = _words(error)
    return Broken(f"{name} cannot be read: {why}. Mend it.")


def _words(error: Exception) -> str:
    """Its own where they are ours or the system's, else its kind: what a parser says may quote the file."""
    if type(error) is ValueError:
        return str(error)
    return str(error.strerror) if isinstance(error, OSError) else type(error).__name__
