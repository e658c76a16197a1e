"""What ends a run or refuses a request. What the model can react to is a `ToolResult`, never an exception.

Each error has a stable `code` for programs and a sentence for people. No secret, path or stack in either.
"""

from typing import ClassVar, Literal

ProviderErrorKind = Literal[
    "auth",
    "invalid_request",
    "not_found",
    "context_overflow",
    "request_too_large",
    "rate_limit",
    "quota",
    "overloaded",
    "server_error",
    "tool_use_failed",
    "stream_truncated",
    "network",
    "stalled",
    "cancelled",
]

RETRYABLE: frozenset[ProviderErrorKind] = frozenset(
    {"rate_limit", "overloaded", "server_error", "stream_truncated", "network", "stalled"}
)
"""The same request may work in a moment. An account without credit (`quota`) is none of them."""


class AgentError(Exception):
    """Base of all typed errors. `str(error)` is the sentence for a person."""

    code: ClassVar[str] = "internal"


class BadRequest(AgentError):
    """The caller asked for something that makes no sense; the sentence says what to send instead."""

    code = "bad_request"


class Unprocessable(AgentError):
    """Well formed, but it cannot be done here (a folder outside the roots, say)."""

    code = "unprocessable"


class NotFound(AgentError):
    code = "not_found"


class NothingToUndo(AgentError):
    """No run of the session has file changes that are kept."""

    code = "nothing_to_undo"


class AmbiguousPrefix(AgentError):
    code = "ambiguous_prefix"

    def __init__(self, message: str, candidates: list[str]) -> None:
        super().__init__(message)
        self.candidates = candidates


class ModeNotAllowed(AgentError):
    code = "mode_not_allowed"


class SessionLocked(AgentError):
    """Another process holds the session's lease."""

    code = "session_locked"


class JournalDamaged(AgentError):
    """A journal line other than a torn last one cannot be read; loading refuses rather than drops history."""

    code = "journal_damaged"

    def __init__(self, message: str, line: int | None = None) -> None:
        """`line` is the number of the line, counted from 1 over all files of the journal."""
        super().__init__(message)
        self.line = line


class StorageUnavailable(AgentError):
    """The journal cannot be written (disk full, read-only, or an earlier write failed)."""

    code = "storage_unavailable"


class TakenOver(StorageUnavailable):
    """Another process owns the session now; this one must have no further effect.

    A kind of StorageUnavailable: whoever copes with a journal that takes nothing copes with this.
    """

    code = "taken_over"


class RunFailed(AgentError):
    """The run ends with `error`; `reason` is the code that clients see."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ProviderError(AgentError):
    """A model call failed. `kind` is read from the vendor's error body, not from the status.

    `stalled` comes from the loop, not from an adapter: the call showed nothing new for too long.
    """

    code = "provider"

    def __init__(self, kind: ProviderErrorKind, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s

    @property
    def is_retryable(self) -> bool:
        return self.kind in RETRYABLE

    @property
    def reason(self) -> str:
        """The code that clients see when it ends a run: one for a full context, however the vendor says so."""
        return "context_window_exceeded" if self.kind == "context_overflow" else self.kind
