"""read, write, edit and multi_edit on real files."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.files import MAX_WHOLE_BYTES, version_of
from agentcore.ports.tools import ToolError
from agentcore.tools import matching
from agentcore.tools.editor import FileEditor
from agentcore.tools.versions import FileVersions
from tests.core.test_tools import Workbench

pytestmark = pytest.mark.anyio


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


# --- read ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"", "(the file is empty)"),
        (b"one", "     1\tone"),
        (b"one\n\ntwo\n", "     1\tone\n     2\t\n     3\ttwo"),
        (b"one\r\ntwo\r\n", "     1\tone\n     2\ttwo"),
        (b"\xef\xbb\xbfone\n", "     1\tone"),
        (b"caf\xe9\n", "     1\tcaf\ufffd"),
        ("a\u2028b\n".encode(), "     1\ta\u2028b"),
        (b"x" * 2000 + b"\ny", "     1\t" + "x" * 2000 + "\n     2\ty"),
        (b"x" * 2005 + b"\ny", "     1\t" + "x" * 2000 + " [… 5 more bytes of this line]\n     2\ty"),
        (b"x" * 1999 + "é".encode() * 3, "     1\t" + "x" * 1999 + " [… 5 more bytes of this line]"),
    ],
)
async def test_a_file_is_shown_as_numbered_lines(bench: Workbench, content: bytes, shown: str) -> None:
    bench.put("a.txt", content)
    assert await bench.output("read", file_path="a.txt") == shown


@pytest.mark.parametrize(
    ("offset", "limit", "shown"),
    [
        (2, 2, "     2\tl2\n     3\tl3\n[cut before line 4: read on with offset=4]"),
        (4, 2, "     4\tl4\n     5\tl5"),
        (5, None, "     5\tl5"),
        (None, 1, "     1\tl1\n[cut before line 2: read on with offset=2]"),
    ],
)
async def test_offset_and_limit_name_lines(bench: Workbench, offset: int | None, limit: int | None, shown: str) -> None:
    bench.put("a.txt", "l1\nl2\nl3\nl4\nl5\n")
    assert await bench.output("read", file_path="a.txt", offset=offset, limit=limit) == shown


async def test_an_offset_past_the_end_says_how_long_the_file_is(bench: Workbench) -> None:
    bench.put("a.txt", "l1\nl2\n")
    assert await bench.error("read", file_path="a.txt", offset=7) == "offset 7 is past the end: the file has 2 lines"


@pytest.mark.parametrize("lines", [5000, 300_000])
async def test_a_long_file_is_read_in_parts_without_a_hole(bench: Workbench, lines: int) -> None:
    bench.put("a.txt", "".join(f"{number} {'x' * 60}\n" for number in range(1, lines + 1)))
    assert lines < 10_000 or (bench.root / "a.txt").stat().st_size > MAX_WHOLE_BYTES
    seen, offset = 0, lines - 4500
    while offset:
        text = await bench.output("read", file_path="a.txt", offset=offset, limit=10_000)
        assert len(text.encode()) <= 257 * 1024
        *shown, last = text.split("\n")
        seen += len(shown)
        offset = int(last.removesuffix("]").rpartition("=")[2]) if last.startswith("[cut") else 0
    assert (seen + 1, last.split()[:2]) == (4501, [str(lines), str(lines)])


async def test_one_enormous_line_is_read_in_bounded_memory(bench: Workbench) -> None:
    with (bench.root / "a.txt").open("wb") as file:
        for _ in range(40):
            file.write(b"x" * 1024 * 1024)
    assert await bench.output("read", file_path="a.txt") == (
        "     1\t" + "x" * 2000 + f" [… {40 * 1024 * 1024 - 2000} more bytes of this line]"
    )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("folder", "folder is a folder: list it with ls"),
        (".", ". is a folder: list it with ls"),
        ("binary", "binary is a binary file (7 bytes)"),
        ("pipe", "pipe is not a regular file"),
        ("notse.md", "notse.md does not exist. Close names in its folder: notes.md."),
        ("none/x", "none/x does not exist."),
        ("notes.md/x", "notes.md/x: Not a directory"),
        ("x" * 300, "File name too long"),
    ],
)
async def test_what_cannot_be_read_says_why(bench: Workbench, path: str, words: str) -> None:
    (bench.root / "folder").mkdir()
    os.mkfifo(bench.root / "pipe")
    bench.put("binary", b"\x7fELF\0\1\2")
    bench.put("notes.md")
    with anyio.fail_after(5):
        assert words in await bench.error("read", file_path=path)


# --- freshness ----------------------------------------------------------------------------------------------------

CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("write", {"content": "new\n"}),
    ("edit", {"old_string": "one", "new_string": "new"}),
    ("multi_edit", {"edits": [{"old_string": "one", "new_string": "new"}]}),
]


@pytest.mark.parametrize(("tool", "input"), CHANGES)
async def test_a_file_is_changed_only_in_the_version_that_was_read(
    bench: Workbench, tool: str, input: dict[str, Any]
) -> None:
    path = bench.put("a.txt", "one\n")
    status = path.stat()
    assert "was not read in this session" in await bench.error(tool, file_path="a.txt", **input)
    await bench.output("read", file_path="a.txt")
    path.write_text("One\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # same size, time and inode: only the content tells
    assert "has changed since it was read" in await bench.error(tool, file_path="a.txt", **input)
    assert path.read_text() == "One\n"
    path.write_text("one\n")
    await bench.output(tool, file_path="a.txt", **input)
    assert path.read_text() == "new\n"


async def test_own_changes_need_no_second_reading(bench: Workbench) -> None:
    await bench.output("write", file_path="a/b/c.txt", content="one two\n")
    await bench.output("edit", file_path=str(bench.root / "a/b/c.txt"), old_string="one", new_string="1")
    await bench.output("edit", file_path="a/../a/b/c.txt", old_string="two", new_string="2")
    await bench.output("write", file_path="a/b/c.txt", content="done")
    assert (bench.root / "a/b/c.txt").read_text() == "done"


# --- what a change keeps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["write", "edit"])
async def test_a_change_keeps_mode_and_leaves_nothing_behind(bench: Workbench, tool: str) -> None:
    path = bench.put("run.sh", "one\n")
    path.chmod(0o751)
    await bench.output("read", file_path="run.sh")
    await bench.output(tool, **dict(CHANGES)[tool], file_path="run.sh")
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert list(bench.root.iterdir()) == [path]


async def test_a_reader_of_the_old_file_keeps_it_whole(bench: Workbench) -> None:
    path = bench.put("a.txt", "one\n")
    await bench.output("read", file_path="a.txt")
    with path.open() as reader:
        await bench.output("write", file_path="a.txt", content="longer than before\n")
        assert reader.read() == "one\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n"),
        (b"a\nb\n", "a\nb", "x\r\ny", b"x\ny\n"),
        (b"a\r\nb\nc\r\n", "a\nb\nc", "x", b"x\r\n"),
        (b"a\r\nb\nc\r\n", "b", "x\ny", b"a\r\nx\r\ny\nc\r\n"),
        (b"\xef\xbb\xbfa\n", "a", "x", b"\xef\xbb\xbfx\n"),
        (b"\xff\xfe caf\xe9 a", "a", "x", b""),
        (b"\xff\xfe caf\xe9 one", "one", "\u20ac", b"\xff\xfe caf\xe9 \xe2\x82\xac"),
        (b"a.c abc", "a.c", r"\1\g<0>", rb"\1\g<0> abc"),
    ],
)
async def test_an_edit_keeps_line_ends_and_foreign_bytes(
    bench: Workbench, before: bytes, old: str, new: str, after: bytes
) -> None:
    path = bench.put("a.txt", before)
    await bench.output("read", file_path="a.txt")
    outcome = await bench.call("edit", file_path="a.txt", old_string=old, new_string=new)
    assert (outcome.is_error, path.read_bytes()) == (not after, after or before)


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n"),
        (b"a\nb\n", "x\r\ny\r\n", b"x\r\ny\r\n"),
        (b"\xef\xbb\xbfa\n", "x\n", b"\xef\xbb\xbfx\n"),
    ],
)
async def test_a_write_keeps_line_ends_and_byte_order_mark(
    bench: Workbench, before: bytes, content: str, after: bytes
) -> None:
    path = bench.put("a.txt", before)
    await bench.output("read", file_path="a.txt")
    await bench.output("write", file_path="a.txt", content=content)
    assert path.read_bytes() == after


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "everywhere", "words"),
    [
        ("x", False, "found 3 times"),
        ("xx", False, "found 2 times"),
        ("x = y", False, "The closest place is line 2:\n     2\t    x = x"),
        ("x = y", True, "The closest place is line 2"),
        ("entirely different", False, "Nothing in the file is close to it"),
        ("def f():\n  x = x", False, "The closest place is line 1:\n     1\tdef f():\n     2\t    x = x"),
    ],
)
async def test_an_edit_that_does_not_fit_says_what_is_there(
    bench: Workbench, old: str, everywhere: bool, words: str
) -> None:
    content = "xxx\n" if old == "xx" else "def f():\n    x = x\n    xyz\n"
    path = bench.put("a.py", content)
    await bench.output("read", file_path="a.py")
    error = await bench.error("edit", file_path="a.py", old_string=old, new_string="new", replace_all=everywhere)
    assert words in error
    assert path.read_text() == content


async def test_replace_all_replaces_every_place(bench: Workbench) -> None:
    path = bench.put("a.txt", "x y x\nx\n")
    await bench.output("read", file_path="a.txt")
    await bench.output("edit", file_path="a.txt", old_string="x", new_string="zz", replace_all=True)
    assert path.read_text() == "zz y zz\nzz\n"


async def test_several_edits_are_made_in_order_and_shown_as_one(bench: Workbench) -> None:
    path = bench.put("a.txt", "one\n")
    await bench.output("read", file_path="a.txt")
    edits = [{"old_string": "one", "new_string": "two"}, {"old_string": "two", "new_string": "three"}]
    outcome = await bench.call("multi_edit", file_path="a.txt", edits=edits)
    assert outcome.display == "--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-one\n+three\n"
    assert path.read_text() == "three\n"


async def test_several_edits_are_made_all_or_none(bench: Workbench) -> None:
    path = bench.put("a.txt", "one\n")
    await bench.output("read", file_path="a.txt")
    edits = [{"old_string": "one", "new_string": "two"}, {"old_string": "one", "new_string": "three"}]
    error = await bench.error("multi_edit", file_path="a.txt", edits=edits)
    assert error.startswith("Edit 2 of 2 failed, nothing was changed: old_string was not found.")
    assert path.read_text() == "one\n"


@pytest.mark.parametrize(
    ("tool", "path", "words"),
    [
        ("edit", "none/a.txt", "does not exist"),
        ("edit", "folder", "is a folder"),
        ("write", "folder", "is a folder"),
        ("write", "pipe", "is not a regular file"),
        ("write", "file/x", "Not a directory"),
        ("write", "x" * 300, "File name too long"),
        ("edit", "binary", "is a binary file"),
    ],
)
async def test_what_cannot_be_changed_says_why(bench: Workbench, tool: str, path: str, words: str) -> None:
    (bench.root / "folder").mkdir()
    os.mkfifo(bench.root / "pipe")
    bench.put("file")
    binary = bench.put("binary", b"text at first")
    await bench.output("read", file_path="binary")
    binary.write_bytes(b"one\0")
    if path == "binary":
        await bench.error("read", file_path="binary")
        words = "has changed since it was read"
    with anyio.fail_after(5):
        assert words in await bench.error(tool, **dict(CHANGES)[tool], file_path=path)
    assert not (bench.root / "none").exists()


async def test_huge_files_are_refused_and_near_misses_in_large_ones_come_soon(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "SEARCH_S", 5.0)  # a slow machine finds it too
    bench.put("huge", b"one\n" * (MAX_WHOLE_BYTES // 4 + 1))
    bench.put("large", "".join(f"line {number} of a large file\n" for number in range(300_000)))
    bench.put("ees", "e" * 1_000_000)
    for name in ("huge", "large", "ees"):
        await bench.output("read", file_path=name)
    with anyio.fail_after(30):
        assert "larger than" in await bench.error("edit", file_path="huge", old_string="one\n" * 9, new_string="x")
        error = await bench.error("edit", file_path="large", old_string="line 7000 of large file", new_string="x")
        grown = {"old_string": "e", "new_string": "x" * 1000, "replace_all": True}
        assert "too large" in await bench.error("edit", file_path="ees", **grown)
    assert "The closest place is line 7001" in error


async def test_the_closest_place_is_looked_for_in_bounded_work(bench: Workbench) -> None:
    bench.put("a.txt", "zzz\n" * 10_000 + "nearly the same\n")
    await bench.output("read", file_path="a.txt")
    assert "Nothing in the file is close" in await bench.error(
        "edit", file_path="a.txt", old_string="nearly the sane", new_string="x"
    )


def far_from_everything(bench: Workbench) -> dict[str, str]:
    """Put `a.txt`; return an edit whose near-miss search would take most of a minute if every line was compared."""
    bench.put("a.txt", "".join(f"{'abcdefghij' * 19}{number}\n" for number in range(10_000)))
    return {"file_path": "a.txt", "old_string": "jihgfedcba" * 19 + "Q", "new_string": "x"}


async def test_the_closest_place_is_looked_for_in_bounded_time(bench: Workbench) -> None:
    edit = far_from_everything(bench)
    await bench.output("read", file_path="a.txt")
    with anyio.fail_after(5):
        error = await bench.error("edit", **edit)
    assert "No close place was found in the time" in error or "Nothing in the file is close" in error


async def test_the_search_for_the_closest_place_gives_up(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "SEARCH_S", 0.0)
    edit = far_from_everything(bench)
    await bench.output("read", file_path="a.txt")
    assert "No close place was found in the time" in await bench.error("edit", **edit)


async def test_the_preview_looks_for_no_close_place(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    edit = far_from_everything(bench)
    monkeypatch.setattr(matching, "_closest", lambda text, old: pytest.fail("searched"))
    assert bench.preview("edit", **edit) is None
    replacement = {name: edit[name] for name in ("old_string", "new_string")}
    assert bench.preview("multi_edit", file_path="a.txt", edits=[replacement]) is None


async def test_a_write_protected_file_is_left_alone(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    path = bench.put("a.txt", "one\n")
    await bench.output("read", file_path="a.txt")
    monkeypatch.setattr(os, "access", lambda *args, **kwargs: False)  # tests may run as root, who may write everything
    assert "write-protected" in await bench.error("write", file_path="a.txt", content="x")
    assert path.read_text() == "one\n"


async def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = bench.put("a.txt", "one\n")
    await bench.output("read", file_path="a.txt")
    monkeypatch.setattr(os, "replace", full)
    assert await bench.error("write", file_path="a.txt", content="x") == "a.txt: No space left on device"
    assert list(bench.root.iterdir()) == [path]
    assert path.read_text() == "one\n"


@pytest.mark.parametrize("existing", [True, False])
def test_a_change_by_someone_else_meanwhile_is_not_overwritten(bench: Workbench, existing: bool) -> None:
    path = bench.root / "a.txt"
    versions = FileVersions()
    if existing:
        path.write_bytes(b"one\n")
        versions.remember(path, version_of(b"one\n"))

    def rewrite(before: str | None) -> str:
        path.write_text("of someone else\n")
        return "ours\n"

    with pytest.raises(ToolError, match="changed while it was being written"):
        FileEditor(bench.workspace, versions).apply("edit", "a.txt", rewrite)
    assert path.read_text() == "of someone else\n"
    assert list(bench.root.iterdir()) == [path]


# --- preview ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "input"), CHANGES)
async def test_the_preview_is_the_diff_that_comes(bench: Workbench, tool: str, input: dict[str, Any]) -> None:
    path = bench.put("a.txt", "one\nrest\n")
    await bench.output("read", file_path="a.txt")
    preview = bench.preview(tool, file_path="a.txt", **input)
    assert path.read_text() == "one\nrest\n"
    outcome = await bench.call(tool, file_path="a.txt", **input)
    assert preview == outcome.display is not None


async def test_the_preview_of_a_new_file_makes_no_folder(bench: Workbench) -> None:
    preview = bench.preview("write", file_path="new/a.txt", content="one\ntwo")
    assert preview == "--- /dev/null\n+++ b/new/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n"
    assert not (bench.root / "new").exists()


async def test_a_cancelled_write_that_has_begun_is_reported_as_done(bench: Workbench) -> None:
    with anyio.CancelScope() as scope:
        tool = bench.tools["write"]
        original = os.replace

        def replace_and_cancel(*args: object, **kwargs: object) -> None:
            anyio.from_thread.run_sync(scope.cancel)
            original(*args, **kwargs)  # type: ignore[arg-type]  # passed on as they came

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "replace", replace_and_cancel)
            outcome = await bench.call(tool.spec.name, file_path="a.txt", content="x")
    assert scope.cancel_called
    assert outcome.output == "Created a.txt (1 lines)."
    assert (bench.root / "a.txt").read_text() == "x"
