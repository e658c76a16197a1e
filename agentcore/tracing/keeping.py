"""How long traces are kept."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agentcore.tracing.requests import FILE_NAME

KEPT_S = 14 * 24 * 3600.0  # the contract's


def prune(directories: Iterable[Path], now: float) -> None:
    """Remove the traces that nothing was added to for so long, of all sessions. Blocking."""
    for directory in directories:
        file = directory / FILE_NAME
        with suppress(OSError):
            if now - file.lstat().st_mtime > KEPT_S:
                file.unlink()
