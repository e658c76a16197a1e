"""E-mail addresses; what else is written with an `@` in a coding session is none."""

import re
from collections.abc import Iterator

from agentcore.guard.page import Page, Span

# A run of the characters of a mailbox is read from its beginning alone, so each character once. What it may hold but
# does not begin with (the mark of a line in a diff) is left in front.
_ADDRESS = re.compile(
    r"(?<![\w.+%/-])[.+%-]{0,64}+(\w[\w.+%-]{0,63}+)@((?:[\w-]{1,63}+\.){1,8})([^\W\d_]{2,24})(?![\w-])"
)
_NOT_PEOPLE = frozenset({"git", "hg", "svn"})
_SUFFIX = re.compile(
    r"png|jpg|jpeg|gif|svg|webp|avif|ico|pdf|js|jsx|mjs|cjs|tsx|css|scss|html|htm|json|yml|yaml|toml|xml|txt|csv|log|"
    r"lock|java|kt|cpp|hpp|swift|php|local|localdomain|service|socket|target|timer|mount"
)
"""Last parts of file names, hosts and units, none of which is a top-level domain of the Internet."""
_VERSION = re.compile(r"v?\d+\.(?:\d+[.-]|x\.)|\d+x\.")


def emails(page: Page) -> Iterator[Span]:
    if "@" not in page.text:
        return
    for match in _ADDRESS.finditer(page.text):
        if _is_address(match, page.text):
            yield match.start(1), match.end()


def _is_address(match: re.Match[str], text: str) -> bool:
    local, domain, top = match.groups()
    if local in _NOT_PEOPLE or _SUFFIX.fullmatch(top.lower()) or not (top.islower() or top.isupper()):
        return False
    if _VERSION.match(domain) or not any(map(str.isalnum, local)):
        return False
    return not text.startswith(("(", ":/", ":~"), match.end())
