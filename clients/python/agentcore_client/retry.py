"""How long to wait before trying again, and when to give up: plain numbers, no clock and no sleeping.

Two counts, because they mean different things. A connection that was answered and then cut proves that the server
lives: it slows us down until something new arrives, but never uses up the budget. An attempt that was not answered
does both.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from agentcore_client.errors import ApiError, ConnectionLost

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Doubling pauses with jitter, and a budget of unanswered attempts in a row."""

    attempts: int = 12
    """Unanswered attempts after which `ConnectionLost` is raised; with the pauses below about a minute."""
    first_s: float = 0.2
    longest_s: float = 10.0

    def pause_s(self, failures: int, jitter: float) -> float:
        """The pause after the given number of failures in a row (from 1); `jitter` is in [0, 1)."""
        whole_s = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 32))
        return whole_s * (0.5 + jitter / 2)


STREAM_RETRY = RetryPolicy()
CALL_RETRY = RetryPolicy(attempts=4)
"""A single call gives up sooner (about a second): somebody waits for it."""


class Backoff:
    """The failures of one call or one stream so far."""

    # Jitter spreads the reconnects of many clients; it keeps no secret.
    def __init__(self, policy: RetryPolicy, jitter: Callable[[], float] = random.random) -> None:
        self._policy = policy
        self._jitter = jitter
        self._is_answered = False
        self._unanswered = 0
        self._fruitless = 0

    def answered(self) -> None:
        """The server accepted the connection: the budget is whole again."""
        self._is_answered = True
        self._unanswered = 0

    def progressed(self) -> None:
        """Something new arrived: the next pause is the shortest again."""
        self._fruitless = 0

    def lost(self, cause: httpx.TransportError | ApiError | None) -> float:
        """Count a connection or an attempt that ended; return the seconds to wait before the next.

        Raises: `cause` itself when waiting cannot help; ConnectionLost when the budget is used up.
        """
        if cause is not None and not is_transient(cause):
            raise cause
        self._unanswered += not self._is_answered
        self._is_answered = False
        if self._unanswered >= self._policy.attempts:
            reason = str(cause) or type(cause).__name__
            raise ConnectionLost(f"no answer from the server in {self._unanswered} attempts: {reason}") from cause
        self._fruitless += 1
        return max(self._policy.pause_s(self._fruitless, self._jitter()), _asked_pause_s(cause))


def is_transient(error: httpx.TransportError | ApiError) -> bool:
    """Whether the same request may succeed later."""
    match error:
        case ApiError(status=status):
            return status in TRANSIENT_STATUSES
        case httpx.UnsupportedProtocol() | httpx.LocalProtocolError():
            return False  # a wrong URL or header does not heal by waiting
        case _:
            return True


def _asked_pause_s(cause: Exception | None) -> float:
    """What `Retry-After` asked for, within reason."""
    asked_s = cause.retry_after_s if isinstance(cause, ApiError) else None
    return min(asked_s or 0.0, 30.0)  # 30 s: a wrong header must not put the stream to sleep
