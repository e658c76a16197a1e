"""A page's bytes as text that a model can read: HTML as Markdown, other text as it is, PDF as its text.

All of it is a stranger's work, so `readable` has it done in a process of its own with bounds (`confined`); what runs
there is below. A parser may take minutes for tags that never close, and a converter goes as deep as a page is nested.
"""

import codecs
import json
import re
import sys
from typing import TYPE_CHECKING, Final, Literal

from agentcore.confined import Bounds, Confinement, TooMuch
from agentcore.errors import Unprocessable
from agentcore.ports.tools import ToolError

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

Form = Literal["html", "text"]

MAX_TEXT_CHARS = 1_000_000
"""Of what a page comes to; more than any tool shows."""
_MAX_MARKUP_CHARS = 1_500_000
"""Of what is made Markdown, which takes a second for a megabyte; of larger pages only the text is kept."""
_MAX_DEPTH = 5000  # frames of Python: a page nested more deeply is kept as plain text
_LEFT_OUT = ("script", "style", "noscript", "template", "svg", "iframe", "object", "canvas")
_NOT_TEXT = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "mbcs", "oem"})
"""Codecs that Python calls text and no page is written in; some of them take time by the square of the length."""
_HTML: Final = re.compile(rb"\s*(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_SNIFFED_BYTES = 1024

_PAGES = Confinement(
    f"{__name__}:page_text",
    Bounds(memory_bytes=1536 * 1024 * 1024, cpu_s=20, wall_s=25.0),  # 5 MB of small tags take 11 s and 600 MB
)


async def readable(data: bytes, form: Form, charset: str | None) -> str:
    """Raises: ToolError when the page takes too much."""
    head = json.dumps({"form": form, "charset": charset}).encode()
    try:
        return (await _PAGES.run(head + b"\n" + data)).decode()
    except TooMuch as error:
        raise ToolError("the page takes too much time or memory to read") from error
    except Unprocessable as error:
        raise ToolError(str(error)) from error


def is_html(data: bytes) -> bool:
    """Whether bytes that nobody named are the beginning of a page."""
    return _HTML.match(data[:_SNIFFED_BYTES]) is not None


# --- in the child ---


def page_text(request: bytes) -> bytes:
    """A line of JSON (`form`, `charset`), then the bytes, to text in UTF-8."""
    head, _, data = request.partition(b"\n")
    asked = json.loads(head)
    charset = _codec(asked["charset"])
    text = _markdown(data, charset) if asked["form"] == "html" else _decoded(data, charset)
    if len(text) > MAX_TEXT_CHARS:
        text = f"{text[:MAX_TEXT_CHARS]}\n[… the rest of the page is left out …]"
    return text.encode(errors="replace")


def _codec(name: str | None) -> str | None:
    """The codec that a charset names; None where there is no such."""
    try:
        found = codecs.lookup((name or "").strip("\"' ")).name
    except (LookupError, ValueError):  # ValueError: a NUL in it
        return None
    return None if found.replace("-", "_") in _NOT_TEXT else found


def _decoded(data: bytes, charset: str | None) -> str:
    for mark, codec in ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if data.startswith(mark):
            return data.decode(codec, errors="replace").removeprefix("\ufeff")
    try:
        return data.decode(charset or "utf-8", errors="replace")
    except (LookupError, ValueError):  # a codec from bytes to bytes, or one that cannot replace
        return data.decode(errors="replace")


def _markdown(data: bytes, charset: str | None) -> str:
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    # What the sender says wins over what the page says of itself; where neither does, the parser guesses.
    soup = BeautifulSoup(data, "html.parser", from_encoding=charset)
    for tag in soup(_LEFT_OUT):
        tag.decompose()
    _drop_inline_pictures(soup)
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for tag in soup("head"):
        tag.decompose()
    body = _converted(soup, MarkdownConverter(heading_style="atx", bullets="-"))
    return f"# {title}\n\n{body}" if title and not body.startswith("# ") else body


def _converted(soup: "BeautifulSoup", converter: "MarkdownConverter") -> str:
    sys.setrecursionlimit(_MAX_DEPTH)
    try:
        if len(soup.decode()) <= _MAX_MARKUP_CHARS:
            text: str = converter.convert_soup(soup)
            return re.sub(r"\n{3,}", "\n\n", text).strip()
    except RecursionError:
        pass
    lines = (line.strip() for line in soup.get_text("\n").split("\n"))
    return "\n".join(line for line in lines if line)


def _drop_inline_pictures(soup: "BeautifulSoup") -> None:
    """Pictures that are written out in the page itself would be pages of Base64."""
    for picture in soup("img"):
        if str(picture.get("src", "")).startswith("data:"):
            picture.replace_with(str(picture.get("alt", "")))
    for link in soup("a"):
        if str(link.get("href", "")).startswith(("data:", "javascript:")):
            del link["href"]
