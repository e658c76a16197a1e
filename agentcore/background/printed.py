"""What a background task prints, until somebody looks: its end in bounded memory, all of it in a bounded file.

Written in the calling thread, into the page cache and of bounded size. A disk that takes no more takes nothing from
what is kept in memory.
"""

import logging
import os
from pathlib import Path

from agentcore.caps import safe_text

log = logging.getLogger(__name__)

KEPT_BYTES = 24_000  # below the cap of a tool's result, with room for the words around it
FILE_BYTES = 8 * 1024 * 1024  # what a person or `grep` can still do something with
END_BYTES = 2_000
"""Of what was printed last: what is told when it ends."""


class Printed:
    """The file is made with the first byte that memory does not hold, and has everything from the beginning on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor: int | None = None
        self._is_broken = False
        self._kept = bytearray()
        """The last bytes, seen or not."""
        self._unseen = 0
        self._written = 0
        self._total = 0

    def add(self, chunk: bytes) -> None:
        if self._total + len(chunk) > KEPT_BYTES:
            self._spill(chunk)
        self._total += len(chunk)
        self._unseen += len(chunk)
        self._kept += chunk
        if len(self._kept) > 2 * KEPT_BYTES:
            del self._kept[:-KEPT_BYTES]

    def take(self) -> str:
        """What was printed since the last look; where it is too long the end of it, and where the rest is."""
        unseen, self._unseen = self._unseen, 0
        if unseen <= KEPT_BYTES:
            return _text(self._kept[len(self._kept) - unseen :])
        end = _text(self._kept[-KEPT_BYTES:])
        where = "" if self._written == 0 else f"; what was printed, from the beginning on, is in {self._file}"
        return f"[… {unseen - KEPT_BYTES:,} bytes not shown{where} …]\n{end}"

    @property
    def end(self) -> str:
        """The last of it, seen or not."""
        return _text(self._kept[-END_BYTES:]).strip("\n")

    def close(self) -> None:
        """Nothing more comes, though it can still be looked at."""
        self._is_broken = True
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _spill(self, chunk: bytes) -> None:
        if self._is_broken:
            return
        try:
            if self._descriptor is None:
                self._file.parent.mkdir(mode=0o700, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self._descriptor = os.open(self._file, flags, 0o600)
                chunk = bytes(self._kept) + chunk
            written = os.write(self._descriptor, chunk[: FILE_BYTES - self._written])
            self._written += written
            self._is_broken = written < len(chunk)  # it is full, or the disk is
        except OSError as error:
            self._is_broken = True
            log.warning("output of a background task is not kept whole: %s", error.strerror)


def _text(data: bytes | bytearray) -> str:
    """Text of output that was cut anywhere: a character that is not whole at its beginning is left out."""
    return safe_text(data.decode(errors="replace").lstrip("\N{REPLACEMENT CHARACTER}"))
