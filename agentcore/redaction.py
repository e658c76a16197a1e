"""Known secrets taken out of text that leaves the machine: keys by the look of them, and the ones that we hold.

Not a guard against leaks: what a vendor's key does not look like is not found. Promise: JSON stays JSON, as only the
insides of strings are touched, and what holds no secret keeps its bytes.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from pydantic import JsonValue
from pydantic_core import from_json

from agentcore.encoding import escape_separators

REDACTED = "[redacted]"
MIN_SECRET_CHARS = 8  # a shorter "secret" would be found in ordinary words

SHAPES: Mapping[str, str] = {
    "OpenAI, Anthropic, OpenRouter, Stripe": r"\b[sr]k[-_](?=[A-Za-z_-]{0,64}+\d)[A-Za-z0-9_-]{20,}+",
    "Google": r"\bAIza[A-Za-z0-9_-]{35}",
    "Groq": r"\bgsk_[A-Za-z0-9]{20,}",
    "xAI": r"\bxai-[A-Za-z0-9]{20,}",
    "Hugging Face": r"\bhf_[A-Za-z0-9]{30,}",
    "AWS key id": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "GitHub": r"\b(?:gh[opsur]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
    "GitLab": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "Slack": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "npm": r"\bnpm_[A-Za-z0-9]{36}",
    "PyPI": r"\bpypi-[A-Za-z0-9_-]{50,}",
    "JWT": r"\beyJ[A-Za-z0-9_-]{10,400}+\.eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+",
    "bearer": r"(?i:(?<=\bbearer ))[A-Za-z0-9._~+/-]{16,}=*",
    "password in a URL": r"(?<=://)[^\s/:@\"]{1,100}:[^\s/@\"]{1,200}(?=@)",
    "private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
}
"""What keys look like, by who gives them out. Where a form can begin anew inside itself, what is read before it is
known to be one is bounded: a text made of beginnings costs no more than its length."""


_HINTS: Mapping[str, tuple[str, ...]] = {
    "OpenAI, Anthropic, OpenRouter, Stripe": ("sk-", "sk_", "rk-", "rk_"),
    "Google": ("aiza",),
    "Groq": ("gsk_",),
    "xAI": ("xai-",),
    "Hugging Face": ("hf_",),
    "AWS key id": ("akia", "asia"),
    "GitHub": ("gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_"),
    "GitLab": ("glpat-",),
    "Slack": ("xox",),
    "npm": ("npm_",),
    "PyPI": ("pypi-",),
    "JWT": ("eyj",),
    "bearer": ("bearer ",),
    "password in a URL": ("://",),
    "private key": ("-----begin ",),
}
"""In small letters, what each of the forms has in it: to look for that takes a hundredth of the time."""


class Redactor:
    """Replaces secrets by REDACTED. `secrets` are values that we know; short ones are left alone."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known = sorted({secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS}, key=len, reverse=True)
        self._pattern_of = lru_cache(maxsize=64)(_pattern_of)

    def text(self, text: str) -> str:
        lowered = text.lower()
        found = tuple(name for name, hints in _HINTS.items() if any(hint in lowered for hint in hints))
        known = tuple(secret for secret in self._known if secret in text)
        return self._pattern_of(known, found).sub(REDACTED, text) if known or found else text

    def line(self, line: bytes) -> bytes:
        """One line of JSON; the same bytes where there is no secret in it."""
        value: JsonValue = from_json(line)
        redacted = self.value(value)
        if redacted == value:
            return line
        encoded = json.dumps(redacted, ensure_ascii=False, separators=(",", ":"))
        return escape_separators(encoded.encode())

    def value(self, value: JsonValue) -> JsonValue:
        """All strings in it, the names of fields included."""
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.value(item) for item in value]
            case dict():
                return {self.text(name): self.value(item) for name, item in value.items()}
            case _:
                return value


def _pattern_of(known: tuple[str, ...], forms: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join([*map(re.escape, known), *(SHAPES[form] for form in forms)]))
