"""Refusals and failures of model services as `ProviderError`: the one place where they are translated.

The kind is read from the error's own code, type and wording, and from the HTTP status only where the body tells
nothing: an error in mid-stream has status 200, a bad key is 400 at some vendors, a conversation that is too long is
an ordinary 400, and a used-up quota is 429. Every sentence names the provider and says what to do; none holds a key.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

from pydantic_core import from_json

from agentcore.errors import ProviderError, ProviderErrorKind
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.retry_after import retry_after_s

_KIND_OF_WORD: dict[str, ProviderErrorKind] = {
    # Anthropic
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "quota",
    "not_found_error": "not_found",
    "request_too_large": "request_too_large",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "engine_overloaded_error": "overloaded",  # Moonshot, under 429
    "timeout_error": "server_error",
    "conflict_error": "server_error",
    "api_error": "server_error",
    # OpenAI and those who speak its language
    "invalid_api_key": "auth",
    "invalid_authentication_error": "auth",
    "model_not_found": "not_found",
    "model_not_available": "not_found",
    "model_decommissioned": "not_found",  # Groq
    "invalid_model": "not_found",
    "deployment_not_found": "not_found",
    "resource_not_found_error": "not_found",
    "context_length_exceeded": "context_overflow",
    "too_many_prompt_tokens": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "model_max_prompt_tokens_exceeded": "context_overflow",  # GitHub Copilot
    "string_above_max_length": "invalid_request",
    "insufficient_quota": "quota",
    "exceeded_current_quota_error": "quota",
    "billing_hard_limit_reached": "quota",
    "arrearage": "quota",  # DashScope
    "rate_limit_exceeded": "rate_limit",
    "ratelimitreached": "rate_limit",
    "tool_use_failed": "tool_use_failed",
    "server_error": "server_error",
    "internal_error": "server_error",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "bio_policy": "invalid_request",
    "misalignment_policy_violation": "invalid_request",
    "data_residency_mismatch": "invalid_request",
    "image_content_policy_violation": "invalid_request",
    "image_too_large": "invalid_request",
    "image_too_small": "invalid_request",
    "image_file_too_large": "invalid_request",
    "image_parse_error": "invalid_request",
    "image_file_not_found": "invalid_request",
    "empty_image_file": "invalid_request",
    "unsupported_image_media_type": "invalid_request",
    "failed_to_download_image": "invalid_request",
    # Google
    "unauthenticated": "auth",
    "permission_denied": "auth",
    "api_key_invalid": "auth",
    "not_found": "not_found",
    "resource_exhausted": "rate_limit",
    "unavailable": "overloaded",
    "internal": "server_error",
    "deadline_exceeded": "server_error",
}
"""By code, status, reason or type, lower case; the first of them that is here decides."""
_KIND_OF_STATUS: dict[int, ProviderErrorKind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "not_found",
    405: "not_found",  # somebody else lives at this address
    407: "network",
    408: "server_error",
    409: "server_error",
    413: "request_too_large",
    429: "rate_limit",
    498: "overloaded",  # Groq
    503: "overloaded",
    529: "overloaded",
}
_OVERFLOW = re.compile(
    r"(prompt|input) (is |was )?too (long|large)\b|"  # Anthropic, Ollama, Bedrock
    r"exceed(s|ed|ing)? (the |your )?(model'?s? )?(available |maximum |max )*context (window|length|size|limit)|"
    r"maximum (context|prompt|model) length|"  # OpenAI, DeepSeek, vLLM, Groq, Mistral, xAI
    r"token count.{0,40}exceeds? the maximum|"  # Gemini
    r"exceeded model token limit|range of input length|prompt exceeds max length|context window exceeds limit|"
    r"context length of only|tokens to keep from the initial prompt|"  # LM Studio
    r"longer than the (model'?s? |maximum )?(context|model) length|"  # SGLang, vLLM
    r"`inputs` (tokens \+ `max_new_tokens` must be <=|must have less than)|"  # text-generation-inference, Together
    r"too many tokens: .{0,60}(cannot exceed|limit exceeded)|"  # Cohere
    r"token count of [\d,]{1,12} exceeds the limit|max tokens of [\d,]{1,12} exceeded",  # GitHub Copilot, Snowflake
    re.IGNORECASE,
)
"""How services say that a conversation is too long; most have no code for it."""
_QUOTA = re.compile(
    r"credit balance|insufficient (quota|balance|credit)|usage limit|spend(ing)? limit|billing hard limit|"
    r"out of credits|doesn't have any credits|all available credits|requires more credits|key limit exceeded|"
    r"requires billing|"
    r"quota.{0,40}(per day|daily)|PerDay",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"\b(incorrect|invalid|no|missing|not valid) ([\w-]{1,40} ){0,2}api[ -]?key|"
    r"api[ -]?key.{0,20}\b(not valid|invalid)",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"\bmodels?[:/ ] ?[\"'`]?[\w./:@-]{0,160}[\"'`]? ?(was |is )?(not found|does not exist|not exist)|"
    r"not a valid model|\b(unknown|invalid) model\b|no models? loaded",
    re.IGNORECASE,
)
_NO_SUCH_PATH = re.compile(r"unexpected endpoint or method", re.IGNORECASE)  # LM Studio, under status 200
_MODERATED = re.compile(r"requires moderation|input was flagged", re.IGNORECASE)
"""OpenRouter, under the status of a bad key."""
_WORDINGS: tuple[tuple[re.Pattern[str], ProviderErrorKind], ...] = (
    (_OVERFLOW, "context_overflow"),
    (_QUOTA, "quota"),
    (_BAD_KEY, "auth"),
    (_NO_MODEL, "not_found"),
    (_MODERATED, "invalid_request"),
    (_NO_SUCH_PATH, "not_found"),
)
"""Looked at where no word tells more than that the request is invalid; the first that fits."""
_LARGER_THAN_THE_RATE = re.compile(r"request too large for .{0,200}tokens per min", re.IGNORECASE)
"""OpenAI and Groq: one request above what a minute allows. It has the code of a rate limit; waiting does not help."""

_SENTENCES: dict[ProviderErrorKind, tuple[str, str]] = {
    "auth": ("{title} refused the key", "Check {key}."),
    "invalid_request": ("{title} refused the request", "It has to change before it is sent again."),
    "not_found": ("{title} does not know this", "Check the model's name{url}."),
    "context_overflow": (
        "The conversation is longer than the model of {title} can read",
        "Clear the session or start a new one.",
    ),
    "request_too_large": ("The request is too large for {title}", "Start a new session, or send less."),
    "rate_limit": ("The rate limit of {title} is reached", "Wait a moment, or have the limit raised."),
    "quota": ("The account at {title} has no credit or budget left", "See its billing page."),
    "overloaded": ("{title} is overloaded", "Try again in a moment."),
    "server_error": ("{title} failed", "Try again in a moment."),
    "tool_use_failed": ("The model of {title} made a tool call that its service refused", "Send the prompt again."),
    "stream_truncated": ("The answer of {title} broke off before its end", "Try again."),
    "network": ("{title} could not be reached", "Check that it runs, the network and the proxy{url}."),
}
_SETUP: tuple[tuple[type[Exception], str], ...] = (
    (ImportError, "a package is missing. Install agentcore-server again, and socksio if ALL_PROXY is a SOCKS proxy."),
    (OSError, "the certificates cannot be read. Correct SSL_CERT_FILE and SSL_CERT_DIR."),
    (Exception, "an address is wrong. Correct {url}, HTTP_PROXY, HTTPS_PROXY and ALL_PROXY."),
)
"""By the class of what went wrong before anything was sent; the first that fits."""
_ANY_KEY = re.compile(r"\b(?:sk|xai|csk)-[\w-]{6,}|\bAIza[\w-]{20,}|\bgsk_\w{10,}")
_HOME = re.compile(r"(?:/home|/Users)/[^/\s\"']+|/root\b")
_SECRET_ANYWHERE_CHARS = 8  # shorter ones are left out as whole words only: they could be part of any word
_SECRET_CHARS = 3  # a key such as "x", for a local server, is no secret and would blot out words
_MAX_QUOTED_CHARS = 400
_MAX_SAID_CHARS = 4_000  # no refusal needs more; what is longer is cut before any pattern looks at it
_MAX_WORD_CHARS = 200
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_MAX_DETAILS = 50
_MAX_DEPTH = 4  # of the message inside an error body


@dataclass(frozen=True, slots=True)
class Said:
    """What an error body says, in the words of its vendor."""

    words: tuple[str, ...] = ()
    """Codes and types, the most telling first."""
    message: str = ""
    retry_after_s: float | None = None
    status: int | None = None
    """A status inside the body: in mid-stream there is no other."""


class Faults:
    """Makes the errors of one provider; knows its secrets in order to leave them out."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.if_elsewhere = ""
        """What to do where a path is missing at an address that is not the vendor's own; empty: nothing special."""

    def of(
        self, kind: ProviderErrorKind, said: str = "", *, retry_after: float | None = None, advice: str = ""
    ) -> ProviderError:
        """Make an error whose sentence quotes what was `said`; `advice` stands in the place of the usual one."""
        endpoint = self._endpoint
        url = f", and {endpoint.url_source} if you set it" if endpoint.url_source else ""
        names = {"title": endpoint.title, "key": endpoint.key.source or "its key", "url": url}
        what, usual = (part.format(**names) for part in _SENTENCES.get(kind, _SENTENCES["server_error"]))
        advice = advice or usual
        quoted = self.quotable(said)
        sentence = f"{what}: {quoted}. {advice}" if quoted else f"{what}. {advice}"
        return ProviderError(kind, sentence[:1].upper() + sentence[1:], retry_after_s=retry_after)

    def of_answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        """Translate an HTTP answer that is no stream."""
        if 300 <= status < 400 and (location := headers.get("location")):
            return self._of_redirect(location)
        said = read_error(body)
        kind = kind_of(said, status)
        is_missing_path = kind == "not_found" and status in (404, 405) and not _names_model(said)
        wait = said.retry_after_s if said.retry_after_s is not None else retry_after_s(headers)
        return self.of(
            kind,
            said.message or f"HTTP {status}",
            retry_after=wait,
            advice=self.if_elsewhere if is_missing_path else "",
        )

    def of_event(self, error: object) -> ProviderError:
        """Translate an error object inside a stream that had begun well."""
        said = _said(error)
        return self.of(kind_of(said), said.message, retry_after=said.retry_after_s)

    def _of_redirect(self, location: str) -> ProviderError:
        """A redirect is not followed: the conversation and the key were meant for the address that was set up."""
        try:
            target = urlsplit(urljoin(self._endpoint.base_url, location[:_MAX_SAID_CHARS]))
            place = f"{target.scheme}://{target.hostname}" + (f":{target.port}" if target.port else "")
        except ValueError:
            place = "an address that is none"
        source = self._endpoint.url_source or "its base URL"
        return self.of("not_found", f"it redirects to {place}", advice=f"Nothing was sent there: correct {source}.")

    def of_setup(self, error: Exception) -> ProviderError:
        """Translate a failure to load the SDK or to make its client; waiting does not heal it."""
        advice = next(advice for kind, advice in _SETUP if isinstance(error, kind))
        url = self._endpoint.url_source or "its base URL"
        text = f"The client for {self._endpoint.title} cannot be made ({type(error).__name__}): {advice}"
        return ProviderError("invalid_request", text.format(url=url))

    def quotable(self, said: str) -> str:
        """What a vendor said as a part of a sentence: short, printable, without keys and folders of people."""
        is_cut = len(said) >= _MAX_SAID_CHARS  # here, or by `_message_of`
        said = said[:_MAX_SAID_CHARS]
        for secret in self._endpoint.key.secrets:
            if len(secret) >= _SECRET_ANYWHERE_CHARS:
                said = said.replace(secret, "[key]")
            elif len(secret) >= _SECRET_CHARS:
                said = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "[key]", said)
        if is_cut:  # a key may have been cut in two
            said = said[: -max(map(len, self._endpoint.key.secrets), default=1)]
        said = _HOME.sub("~", _ANY_KEY.sub("[key]", said))
        said = " ".join("".join(char if char.isprintable() else " " for char in said).split())
        if len(said) > _MAX_QUOTED_CHARS:
            said = said[:_MAX_QUOTED_CHARS] + "…"
        return said.rstrip(".")


