"""`read` on pictures and PDF, alone and through a whole run to the journal and back."""

import io
from pathlib import Path

import pytest
from pypdf import PdfWriter

from agentcore.events import ToolEnd
from agentcore.messages import Document, Image, ToolResult
from agentcore.tools.pdf import MAX_PAGES
from agentcore.tools.read import MAX_FILE_BYTES
from tests.core.test_tools import Workbench
from tests.fakes import call, house, kinds, say, use
from tests.pictures import PDF, paper, picture, size_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


@pytest.mark.parametrize(
    ("content", "line", "shown"),
    [
        (picture(), "image/png, 8 x 6 pixels", ("PNG", (8, 6))),
        (picture("JPEG", (3136, 400)), "image/jpeg, 1568 x 200 pixels", ("JPEG", (1568, 200))),
        (picture("GIF"), "image/png, 8 x 6 pixels", ("PNG", (8, 6))),
        (picture("WEBP"), "image/png, 8 x 6 pixels", ("PNG", (8, 6))),
        (picture("BMP"), "image/png, 8 x 6 pixels", ("PNG", (8, 6))),
    ],
)
async def test_a_picture_is_shown(bench: Workbench, content: bytes, line: str, shown: tuple[str, object]) -> None:
    bench.put("shot.bin", content)  # the bytes say what it is, not the name
    outcome = await bench.call("read", file_path="shot.bin")
    (image,) = outcome.attachments
    assert isinstance(image, Image)
    data = bench.blobs.get(image.blob)
    assert size_of(data) == shown
    assert (image.size_bytes, (image.width, image.height)) == (len(data), shown[1])
    assert outcome.output == f"shot.bin is shown with this result: {line}, {len(data):,} bytes"


async def test_the_text_of_a_pdf_is_read_in_numbered_lines(bench: Workbench) -> None:
    bench.put("docs/paper.pdf", paper("Hello", "", "World"))
    outcome = await bench.call("read", file_path="docs/paper.pdf")
    assert [line.partition("\t")[2] for line in outcome.output.splitlines()] == [
        "--- page 1 of 3 ---",
        "Hello",
        "--- page 2 of 3 ---",
        "",
        "--- page 3 of 3 ---",
        "World",
    ]
    assert outcome.attachments == ()
    assert await bench.output("read", file_path="docs/paper.pdf", offset=6) == "     6\tWorld"


async def test_a_pdf_without_text_is_shown_as_it_is(bench: Workbench) -> None:
    scan = paper("")
    bench.put("docs/scan.pdf", scan)
    outcome = await bench.call("read", file_path="docs/scan.pdf")
    (document,) = outcome.attachments
    assert document == Document(blob=document.blob, media_type="application/pdf", size_bytes=len(scan), name="scan.pdf")
    assert bench.blobs.get(document.blob) == scan


async def test_of_a_long_pdf_the_first_pages_are_read(bench: Workbench) -> None:
    bench.put("long.pdf", paper(*(f"page {number}" for number in range(MAX_PAGES + 2))))
    last = await bench.output("read", file_path="long.pdf", offset=2 * MAX_PAGES)
    assert [line.partition("\t")[2] for line in last.splitlines()] == [
        f"page {MAX_PAGES - 1}",
        "[… 2 more pages are left out …]",
    ]


def encrypted(password: str) -> bytes:
    writer, out = PdfWriter(io.BytesIO(paper("secret"))), io.BytesIO()
    writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


async def test_a_pdf_that_anybody_may_open_is_read(bench: Workbench) -> None:
    bench.put("x.pdf", encrypted(""))
    assert (await bench.output("read", file_path="x.pdf")).endswith("\tsecret")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (picture("JPEG", (400, 300))[:300], "x cannot be shown. The picture (image/jpeg) is broken"),
        (b"\x89PNG\r\n\x1a\n", "is broken"),
        (PDF + bytes(MAX_FILE_BYTES), "larger than 20 MiB"),
        (encrypted("password"), "x cannot be read: the PDF is encrypted"),
        (paper("cut")[:300], "x cannot be read: the PDF is broken"),
        (b"%PDF-1.7\n", "x cannot be read: the PDF is broken"),
        (picture(size=(1206, 6)), "200 times"),
    ],
)
async def test_what_cannot_be_shown_is_an_ordinary_error(bench: Workbench, content: bytes, words: str) -> None:
    bench.put("x", content)
    assert words in await bench.error("read", file_path="x")
    assert bench.blobs.held == {}


async def test_an_svg_is_a_text(bench: Workbench) -> None:
    bench.put("logo.svg", "<svg/>")
    assert await bench.output("read", file_path="logo.svg") == "     1\t<svg/>"


async def test_a_shown_picture_reaches_the_model_by_reference_and_again_after_a_restart(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        data = picture()
        live = await home.session()
        (tmp_path / "work" / "a.png").write_bytes(data)
        home.provider.script(use(call("read", "c1", file_path="a.png")), say("Red."))
        events = await home.run(live, "look")
        assert "permission_request" not in kinds(events)
        (end,) = (event for event in events if isinstance(event, ToolEnd))
        (image,) = end.attachments
        request = home.provider.requests[1]
        result = request.messages[-1].content[0]
        assert isinstance(result, ToolResult)
        assert result.attachments == (image,)
        assert request.blob(image.blob) == data
        with pytest.raises(KeyError):
            request.blob("0" * 64)
        before = live.agent.history.transcript.messages
        shown = await home.app.display(live.id)
    journal = next((tmp_path / "data").rglob("journal.jsonl"))
    assert b"IHDR" not in journal.read_bytes()
    async with house(tmp_path) as home:
        again = await home.reload(live.id)
        assert again.agent.history.transcript.messages == before
        assert await home.app.display(live.id) == shown
        block = shown[0][2].content[0]
        assert isinstance(block, ToolResult)
        assert block.attachments == (image,)
        home.provider.script(say("Still red."))
        await home.run(again, "and now?")
        assert home.provider.requests[0].blob(image.blob) == data
