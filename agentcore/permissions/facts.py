"""What is known about a call before it is judged: the paths it names, and for a shell line what it does to files.

Here the file system is touched: paths are resolved through their links. What is found is a value.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentcore.messages import ToolCall
from agentcore.permissions.paths import Anchors, Place, place_of
from agentcore.permissions.programs import base_name
from agentcore.permissions.protected import is_protected_as_given, is_protected_place
from agentcore.permissions.readonly import is_harmless, shows_something
from agentcore.permissions.removal import critical_removal
from agentcore.permissions.shell import Script, read_script
from agentcore.permissions.words import HOLE, HOME, Word, names
from agentcore.permissions.workspace import OutsideRoots, Workspace
from agentcore.permissions.wrappers import inner_commands
from agentcore.ports import ToolSpec

_READERS = names(
    "cat tac head tail nl less more grep egrep fgrep rg ag sed awk cut sort uniq wc od xxd hexdump strings base64 diff"
    " cmp file stat cp mv ln scp rsync tar zip gzip source . python node bash sh jq yq md5sum sha256sum tee"
)
"""Programs whose arguments are files that they read, as far as Read rules are concerned."""
_WRITERS = names(
    "tee cp mv ln install touch mkdir rm rmdir unlink shred truncate chmod chown chgrp dd rsync patch sed perl ed vi"
    " vim nano"
)
"""Programs whose arguments are files that they change, as far as Edit rules and protected places are concerned."""


@dataclass(frozen=True, slots=True)
class Line:
    """A shell line, and the places that it names."""

    script: Script
    writes: tuple[Place, ...] = ()
    """Behind `>`."""
    reads: tuple[Place, ...] = ()
    """Behind `<`, and arguments of programs that read files."""
    changed: tuple[Place, ...] = ()
    """Arguments of programs that change files."""
    unknown_write: str | None = None
    """A redirection whose file only the shell will know."""
    critical: str | None = None
    """What it would remove that nobody removes by mistake."""
    harmless: tuple[bool, ...] = ()
    """For each segment, whether it changes nothing and shows nothing but what lies in the project."""

    @property
    def only_shows(self) -> bool:
        """One harmless command, without operators."""
        return self.script.is_single and self.harmless == (True,) and shows_something(self.script.segments[0])


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about the paths of a call, resolved through links."""

    outside: str | None = None
    """Why a path is closed to tools; None when all are inside."""
    protected: tuple[str, ...] = ()
    """Paths whose change always needs a person."""
    places: tuple[Place, ...] = ()
    """What the call names in the fields that hold paths."""
    line: Line | None = None
    """Of a shell call."""
    anchors: Anchors = field(default_factory=lambda: Anchors(Path("/"), Path("/")))
    """What the patterns of rules are meant from."""


def facts_about(call: ToolCall, spec: ToolSpec, workspace: Workspace) -> Facts:
    """Resolve the paths that a call names and say what kind of place they are."""
    command = (call.input or {}).get("command")
    if call.name == "bash" and isinstance(command, str):
        return _facts_of_line(command, workspace)
    resolve = workspace.resolve_readable if spec.read_only else workspace.resolve
    anchors = Anchors(workspace.cwd, workspace.home)
    protected, places = [], []
    for name in spec.paths:
        path = (call.input or {}).get(name)
        if not isinstance(path, str):
            continue
        try:
            real = resolve(path)
            places.append(place_of(path, workspace.cwd, real))
        except OutsideRoots as error:
            return Facts(outside=str(error))
        except (OSError, ValueError, RuntimeError):
            return Facts(outside=f"{path[:200]} is no usable path")
        if spec.edits and _is_protected(real, path, workspace):
            protected.append(path)
    return Facts(protected=tuple(protected), places=tuple(places), anchors=anchors)


def _facts_of_line(command: str, workspace: Workspace) -> Facts:
    script = read_script(command)
    bases = _folders(script, workspace)
    look = _Look(workspace, bases)
    writes = look.redirected(script.writes)
    look.is_write = False
    reads = (*look.redirected(script.reads), *look.arguments(script, _READERS))
    changed = look.arguments(script, _WRITERS)
    closed = look.closed or look.closed_argument(script)
    if closed is not None:
        return Facts(outside=closed)
    anchors = Anchors(workspace.cwd, workspace.home)
    protected = [place.given for place in (*writes, *changed) if _is_protected(place.real, place.given, workspace)]
    line = Line(
        script=script,
        writes=writes,
        reads=reads,
        changed=changed,
        unknown_write=look.unknown,
        critical=critical_removal(script, bases, workspace),
        harmless=tuple(is_harmless(segment, workspace, moves=len(bases) - 1) for segment in script.segments),
    )
    return Facts(protected=tuple(dict.fromkeys(protected)), line=line, anchors=anchors)


