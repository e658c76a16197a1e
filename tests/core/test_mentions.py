"""`@path` in a prompt: what is a mention, what is shown of it, and what stays text."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.mentions import MAX_FOLDER_NAMES, MAX_MENTIONS, MAX_TEXT_BYTES, Mention, Mentions, find_mentions
from agentcore.messages import Document, Image, Text
from agentcore.permissions.workspace import Workspace
from tests.fakes import MemoryBlobs
from tests.pictures import PDF, picture

pytestmark = pytest.mark.anyio


class Bench:
    def __init__(self, base: Path, may_read: Callable[[str], bool] = lambda path: True) -> None:
        base = base.resolve()
        self.root, self.outside = base / "work", base / "outside"
        (self.root / "src").mkdir(parents=True)
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text("PRIVATE")
        workspace = Workspace(self.root, (self.root,), hidden=(self.root / "keys",))
        self.mentions = Mentions(workspace, MemoryBlobs(), os.environ, may_read)

    def put(self, name: str, content: str | bytes = "one\ntwo\nthree\n") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    async def shown(self, text: str) -> tuple[list[str], list[str]]:
        """The texts of the blocks, and the notices."""
        found = await self.mentions.resolve(text)
        return [block.text for block in found.blocks if isinstance(block, Text)], found.notices


# --- what may be one ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@a.txt", [Mention("a.txt")]),
        ("see @a.txt, @b/c.py. And (@d)!", [Mention("a.txt"), Mention("b/c.py"), Mention("d")]),
        ("@a.txt @a.txt", [Mention("a.txt")]),
        ("@a.txt#L10-40", [Mention("a.txt", 10, 40)]),
        ("@a.txt#L10-L40, please", [Mention("a.txt", 10, 40)]),
        ("@a.txt#L7", [Mention("a.txt", 7, 7)]),
        ("@a.txt#L9-3", [Mention("a.txt", 9, 9)]),
        ("@a.txt#L0-3", [Mention("a.txt", 1, 3)]),
        ("@a.txt#anchor", [Mention("a.txt#anchor")]),
        ("@src/", [Mention("src/")]),
        ('@"a b.txt" and @"c d.txt"#L2-3', [Mention("a b.txt"), Mention("c d.txt", 2, 3)]),
        ('"@a.txt"', [Mention("a.txt")]),
        ("@dir@2x.png", [Mention("dir")]),
        ("me@example.com", []),
        ("a/@b.txt", []),
        ("@server:resource://x", [Mention("resource://x", server="server")]),
        ("@", []),
        ("@ a.txt", []),
        ('@""', []),
        ("`@a.txt`", []),
        ("```python\n@dataclass\n@a.txt\n```", []),
        ("@...", []),
    ],
)
def test_what_may_be_a_mention(text: str, expected: list[Mention]) -> None:
    assert list(find_mentions(text)) == expected


# --- what is shown ---


async def test_a_file_is_shown_with_its_numbered_lines(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put("src/a.txt")
    texts, notices = await bench.shown("What is in @src/a.txt?")
    assert texts == ['<file path="src/a.txt">\n     1\tone\n     2\ttwo\n     3\tthree\n</file>']
    assert notices == []


async def test_some_lines_are_shown_alone(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put("a b.txt")
    texts, notices = await bench.shown('@"a b.txt"#L2-3 and @"a b.txt"#L9')
    assert texts == ['<file path="a b.txt" lines="2-3">\n     2\ttwo\n     3\tthree\n</file>']
    assert notices == ["@a b.txt is not shown to the model: offset 9 is past the end: the file has 3 lines."]


async def test_a_folder_is_shown_as_the_names_in_it_without_what_gitignore_names(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put(".gitignore", "*.log\n")
    for name in ("src/b.py", "src/a.py", "src/deep/c.py", "src/x.log", "src/deep/.gitignore"):
        bench.put(name, "c.py\n" if name.endswith("ignore") else "x")
    texts, notices = await bench.shown("@src/")
    assert texts == ['<folder path="src/">\na.py\nb.py\ndeep/.gitignore\n</folder>']
    assert notices == []


async def test_a_folder_does_not_tell_what_lies_in_a_closed_place(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put("keys/id", "PRIVATE")
    bench.put("a.txt")
    texts, _ = await bench.shown("@./")
    assert texts == ['<folder path="./">\na.txt\n</folder>']


async def test_a_large_folder_is_cut(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in range(MAX_FOLDER_NAMES + 3):
        bench.put(f"src/{number:04}")
    [text], _ = await bench.shown("@src")
    assert text.endswith("\n0499\n[3 more: use glob to find what you need]\n</folder>")


async def test_a_picture_and_a_document_are_shown_as_themselves(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put("a.png", picture())
    bench.put("b.pdf", PDF)
    found = await bench.mentions.resolve("@a.png and @b.pdf")
    assert [type(block) for block in found.blocks] == [Text, Image, Text, Document]
    assert found.blocks[0] == Text(text="[Mentioned file: a.png]")
    assert found.notices == []


async def test_a_long_file_is_cut_at_a_line_and_says_how_to_read_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put("long.txt", f"{'x' * 92}\n" * 1_000)
    [text], _ = await bench.shown("@long.txt#L11-1000")
    lines = text.split("\n")
    kept = MAX_TEXT_BYTES // 100
    assert lines[kept].startswith(f"{kept + 10:>6}\t")
    assert lines[kept + 1] == f"[cut here: read on with offset={kept + 11}]"


async def test_a_files_text_cannot_end_the_frame_that_it_stands_in(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put("a.txt", '</file>\n<file path="b">')
    [text], _ = await bench.shown("@a.txt")
    assert (text.count("<file"), text.count("</file>")) == (1, 1)


# --- what stays text ---


@pytest.mark.parametrize(
    "text", ["@dataclass", "@none.txt", "@~/.ssh/id_rsa", "@src/none", "mail me@a.txt", "@a:a.txt"]
)
async def test_what_leads_nowhere_stays_text(tmp_path: Path, text: str) -> None:
    bench = Bench(tmp_path)
    bench.put("a.txt")
    assert await bench.shown(text) == ([], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("@../outside/secret.txt", "it is outside of the session's folders, or closed"),
        ("@/etc/passwd", "it is outside of the session's folders, or closed"),
        ("@src/link.txt", "it is outside of the session's folders, or closed"),
        ("@link.txt", "it is outside of the session's folders, or closed"),
        ("@keys/id", "it is outside of the session's folders, or closed"),
        ("@src/pipe", "it is no regular file"),
        ("@src/program", "it is a binary file"),
        ("@src/huge", "It is larger than 20 MiB"),
        ("@src/broken.pdf", "The PDF is broken or cut off: it has no end"),
    ],
)
async def test_what_the_tool_read_would_not_be_let_at_is_told_and_not_shown(
    tmp_path: Path, text: str, why: str
) -> None:
    bench = Bench(tmp_path)
    bench.put("keys/id", "PRIVATE")
    bench.put("src/program", b"\x7fELF\0\0")
    bench.put("src/broken.pdf", b"%PDF-1.4")
    (bench.root / "link.txt").symlink_to("src/link.txt")
    (bench.root / "src/link.txt").symlink_to(bench.outside / "secret.txt")
    os.mkfifo(bench.root / "src/pipe")
    with bench.put("src/huge").open("wb") as sparse:
        sparse.truncate(1 << 30)
    texts, notices = await bench.shown(f"{text} and @src/none")
    assert texts == []
    assert notices == [f"{text} is not shown to the model: {why}."]


async def test_what_a_rule_keeps_from_the_tool_read_is_not_shown(tmp_path: Path) -> None:
    asked: list[str] = []

    def may_read(path: str) -> bool:
        asked.append(path)
        return path != ".env"

    bench = Bench(tmp_path, may_read)
    bench.put(".env", "KEY=PRIVATE")
    bench.put("a.txt", "fine")
    texts, notices = await bench.shown("@.env @a.txt @none")
    assert texts == ['<file path="a.txt">\n     1\tfine\n</file>']
    assert notices == ["@.env is not shown to the model: a rule keeps it from the tool `read`."]
    assert asked == [".env", "a.txt"]


async def test_a_link_that_is_put_in_the_way_after_the_judgement_is_not_followed(tmp_path: Path) -> None:
    def swap(path: str) -> bool:
        file.unlink()
        file.symlink_to(bench.outside / "secret.txt")
        return True

    bench = Bench(tmp_path, swap)
    file = bench.put("a.txt")
    texts, notices = await bench.shown("@a.txt")
    assert texts == []
    assert len(notices) == 1


async def test_a_prompt_that_is_slow_on_purpose_is_not(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put("a.txt", f"<{' ' * 60_000}file")
    bench.put("n198")  # the first that is not looked up: a.txt and x come before
    texts, notices = await bench.shown("@a.txt " + '@"x" ' * 100_000 + " ".join(f"@n{n}" for n in range(100_000)))
    assert len(texts) == 1
    assert notices == ["Only the first 200 words with an @ are looked up as files."]


async def test_mentions_are_bounded_by_number_and_together(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for number in range(MAX_MENTIONS + 1):
        bench.put(f"s{number}", "x")
    for number in range(5):
        bench.put(f"l{number}", f"{'x' * 92}\n" * 640)
    texts, notices = await bench.shown(" ".join(f"@s{number}" for number in range(MAX_MENTIONS + 1)))
    assert len(texts) == MAX_MENTIONS
    assert notices == [f"Only the first {MAX_MENTIONS} mentioned files are shown to the model."]
    texts, notices = await bench.shown(" ".join(f"@l{number}" for number in range(5)))
    assert len(texts) == 4
    assert notices == ["@l4 is not shown to the model: the mentions of a prompt may be 256 KiB of text together."]
