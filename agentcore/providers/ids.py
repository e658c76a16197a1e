"""Call ids as vendors take them back.

An id comes from one model and may go to another, whose service refuses characters or a length. What is not legal there
is sent as its fingerprint, for the call and for its result alike, so two ids never become one.
"""

import re
from base64 import b32encode
from hashlib import sha256

MAX_CHARS = 64  # the shortest limit of those that have one (OpenAI)
USUAL = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every vendor takes that has a rule."""
PRINTABLE = re.compile(r"[\x21-\x7e]{1,64}")
"""For services without a rule: some want back what they made, such as Kimi's `functions.ls:0`."""
NINE = re.compile(r"[A-Za-z0-9]{9}")


def wire_id(call_id: str, legal: re.Pattern[str] = USUAL, chars: int = MAX_CHARS) -> str:
    """Return the id itself where it is legal, else so many characters of its fingerprint: a-z and 2-7."""
    if legal.fullmatch(call_id):
        return call_id
    digest = sha256(call_id.encode(errors="surrogatepass")).digest()
    return b32encode(digest).decode().rstrip("=").lower()[:chars]
