"""Pictures made to fit every vendor: what passes, what is written anew, what is refused."""

import io
import os
import resource
import struct
import warnings
import zlib
from collections.abc import Callable

import pytest
from PIL import Image, ImageDraw

from agentcore import images
from agentcore.errors import Unprocessable
from agentcore.images import MAX_BYTES, MAX_SIDE_PX, Picture, prepare, sniff_image
from agentcore.media import fitted

SIZES = [(1, 1), (64, 48), (1568, 10), (1569, 1000), (3000, 200), (200, 3000)]
FORMATS = [
    ("PNG", "RGB"),
    ("PNG", "RGBA"),
    ("PNG", "P"),
    ("PNG", "L"),
    ("PNG", "LA"),
    ("PNG", "1"),
    ("PNG", "I;16"),
    ("JPEG", "RGB"),
    ("JPEG", "L"),
    ("JPEG", "CMYK"),
    ("GIF", "P"),
    ("WEBP", "RGB"),
    ("WEBP", "RGBA"),
    ("BMP", "RGB"),
    ("TIFF", "RGB"),
    ("TIFF", "CMYK"),
    ("TIFF", "F"),
]
PASSES = {("PNG", mode) for mode in ("RGB", "RGBA", "P", "L", "LA", "1")} | {("JPEG", "RGB"), ("JPEG", "L")}


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    return Image.frombytes(mode, (width, height), os.urandom(width * height * len(mode)))


