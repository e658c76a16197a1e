"""Anthropic's refusals and failures as `ProviderError`: the one place where they are translated.

The kind is read from the error's own type and wording, and from the HTTP status only where the body tells nothing:
an error in mid-stream has status 200, and a conversation that is too long is an ordinary 400. Every sentence names
the vendor and says what to do; no sentence holds a key.
"""

import re
from collections.abc import Mapping
from typing import Any

from agentcore.errors import ProviderError, ProviderErrorKind
from agentcore.providers.retry_after import retry_after_s

_KIND_OF_TYPE: dict[str, ProviderErrorKind] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "quota",
    "invalid_request_error": "invalid_request",
    "not_found_error": "not_found",
    "request_too_large": "request_too_large",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "timeout_error": "server_error",
    "conflict_error": "server_error",
    "api_error": "server_error",
}
_KIND_OF_STATUS: dict[int, ProviderErrorKind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not_found",
    408: "server_error",
    409: "server_error",
    413: "request_too_large",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}
_OVERFLOW = re.compile(r"prompt is too long|exceeds? (the )?(model's )?context|context (window|length)", re.IGNORECASE)
_QUOTA = re.compile(r"credit balance|usage limit|spend(ing)? limit|billing", re.IGNORECASE)

_SENTENCES: dict[ProviderErrorKind, tuple[str, str]] = {
    "auth": ("Anthropic refused the key", "Check ANTHROPIC_API_KEY."),
    "invalid_request": ("Anthropic refused the request", "It has to change before it is sent again."),
    "not_found": ("Anthropic does not know this", "Check the model's name, and ANTHROPIC_BASE_URL if you set it."),
    "context_overflow": (
        "The conversation is longer than the Anthropic model can read",
        "Clear the session or start a new one.",
    ),
    "request_too_large": ("The request has too many bytes for Anthropic", "Compact the conversation."),
    "rate_limit": ("Anthropic's rate limit is reached", "Wait a moment, or have the limit raised."),
    "quota": ("The Anthropic account has no credit or budget left", "See its billing page."),
    "overloaded": ("Anthropic is overloaded", "Try again in a moment."),
    "server_error": ("Anthropic failed", "Try again in a moment."),
    "stream_truncated": ("The answer of Anthropic broke off before its end", "Try again."),
    "network": (
        "Anthropic could not be reached",
        "Check the network, the proxy, and ANTHROPIC_BASE_URL if you set it.",
    ),
}
_SETUP: tuple[tuple[type[Exception], str], ...] = (
    (ImportError, "a package is missing. Install agentcore-server again, and socksio if ALL_PROXY is a SOCKS proxy."),
    (OSError, "the certificates cannot be read. Correct SSL_CERT_FILE and SSL_CERT_DIR."),
    (Exception, "an address is wrong. Correct ANTHROPIC_BASE_URL, HTTP_PROXY, HTTPS_PROXY and ALL_PROXY."),
)
"""By the class of what went wrong before anything was sent; the first that fits."""
_ANY_KEY = re.compile(r"\bsk-[\w-]{6,}")
_MIN_SECRET_CHARS = 8  # a key such as "x", for a local server, is no secret and would blot out letters
_MAX_QUOTED_CHARS = 400


class Faults:
    """Makes the errors of one provider; knows its secrets in order to leave them out."""

    def __init__(self, *secrets: str) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= _MIN_SECRET_CHARS]

    def of(self, kind: ProviderErrorKind, said: str = "", *, retry_after: float | None = None) -> ProviderError:
        """Make an error whose sentence quotes what was `said`."""
        what, advice = _SENTENCES[kind]
        quoted = self._quotable(said)
        sentence = f"{what}: {quoted}. {advice}" if quoted else f"{what}. {advice}"
        return ProviderError(kind, sentence, retry_after_s=retry_after)

    def of_answer(self, status: int, body: object, headers: Mapping[str, str]) -> ProviderError:
        """Translate an HTTP answer that is no stream; `body` is parsed JSON where it was JSON."""
        kind, said = _read(body)
        return self.of(kind or _kind_of_status(status), said or f"HTTP {status}", retry_after=retry_after_s(headers))

    def of_event(self, event: dict[str, Any]) -> ProviderError:
        """Translate an `error` event inside a stream that had begun well."""
        kind, said = _read(event)
        return self.of(kind or "server_error", said)

    def _quotable(self, said: str) -> str:
        for secret in self._secrets:
            said = said.replace(secret, "[key]")
        said = " ".join(_ANY_KEY.sub("[key]", said).split())
        if len(said) > _MAX_QUOTED_CHARS:
            said = said[:_MAX_QUOTED_CHARS] + "…"
        return said.rstrip(".")


def of_setup(error: Exception) -> ProviderError:
    """Translate a failure to load the SDK or to make its client; waiting does not heal it."""
    advice = next(advice for kind, advice in _SETUP if isinstance(error, kind))
    return ProviderError(
        "invalid_request", f"The client for Anthropic cannot be made ({type(error).__name__}): {advice}"
    )


def refuses_thinking(error: ProviderError) -> bool:
    """Whether the vendor takes offence at thinking that is sent back; it says so in words only."""
    return error.kind == "invalid_request" and "thinking" in str(error)


def _read(body: object) -> tuple[ProviderErrorKind | None, str]:
    """Find kind and message in an error body; (None, "") where it is not of the vendor's form (HTML, say)."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None, ""
    said = str(error.get("message") or "")
    return _refined(_KIND_OF_TYPE.get(str(error.get("type"))), said), said


def _refined(kind: ProviderErrorKind | None, said: str) -> ProviderErrorKind | None:
    """Tell apart what the vendor tells apart only by wording."""
    if kind in (None, "invalid_request") and _OVERFLOW.search(said):
        return "context_overflow"
    if kind in ("invalid_request", "auth", "rate_limit") and _QUOTA.search(said):
        return "quota"
    return kind


def _kind_of_status(status: int) -> ProviderErrorKind:
    return _KIND_OF_STATUS.get(status, "server_error" if status >= 500 else "invalid_request")
