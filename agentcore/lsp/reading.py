"""The texts that a server is to see, as they are on disk now. Blocking: call it in a worker thread."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from agentcore.languages import CodeFile
from agentcore.lsp.documents import Look

MAX_FILE_CHARS = 2_000_000
"""Larger files are generated ones, and are not given to servers."""

Changed: TypeAlias = list[tuple[Path, str | None, Look | None]]
"""Files with their new text and look; None for what is no more."""


def read_files(file: CodeFile, looks: Mapping[Path, Look | None]) -> tuple[str | None, Look | None, Changed]:
    """The text of a file, and those of the open ones that changed; None for what is no more."""
    changed: Changed = []
    for path, before in looks.items():
        look = _look(path)
        if path != file.real and look != before:
            changed.append((path, None if look is None else _text(file, path), look))
    look = _look(file.real)  # before the text: what changes in between is seen the next time
    return _text(file, file.real), look, changed


def _look(path: Path) -> Look | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _text(file: CodeFile, path: Path) -> str | None:
    text = file.texts(path)
    return text if text is not None and len(text) <= MAX_FILE_CHARS else None
