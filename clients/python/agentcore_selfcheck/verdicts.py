"""What a check is and what it may come to."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Say: TypeAlias = Callable[[str], None]
"""Tells people what a check is about just now."""


class Broken(Exception):
    """A promise does not hold; `str(error)` says what was seen instead."""


class Missing(Exception):
    """It cannot be tried on this machine; `str(error)` says why."""


@dataclass(frozen=True, slots=True)
class Check:
    promise: str
    """A few words."""
    run: Callable[[Path, Say], Awaitable[str]]
    """Tries it in an empty folder of its own; returns what was seen. Raises: Broken, Missing."""


def demand(holds: bool, otherwise: str) -> None:
    """Raises: Broken."""
    if not holds:
        raise Broken(otherwise)
