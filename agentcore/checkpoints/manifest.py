"""What one run changed, as it is written to disk: for each path what it was before, and what the agent left there.

Paths are absolute and percent-encoded, since a file name need not be UTF-8.
"""

import hashlib
import os
from pathlib import Path
from typing import Annotated
from urllib.parse import quote_from_bytes, unquote_to_bytes

from pydantic import StringConstraints

from agentcore.values import Value

FORMAT = 1
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 of a file's content, in hex."""


class Held(Value):
    """A regular file at one moment."""

    blob: Digest
    mode: int
    """Permission bits."""


class Left(Value):
    """What the agent left at a path."""

    blob: Digest | None = None
    """None: no file."""
    mode: int | None = None
    """Permission bits; None: those it had before."""


GONE = Left()


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def left_of(data: bytes, mode: int | None = None) -> Left:
    return Left(blob=digest_of(data), mode=mode)


class Entry(Value):
    path: str
    before: Held | None = None
    """None: there was no file."""
    left: tuple[Left, ...] = ()
    """One, or two while a write is going on: what was there of the agent's, and what shall be."""
    why_not: str | None = None
    """Why it cannot be taken back; then at most `before` is known."""

    @property
    def is_nothing(self) -> bool:
        """In the end the run left it as it was."""
        if self.why_not is not None or len(self.left) != 1:
            return False
        [left], before = self.left, self.before
        if before is None or left.blob is None:
            return before is None and left.blob is None
        return left.blob == before.blob and left.mode in (None, before.mode)


class Manifest(Value):
    format: int = FORMAT
    run: str
    ts: float = 0.0
    """Unix time of the last change, in seconds."""
    entries: tuple[Entry, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders that the run made, outermost first."""
    further: int = 0
    """Files that commands changed beyond what one command may keep."""
    is_undone: bool = False
    """The run was taken back: the entries are those whose contents are kept, since they could not be put back."""

    @property
    def is_nothing(self) -> bool:
        """There is nothing to take back."""
        return self.is_undone or self._is_as_before

    @property
    def is_needless(self) -> bool:
        """Nobody needs it any more."""
        return not self.is_undone and self._is_as_before

    @property
    def _is_as_before(self) -> bool:
        return not self.further and all(entry.is_nothing for entry in self.entries)


def encoded_path(path: Path) -> str:
    return quote_from_bytes(os.fsencode(path))


def decoded_path(path: str) -> Path:
    return Path(os.fsdecode(unquote_to_bytes(path)))
