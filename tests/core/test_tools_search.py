"""grep, glob and ls on real folders."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.origin import Origin
from agentcore.permissions.rules import held_widely, parse_rule
from agentcore.tools import ripgrep
from tests.core.test_tools import Workbench

pytestmark = pytest.mark.anyio

MORE = "more not shown; narrow the pattern, the path or the glob"


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path)
    files = {
        "a.py": "import os\nTODO = 1\n# todo: twice, todo\n",
        "src/b.py": "def f():\r\n    pass  # TODO\r\n",
        "src/c.ts": "// nothing\n",
        "src/-v": "TODO -v --files\n",
        ".github/ci.yml": "# TODO\n",
        ".gitignore": "*.log\nbuild/\n",
        "x.log": "TODO\n",
        "build/out.py": "TODO\n",
        ".git/config": "TODO\n",
    }
    for age, (name, content) in enumerate(files.items()):
        os.utime(bench.put(name, content), (1_000_000 - age, 1_000_000 - age))
    bench.put("data.bin", b"\0\1TODO\n")
    os.utime(bench.root / "data.bin", (1, 1))
    return bench


@pytest.mark.parametrize(
    ("input", "output"),
    [
        ({"pattern": "TODO"}, ".github/ci.yml\na.py\nsrc/-v\nsrc/b.py"),
        ({"pattern": "todo"}, "a.py"),
        ({"pattern": "todo", "-i": True, "output_mode": "count"}, ".github/ci.yml:1\na.py:2\nsrc/-v:1\nsrc/b.py:1"),
        (
            {"pattern": "TODO", "output_mode": "content", "path": "src"},
            "src/-v:1:TODO -v --files\nsrc/b.py:2:    pass  # TODO",
        ),
        ({"pattern": "TODO", "glob": "*.py"}, "a.py\nsrc/b.py"),
        ({"pattern": "TODO", "glob": "src/**/*.py"}, "src/b.py"),
        ({"pattern": "TODO", "glob": "!*.py"}, ".github/ci.yml\nsrc/-v"),
        ({"pattern": "TODO", "path": "a.py", "output_mode": "content"}, "a.py:2:TODO = 1"),
        ({"pattern": "TODO", "path": "x.log"}, "x.log"),
        ({"pattern": r"f\(\):.*pass", "multiline": True}, "src/b.py"),
        ({"pattern": r"f\(\):.*pass"}, "No matches found."),
        ({"pattern": r"os\nTODO", "multiline": True, "output_mode": "content"}, "a.py:1:import os\na.py:2:TODO = 1"),
        ({"pattern": "TODO", "head_limit": 1}, f".github/ci.yml\n[3 {MORE}]"),
        ({"pattern": "-v"}, "src/-v"),
        ({"pattern": "--files", "path": "src/-v", "output_mode": "count"}, "src/-v:1"),
        ({"pattern": "TODO", "glob": "--pre=sh"}, "No matches found."),
        ({"pattern": "(?<=# )TODO"}, ".github/ci.yml\nsrc/b.py"),
        ({"pattern": "nowhere"}, "No matches found."),
    ],
)
async def test_grep_finds(bench: Workbench, input: dict[str, Any], output: str) -> None:
    assert await bench.output("grep", **input) == output


@pytest.mark.parametrize(
    ("input", "words"),
    [
        ({"pattern": "a("}, "unclosed group"),
        ({"pattern": "x", "path": "none"}, "none does not exist"),
        ({"pattern": "x", "path": "-v"}, "-v does not exist"),
        ({"pattern": "x", "glob": "[a"}, "unclosed character class"),
    ],
)
async def test_grep_says_what_is_wrong(bench: Workbench, input: dict[str, Any], words: str) -> None:
    assert words in await bench.error("grep", **input)


async def test_grep_tells_why_the_regex_engine_gave_up(bench: Workbench) -> None:
    line = "abcdefghij" * 19 + "Q1\n"
    bench.put("slow.txt", line)
    words = "./slow.txt: PCRE2: error matching: match limit exceeded"
    assert words in await bench.error("grep", pattern=r"^(([a-j])+.)+(?=Q)$")
    output = await bench.output("grep", pattern=r"^(([a-j])+.)+(?=Q)$|import(?= )")
    assert output == f"a.py\n[the search failed in part: rg: {words}]"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'rg: ./a: Permission denied (os error 13)' >&2", "some files or folders could not be read"),
        ("for i in $(seq 9999); do echo 'rg: ./a: No (os error 2)'; done >&2; printf 'why\\0' >&2", "why\ufffd"),
        ("yes 'because' | head -n 9999 >&2", "because"),
    ],
)
async def test_the_reason_of_a_failure_is_bounded_and_safe(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    failing = bench.put("rg", f"#!/bin/sh\n{script}\nexit 2\n")
    failing.chmod(0o755)
    monkeypatch.setattr(ripgrep, "binary", lambda: str(failing))
    error = await bench.error("grep", pattern="x")
    assert words in error
    assert "os error" not in error
    assert len(error) <= ripgrep.MAX_ERROR_CHARS


async def test_grep_cuts_long_lines_and_long_answers(bench: Workbench) -> None:
    bench.put("long.js", "needle " + "x" * 100_000 + "\n")
    bench.put("many.txt", "hay\n" * 50_000)
    assert len(await bench.output("grep", pattern="needle", output_mode="content")) < 700
    output = await bench.output("grep", pattern="hay", output_mode="content")
    assert output.split("\n")[::1000] == ["many.txt:1:hay", f"[49000 {MORE}]"]


async def test_a_search_keeps_within_its_bounds(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put("many.txt", "hay\n" * 50_000)
    monkeypatch.setattr(ripgrep, "MAX_OUTPUT_BYTES", 1000)
    output = await bench.output("grep", pattern="hay", output_mode="content")
    assert output.startswith("many.txt:1:hay\n")
    assert output.endswith("[the search was stopped early: there may be more]")
    monkeypatch.setattr(ripgrep, "TIMEOUT_S", 0.0)
    assert "search a smaller folder" in await bench.error("grep", pattern="hay")


async def test_a_search_that_finds_too_much_is_ended(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = bench.put("rg", "#!/bin/sh\nprintf 'a\\0001:x\\n'; exec yes\n")
    endless.chmod(0o755)
    monkeypatch.setattr(ripgrep, "binary", lambda: str(endless))
    with anyio.fail_after(10):  # well below the time that a search may take
        output = await bench.output("grep", pattern="x", output_mode="content")
    assert output == "a:1:x\n[the search was stopped early: there may be more]"


async def test_ignore_files_count_outside_of_a_repository_too(tmp_path: Path) -> None:
    bench = Workbench(tmp_path)
    bench.put(".gitignore", "*.log\n")
    bench.put("x.log", "TODO")
    bench.put("x.txt", "TODO")
    assert await bench.output("grep", pattern="TODO") == "x.txt"
    assert await bench.output("glob", pattern="x.*") == "x.txt"


async def test_pipes_in_the_tree_do_not_hang_a_search(bench: Workbench) -> None:
    os.mkfifo(bench.root / "pipe")
    with anyio.fail_after(5):
        assert await bench.output("grep", pattern="nowhere") == "No matches found."
        assert await bench.output("grep", pattern="nowhere", path="pipe") == "No matches found."


@pytest.mark.parametrize(
    ("input", "output"),
    [
        ({"pattern": "*.py"}, "a.py\nsrc/b.py"),
        ({"pattern": "**/*.{ts,yml}"}, "src/c.ts\n.github/ci.yml"),
        ({"pattern": "src/*"}, "src/b.py\nsrc/c.ts\nsrc/-v"),
        ({"pattern": "*", "path": "src"}, "src/b.py\nsrc/c.ts\nsrc/-v"),
        ({"pattern": "**"}, "a.py\nsrc/b.py\nsrc/c.ts\nsrc/-v\n.github/ci.yml\n.gitignore\ndata.bin"),
        ({"pattern": "*.log"}, "No files found."),
        ({"pattern": "build/**"}, "No files found."),
        ({"pattern": "-v"}, "src/-v"),
        ({"pattern": "--files"}, "No files found."),
    ],
)
async def test_glob_finds_newest_first(bench: Workbench, input: dict[str, Any], output: str) -> None:
    assert await bench.output("glob", **input) == output


@pytest.mark.parametrize(
    ("input", "words"),
    [
        ({"pattern": "*", "path": "a.py"}, "a.py is not a folder"),
        ({"pattern": "*", "path": "none"}, "none does not exist"),
        ({"pattern": "{a,b}" * 10}, "more than 64 alternatives"),
    ],
)
async def test_glob_says_what_is_wrong(bench: Workbench, input: dict[str, Any], words: str) -> None:
    assert words in await bench.error("glob", **input)


async def test_glob_caps_its_answer(bench: Workbench) -> None:
    for number in range(250):
        bench.put(f"many/{number}.md")
    lines = (await bench.output("glob", pattern="*.md")).split("\n")
    assert (len(lines), lines[-1]) == (201, "[50 more not shown; narrow the pattern or the path]")


async def test_ls_sorts_and_marks(bench: Workbench) -> None:
    (bench.root / "link").symlink_to("src")
    (bench.root / "line\nbreak").touch()
    assert await bench.output("ls") == (
        ".git/\n.github/\n.gitignore\na.py\nbuild/\ndata.bin\nline\\nbreak\nlink -> src\nsrc/\nx.log"
    )
    assert await bench.output("ls", path="link") == "-v\nb.py\nc.ts"


async def test_ls_caps_its_answer_and_knows_empty_folders(bench: Workbench) -> None:
    for number in range(600):
        bench.put(f"many/{number:03}")
    (bench.root / "empty").mkdir()
    lines = (await bench.output("ls", path="many")).split("\n")
    assert (lines[0], lines[499], lines[500:]) == (
        "000",
        "499",
        ["[100 more not shown; use glob to find what you need]"],
    )
    assert await bench.output("ls", path="empty") == "(the folder is empty)"


@pytest.mark.parametrize(("path", "words"), [("a.py", "a.py is not a folder"), ("none", "none does not exist")])
async def test_ls_says_what_is_wrong(bench: Workbench, path: str, words: str) -> None:
    assert words in await bench.error("ls", path=path)


# --- what rules forbid to read ---

DENY = (
    "Read(secrets/**)",
    "Read(*.key)",
    "Read(/deep/link)",
    "Read(alias/hidden.txt)",
    "Grep(only/grep.txt)",
    "Read(shut/)",
)


@pytest.fixture
def closed(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path)
    for name in (
        "a.txt",
        "secrets/s.txt",
        "deep/x.key",
        "deep/y.txt",
        "real/hidden.txt",
        "real/z.txt",
        "only/grep.txt",
        "shut/t.txt",
    ):
        os.utime(bench.put(name, "TODO\n"), (1, 1))
    (bench.root / "deep" / "to-key").symlink_to("x.key")
    (bench.root / "deep" / "link").symlink_to("y.txt")
    (bench.root / "deep" / "loop").symlink_to("loop")
    (bench.root / "alias").symlink_to("real")
    (bench.root / "only" / "to-shut").symlink_to("../shut")
    origin = Origin("settings.toml", bench.root)
    deny = (*(parse_rule(text, origin) for text in DENY), held_widely("?", origin))
    bench.use(replace(bench.workspace, deny=deny))
    return bench


@pytest.mark.parametrize(
    ("tool", "input", "output"),
    [
        ("grep", {"pattern": "TODO"}, "a.txt\ndeep/y.txt\nreal/hidden.txt\nreal/z.txt"),
        ("grep", {"pattern": "TODO", "output_mode": "content", "path": "deep"}, "deep/y.txt:1:TODO"),
        ("grep", {"pattern": "TODO", "output_mode": "count", "path": "alias"}, "real/z.txt:1"),
        ("grep", {"pattern": "TODO", "head_limit": 4}, "a.txt\ndeep/y.txt\nreal/hidden.txt\nreal/z.txt"),
        ("grep", {"pattern": "TODO", "path": "secrets", "glob": "*.txt"}, "No matches found."),
        ("glob", {"pattern": "**"}, "a.txt\ndeep/y.txt\nonly/grep.txt\nreal/hidden.txt\nreal/z.txt"),
        ("glob", {"pattern": "*", "path": "alias"}, "real/z.txt"),
        ("ls", {"path": "deep"}, "loop -> loop\ny.txt"),
        ("ls", {"path": "secrets"}, "(the folder is empty)"),
        ("ls", {"path": "alias/../alias"}, "z.txt"),
        ("ls", {"path": "only"}, "grep.txt"),
        ("ls", {}, "a.txt\nalias -> real\ndeep/\nonly/\nreal/"),
    ],
)
async def test_what_a_rule_forbids_to_read_is_not_found_in_a_folder_either(
    closed: Workbench, tool: str, input: dict[str, Any], output: str
) -> None:
    assert await closed.output(tool, **input) == output


async def test_a_missing_file_is_not_answered_with_names_that_a_rule_keeps_back(closed: Workbench) -> None:
    assert "s.txt" not in await closed.error("read", file_path="secrets/s.tx")
    assert "z.txt" in await closed.error("read", file_path="real/z.tx")
