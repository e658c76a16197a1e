"""The folder of one self-check, removed at its end; those of self-checks that were killed go at the next start.

A folder is locked for as long as its process lives, whatever ends it.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import platformdirs

_PREFIX = "selfcheck-"


@contextmanager
def own_folder() -> Iterator[Path]:
    """Not where the system keeps what is temporary: commands have such a folder of their own, and would find nothing of
    what is put there for them to look for."""
    place = platformdirs.user_cache_path("agentcore")
    place.mkdir(parents=True, exist_ok=True)
    with _held(place, fcntl.LOCK_EX):  # so that nobody sweeps a folder before it is locked
        _sweep(place)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place)).resolve()
        lock = _locked(folder, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _sweep(place: Path) -> None:
    for folder in place.glob(f"{_PREFIX}*"):
        try:
            with _held(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its process lives, or it is gone already


@contextmanager
def _held(folder: Path, how: int) -> Iterator[None]:
    lock = _locked(folder, how)
    try:
        yield
    finally:
        os.close(lock)


def _locked(folder: Path, how: int) -> int:
    """Raises: OSError, also where another process has the lock and `how` does not wait for it."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, how)
    except OSError:
        os.close(lock)
        raise
    return lock
