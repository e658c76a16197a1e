"""Notes that the model keeps from session to session: one file for each project, and one for the user.

The files lie in the server's own folder, closed to every other tool, and a person may edit them: a line that is not
indented begins a note. Written whole and atomically, readable for the user alone; nothing that looks like a key or a
password is kept. Blocks: call it in a worker.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agentcore.folders import make_private, read_regular
from agentcore.guard.scanning import KEY, PASSWORD, PRIVATE_KEY
from agentcore.settings.private import locked, replace_private
from agentcore.within import plain_text

FILE_NAME = "MEMORY.md"
MAX_FILE_BYTES = 64 * 1024
MAX_NOTE_CHARS = 2_000
SHOWN_LINES = 200  # the contract's, of what a fresh context begins with
SHOWN_BYTES = 25_000
_SECRETS = frozenset({KEY, PASSWORD, PRIVATE_KEY})

NoteScope: TypeAlias = Literal["project", "user"]
TITLES: Mapping[NoteScope, str] = {"project": "About this project:", "user": "About the user:"}


class Refused(Exception):
    """A note cannot be kept, or not found; `str(error)` is a sentence for the model."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one session. Sessions and processes may share the files."""

    folders: Mapping[NoteScope, Path]
    known_secrets: tuple[str, ...] = ()
    """What this process holds and must stand nowhere."""

    def notes(self, scope: NoteScope) -> list[str]:
        """In the order in which they were added. Raises: Refused."""
        return [_said(block) for block in _blocks(self._read(scope))]

    def add(self, scope: NoteScope, note: str) -> None:
        """Raises: Refused, OSError."""
        block = self._checked(note)
        self._change(scope, lambda blocks: [*blocks, block])

    def replace(self, scope: NoteScope, old: str, note: str) -> None:
        """Put a note in the place of the one that has the words `old`. Raises: Refused, OSError."""
        block = self._checked(note)

        def replaced(blocks: list[str]) -> list[str]:
            place = _place_of(blocks, old)
            return [*blocks[:place], block, *blocks[place + 1 :]]

        self._change(scope, replaced)

    def remove(self, scope: NoteScope, old: str) -> None:
        """Forget the note that has the words `old`. Raises: Refused, OSError."""

        def removed(blocks: list[str]) -> list[str]:
            place = _place_of(blocks, old)
            return [*blocks[:place], *blocks[place + 1 :]]

        self._change(scope, removed)

    def index(self) -> str:
        """What a fresh context begins with: the beginning of each file; empty where there are no notes."""
        parts = []
        for scope, title in TITLES.items():
            try:
                text = self._read(scope).strip()
            except Refused:  # told when the tool is used
                continue
            if text:
                parts.append(f"{title}\n{_beginning(text, scope)}")
        return "\n\n".join(parts)

    def _read(self, scope: NoteScope) -> str:
        try:
            data = read_regular(self.folders[scope] / FILE_NAME, MAX_FILE_BYTES)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except (OSError, ValueError):
            raise Refused(
                f"The {scope} notes cannot be read: the file is no regular one, or too large. A person has to mend it."
            ) from None
        return plain_text(data.decode("utf-8-sig", errors="replace"))

    def _change(self, scope: NoteScope, change: Callable[[list[str]], list[str]]) -> None:
        folder = self.folders[scope]
        make_private(folder)
        with locked(folder / FILE_NAME):
            text = "".join(change(list(_blocks(self._read(scope)))))
            if len(text.encode()) > MAX_FILE_BYTES:
                raise Refused(
                    f"The {scope} notes are full ({MAX_FILE_BYTES // 1024} KiB): remove or shorten some first."
                )
            replace_private(folder / FILE_NAME, text.encode())

    def _checked(self, note: str) -> str:
        """A note as it is kept."""
        text = plain_text(note).strip()
        if not text:
            raise Refused("The note is empty.")
        if len(text) > MAX_NOTE_CHARS:
            raise Refused(f"The note has {len(text):,} characters; {MAX_NOTE_CHARS:,} is the most. Keep what matters.")
        if _has_secret(text, self.known_secrets):
            raise Refused("The note holds what looks like a key or a password: it is not kept. Leave that out.")
        lines = [line.strip() for line in text.split("\n") if line.strip()]
        return "- " + "\n  ".join(lines) + "\n"


def _blocks(text: str) -> Iterator[str]:
    """The notes of a file as they stand there, each with its line ends."""
    block = ""
    for line in text.split("\n"):
        if not line.strip():
            continue
        if block and not line[0].isspace():
            yield block
            block = ""
        block += f"{line}\n"
    if block:
        yield block


def _said(block: str) -> str:
    return "\n".join(line.strip() for line in block.strip().removeprefix("- ").split("\n"))


def _place_of(blocks: Sequence[str], old: str) -> int:
    """Where the one note is that has these words. Raises: Refused."""
    words = old.strip()
    places = [place for place, block in enumerate(blocks) if words in _said(block)]
    if not places or not words:
        raise Refused("No note has these words: view the notes first.")
    if len(places) > 1:
        raise Refused(f"{len(places)} notes have these words: give more of the one that you mean.")
    return places[0]


def _beginning(text: str, scope: NoteScope) -> str:
    lines, size, kept = text.split("\n"), 0, list[str]()
    for line in lines[:SHOWN_LINES]:
        size += len(line.encode()) + 1
        if size > SHOWN_BYTES:
            break
        kept.append(line)
    left = len(lines) - len(kept)
    return "\n".join([*kept, *([f"[{left} more lines: view the {scope} notes]"] if left else [])])


def _has_secret(text: str, known: Iterable[str]) -> bool:
    from agentcore.guard.builtin import BuiltIn  # late: it loads its libraries

    return any(finding.kind in _SECRETS for finding in BuiltIn(known).scan(text))
