"""Names for new things. Random where they must not collide, readable where people see them."""

import re
import secrets
from datetime import UTC, datetime

SESSION_ID = re.compile(r"\d{8}-\d{6}-[a-z2-7]{6}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def _random(length: int) -> str:
    return "".join(
        _ALPHABET[byte % 32] for byte in secrets.token_bytes(length)
    )  # 32 divides 256: no letter is likelier


def new_session_id(now_s: float) -> str:
    """Name a session `YYYYMMDD-HHMMSS-xxxxxx` (UTC), so that a listing sorts by age."""
    return f"{datetime.fromtimestamp(now_s, UTC):%Y%m%d-%H%M%S}-{_random(6)}"


def new_message_id() -> str:
    return f"msg_{_random(16)}"


def new_prompt_id() -> str:
    return f"prompt_{_random(16)}"


def new_run_id() -> str:
    return f"run_{_random(16)}"


def new_owner_id() -> str:
    return f"owner_{_random(16)}"