def read_error(body: bytes) -> Said:
    """Find code and message in an error body; nothing where it is no JSON of a known form (HTML, say)."""
    try:
        value = cast(object, from_json(body))
    except ValueError:
        return Said()
    if isinstance(value, list) and value:
        value = value[0]  # Gemini without `alt=sse`
    if not isinstance(value, dict):
        return Said()
    for name in ("error", "detail", "message"):  # `detail`: Mistral
        if value.get(name):
            found = _said(value[name])
            outer = () if isinstance(value[name], dict) and found.words else _words(value)  # xAI, Mistral
            return replace(found, words=(*found.words, *outer))
    return Said()


def kind_of(said: Said, status: int = 200) -> ProviderErrorKind:
    """Classify what was said under an HTTP status; 200 in mid-stream."""
    status = said.status or status
    kind = next((_KIND_OF_WORD[word.lower()] for word in said.words if word.lower() in _KIND_OF_WORD), None)
    if kind is None:
        kind = next((meant for wording, meant in _WORDINGS if wording.search(said.message)), None)
    if kind is None:
        is_invalid = status < 300 and any("invalid" in word.lower() for word in said.words)
        kind = "invalid_request" if is_invalid else _kind_of_status(status)
    return _refined(kind, said)


def _refined(kind: ProviderErrorKind, said: Said) -> ProviderErrorKind:
    """Tell apart what vendors give the same code."""
    if kind == "rate_limit" and _LARGER_THAN_THE_RATE.search(said.message):
        return "request_too_large"
    if kind in ("auth", "rate_limit") and any(map(_QUOTA.search, (said.message, *said.words))):
        return "quota"
    return kind


