"""What a scanner is: the port of this room, and the words for what it finds.

A third party's scanner is any object with `scan`. It is blocking and is called in a worker thread, with pieces of at
most `windows.WINDOW_CHARS` characters, perhaps several at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

EMAIL = "email"
PHONE = "phone"
CARD = "card"
IBAN = "iban"
NATIONAL_ID = "national_id"
KEY = "key"
PRIVATE_KEY = "private_key"
PASSWORD = "password"  # noqa: S105 - the name of a kind

UNSCANNED = "unscanned"
"""The kind of what could not be looked at: it counts as a hit."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A piece of the text: characters `start` to `end`, the end not included."""

    start: int
    end: int
    kind: str
    """One of the constants above, or a scanner's own word of lower-case letters and underscores."""


class Scanner(Protocol):
    def scan(self, text: str) -> Sequence[Finding]:
        """Everything to be kept out, in any order; what overlaps is joined. Pure and offline; blocking.

        Whatever it raises counts as a hit on the whole text.
        """
        ...
