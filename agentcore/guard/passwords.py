"""Passwords and other secrets that are written down as a literal: assigned to a name, or in a URL.

What only looks like one stays: variables, calls, templates, placeholders, annotations, sentences about passwords.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agentcore.guard.keys import is_random
from agentcore.guard.page import Page, Span, apart

PASSWORD_NAMES = (
    "passw",  # password, passwd, passwort
    "passphrase",
    "pwd",
    "kennwort",
    "contraseñ",
    "contrasena",
    "mot de passe",
    "mot_de_passe",
    "motdepasse",
    "hasło",
    "haslo",
)
SECRET_NAMES = ("secret",)
TOKEN_NAMES = ("token",)
KEY_NAMES = (
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "access-key",
    "accesskey",
    "access_token",
    "accesstoken",
    "auth_token",
    "authtoken",
)

# behind the stem of a name: its rest, and what assigns
_ASSIGN = re.compile(r"([\w.-]{0,24}+)[\\\"'`\]]{0,3}+[ \t]{0,4}+(:=|=>|={1,3}+|:)[ \t]{0,4}+")
_QUOTED = re.compile(r"\\?(?:\"([^\"\\\n]{4,200})\\?\"|'([^'\\\n]{4,200})\\?'|`([^`\\\n]{4,200})`)")
_BARE = re.compile(r"([^\s\"'`,;<>(){}\[\]|\\\0]{6,200}+)(?![(\[{])")
_OTHER_FIELD = re.compile(
    r"hash|file|path|field|reset|policy|len|min|max|url|uri|regex|hint|label|placeholder|expir|name|prompt|type|"
    r"_id$|version|count|manager|encoder|digest|ref$"
)
_EXPRESSION = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
_PLACEHOLDER = re.compile(
    r"(?:your|dein|tu[_-]|votre|tw[oó]j|my[_-]|the[_-]|change|example|placeholder|replace|redacted|xxx|\*\*|\.\.\.|"
    r"[<$%{\[/]|https?:|process\.env|os\.|env\.).*"
)
_EMPTY = re.compile(
    r"password|passwort|passwd|contraseña|secret|string|str|text|none|null|nil|true|false|undefined|required|optional|"
    r"default|value|hidden|masked|token|user|username|foobar"
)
_BEFORE_CHARS = 24
_OTHER_TOKEN = re.compile(r"(?:page|next|prev\w*|continu\w*|sync|cursor|max|min|stop|pad|eos|bos|unk|mask|sep)[\w.-]*$")
_NUMBERED = re.compile(r"[_-]?\d*")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SYMBOL = re.compile(r"[0-9!@#$%^&*+~?]")
_MIN_SECRET_CHARS = 12
_URL = re.compile(r"://[^\s/:@\"'<>\0]{0,100}+:([^\s/@\"'<>\0]{1,200}+)@")


@dataclass(frozen=True, slots=True)
class Assigned:
    """Looks for literals behind the names it is given."""

    names: tuple[str, ...]
    is_password: bool
    """A person chose it: it may be short and of words. Else it is long, and has digits and letters."""
    must_be_random: bool = False
    """Much else has such a name: only what dice made is one, and only where the name says no more."""

    def __call__(self, page: Page) -> Iterator[Span]:
        return apart(span for name in self.names for span in self._behind(page, name))

    def _behind(self, page: Page, name: str) -> Iterator[Span]:
        at = 0
        while (at := page.lower.find(name, at)) >= 0:
            begin, at = at, at + len(name)
            assign = _ASSIGN.match(page.text, at)
            if assign is None or _OTHER_FIELD.search(assign[1].lower()):
                continue
            if self.must_be_random and not _is_token_name(page.lower[max(0, begin - _BEFORE_CHARS) : begin], assign[1]):
                continue
            span = self._literal(page.text, begin, assign)
            if span is not None:
                yield span
                at = span[1]

    def _literal(self, text: str, begin: int, assign: re.Match[str]) -> Span | None:
        quoted = _QUOTED.match(text, assign.end())
        if quoted is not None:
            group = quoted.lastindex or 0
            return quoted.span(group) if self._is_secret(quoted[group]) else None
        bare = _BARE.match(text, assign.end())
        if bare is None:
            return None
        value = bare[1].rstrip(".:")
        is_setting = assign[2] == "=" and _is_setting(text, begin, assign)
        if not self._is_secret(value) or not self._is_bare_literal(value, is_setting):
            return None
        return bare.start(), bare.start() + len(value)

    def _is_secret(self, value: str) -> bool:
        lowered = value.lower().strip()
        if is_placeholder(lowered) or not any(map(str.isalnum, value)):
            return False
        if "${" in value or "{{" in value:
            return False
        if self.is_password:
            return not any(name in lowered for name in PASSWORD_NAMES[:1] + PASSWORD_NAMES[3:])
        if self.must_be_random and not (is_random(value) or _UUID.fullmatch(lowered)):
            return False
        has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
        return len(value) >= _MIN_SECRET_CHARS and has_both and " " not in value

    def _is_bare_literal(self, value: str, is_setting: bool) -> bool:
        if _EXPRESSION.fullmatch(value):
            return False
        return is_setting or not self.is_password or _SYMBOL.search(value) is not None


def _is_token_name(before: str, rest: str) -> bool:
    """Whether a name that has `token` in it is that of a secret: no token of a page, a text or a model."""
    return _OTHER_TOKEN.search(before) is None and _NUMBERED.fullmatch(rest) is not None


def is_placeholder(value: str) -> bool:
    """Whether a value, in lower case, only stands for one."""
    return bool(_EMPTY.fullmatch(value) or _PLACEHOLDER.fullmatch(value))


def _is_setting(text: str, begin: int, assign: re.Match[str]) -> bool:
    """`DB_PASSWORD=letmein` and `--password=letmein`: no program text, so a bare word is a value."""
    if text[assign.end(2) - 2 : assign.end(2) - 1].isspace() or assign.end() > assign.end(2):
        return False
    return text[begin : assign.end(1)].isupper() or text.startswith("--", max(0, begin - 2))


def in_urls(page: Page) -> Iterator[Span]:
    """`scheme://user:password@host`."""
    text, at = page.text, 0
    while (at := text.find("://", at)) >= 0:
        match = _URL.match(text, at)
        at += 3
        if match is not None and not is_placeholder(match[1].lower()):
            yield match.span(1)
            at = match.end(1)
