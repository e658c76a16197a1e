"""Instruction files as one text for the system prompt, with what they import. Nothing in them is run.

`@path` outside of code imports a file: from the file's own folder, at most four hops deep, inside the project alone
(for the user's own files: Markdown of their own folder). An import that cannot be followed stays the words that it is,
with a sentence about it. Blocks: call it in a worker.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agentcore.instruction_files.code import code_spans, outside
from agentcore.instruction_files.places import Place, instruction_places
from agentcore.within import Bounds, Found, Places, Unfit, attribute, one_line, read_within, real_within, without_tags

MAX_TOTAL_BYTES = 256 * 1024
MAX_HOPS = 4  # the convention's
MAX_IMPORTS = 200
"""Paths that are looked at."""
MAX_NOTICES = 20
TAG = "instructions"
_IMPORT = re.compile(r"(?<![^\s(\[{\"'])@((?:\\ |[^\s\\<>`\"'|*])+)")
_TRAILING = ".,;:!?)]}"
_SERVER = re.compile(r"[A-Za-z][\w.-]*:")
"""What a server of tools offers is mentioned by its name and a colon."""
_IS_PATH = re.compile(r"^(?:~/|/|\.{1,2}/)|\.[A-Za-z0-9]{1,8}$")
"""Looks like a file rather than a name of somebody or something."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """What a fresh context begins with."""

    parts: tuple[str, ...] = ()
    """Of each file its text between tags that name it."""
    files: tuple[str, ...] = ()
    """Their names, in order."""
    notices: tuple[str, ...] = ()
    """What is wrong with files, a sentence each."""

    @property
    def text(self) -> str:
        """All of them; empty where there is none."""
        return "\n\n".join(self.parts)


@dataclass(slots=True)
class _Reading:
    home: Path
    parts: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    read: set[Path] = field(default_factory=set)
    left_bytes: int = MAX_TOTAL_BYTES
    imports: int = 0

    def read_place(self, place: Place) -> None:
        """The first of its files that can be read; what is wrong with one before it is told."""
        for path, name in place.choices:
            try:
                found = read_within(path, place.bounds, may_cut=True)
            except Unfit as error:
                self.told.append(f"{name} {error}: it is left out.")
                continue
            if found is not None:
                self._take(found, path, name, place.bounds, chain=())
                return

    def _take(self, found: Found, path: Path, name: str, bounds: Bounds, chain: tuple[Path, ...]) -> None:
        if found.real in self.read:
            return
        self.read.add(found.real)
        text = found.text.strip()
        size, left_out = len(text.encode()), found.left_out_bytes
        if size > self.left_bytes:
            text = text.encode()[: self.left_bytes].decode(errors="ignore").rpartition("\n")[0]
            left_out += size - len(text.encode())
        if left_out:
            self.told.append(f"{name} is too long: its last {left_out:,} bytes are left out.")
        self.left_bytes -= len(text.encode())
        if not text:
            return
        self.files.append(name)
        self.parts.append(f'<{TAG} from="{attribute(name)}">\n{without_tags(text, (TAG,))}\n</{TAG}>')
        for target in _imports(text):
            self._follow(target, path, name, bounds, (*chain, found.real))

    def _follow(self, target: str, path: Path, name: str, bounds: Bounds, chain: tuple[Path, ...]) -> None:
        if self.imports >= MAX_IMPORTS:
            if self.imports == MAX_IMPORTS:
                self.told.append(f"{name}: more than {MAX_IMPORTS} imports; the rest is left out.")
                self.imports += 1
            return
        self.imports += 1
        try:
            found = self._imported(target, path, bounds, chain)
        except Unfit as error:
            self.told.append(f"{name}: the import @{one_line(target)} {error}: it is left out.")
            return
        if found is not None:
            child = path.parent / self._expanded(target)
            self._take(found, child, _name_beside(name, target), bounds, chain)

    def _imported(self, target: str, path: Path, bounds: Bounds, chain: tuple[Path, ...]) -> Found | None:
        """None for what is only words, or is there already. Raises: Unfit."""
        child = path.parent / self._expanded(target)
        real = real_within(child, bounds)
        if real is None or not real.is_file():
            if _IS_PATH.search(target):
                raise Unfit("leads to no file")
            return None
        if real in chain:
            raise Unfit("goes round in a circle")
        if real in self.read:
            return None
        if len(chain) > MAX_HOPS:
            raise Unfit(f"is more than {MAX_HOPS} hops away")
        return read_within(child, bounds, may_cut=True)

    def _expanded(self, target: str) -> str:
        return str(self.home / target[2:]) if target.startswith("~/") else target


def read_instructions(places: Places) -> Instructions:
    """All of a session's, for a context that begins now."""
    reading = _Reading(places.home)
    for place in instruction_places(places):
        reading.read_place(place)
    more = len(reading.told) - MAX_NOTICES
    told = (
        *reading.told[:MAX_NOTICES],
        *((f"{more} more things are wrong with instruction files.",) if more > 0 else ()),
    )
    return Instructions(tuple(reading.parts), tuple(reading.files), told)


def _imports(text: str) -> Iterator[str]:
    """The paths behind `@`, each once, in order; what ends a sentence is no part of one."""
    spans = code_spans(text)
    targets = (found[1] for found in _IMPORT.finditer(text) if outside(found.start(), spans))
    for target in dict.fromkeys(targets):
        path = target.replace("\\ ", " ").rstrip(_TRAILING)
        if path and not _SERVER.match(path):
            yield path


def _name_beside(name: str, target: str) -> str:
    """An import as people are told it: seen from the same folder as the file that has it."""
    return target if target.startswith(("~", "/")) else f"{name.rpartition('/')[0]}/{target}".lstrip("/")
