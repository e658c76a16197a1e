"""What a repository's file may choose, and when that is tighter than what counts without it."""

from collections.abc import Callable, Mapping
from typing import Any

_GUARD = ("off", "redact", "reject")  # the laxest first


def _is_less(new: Any, now: Any) -> bool:
    return now is None or new < now


TIGHTER: Mapping[str, Callable[[Any, Any], bool]] = {
    "guard.mode": lambda new, now: _GUARD.index(new) > _GUARD.index(now),
    "budget.session_usd": _is_less,
    "budget.session_tokens": _is_less,
    "budget.session_time_s": _is_less,
    "budget.session_tool_calls": _is_less,
    "sandbox.enabled": lambda new, now: new and not now,
    "sandbox.network": lambda new, now: now and not new,
    "sandbox.auto_allow": lambda new, now: now and not new,
}
"""The choices that a shared file may make, and whether a new value is tighter than the one that counts."""
