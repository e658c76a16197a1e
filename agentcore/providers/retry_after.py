"""How long a vendor asks us to wait, read from the headers of its refusal."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Read `retry-after-ms` or `retry-after` (seconds or a date); None where there is neither or it makes no sense."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if (seconds := _number(value)) is not None:
        return seconds
    return _seconds_until(value, now or datetime.now(UTC)) if value else None


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value else -1.0
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _seconds_until(date: str, now: datetime) -> float | None:
    try:
        then = parsedate_to_datetime(date)
        if then.tzinfo is None:
            then = then.replace(tzinfo=UTC)
        return max(0.0, (then - now).total_seconds())
    except (ValueError, OverflowError):  # also a date that is none with its time zone
        return None
