"""Which session and run the log lines of a task belong to.

It goes with the task, those that it starts and its worker threads, so what lies between need not hand it on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogIds:
    session: str
    run: str | None = None


_ids: ContextVar[LogIds | None] = ContextVar("log_ids", default=None)


def log_ids() -> LogIds | None:
    """Those of the task that asks; None: it works for no session."""
    return _ids.get()


@contextmanager
def logging_for(session: str | None, run: str | None = None) -> Iterator[None]:
    """Whatever is logged within belongs to them; None: to no session, though one has caused it."""
    before = _ids.set(None if session is None else LogIds(session, run))
    try:
        yield
    finally:
        _ids.reset(before)