def halves(width: int, height: int, left: str = "red", right: str = "blue") -> Image.Image:
    image = Image.new("RGB", (width, height), right)
    ImageDraw.Draw(image).rectangle((0, 0, width // 2 - 1, height), fill=left)
    return image


def opened(picture: Picture) -> Image.Image:
    """Decode the whole result, and check everything that is promised about it."""
    image = Image.open(io.BytesIO(picture.data))
    image.load()
    assert image.format == picture.media_type.removeprefix("image/").upper()
    assert image.size == (picture.width, picture.height)
    assert max(image.size) <= MAX_SIDE_PX
    assert len(picture.data) <= MAX_BYTES
    return image


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("kind", "mode"), FORMATS)
def test_every_result_is_within_the_limits_and_what_fits_is_left_alone(
    kind: str, mode: str, size: tuple[int, int]
) -> None:
    data = saved(Image.new(mode, size), kind)
    picture = prepare(data)
    image = opened(picture)
    fits = max(size) <= MAX_SIDE_PX
    assert (picture.data == data) == (fits and (kind, mode) in PASSES)
    scale = min(1.0, MAX_SIDE_PX / max(size))
    assert image.size == tuple(max(1, round(side * scale)) for side in size)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_noise_of_a_camera_becomes_a_jpeg_that_is_small_enough(kind: str) -> None:
    picture = prepare(saved(noise(2500, 2000), kind))
    opened(picture)
    assert (picture.media_type, picture.width, picture.height) == ("image/jpeg", 1568, 1254)


def test_a_small_picture_of_too_many_bytes_is_written_anew() -> None:
    data = saved(noise(1400, 1400), "PNG")
    assert len(data) > MAX_BYTES
    assert opened(prepare(data)).size == (1400, 1400)


def test_transparent_noise_that_is_too_large_for_png_lies_on_white() -> None:
    image = noise(1500, 1500, "RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 200, 200))
    picture = prepare(saved(image, "PNG"))
    assert picture.media_type == "image/jpeg"
    assert min(opened(picture).getpixel((50, 50))) > 240


def test_transparency_is_kept() -> None:
    image = Image.new("RGBA", (2000, 1000), (0, 0, 0, 0))
    ImageDraw.Draw(image).rectangle((0, 0, 999, 999), fill=(255, 0, 0, 255))
    for kind in ("PNG", "WEBP"):
        result = opened(prepare(saved(image, kind, lossless=True)))
        assert (result.getpixel((100, 100)), result.getpixel((1500, 100))[3]) == ((255, 0, 0, 255), 0)


def test_a_drawing_of_few_colours_stays_sharp() -> None:
    picture = prepare(saved(halves(800, 600), "BMP"))
    assert (picture.media_type, opened(picture).getcolors()) == (
        "image/png",
        [(240_000, (255, 0, 0)), (240_000, (0, 0, 255))],
    )


def test_sixteen_bits_a_channel_keep_their_brightness() -> None:
    assert opened(prepare(saved(Image.new("I;16", (4, 4), 0x8000), "PNG"))).getpixel((0, 0)) == (128, 128, 128)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_picture_is_turned_upright(kind: str, orientation: int) -> None:
    """A camera stores the sensor's rows and says how it was held; the left half of the scene is red."""
    scene = halves(80, 40)
    held = {
        1: scene,
        2: scene.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        3: scene.transpose(Image.Transpose.ROTATE_180),
        4: scene.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        5: scene.transpose(Image.Transpose.TRANSPOSE),
        6: scene.transpose(Image.Transpose.ROTATE_90),
        7: scene.transpose(Image.Transpose.TRANSVERSE),
        8: scene.transpose(Image.Transpose.ROTATE_270),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = prepare(saved(held, kind, exif=exif))
    image = opened(picture).convert("RGB")
    left, right = image.getpixel((10, 20)), image.getpixel((70, 20))
    assert image.size == (80, 40)
    assert (left[0] > 200 > 60 > left[2], right[2] > 200 > 60 > right[0]) == (True, True)
    assert image.getexif().get(0x0112, 1) == 1


def test_metadata_does_not_survive_a_new_writing() -> None:
    exif = Image.Exif()
    exif[0x010E] = "where I live"
    data = saved(halves(2000, 1000), "JPEG", exif=exif, comment=b"secret", icc_profile=b"profile")
    picture = prepare(data)
    assert b"where I live" in data
    for trace in (b"where I live", b"secret", b"profile", b"Exif"):
        assert trace not in picture.data


def test_an_animation_is_its_first_frame() -> None:
    frames = [Image.new("RGB", (60, 40), color) for color in ("red", "blue")]
    for kind in ("GIF", "PNG", "WEBP"):
        data = saved(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)
        image = opened(prepare(data))
        assert (image.convert("RGB").getpixel((5, 5)), getattr(image, "n_frames", 1)) == ((255, 0, 0), 1)


def test_a_second_picture_in_a_jpeg_is_dropped() -> None:
    data = saved(halves(60, 40), "MPO", save_all=True, append_images=[halves(60, 40)])
    picture = prepare(data)
    assert opened(picture).format == "JPEG"
    assert len(picture.data) < len(data)


# --- refusals -----------------------------------------------------------------------------------------------------


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_head(width: int, height: int) -> bytes:
    """A PNG that says how large it is and holds next to nothing."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def damaged_png() -> bytes:
    data = bytearray(saved(noise(50, 50), "PNG"))
    data[len(data) // 2] ^= 0xFF
    return bytes(data)


def jpeg_without_tables() -> bytes:
    data = saved(noise(40, 40), "JPEG")
    while (start := data.find(b"\xff\xdb")) >= 0:
        data = data[:start] + data[start + 2 + int.from_bytes(data[start + 2 : start + 4], "big") :]
    return data


REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "empty"),
    "text": (lambda: b"hello, this is text", "no picture"),
    "text that begins like a bitmap": (lambda: b"BMW is a maker of cars and motorcycles", "no picture"),
    "PDF": (lambda: b"%PDF-1.7\n", "no picture"),
    "SVG": (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
    "SVG with a prologue": (lambda: b"\xef\xbb\xbf <?xml version='1.0'?><svg/>", "SVG"),
    "HEIC": (lambda: b"\0\0\0\x18ftypheic" + bytes(50), "HEIC"),
    "AVIF": (lambda: saved(halves(8, 8), "AVIF"), "AVIF"),
    "no pixels": (lambda: png_head(0, 10), "broken|no pixels"),
    "a bomb": (lambda: png_head(50_000, 50_000), "million pixels"),
    "a bomb below Pillow's error": (lambda: png_head(9_500, 9_500), "million pixels"),
    "a strip": (lambda: saved(Image.new("RGB", (1206, 6)), "PNG"), "200 times"),
    "a damaged PNG": (damaged_png, "broken"),
    "a PNG without its pixels": (lambda: png_head(8, 8), "broken"),
    "a JPEG without its tables": (jpeg_without_tables, "broken"),
    "a signature alone": (lambda: b"\x89PNG\r\n\x1a\n", "broken"),
    "a bomb as GIF": (lambda: b"GIF89a" + struct.pack("<HH", 60_000, 60_000) + b"\0\0\0,", "million pixels|broken"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_usable_picture_is_refused_with_a_sentence(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(Unprocessable, match=words):
        prepare(make())


def test_a_bomb_is_refused_without_a_warning_in_the_log() -> None:
    images._pillow.cache_clear()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("default")
        with pytest.raises(Unprocessable, match="million pixels"):
            prepare(png_head(9_500, 9_500))
    images._pillow.cache_clear()
    assert heard == []


@pytest.mark.parametrize("size", [(40, 40), (1700, 1000)], ids=["would pass", "would be written anew"])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_a_picture_that_is_cut_off_is_refused(kind: str, size: tuple[int, int]) -> None:
    data = saved(noise(*size) if size[0] < 100 else halves(*size), kind)
    for kept in (0.1, 0.5, 0.9):
        with pytest.raises(Unprocessable, match="broken"):
            prepare(data[: max(16, int(len(data) * kept))])


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_what_hangs_on_behind_the_end_is_dropped(kind: str) -> None:
    data = saved(halves(40, 40), kind)
    picture = prepare(data + b"<script>")
    assert b"<script>" not in picture.data
    assert opened(picture).size == (40, 40)


def test_a_picture_that_cannot_be_made_small_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_BYTES", 100)
    with pytest.raises(Unprocessable, match="smaller than 100 bytes"):
        prepare(saved(noise(40, 40), "PNG"))


@pytest.mark.parametrize(("kind", "mode"), FORMATS)
def test_the_kind_is_read_off_the_bytes(kind: str, mode: str) -> None:
    assert sniff_image(saved(Image.new(mode, (9, 9)), kind)) == f"image/{kind.lower()}"


@pytest.mark.anyio
async def test_a_process_of_its_own_gives_the_same_and_the_same_refusals() -> None:
    data = saved(halves(2000, 100), "PNG")
    assert await fitted(data) == prepare(data)
    with pytest.raises(Unprocessable, match="cannot be decoded"):
        await fitted(data[:-30])


@pytest.mark.anyio
async def test_a_huge_picture_leaves_the_server_as_small_as_it_was() -> None:
    data = saved(Image.new("RGBA", (9000, 9000), (1, 2, 3, 128)), "PNG")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert max((picture := await fitted(data)).width, picture.height) == MAX_SIDE_PX
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
