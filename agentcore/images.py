"""Any picture that a person or a tool hands over, made into one that every vendor takes, or refused with a sentence.

Knows bytes and pixels, nothing about messages or where the bytes go. A picture over a vendor's limits makes every
later request of its session fail, so it is made to fit before it enters. What the vendors take (November 2026):

- Anthropic (vision guide): PNG, JPEG, GIF, WebP; 5 MB as base64; 8000 px a side, 2000 px with more than 20 images in
  a request; scales down to 1568 px; 32 MB a request.
- OpenAI (images and vision guide): PNG, JPEG, WebP, GIF without animation; scales down to 2048 px.
- Gemini (image understanding): PNG, JPEG, WebP, HEIC; 7 MB a file inline on Vertex, 20 MB a request elsewhere.
- Ollama and llama.cpp (their decoders): PNG, JPEG; Qwen-VL's processor refuses sides above 200:1.

The common part: PNG or JPEG, 1568 px a side, 3.75 MB. A decoder of a stranger's bytes may take a gigabyte and many
seconds, so `media` runs this in a process of its own (`confined`); Pillow is never loaded by the server.
"""

import io
import json
import warnings
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Literal

from agentcore.errors import Unprocessable

if TYPE_CHECKING:
    from PIL import Image, ImageFile

MAX_SIDE_PX = 1568  # Anthropic scales down what is larger, so more would only cost
MAX_BYTES = 3_750_000  # 5 MB of base64
MAX_RATIO = 200  # Qwen-VL's
MAX_PIXELS = 89_478_485  # Pillow's own bound: 256 MiB of RGB
PNG_COLORS = 256  # drawings and plain screenshots stay sharp; photographs have more
QUALITIES = (90, 80, 65, 50, 35)  # of a JPEG, best first

MediaType = Literal["image/png", "image/jpeg"]

