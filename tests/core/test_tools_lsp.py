"""The tool `lsp`, and what is said about a file behind each change of it."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.languages import Checked, CodeAction, CodeFile, FileRewrite, Place, Problem, Spot, Symbol
from agentcore.lsp.known import LanguageSetup
from agentcore.lsp.room import LanguageServers
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import Outcome
from agentcore.tools.catalogue import builtin_tools
from agentcore.tools.code import MAX_SHOWN
from agentcore.tools.lsp import MAX_PLACES
from tests.core.test_lsp_room import PROGRAM
from tests.core.test_tools import Workbench
from tests.fakes import FakeClock, MemoryBlobs

pytestmark = pytest.mark.anyio

CODE = "def name():\n    return 😀 + name\n"


class FakeLanguages:
    """Knows what it is told. Satisfies the Languages port."""

    def __init__(self, root: Path) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.root = root
        self.places: list[Place] = []
        self.found: list[Symbol] = []
        self.problems: list[Problem] = []
        self.rewrites: list[FileRewrite] = []
        self.fixes: list[CodeAction] = []
        self.checked: Checked | None = None
        self.holds: anyio.Event | None = None
        self.is_waiting = anyio.Event()

    def covers(self, real: Path) -> bool:
        return real.suffix == ".py"

    def _note(self, action: str, about: Spot | CodeFile, *more: str) -> None:
        place = (about.line, about.column) if isinstance(about, Spot) else ()
        self.asked.append((action, (about.file if isinstance(about, Spot) else about).real.name, *place, *more))

    async def definition(self, spot: Spot) -> list[Place]:
        self._note("definition", spot)
        return self.places

    async def references(self, spot: Spot) -> list[Place]:
        self._note("references", spot)
        return self.places

    async def hover(self, spot: Spot) -> str:
        self._note("hover", spot)
        return ""

    async def symbols(self, file: CodeFile) -> list[Symbol]:
        self._note("symbols", file)
        return self.found

    async def workspace_symbols(self, file: CodeFile, query: str) -> list[Symbol]:
        self._note("workspace_symbols", file, query)
        return self.found

    async def diagnostics(self, file: CodeFile) -> list[Problem]:
        self._note("diagnostics", file)
        return self.problems

    async def rename(self, spot: Spot, new_name: str) -> list[FileRewrite]:
        self._note("rename", spot, new_name)
        return self.rewrites

    async def code_actions(self, spot: Spot) -> list[CodeAction]:
        self._note("code_actions", spot)
        return self.fixes

    async def after_change(self, file: CodeFile) -> Checked | None:
        self._note("after_change", file)
        if self.holds is not None:
            self.is_waiting.set()
            await self.holds.wait()
        return self.checked


class Bench(Workbench):
    def use(self, workspace: Workspace) -> None:
        self.languages = FakeLanguages(self.root)
        made = builtin_tools(workspace, self.environ, self.blobs, languages=self.languages)
        self.tools = {tool.spec.name: tool for tool in made}

    def problem(self, number: int = 1, severity: Any = "error") -> Problem:
        return Problem(severity, Place(self.root / "a.py", number, 2, "x"), f"wrong {number}", "fake rule")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path)
    bench.put("a.py", CODE)
    return bench


# --- the tool -----------------------------------------------------------------------------------------------------


def test_it_is_there_only_with_language_servers(bench: Bench, tmp_path: Path) -> None:
    spec = bench.tools["lsp"].spec
    assert (spec.read_only, spec.parallel_safe, spec.edits, spec.paths) == (True, True, False, ("file_path",))
    assert "lsp" not in Workbench(tmp_path).tools
    schema: Any = spec.definition().input_schema
    assert all(field.get("description") for field in schema["properties"].values())


@pytest.mark.parametrize(
    ("input", "asked"),
    [
        ({"action": "definition", "line": 2, "character": 16}, ("definition", "a.py", 2, 16)),
        ({"action": "definition", "line": 2, "query": "name"}, ("definition", "a.py", 2, 16)),
        ({"action": "references", "query": "name"}, ("references", "a.py", 1, 5)),
        ({"action": "hover", "query": "+", "line": 2}, ("hover", "a.py", 2, 14)),
        ({"action": "symbols"}, ("symbols", "a.py")),
        ({"action": "workspace_symbols", "query": "na"}, ("workspace_symbols", "a.py", "na")),
        ({"action": "diagnostics"}, ("diagnostics", "a.py")),
        ({"action": "rename", "query": "name", "new_name": "n"}, ("rename", "a.py", 1, 5, "n")),
        ({"action": "code_actions", "line": 2}, ("code_actions", "a.py", 2, 1)),
    ],
)
async def test_each_action_asks_about_the_named_place(
    bench: Bench, input: dict[str, Any], asked: tuple[Any, ...]
) -> None:
    await bench.output("lsp", file_path="a.py", **input)
    assert bench.languages.asked == [asked]


@pytest.mark.parametrize(
    ("input", "words"),
    [
        ({"action": "definition", "line": 1}, "definition needs line and character, or the name in query"),
        ({"action": "hover", "query": "nam"}, "nam does not stand in a.py"),
        ({"action": "hover", "query": "name", "line": 9}, "name does not stand in line 9"),
        ({"action": "rename", "query": "name"}, "rename needs new_name"),
        ({"action": "code_actions"}, "code_actions needs line"),
        ({"action": "symbols", "file_path": "b.py"}, "b.py does not exist"),
        ({"action": "symbols", "file_path": "."}, ". is a folder"),
        ({"action": "symbols", "file_path": "/etc/hostname"}, "/etc/hostname is outside the project"),
        ({"action": "symbols", "file_path": "binary.py"}, "binary.py cannot be read as text"),
    ],
)
async def test_what_is_missing_is_said(bench: Bench, input: dict[str, Any], words: str) -> None:
    bench.put("binary.py", b"\0")
    assert words in await bench.error("lsp", **{"file_path": "a.py", **input})
    assert bench.languages.asked == []


async def test_places_come_with_their_lines_and_those_outside_without(bench: Bench) -> None:
    inside = Place(bench.root / "src" / "b\n.py", 3, 7, "x = name")
    bench.languages.places = [inside, Place(Path("/usr/lib/x.pyi"), 9, 1)]
    assert await bench.output("lsp", action="references", file_path="a.py", query="name") == (
        "src/b\\n.py:3:7: x = name\n/usr/lib/x.pyi:9:1 (outside of the project)"
    )


async def test_long_lists_are_cut_with_a_word(bench: Bench) -> None:
    bench.languages.places = [Place(bench.root / "a.py", number, 1, "x") for number in range(1, MAX_PLACES + 6)]
    *lines, last = (await bench.output("lsp", action="references", file_path="a.py", query="name")).split("\n")
    assert (len(lines), last) == (MAX_PLACES, "[5 more not shown; ask about a narrower name]")


async def test_symbols_and_problems_are_lines(bench: Bench) -> None:
    place = Place(bench.root / "a.py", 1, 5, "def name():")
    bench.languages.found = [Symbol("name", "function", place), Symbol("inner", "variable", place, "name", 1)]
    bench.languages.problems = [bench.problem(), bench.problem(2, "warning")]
    assert await bench.output("lsp", action="symbols", file_path="a.py") == (
        "a.py:1:5: function name\na.py:1:5: variable inner (in name)"
    )
    assert await bench.output("lsp", action="diagnostics", file_path="a.py") == (
        "a.py:1:2: error: wrong 1 [fake rule]\na.py:2:2: warning: wrong 2 [fake rule]"
    )
    bench.languages.found, bench.languages.problems = [], []
    assert await bench.output("lsp", action="symbols", file_path="a.py") == "Nothing found."
    assert await bench.output("lsp", action="diagnostics", file_path="a.py") == "No errors and no warnings."


async def test_what_a_rename_would_change_is_shown_and_nothing_is_changed(bench: Bench) -> None:
    after = CODE.replace("name", "other")
    bench.languages.rewrites = [FileRewrite(bench.root / "a.py", CODE, after)]
    bench.languages.fixes = [CodeAction("Mend it", "quickfix", tuple(bench.languages.rewrites)), CodeAction("Do", "")]
    diff = (
        "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-def name():\n-    return 😀 + name\n"
        "+def other():\n+    return 😀 + other"
    )
    shown = await bench.output("lsp", action="rename", file_path="a.py", query="name", new_name="other")
    assert shown == f"Nothing was changed. The rename changes a.py; make it with multi_edit:\n{diff}"
    fixes = await bench.output("lsp", action="code_actions", file_path="a.py", line=1)
    assert fixes == f"1. Mend it [quickfix]\n{diff}\n2. Do"
    assert (bench.root / "a.py").read_text() == CODE


async def test_a_session_sees_only_its_own_files_as_text(bench: Bench) -> None:
    bench.put("secret/key.py", "k = 1")
    (bench.outside / "o.py").write_text("o = 1")
    (bench.root / "link.py").symlink_to(bench.outside / "o.py")
    bench.put("marked.py", b"\xef\xbb\xbfx = '\xff'\n")
    seen: dict[str, str | None] = {}

    async def hover(spot: Spot) -> str:
        for name in ("a.py", "marked.py", "secret/key.py", "link.py", "gone.py", "."):
            seen[name] = spot.file.texts(bench.root / name)
        seen["outside"] = spot.file.texts(bench.outside / "o.py")
        return ""

    bench.use(Workspace(bench.root, (bench.root,), hidden=(bench.root / "secret",)))
    bench.languages.hover = hover  # type: ignore[method-assign]  # what the servers are handed is looked at here
    await bench.output("lsp", action="hover", file_path="a.py", query="name")
    assert seen == {
        "a.py": CODE,
        "marked.py": "x = '\ufffd'\n",
        **dict.fromkeys(("secret/key.py", "link.py", "gone.py", ".", "outside")),
    }


# --- behind a change ----------------------------------------------------------------------------------------------

CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("write", {"content": "new\n"}),
    ("edit", {"old_string": "return", "new_string": "yield"}),
    ("multi_edit", {"edits": [{"old_string": "return", "new_string": "yield"}]}),
]


@pytest.mark.parametrize(("tool", "input"), CHANGES)
async def test_a_change_ends_with_what_is_wrong_now(bench: Bench, tool: str, input: dict[str, Any]) -> None:
    bench.languages.checked = Checked(new=(bench.problem(2),), old=(bench.problem(3, "warning"), bench.problem(4)))
    await bench.output("read", file_path="a.py")
    outcome = await bench.call(tool, file_path="a.py", **input)
    first, *lines = outcome.output.split("\n")
    assert first.split()[1] == "a.py"
    assert lines == [
        "New problems in this file (1 error):",
        "a.py:2:2: error: wrong 2 [fake rule]",
        "Problems that were there before in this file (1 error, 1 warning):",
        "a.py:3:2: warning: wrong 3 [fake rule]",
        "a.py:4:2: error: wrong 4 [fake rule]",
    ]
    assert outcome.display is not None
    assert "wrong" not in outcome.display


@pytest.mark.parametrize("checked", [None, Checked()])
async def test_nothing_is_said_where_nothing_is_wrong(bench: Bench, checked: Checked | None) -> None:
    bench.languages.checked = checked
    assert await bench.output("write", file_path="b.py", content="x\n") == "Created b.py (1 lines)."
    assert await bench.output("write", file_path="notes.txt", content="x\n") == "Created notes.txt (1 lines)."
    assert bench.languages.asked == [("after_change", "b.py")]


async def test_a_failed_change_asks_nobody(bench: Bench) -> None:
    await bench.error("edit", file_path="a.py", old_string="nowhere", new_string="x")
    assert bench.languages.asked == []


async def test_many_problems_are_cut_and_pending_ones_said(bench: Bench) -> None:
    many = tuple(bench.problem(number) for number in range(1, 31))
    bench.languages.checked = Checked(new=many[:25], old=many[25:])
    lines = (await bench.output("write", file_path="b.py", content="x")).split("\n")[1:]
    assert sum("wrong" in line for line in lines) == MAX_SHOWN
    assert "[5 more not shown; ask lsp for its diagnostics]" in lines
    bench.languages.checked = Checked(pending="pyright has not looked at it within 3 s")
    assert (await bench.output("write", file_path="b.py", content="y")).split("\n")[1:] == [
        "[problems are not known yet: pyright has not looked at it within 3 s]"
    ]


async def test_a_change_that_is_cancelled_while_its_problems_are_awaited_is_still_told(bench: Bench) -> None:
    bench.languages.holds = anyio.Event()
    outcomes: list[Outcome] = []

    async def write() -> None:
        outcomes.append(await bench.call("write", file_path="b.py", content="x\n"))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(write)
            await bench.languages.is_waiting.wait()
            group.cancel_scope.cancel()
    assert [outcome.output for outcome in outcomes] == ["Created b.py (1 lines)."]
    await anyio.lowlevel.checkpoint()  # nothing of the cancelling is left


# --- with a server ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def served(base: Path) -> AsyncIterator[dict[str, Any]]:
    root = base.resolve() / "project"
    root.mkdir()
    workspace = Workspace(root, (root,))
    setup = LanguageSetup("fake", (sys.executable, str(PROGRAM), str(base / "log")), {".fake": "fake"})
    room = LanguageServers(os.environ, FakeClock(), (setup,))
    async with anyio.create_task_group() as group:
        await group.start(room.serve)
        made = builtin_tools(workspace, os.environ, MemoryBlobs(), languages=room)
        yield {tool.spec.name: tool for tool in made}
        group.cancel_scope.cancel()


async def test_tool_and_room_fit_together(tmp_path: Path) -> None:
    async with served(tmp_path) as tools:
        bench = Workbench(tmp_path)
        bench.tools = tools
        written = await bench.output("write", file_path="a.fake", content="name\n😀BAD\n")
        assert written == (
            "Created a.fake (2 lines).\nNew problems in this file (1 error):\na.fake:2:2: error: BAD here [fake 1]"
        )
        found = await bench.output("lsp", action="references", file_path="a.fake", query="name")
        assert found == "/etc/hostname:1:1 (outside of the project)\na.fake:1:1: name"
