"""Small pictures and papers as bytes, for tests that do not look at them."""

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


def paper(*pages: str) -> bytes:
    """A PDF with one line of text on each page; an empty text leaves its page blank."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET" if text else ""
        fonts = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] {fonts} /Contents {5 + 2 * at} 0 R >>")
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    out, places = "%PDF-1.7\n", []
    for number, text in enumerate(objects, start=1):
        places.append(f"{len(out):010} 00000 n \n")
        out += f"{number} 0 obj\n{text}\nendobj\n"
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{''.join(places)}"
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return (out + table + end).encode()
