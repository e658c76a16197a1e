"""Small pictures as bytes, for tests that do not look at them."""

import io

from PIL import Image

PDF_END = b"trailer\n<<>>\nstartxref\n0\n%%EOF\n"
PDF = b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n" + PDF_END


def picture(kind: str = "PNG", size: tuple[int, int] = (8, 6), color: str = "red", **options: object) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, color).save(out, kind, **options)
    return out.getvalue()


def size_of(data: bytes) -> tuple[str | None, tuple[int, int]]:
    """Format and size of a picture that decodes."""
    image = Image.open(io.BytesIO(data))
    image.load()
    return image.format, image.size
