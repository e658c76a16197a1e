"""What stands in the place of what was found.

`[EMAIL 3fa2 REDACTED]`: the four characters are the same for the same value as long as the session is loaded, and
differ for another one, so that the model can tell two of them apart. They are made with a random key, so they say
nothing about the value; after a restart the same value has others.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable

from agentcore.guard.scanning import CARD, IBAN, NATIONAL_ID, PHONE, Finding

_KEY_BYTES = 16
_NUMBERS = frozenset({CARD, IBAN, NATIONAL_ID, PHONE})
_NO_DIGIT_OR_LETTER = re.compile(r"[\W_]")


class Placeholders:
    """Of one session."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_KEY_BYTES)

    def redact(self, text: str, found: Iterable[Finding]) -> str:
        """The text with each finding replaced; they are in order and do not overlap."""
        pieces, at = list[str](), 0
        for one in found:
            pieces += [text[at : one.start], self._of(one.kind, text[one.start : one.end])]
            at = one.end
        return "".join((*pieces, text[at:]))

    def _of(self, kind: str, value: str) -> str:
        # a number is the same however it is written
        same = _NO_DIGIT_OR_LETTER.sub("", value).upper() if kind in _NUMBERS else value
        digest = hmac.digest(self._key, f"{kind} {same}".encode(errors="surrogatepass"), hashlib.sha256)
        return f"[{kind.upper().replace('_', ' ')} {digest[:2].hex()} REDACTED]"