def _said(error: object) -> Said:
    if isinstance(error, str) and error.startswith("{") and (inner := read_error(error.encode())).message:
        return inner  # Ollama: what its runner said, as JSON in a text
    if not isinstance(error, dict):
        return Said(message=_message_of(error))
    details = error.get("details")
    details = details[:_MAX_DETAILS] if isinstance(details, list) else []
    details = [detail for detail in details if isinstance(detail, dict)]
    return Said(
        words=(
            *(_word(detail["reason"]) for detail in details if "reason" in detail),
            *_words(error),
            *_quotas(details),
        ),
        message=_message_of(error),
        retry_after_s=next((delay for detail in details if (delay := _delay(detail)) is not None), None),
        status=next((code for name in ("status_code", "code") if _is_status(code := error.get(name))), None),
    )


def _words(error: dict[str, Any]) -> tuple[str, ...]:
    return tuple(_word(error[name]) for name in ("code", "status", "type") if isinstance(error.get(name), str))


def _word(value: object) -> str:
    return value[:_MAX_WORD_CHARS] if isinstance(value, str) else ""


def _names_model(said: Said) -> bool:
    return any("model" in text.lower() for text in (said.message, *said.words))


def _quotas(details: list[dict[str, Any]]) -> list[str]:
    """Google names the quota that is used up; the message does not tell a minute's from a day's."""
    violations = [detail["violations"] for detail in details if isinstance(detail.get("violations"), list)]
    return [_word(one.get("quotaId")) for some in violations for one in some[:_MAX_DETAILS] if isinstance(one, dict)]