_READERS = {
    "image/png": ("PNG",),
    "image/jpeg": ("JPEG", "MPO"),
    "image/gif": ("GIF",),
    "image/webp": ("WEBP",),
    "image/bmp": ("BMP",),
    "image/tiff": ("TIFF",),
}
_AS_IT_IS = {"image/png": ("PNG", {"1", "L", "LA", "P", "RGB", "RGBA"}), "image/jpeg": ("JPEG", {"L", "RGB"})}
"""Format and modes that no vendor stumbles over: no CMYK, no 16 bits, no second picture in the file."""
_ENDS = {"image/png": b"IEND\xaeB`\x82", "image/jpeg": b"\xff\xd9"}
_ORIENTATION = 0x0112  # the EXIF tag


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture within the limits of every vendor."""

    data: bytes
    media_type: MediaType
    width: int
    """In pixels, as `height`."""
    height: int

    def packed(self) -> bytes:
        """As one string of bytes: a line of JSON, then the picture."""
        head = {"media_type": self.media_type, "width": self.width, "height": self.height}
        return json.dumps(head).encode() + b"\n" + self.data

    @classmethod
    def unpacked(cls, packed: bytes) -> "Picture":
        head, _, data = packed.partition(b"\n")
        return cls(data, **json.loads(head))


def sniff_image(data: bytes) -> str | None:
    """The media type of a picture that can be read here, by its first bytes, whatever it is called; else None."""
    match data[:4]:
        case b"\x89PNG":
            return "image/png"
        case b"GIF8":
            return "image/gif"
        case b"II*\0" | b"MM\0*":
            return "image/tiff"
        case b"RIFF" if data[8:12] == b"WEBP":
            return "image/webp"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith(b"BM") and data[6:10] == bytes(4):  # reserved bytes: a text that begins with BM has none
        return "image/bmp"
    return None


def prepare_packed(data: bytes) -> bytes:
    """`prepare`, as `confined` runs it. Raises: Unprocessable."""
    return prepare(data).packed()


def prepare(data: bytes) -> Picture:
    """Make a picture fit, or take it byte for byte when it does. Slow: a second for a large one.

    Upright, its first frame, without metadata where it had to be written anew. Raises: Unprocessable.
    """
    kind = sniff_image(data)
    if kind is None:
        raise Unprocessable(_why_unknown(data))
    try:
        return _prepare(data, kind)
    except Unprocessable:
        raise
    except _bombs() as error:
        raise _too_many_pixels() from error
    except Exception as error:  # not only OSError: a decoder of hostile bytes raises whatever it comes to
        raise Unprocessable(f"The picture ({kind}) is broken or cut off: it cannot be decoded.") from error


def _prepare(data: bytes, kind: str) -> Picture:
    with _opened(data, kind) as image:
        _check_shape(image.width, image.height)
        if kind == "image/png":
            with _opened(data, kind) as again:
                again.verify()  # the end and the checksums, which `load` does not look at
        if _may_pass(image, data, kind):
            image.load()  # to its end: what is cut off fails here
            return Picture(data, "image/png" if kind == "image/png" else "image/jpeg", image.width, image.height)
        return _encode(_fitted(image), is_flat=kind != "image/jpeg")


def _opened(data: bytes, kind: str) -> "ImageFile.ImageFile":
    """Read the head of a picture, with the decoder of its kind and no other."""
    image: ImageFile.ImageFile = _pillow().open(io.BytesIO(data), formats=_READERS[kind])
    return image


def _check_shape(width: int, height: int) -> None:
    if min(width, height) < 1:
        raise Unprocessable("The picture has no pixels.")
    if width * height > MAX_PIXELS:
        raise _too_many_pixels()
    if max(width, height) > MAX_RATIO * min(width, height):
        raise Unprocessable(f"The picture is {width} x {height} pixels: more than {MAX_RATIO} times as long as wide.")


def _may_pass(image: "ImageFile.ImageFile", data: bytes, kind: str) -> bool:
    """Whether nothing has to be changed, if only it decodes."""
    name, modes = _AS_IT_IS.get(kind, ("", set()))
    return (
        image.format == name
        and image.mode in modes
        and max(image.size) <= MAX_SIDE_PX
        and len(data) <= MAX_BYTES
        and data.endswith(_ENDS[kind])
        and not getattr(image, "is_animated", False)
        and image.getexif().get(_ORIENTATION, 1) == 1
    )


def _fitted(image: "ImageFile.ImageFile") -> "Image.Image":
    """The pixels upright, 8 bits a channel, as RGB or RGBA, no larger than allowed."""
    from PIL import ImageOps

    image.draft("RGB", (MAX_SIDE_PX, MAX_SIDE_PX))  # a large JPEG is read at a fraction of its size at once
    image.load()
    ImageOps.exif_transpose(image, in_place=True)
    pixels: Image.Image = image
    if image.mode.startswith("I;16"):
        pixels = image.point(lambda value: value / 256).convert("L")  # `convert` alone cuts what is above 255
    mode = "RGBA" if image.has_transparency_data else "RGB"
    pixels = pixels if pixels.mode == mode else pixels.convert(mode)
    if pixels.mode == "RGBA" and pixels.getchannel("A").getextrema() == (255, 255):
        pixels = pixels.convert("RGB")
    pixels.thumbnail((MAX_SIDE_PX, MAX_SIDE_PX), _pillow().Resampling.LANCZOS)
    return pixels


def _encode(pixels: "Image.Image", *, is_flat: bool) -> Picture:
    """PNG where there is transparency or few colours (`is_flat`: there may be), else the best JPEG that is small."""
    if pixels.mode == "RGBA" or (is_flat and pixels.getcolors(PNG_COLORS) is not None):
        data = _saved(pixels, "PNG", optimize=True)
        if len(data) <= MAX_BYTES:
            return Picture(data, "image/png", *pixels.size)
    if pixels.mode == "RGBA":
        ground = _pillow().new("RGBA", pixels.size, "white")
        ground.alpha_composite(pixels)
        pixels = ground.convert("RGB")
    for quality in QUALITIES:
        data = _saved(pixels, "JPEG", quality=quality)
        if len(data) <= MAX_BYTES:
            return Picture(data, "image/jpeg", *pixels.size)
    raise Unprocessable(f"The picture cannot be made smaller than {MAX_BYTES:,} bytes.")


def _saved(pixels: "Image.Image", format: str, **options: int | bool) -> bytes:
    """Write the pixels, and nothing else that came with them."""
    out = io.BytesIO()
    bare = pixels.copy()
    bare.info.clear()
    bare.save(out, format, **options)
    return out.getvalue()


def _why_unknown(data: bytes) -> str:
    start = data[:256].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if not data:
        return "The picture is empty."
    if data[4:8] == b"ftyp":
        return "HEIC and AVIF pictures cannot be read here: save it as JPEG or PNG."
    if start.startswith((b"<svg", b"<?xml", b"<!doctype svg")):
        return "SVG is a drawing in text, which no model takes as a picture: save it as PNG, or send it as text."
    return "This is no picture that can be read (PNG, JPEG, GIF, WebP, BMP, TIFF); else only PDF and text are taken."


def _too_many_pixels() -> Unprocessable:
    return Unprocessable(f"The picture has more than {MAX_PIXELS // 1_000_000} million pixels: make it smaller first.")


def _bombs() -> tuple[type[Exception], ...]:
    return _pillow().DecompressionBombError, _pillow().DecompressionBombWarning


@cache
def _pillow() -> ModuleType:
    """Pillow's `Image`, with its warning of a decompression bomb made an error for the whole process."""
    from PIL import Image

    warnings.simplefilter("error", Image.DecompressionBombWarning)
    return Image
