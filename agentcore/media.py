"""Bytes that somebody hands over, as a block that the model can be shown: the kinds, their limits, one way in.

Whoever takes bytes in (a prompt's attachment, an upload, a tool) comes through here, so that nothing gets into a
transcript that a vendor refuses later. Kinds are told by the bytes; what a name or a header says is only compared.
"""

from typing import Final

import anyio.to_thread

from agentcore.confined import Bounds, Confinement, TooMuch
from agentcore.errors import Unprocessable
from agentcore.images import Picture, sniff_image
from agentcore.messages import Attachment, Document, Image
from agentcore.ports.blobs import Blobs

MAX_FILE_BYTES = 20 * 1024 * 1024  # the promise of the API; as base64 it fits a vendor's request of 32 MB
PDF: Final = "application/pdf"
TEXT: Final = "text/plain"
"""What every text is kept as, so that nothing that was uploaded is ever served as a page."""

_SNIFFED_BYTES = 8192
_PDF_END_BYTES = 2048  # readers look for its last words in the last kilobyte or two
_PICTURES = Confinement(
    # 90 million pixels of RGBA, and as much again while they are converted
    "agentcore.images:prepare_packed",
    Bounds(memory_bytes=1536 * 1024 * 1024, cpu_s=30, wall_s=60.0),
)


def kind_of(data: bytes) -> str | None:
    """The media type of bytes: a picture's, PDF or plain text; None for what is none of these."""
    if (image := sniff_image(data)) is not None:
        return image
    if data.startswith(b"%PDF-"):
        return PDF
    return None if b"\0" in data[:_SNIFFED_BYTES] else TEXT


def check_declared(data: bytes, media_type: str) -> None:
    """Compare bytes with what their sender says they are. Raises: Unprocessable."""
    said = media_type.partition(";")[0].strip().lower()
    is_text = said.startswith("text/") or said == "application/json"
    found = kind_of(data)
    if found != (TEXT if is_text else said):
        raise Unprocessable(f"It is said to be {said}, but its bytes are {found or 'something else'}.")


async def keep(data: bytes, blobs: Blobs, name: str | None = None) -> Attachment:
    """Make a picture fit, check a PDF, and keep the bytes for good. Raises: Unprocessable, StorageUnavailable."""
    check_size(data)
    if data.startswith(b"%PDF-"):
        _check_pdf(data)
        blob = await anyio.to_thread.run_sync(blobs.put, data)
        return Document(blob=blob, media_type=PDF, size_bytes=len(data), name=name)
    picture = await fitted(data)
    blob = await anyio.to_thread.run_sync(blobs.put, picture.data)
    return Image(
        blob=blob,
        media_type=picture.media_type,
        size_bytes=len(picture.data),
        width=picture.width,
        height=picture.height,
    )


def _check_pdf(data: bytes) -> None:
    """Refuse what no reader opens: a vendor would refuse every later request of the session. Raises: Unprocessable."""
    end = data[-_PDF_END_BYTES:]
    if b"startxref" not in end or b"%%EOF" not in end:
        raise Unprocessable("The PDF is broken or cut off: it has no end.")
    if b"/Encrypt" in data:
        raise Unprocessable("The PDF is encrypted: save it without a password first.")


async def fitted(data: bytes) -> Picture:
    """A picture made to fit every vendor, in a process of its own. Raises: Unprocessable."""
    try:
        return Picture.unpacked(await _PICTURES.run(data))
    except TooMuch as error:
        raise Unprocessable("The picture takes too much time or memory to read: make it smaller first.") from error


def check_size(data: bytes) -> None:
    """Raises: Unprocessable above the limit of a file."""
    if len(data) > MAX_FILE_BYTES:
        raise Unprocessable(f"It is larger than {MAX_FILE_BYTES // 1024 // 1024} MiB.")