def _is_status(code: object) -> bool:
    return isinstance(code, int) and 400 <= code < 600


def _message_of(error: object) -> str:
    return _text_of(error)[:_MAX_SAID_CHARS]


def _text_of(value: object, depth: int = 0) -> str:
    """The sentence in an error, however it is wrapped: a list of validation errors, another vendor's error inside."""
    if isinstance(value, str):
        return value
    if depth == _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return "; ".join(filter(None, (_text_of(item, depth + 1) for item in value[:3])))
    if not isinstance(value, dict):
        return ""
    said = next(filter(None, (_text_of(value.get(name), depth + 1) for name in ("message", "msg", "detail"))), "")
    metadata = value.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None  # OpenRouter: what the service behind it said
    return f"{said}: {raw}" if said and isinstance(raw, str) and raw else said


def _delay(detail: dict[str, Any]) -> float | None:
    """Google says in the body how long to wait: `{"retryDelay": "48s"}`."""
    match = _DELAY.fullmatch(_word(detail.get("retryDelay")))
    return float(match[1]) if match else None


def _kind_of_status(status: int) -> ProviderErrorKind:
    if status < 300 or status >= 500:
        return _KIND_OF_STATUS.get(status, "server_error")
    return _KIND_OF_STATUS.get(status, "not_found" if status < 400 else "invalid_request")
