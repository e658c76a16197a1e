"""The text of a PDF, taken out by pypdf in a process of its own: a PDF is a program, and a stranger wrote it."""

from typing import TYPE_CHECKING

from agentcore.confined import Bounds, Confinement, TooMuch
from agentcore.errors import Unprocessable
from agentcore.ports.tools import ToolError

if TYPE_CHECKING:
    from pypdf import PdfReader

MAX_PAGES = 200
MAX_TEXT_CHARS = 2_000_000
_LEFT_OUT = "more pages are left out …]"

_TEXTS = Confinement(f"{__name__}:pages_of", Bounds(memory_bytes=1024 * 1024 * 1024, cpu_s=20, wall_s=25.0))


async def pdf_text(data: bytes) -> str:
    """The pages' text, each under its number; empty where the PDF has none (a scan). Raises: ToolError."""
    try:
        return (await _TEXTS.run(data)).decode()
    except Unprocessable as error:
        raise ToolError(str(error)) from error
    except TooMuch as error:
        raise ToolError("the PDF takes too much time or memory to read") from error


async def whole_pdf_text(data: bytes) -> str:
    """As `pdf_text`, and nothing is left out: for who must have seen all of it. Raises: ToolError."""
    text = await pdf_text(data)
    if text.endswith(_LEFT_OUT):
        raise ToolError("the PDF has more pages than are read")
    return text


def pages_of(data: bytes) -> bytes:
    """What runs in the child. Raises: Unprocessable."""
    import io
    import logging

    from pypdf import PdfReader

    logging.disable(logging.CRITICAL)  # it has much to say about every slip of a writer
    try:
        reader = PdfReader(io.BytesIO(data))
        # An empty password opens what only forbids printing; that is no secret.
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unprocessable("the PDF is encrypted: save it without a password first")
        texts, total = _texts(reader)
    except Unprocessable:
        raise
    except Exception as error:  # a reader of hostile bytes raises whatever it comes to
        if "cryptography" in str(error):
            raise Unprocessable("the PDF is encrypted: save it without a password first") from error
        raise Unprocessable("the PDF is broken or cut off: it cannot be read") from error
    if not any(texts):
        return b""
    pages = [f"--- page {number} of {total} ---\n{text}" for number, text in enumerate(texts, start=1)]
    if total > len(texts):
        pages.append(f"[… {total - len(texts)} {_LEFT_OUT}")
    return "\n".join(pages).encode(errors="replace")


def _texts(reader: "PdfReader") -> tuple[list[str], int]:
    """The text of the first pages, and how many pages there are."""
    pages = reader.pages
    texts: list[str] = []
    length = 0
    for page in pages[:MAX_PAGES]:
        if length > MAX_TEXT_CHARS:
            break
        texts.append(page.extract_text().strip())
        length += len(texts[-1])
    return texts, len(pages)
