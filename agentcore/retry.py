"""What is done about a model call that failed: ask again, ask another model, or give up. Tables and arithmetic.

All of it holds only while nothing of the call was shown; `agentcore.walk` sees to that. Nothing here waits, reads a
clock or throws dice by itself.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

import anyio

from agentcore.clock import wait_for
from agentcore.errors import ProviderError, ProviderErrorKind

ATTEMPTS = 4  # the contract's number: calls to one model, the first included
STALL_ATTEMPTS = 2  # each takes minutes: four of a local model would hold a session up for an hour
FIRST_BACK_OFF_S = 0.5
LONGEST_BACK_OFF_S = 30.0
LONGEST_WAIT_S = 600.0
"""A vendor that asks for more is not waited for: the next model is asked, or the run ends and says how long."""

_SHORT_S = 60.0
_LONG_S = 600.0
COOL_DOWN_S: dict[ProviderErrorKind, float] = {
    "rate_limit": _SHORT_S,
    "overloaded": _SHORT_S,
    "server_error": _SHORT_S,
    "network": _SHORT_S,
    "stalled": _SHORT_S,
    "stream_truncated": _LONG_S,
    "auth": _LONG_S,
    "quota": _LONG_S,
    "not_found": _LONG_S,
}
"""How long a model is left alone after a failure of that kind. What is not here would fail with any model, or is
the caller's own doing: no other one is asked. Short for what passes by itself, long for what somebody has to mend. A
broken network and a call that stalled are of the first sort: the one is mostly this machine's and soon over, the other
has cost minutes already, and ten more on a model that was not chosen first would be the greater harm."""

Wait: TypeAlias = Callable[[anyio.Event, float], Awaitable[bool]]
"""Wait for the event, at most so many seconds; return whether it came."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How a process waits for its models."""

    chance: Callable[[], float] = random.random
    """From 0 to 1: which part of a back-off is waited, so that many clients do not come back in one step."""
    wait: Wait = wait_for
    silence_s: float = 300.0
    """A call that shows nothing new for so long has stalled."""
    local_silence_s: float = 900.0
    """The same on this machine, where a long prompt takes its time."""

    def silence_for(self, *, is_local: bool) -> float:
        return self.local_silence_s if is_local else self.silence_s


def attempts_for(kind: ProviderErrorKind) -> int:
    """How often one model is asked at most, when the last attempt failed like this."""
    return STALL_ATTEMPTS if kind == "stalled" else ATTEMPTS


def back_off_s(attempts: int) -> float:
    """The longest wait after so many attempts, before chance takes its part."""
    return min(FIRST_BACK_OFF_S * 2.0 ** (attempts - 1), LONGEST_BACK_OFF_S)


def wait_s(error: ProviderError, attempts: int, chance: Callable[[], float]) -> float | None:
    """How long to wait before the model that failed is asked again; None: it is not.

    `attempts` counts the calls to it so far. The vendor's own wish is a floor, above every cap but LONGEST_WAIT_S.
    """
    if not error.is_retryable or attempts >= attempts_for(error.kind):
        return None
    wait = max(back_off_s(attempts) * chance(), error.retry_after_s or 0.0)
    return None if wait > LONGEST_WAIT_S else wait


def cool_down_s(error: ProviderError) -> float | None:
    """How long a model is left alone for this failure; None: no other model is asked.

    A vendor's own wish can make it longer, up to the longest in the table: a mistaken one must not cost a day.
    """
    shortest = COOL_DOWN_S.get(error.kind)
    return None if shortest is None else min(max(shortest, error.retry_after_s or 0.0), _LONG_S)
