"""Words of one shell line as paths: what they may be, from where, and what lies there."""

import os
from collections.abc import Iterator
from pathlib import Path

from agentcore.permissions.disk import TooMuch, globbed
from agentcore.permissions.git_commands import GLOBAL_OPTIONS
from agentcore.permissions.inner import Words, inner_commands, inner_scripts
from agentcore.permissions.openers import files_of, find_roots
from agentcore.permissions.options import read_arguments
from agentcore.permissions.paths import Place
from agentcore.permissions.programs import base_name
from agentcore.permissions.shell import Script
from agentcore.permissions.spellings import spellings, variables_of
from agentcore.permissions.words import GLOB, HOLE, Word
from agentcore.permissions.workspace import Workspace

MAX_FOLDERS = 32
MAX_PLACES = 5_000
"""That are resolved for one line: some 0.2 s."""


class Resolver:
    """Touches the file system, each place once and within bounds."""

    def __init__(self, script: Script, workspace: Workspace) -> None:
        self.is_full = False
        """There were more places, or more files behind a pattern, than are looked at: nothing was found for them."""
        self._workspace = workspace
        self._script = script
        self._with_hidden = "dotglob" in script.text
        self._found_texts: dict[Word, tuple[str, ...]] = {}
        self._found_places: dict[tuple[Path | None, str], Place | None] = {}
        scripts = (script, *inner_scripts(script))
        self._variables = variables_of(scripts, str(workspace.home), None)
        self.folders = self._folders()
        """Where relative paths may be meant from; None for a folder that is not known."""
        known = [str(folder) for folder in self.folders if folder is not None]
        self._variables = variables_of(scripts, str(workspace.home), known if None not in self.folders else None)
        self._found_texts.clear()  # the working folder has a name now

    def texts(self, word: Word) -> tuple[str, ...]:
        """What a word may be, with `HOLE` and `GLOB` where it is not known."""
        if word not in self._found_texts:
            self._found_texts[word] = tuple(map(self._from_home, spellings(word, self._variables)))
        return self._found_texts[word]

    def places(self, text: str) -> list[Place]:
        """What a known text names, from each folder."""
        return [place for folder in self.folders if (place := self.place(folder, text)) is not None]

    def place(self, folder: Path | None, value: str) -> Place | None:
        key = (folder, value)
        if key not in self._found_places:
            if len(self._found_places) >= MAX_PLACES:
                self.is_full = True
                return None
            self._found_places[key] = _resolved(folder, value)
        return self._found_places[key]

    def matching(self, text: str) -> list[Place]:
        """What a text with `GLOB` names on the disk."""
        found = list[Place]()
        for folder in self.folders:
            if folder is None and not text.startswith("/"):
                continue
            try:
                names = globbed(folder or Path("/"), text, with_hidden=self._with_hidden)
            except (TooMuch, OSError, ValueError):
                self.is_full = True
                return []
            found += [place for name in names if (place := self.place(folder, name)) is not None]
        return found

    def parts(self, text: str) -> list[Place]:
        """For each path that a word may hold: `x`, `a=x`, `@x`, `x:y`, `file://x`."""
        pairs = (text, text.partition("=")[2], text.rpartition("@")[2], text.partition(":")[0], text.partition(":")[2])
        bare = dict.fromkeys(part.removeprefix("//") for part in pairs if part.removeprefix("//"))
        return [place for part in bare for place in self.places(self._from_home(part))]

    def roots_of_find(self) -> Iterator[str]:
        """What `find` fills in lies below these."""
        for words in inner_commands(self._script):
            if words and base_name(words[0]) == "find":
                for word in find_roots(words):
                    yield from self.texts(word)

    def _from_home(self, text: str) -> str:
        if text == "~" or text.startswith("~/"):
            return str(self._workspace.home) + text[1:]
        if text.startswith("~"):
            other = os.path.expanduser(text)  # noqa: PTH111 - Path raises for a user that there is not
            return HOLE if other.startswith("~") else other
        return text

    def _folders(self) -> tuple[Path | None, ...]:
        """The working folder, and wherever the line changes to."""
        found: list[Path | None] = [self._workspace.cwd]
        for words in inner_commands(self._script):
            for target in _targets(words):
                for text in self.texts(target):
                    is_known = HOLE not in text and GLOB not in text
                    found += [base / text if is_known and base is not None else None for base in tuple(found)]
                    found = list(dict.fromkeys(found))
                if len(found) > MAX_FOLDERS:
                    return (*found[:MAX_FOLDERS], None)
        return tuple(found)


def _targets(words: Words) -> Iterator[Word]:
    """The folders that a command changes to, or is told to work in."""
    if not words:
        return
    name = base_name(words[0])
    if name in ("cd", "pushd"):
        yield next((word for word in words[1:] if not word.raw.startswith("-")), Word("~", "~"))
    elif name == "git":
        for one in read_arguments(GLOBAL_OPTIONS, words).given:
            if one.option in ("-C", "--work-tree") and one.value is not None:
                yield one.value
    else:
        yield from files_of(words).folders


def _resolved(folder: Path | None, value: str) -> Place | None:
    try:
        path = os.path.normpath(value) if folder is None else os.path.normpath(folder / value)
        named = Path(path)
        if folder is None and not named.is_absolute():
            return None
        real = (named if folder is None else folder / value).resolve()
        return Place(value, named, real, real.is_dir(), os.path.lexists(real))
    except (OSError, ValueError, RuntimeError):
        return None
