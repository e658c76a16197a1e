"""Passwords that stand behind the name of a user: in a `.netrc`, and on the command lines of programs that log in."""

import re
from collections.abc import Iterator, Mapping

from agentcore.guard.page import Page, Span
from agentcore.guard.passwords import is_placeholder

_GAP = r"(?:\s|\\[nt]){1,20}+"
_WORD = r"[^\s\\\"'\0]{1,200}+"
_NETRC = re.compile(
    rf"(?:machine{_GAP}[\w-]{{1,63}}+(?:\.[\w-]{{1,63}}+){{1,8}}+(?::\d{{1,5}}+)?|(?<![^\n])default){_GAP}"
    rf"(?:login|user){_GAP}{_WORD}{_GAP}(?:account{_GAP}{_WORD}{_GAP})?+password{_GAP}({_WORD})"
)
_REST = re.compile(r"(?:\\\n|&(?!&)|[^\n|;&\0]){0,1000}+")
"""Of a command, up to the next one."""
_PASSWORD = r"[^\s\"'$<{/\\\0][^\s\"'$<{\\\0]{3,199}+"  # noqa: S105 - a pattern
_USER = re.compile(
    r"(?<![\w-])(?:-[A-Za-z]{0,6}[uU]|--(?:proxy-)?user)[\"']?[ =,]{0,4}+[\"']?[^\s:\"'$<{@\0]{1,100}+:"
    rf"({_PASSWORD})"
)
_COMMANDS: Mapping[str, re.Pattern[str]] = {
    "curl": _USER,
    "sshpass": re.compile(rf"(?<![\w-])-p[\"']?[ ,]{{0,4}}+[\"']?({_PASSWORD})"),
}
_NO_PASSWORDS = frozenset({"pass", "passphrase", "x-oauth-basic"})


def in_netrc(page: Page) -> Iterator[Span]:
    """`machine host login user password secret`."""
    for match in _NETRC.finditer(page.text):
        if not _stands_for_one(match[1]):
            yield match.span(1)


def in_commands(page: Page) -> Iterator[Span]:
    """`curl -u user:password`."""
    for word, pattern in _COMMANDS.items():
        at = 0
        while (at := page.lower.find(word, at)) >= 0:
            rest = _REST.match(page.text, at + len(word))
            assert rest is not None  # it may be empty
            at = rest.end()  # what stands in it was looked at
            for match in pattern.finditer(page.text, rest.start(), rest.end()):
                if not _stands_for_one(match[1]):
                    yield match.span(1)


def _stands_for_one(value: str) -> bool:
    lowered = value.lower()
    return lowered in _NO_PASSWORDS or is_placeholder(lowered)
