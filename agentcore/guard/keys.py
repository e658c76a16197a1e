"""Keys and tokens of known forms. Linear: a form is looked for by its first characters, and no character is read by
the same form more often than a few times."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentcore.guard.page import Page, Span, apart

MIN_KNOWN_CHARS = 8  # a shorter "secret" would be found in ordinary words

_RUN = re.compile(r"[A-Za-z0-9]+")
_RANDOM_RUN = 16  # shorter runs of letters and digits are names
_LONG = 40  # vendors' tokens of this length have every sort of character


@dataclass(frozen=True, slots=True)
class Form:
    """What a vendor's keys look like: how they begin, and all of them."""

    prefix: str
    pattern: re.Pattern[str]
    """Begins with the prefix; its repeats are possessive, so that a failure costs no more than a success."""
    must_be_random: bool = False
    """The prefix alone is also one of ordinary names."""


def _form(prefix: str, rest: str, *, must_be_random: bool = False) -> Form:
    return Form(prefix, re.compile(re.escape(prefix) + rest), must_be_random)


FORMS: tuple[Form, ...] = (
    _form("sk-", r"[\w-]{20,}+", must_be_random=True),  # OpenAI, Anthropic, OpenRouter, DeepSeek
    *(_form(f"{kind}_{place}_", r"[A-Za-z0-9]{16,}+") for kind in ("sk", "rk") for place in ("live", "test")),  # Stripe
    _form("whsec_", r"[A-Za-z0-9+/]{24,}+=*"),
    *(_form(prefix, r"[A-Z0-9]{16}(?![A-Za-z0-9])") for prefix in ("AKIA", "ASIA")),
    _form("AIza", r"[\w-]{35}"),
    _form("ya29.", r"[\w-]{20,}+"),
    _form("GOCSPX-", r"[\w-]{24,}+"),
    *(_form(f"gh{kind}_", r"[A-Za-z0-9]{36,}+") for kind in "opsur"),
    _form("github_pat_", r"\w{22,}+"),
    *(_form(prefix, r"[\w.-]{20,}+") for prefix in ("glpat-", "gldt-", "glrt-", "glcbt-")),
    *(_form(f"xox{kind}-", r"[A-Za-z0-9-]{10,}+") for kind in "abeoprs"),
    _form("xapp-", r"[A-Za-z0-9-]{20,}+"),
    _form("https://hooks.slack.com/services/", r"[A-Z0-9]{8,}+/[A-Z0-9]{8,}+/[A-Za-z0-9]{16,}+"),
    _form("npm_", r"[A-Za-z0-9]{36,}+"),
    _form("pypi-", r"[\w-]{50,}+"),
    _form("hf_", r"[A-Za-z0-9]{30,}+"),
    _form("gsk_", r"[A-Za-z0-9]{20,}+"),
    _form("xai-", r"[A-Za-z0-9]{20,}+"),
    _form("SG.", r"[\w-]{16,32}+\.[\w-]{32,64}+"),
    _form("dop_v1_", r"[0-9a-f]{64}"),
    _form("shpat_", r"[0-9a-f]{32}"),
    _form("AGE-SECRET-KEY-1", r"[A-Z0-9]{50,}+"),
    _form("eyJ", r"[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{10,}+"),  # JWT
)

_BEGIN = "-----BEGIN "
_HEADER = re.compile(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_FOOTER = re.compile(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_BODY = re.compile(r"(?:[A-Za-z0-9+/=\s:,-]|\\[nr])*+")

_SCHEME = re.compile(r"(?:bearer|authorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?basic)[ ]{1,3}([\w.~+/-]{12,}+=*)", re.I)
_SCHEMES = ("bearer ", "authorization")
_MIN_BEARER_CHARS = 16


class KnownSecrets:
    """The exact values that this process holds."""

    def __init__(self, values: Iterable[str]) -> None:
        usable = {value for value in values if len(value) >= MIN_KNOWN_CHARS}
        self._pattern = re.compile("|".join(map(re.escape, sorted(usable, key=len, reverse=True)))) if usable else None

    def __call__(self, page: Page) -> Iterator[Span]:
        if self._pattern is not None:
            for match in self._pattern.finditer(page.text):
                yield match.span()


def private_keys(page: Page) -> Iterator[Span]:
    """PEM and PGP; one whose end is missing reaches as far as it looks like one."""
    text, at = page.text, 0
    while (at := text.find(_BEGIN, at)) >= 0:
        header = _HEADER.match(text, at)
        if header is None:
            at += len(_BEGIN)
            continue
        dashes = text.find("-----", header.end())
        footer = None if dashes < 0 else _FOOTER.match(text, dashes)
        end = _end_of_body(text, header.end(), dashes) if footer is None else footer.end()
        yield at, end
        at = end


def _end_of_body(text: str, start: int, limit: int) -> int:
    body = _BODY.match(text, start, len(text) if limit < 0 else limit)
    return start + len(body[0].rstrip()) if body else start


def keys(page: Page) -> Iterator[Span]:
    return apart(_all(page))


def _all(page: Page) -> Iterator[Span]:
    for form in FORMS:
        yield from _of_form(page.text, form)
    yield from _authorizations(page)


def _of_form(text: str, form: Form) -> Iterator[Span]:
    at = 0
    while (at := text.find(form.prefix, at)) >= 0:
        match = None if _is_inside_word(text, at) else form.pattern.match(text, at)
        if match is None:
            at += len(form.prefix)
            continue
        if not form.must_be_random or is_random(match[0]):
            yield match.span()
        at = match.end()


def _is_inside_word(text: str, at: int) -> bool:
    """Of `-` and `_` too: else a text of many beginnings would be read to its end from each of them."""
    if at == 0 or not (text[at - 1].isalnum() or text[at - 1] in "-_"):
        return False
    is_removed_line = text[at - 1] == "-" and (at == 1 or text[at - 2] == "\n")  # of a diff
    return not is_removed_line


def _authorizations(page: Page) -> Iterator[Span]:
    for scheme in _SCHEMES:
        at = 0
        while (at := page.lower.find(scheme, at)) >= 0:
            match = _SCHEME.match(page.text, at)
            at += len(scheme)
            if match is not None and _is_credential(match[1], scheme):
                yield match.span(1)
                at = match.end()


def _is_credential(value: str, scheme: str) -> bool:
    if scheme != "bearer ":
        return True
    return len(value) >= _MIN_BEARER_CHARS and any(map(str.isdigit, value))


def is_random(token: str) -> bool:
    """Whether somebody's dice made it, rather than a person who names things."""
    runs = (run for run in _RUN.findall(token) if len(run) >= _RANDOM_RUN)
    if any(not run.isalpha() and not run.isdigit() for run in runs):
        return True
    sorts = (str.isdigit, str.isupper, str.islower)
    return len(token) >= _LONG and all(any(map(sort, token)) for sort in sorts)