def _is_protected(real: Path, given: str, workspace: Workspace) -> bool:
    return is_protected_place(real, workspace) or is_protected_as_given(given, workspace)


def _folders(script: Script, workspace: Workspace) -> tuple[Path | None, ...]:
    """Where relative paths of a line may be meant from: the working folder, and wherever it changes to; None for a
    folder that is not known."""
    found: list[Path | None] = [workspace.cwd]
    for words in inner_commands(script):
        if not words or base_name(words[0]) not in ("cd", "pushd"):
            continue
        target = next((word for word in words[1:] if not word.raw.startswith("-")), Word("~", "~"))
        text = expanded(target, workspace)
        found += [None if text is None or base is None else base / text for base in tuple(found)]
        if len(found) > _MAX_FOLDERS:
            return (*found[:_MAX_FOLDERS], None)
    return tuple(dict.fromkeys(found))


_MAX_FOLDERS = 32


def expanded(word: Word, workspace: Workspace) -> str | None:
    """A word as a path, `~` and `$HOME` expanded; None where it is not known."""
    text = word.loose.replace(HOME, str(workspace.home))
    if text == "~" or text.startswith("~/"):
        text = str(workspace.home) + text[1:]
    elif text.startswith("~"):
        text = os.path.expanduser(text)  # noqa: PTH111 - Path raises for a user that there is not
    return None if HOLE in text or text.startswith("~") else text


def _known_part(word: Word) -> Word:
    """The folder of a path whose end is not known: `~/.ssh/*` leads to `~/.ssh`."""
    known, hole, _ = word.loose.partition(HOLE)
    return Word(word.raw, known.rpartition("/")[0]) if hole else word


@dataclass(slots=True)
class _Look:
    """Resolves the files of one line, and keeps what speaks against it."""

    workspace: Workspace
    bases: tuple[Path | None, ...]
    closed: str | None = None
    unknown: str | None = None
    is_write: bool = True

    def redirected(self, words: tuple[Word, ...]) -> tuple[Place, ...]:
        return tuple(place for word in words for place in self._places(word, must_be_inside=self.is_write))

    def arguments(self, script: Script, programs: frozenset[str]) -> tuple[Place, ...]:
        """The places that are named in the arguments of some programs, wherever these stand in the line."""
        found = []
        for words in inner_commands(script):
            if words and base_name(words[0]) in programs:
                for word in words[1:]:
                    value = expanded(word, self.workspace)
                    if value and not value.startswith("-"):
                        found += [place for base in self.bases if (place := self._place(base, value))]
        return tuple(dict.fromkeys(found))

    def closed_argument(self, script: Script) -> str | None:
        """Why a word of the line is a path that is closed to every tool."""
        for words in inner_commands(script):
            is_reader = bool(words) and base_name(words[0]) in _READERS - _WRITERS
            is_closed = self.workspace.is_unreadable if is_reader else self.workspace.is_hidden
            for word in words:
                value = expanded(_known_part(word), self.workspace)
                if value is None or ("/" not in value and not value.startswith(".")):
                    continue
                if any(self._leads_to(value, is_closed)):
                    return self.workspace.why_closed(word.raw)
        return None

    def _leads_to(self, value: str, is_closed: Callable[[Path], bool]) -> Iterator[bool]:
        """For each path that a word may hold (`x`, `--file=x`, `@x`), whether it leads to a closed place."""
        for text in {value, value.partition("=")[2], value.rpartition("@")[2]} - {""}:
            for base in self.bases:
                place = self._place(base, text)
                yield place is not None and is_closed(place.real)

    def _places(self, word: Word, *, must_be_inside: bool) -> list[Place]:
        value = expanded(word, self.workspace)
        if value is None or (None in self.bases and not value.startswith("/")):
            self.unknown = word.raw if must_be_inside else self.unknown
            return []
        found = []
        for base in self.bases:
            place = self._place(base, value)
            if place is None:
                self.closed = self.closed or f"{word.raw[:200]} is no usable path"
                continue
            try:
                self.workspace.resolve(value if base is None else str(base / value))
            except OutsideRoots as error:
                if must_be_inside or self.workspace.is_unreadable(place.real):
                    self.closed = self.closed or str(error)
            found.append(place)
        return list(dict.fromkeys(found))

    def _place(self, base: Path | None, value: str) -> Place | None:
        try:
            path = os.path.normpath(value) if base is None else os.path.normpath(base / value)
            named = Path(path)
            if base is None and not named.is_absolute():
                return None
            real = (named if base is None else base / value).resolve()
            return Place(value, named, real, real.is_dir())
        except (OSError, ValueError, RuntimeError):
            return None
