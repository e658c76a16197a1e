"""Who is shown what is sent to model services: nobody, unless a trace is kept. Then it costs nothing.

It goes with the task and those that it starts, so what lies between a run and the connection need not know.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TypeAlias

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as it goes out, credentials included."""

    address: str
    """Without a query, which may hold a key."""
    headers: Mapping[str, str]
    body: bytes
    agent: str | None = None
    """The label of the subagent that sends it."""


Listener: TypeAlias = Callable[[Sent], None]
_agent: ContextVar[str | None] = ContextVar("agent", default=None)
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(listener: Listener | None) -> Iterator[None]:
    """Show it everything that is sent within; None: show it to nobody."""
    before = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def speaking_as(agent: str) -> Iterator[None]:
    """What is sent within is sent by this subagent."""
    before = _agent.set(agent)
    try:
        yield
    finally:
        _agent.reset(before)


def tell(sent: Callable[[], Sent]) -> None:
    """Something is sent; `sent` is called where somebody listens."""
    listener = _listener.get()
    if listener is None:
        return
    try:
        listener(replace(sent(), agent=_agent.get()))
    except Exception:  # whoever looks on must not be able to stop what he looks at
        logger.exception("what was sent to a model could not be shown")
