"""The states of a server, the times that it is given, and a failure of a transport as a sentence. Values alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from agentcore.mcp.stdio import TooLarge
from agentcore.serving import Serving

CONNECT_S = 60.0
"""For a start; a first `npx` downloads what it runs."""
SETTLE_S = 0.1
"""Behind a word of change, for more of them: a server that changes ten tools says so ten times."""
RELIST_S = 1.0
"""Between two looks at what a server offers, at least."""
MOST_RELIST_S = 60.0
"""Between two looks at a server that says without end that it changed."""
DELAYS_S = (1.0, 2.0, 5.0, 15.0, 60.0, 300.0)
"""Before it is tried again, by how often it failed in a row; the last one from then on."""
IDLE_S = 600.0
"""After that a server that no session uses is stopped; as for language servers."""
STABLE_S = 60.0
"""A connection that held so long was a good one: what failed before it no longer counts."""
GIVEN_UP_AFTER = 3
"""Failures in a row, after which its tools are no longer offered."""


class State(Enum):
    CONNECTING = auto()
    READY = auto()
    LOST = auto()
    """It was there, and is tried again; what it offered still stands."""
    FAILED = auto()
    """It is tried again, seldom."""
    NEEDS_LOGIN = auto()
    STOPPED = auto()


SERVING: Mapping[State, Serving] = {
    State.CONNECTING: "connecting",
    State.READY: "ready",
    State.LOST: "lost",
    State.FAILED: "failed",
    State.NEEDS_LOGIN: "needs_login",
    State.STOPPED: "stopped",
}


@dataclass(frozen=True, slots=True)
class Timing:
    """How long things take; other values than these are for tests."""

    connect_s: float = CONNECT_S
    settle_s: float = SETTLE_S
    relist_s: float = RELIST_S
    delays_s: tuple[float, ...] = DELAYS_S
    idle_s: float = IDLE_S


TIMING = Timing()


def told(error: BaseException) -> str:
    """What people are told of a failure of a transport: of a group its first member that says something."""
    for one in _leaves(error):
        if isinstance(one, TooLarge):
            return str(one)
        if isinstance(one, OSError):
            return f"It cannot be reached: {one.strerror or type(one).__name__}."
        if text := " ".join(str(one).split()):
            return f"It cannot be reached: {text.rstrip('.')}."
    return f"It cannot be reached: {type(error).__name__}."


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error
