"""No tool leaves the roots: by path, by link, or by a link that appears between check and use."""

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcore import files
from agentcore.origin import Origin
from agentcore.permissions.rulebook import read_rules
from agentcore.permissions.workspace import Workspace
from tests.core.test_tools import Workbench

pytestmark = pytest.mark.anyio

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read", {}),
    ("write", {"content": "mine"}),
    ("edit", {"old_string": "secret", "new_string": "mine"}),
    ("multi_edit", {"edits": [{"old_string": "secret", "new_string": "mine"}]}),
]
SEARCHES: list[tuple[str, dict[str, Any]]] = [("grep", {"pattern": "secret"}), ("glob", {"pattern": "**"}), ("ls", {})]


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path)
    (bench.outside / "secret.txt").write_text("secret\n")
    bench.put("src/a.txt", "harmless\n")
    (bench.root / "link").symlink_to(bench.outside)
    (bench.root / "chain").symlink_to("link")
    (bench.root / "file").symlink_to(bench.outside / "secret.txt")
    (bench.root / "fresh").symlink_to(bench.outside / "new.txt")
    return bench


def untouched(bench: Workbench) -> bool:
    files = {path.name: path.read_text() for path in bench.outside.iterdir()}
    return files == {"secret.txt": "secret\n"}


@pytest.mark.parametrize(("tool", "input"), CALLS)
@pytest.mark.parametrize(
    "path",
    ["../outside/secret.txt", "{out}/secret.txt", "link/secret.txt", "chain/secret.txt", "file", "fresh", "link/new/x"],
)
async def test_files_outside_are_neither_read_nor_changed(
    bench: Workbench, tool: str, input: dict[str, Any], path: str
) -> None:
    error = await bench.error(tool, file_path=path.format(out=bench.outside), **input)
    assert "is outside the project" in error
    assert untouched(bench)


@pytest.mark.parametrize(("tool", "input"), SEARCHES)
@pytest.mark.parametrize("path", ["..", "../outside", "{out}", "link", "chain", "/", "file"])
async def test_searches_do_not_start_outside(bench: Workbench, tool: str, input: dict[str, Any], path: str) -> None:
    assert "is outside the project" in await bench.error(tool, path=path.format(out=bench.outside), **input)


async def test_searches_do_not_follow_links_that_lead_out(bench: Workbench) -> None:
    assert await bench.output("grep", pattern="secret|harmless") == "src/a.txt"
    assert await bench.output("glob", pattern="**") == "src/a.txt"
    listed = await bench.output("ls")
    assert f"file -> {bench.outside}/secret.txt" in listed.split("\n")
    assert "secret.txt" not in listed.replace(f"{bench.outside}/secret.txt", "")


class SwappingWorkspace(Workspace):
    """Judges a path, and then what was judged is replaced by a link that leads out."""

    def resolve(self, path: str) -> Path:
        real = super().resolve(path)
        outside = self.cwd.parent / "outside"
        victim = self.cwd / "src"
        shutil.rmtree(victim)
        if path.endswith("/a.txt"):
            victim.mkdir()
            (victim / "a.txt").symlink_to(outside / "secret.txt")
        else:
            victim.symlink_to(outside)
        return real


@pytest.mark.parametrize(("tool", "input"), CALLS)
@pytest.mark.parametrize("path", ["src/a.txt", "src/secret.txt", "src/new.txt"])
async def test_a_link_swapped_in_after_the_check_is_not_followed(
    bench: Workbench, tool: str, input: dict[str, Any], path: str
) -> None:
    bench.use(SwappingWorkspace(bench.root, (bench.root,)))
    outcome = await bench.call(tool, file_path=path, **input)
    assert outcome.is_error
    assert "secret" not in outcome.output.replace("secret.txt", "")
    assert untouched(bench)


@pytest.mark.parametrize(("tool", "input"), SEARCHES)
@pytest.mark.parametrize("path", ["src", "src/a.txt"])
async def test_a_search_does_not_follow_a_link_swapped_in(
    bench: Workbench, tool: str, input: dict[str, Any], path: str
) -> None:
    bench.use(SwappingWorkspace(bench.root, (bench.root,)))
    outcome = await bench.call(tool, path=path, **input)
    assert outcome.is_error or outcome.output == "No matches found."


async def test_a_command_starts_in_the_working_directory_itself(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = bench.root.with_name("moved")

    def swap(path: str) -> bool:
        bench.root.rename(moved)
        bench.root.symlink_to(bench.outside)
        return True

    monkeypatch.setattr(os.path, "lexists", swap)  # asked after the folder was opened, before the command starts
    assert "harmless" in await bench.output("bash", command="cat src/a.txt")
    monkeypatch.undo()
    assert "could not be started" in await bench.error("bash", command="cat secret.txt")


async def test_closed_places_are_left_out_of_everything(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "project"
    hidden = (root / "st[a]te", root / "!key")
    bench = Workbench(tmp_path, hidden=hidden, readable=(root / "st[a]te" / "journal",))
    for name in ("st[a]te/token", "st[a]te/journal/log", "!key", "state/open"):
        bench.put(name, "secret")
    assert await bench.output("grep", pattern="secret") == "state/open"
    assert await bench.output("grep", pattern="secret", glob="*") == "state/open"
    assert await bench.output("glob", pattern="**") == "state/open"
    assert await bench.output("ls") == "state/"
    assert await bench.output("read", file_path="st[a]te/journal/log") == "     1\tsecret"
    assert await bench.output("grep", pattern="secret", path="st[a]te/journal") == "st[a]te/journal/log"
    assert "is closed to tools" in await bench.error("glob", pattern="*", path="st[a]te/journal")
    assert "Close names" not in await bench.error("read", file_path="!keys")
    for path in ("st[a]te/token", "!key"):
        assert "is closed to tools" in await bench.error("read", file_path=path)
        assert "is closed to tools" in await bench.error("grep", pattern="secret", path=path)
        assert "is closed to tools" in await bench.error("write", file_path=path, content="")
    assert "is closed to tools" in await bench.error("write", file_path="st[a]te/journal/log", content="")


async def test_a_hard_link_is_cut_by_a_write(bench: Workbench) -> None:
    os.link(bench.outside / "secret.txt", bench.root / "hard")
    await bench.output("read", file_path="hard")
    await bench.output("write", file_path="hard", content="mine")
    assert untouched(bench)


# --- what a rule denies -------------------------------------------------------------------------------------------

LINES = {"read": "Read(.env)", "write": "Write(.env)", "edit": "edit(.env)", "multi_edit": "Multi*(.env)"}
"""For each tool a rule that its call has met not at all, while the path led elsewhere."""


def denying(bench: Workbench, *rules: str) -> None:
    book, told = read_rules({"deny": list(rules)}, Origin("settings.toml"))
    assert told == ()
    bench.use(replace(bench.workspace, deny=book.deny))


@pytest.mark.parametrize(("tool", "input"), CALLS)
@pytest.mark.parametrize("rule", ["Read(.env)", "own", "Edit(.env)"])
@pytest.mark.parametrize("path", ["x/.env", "alias", "{root}/x/../alias", "new"])
async def test_a_link_swapped_in_before_the_effect_leads_to_nothing_that_is_denied(
    bench: Workbench, tool: str, input: dict[str, Any], rule: str, path: str
) -> None:
    bench.put("kept/.env", "secret\n")
    (bench.root / "x").mkdir()
    await bench.output("read", file_path="kept/.env")
    denying(bench, LINES[tool] if rule == "own" else rule)
    for name, target in (("x/.env", "../kept/.env"), ("alias", "kept/.env"), ("new", "kept/.env")):
        (bench.root / name).symlink_to(target)  # the gate saw a file here, or nothing
    given = path.format(root=bench.root)
    if tool == "read" and rule == "Edit(.env)":
        assert "secret" in await bench.output(tool, file_path=given)
        return
    error = await bench.error(tool, file_path=given, **input)
    assert error == f"{given} leads to a place that a rule denies"
    assert bench.preview(tool, file_path=given, **input) is None
    assert (bench.root / "kept/.env").read_text() == "secret\n"


async def test_no_folder_is_made_in_a_denied_place_that_a_link_leads_to(bench: Workbench) -> None:
    bench.put("secret/a.txt")
    denying(bench, "Edit(secret/**)")
    (bench.root / "d").symlink_to("secret")
    assert "a rule denies" in await bench.error("write", file_path="d/new/x", content="mine")
    assert [path.name for path in (bench.root / "secret").iterdir()] == ["a.txt"]


@pytest.mark.parametrize("tool", ["read", "write"])
async def test_a_folder_that_becomes_a_denied_one_while_it_is_opened_is_noticed(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    original = files._step

    def move_after(folder: int, name: str, create: bool) -> tuple[int, bool]:
        opened = original(folder, name, create)
        if name == "x":
            (bench.root / "x").rename(bench.root / "secret")
        return opened

    denying(bench, "Read(secret/**)")
    bench.put("x/a.txt", "harmless\n")
    input = {"content": "mine"} if tool == "write" else {}
    monkeypatch.setattr(files, "_step", move_after)
    assert "a rule denies" in await bench.error(tool, file_path="x/a.txt", **input)
    assert (bench.root / "secret/a.txt").read_text() == "harmless\n"


async def test_a_rule_for_one_tool_denies_no_other(bench: Workbench) -> None:
    denying(bench, "Write(src/**)", "MultiEdit(src/**)")
    await bench.output("read", file_path="src/a.txt")
    await bench.output("edit", file_path="src/a.txt", old_string="harmless", new_string="mine")
    assert "a rule denies" in await bench.error("write", file_path="src/a.txt", content="mine")


@pytest.mark.parametrize("path", ["alias", "d"])
@pytest.mark.parametrize(("tool", "input"), [("grep", {"pattern": "secret", "output_mode": "content"}), *SEARCHES])
async def test_a_search_shows_nothing_denied_that_a_link_leads_to(
    bench: Workbench, tool: str, input: dict[str, Any], path: str
) -> None:
    bench.put("kept/.env", "secret\n")
    denying(bench, "Read(.env)", "Read(kept/**)")
    (bench.root / "alias").symlink_to("kept/.env")
    (bench.root / "d").symlink_to("kept")
    outcome = await bench.call(tool, path=path, **input)
    assert ".env" not in outcome.output.replace("alias", "")
    assert "secret" not in outcome.output


# --- protected places ---------------------------------------------------------------------------------------------


@pytest.fixture
def hooks(bench: Workbench) -> Path:
    return bench.put(".git/hooks/secret.txt", "secret\n").parent


def is_unhooked(hooks: Path) -> bool:
    return [(path.name, path.read_text()) for path in hooks.iterdir()] == [("secret.txt", "secret\n")]


@pytest.mark.parametrize(("tool", "input"), CALLS[1:])
@pytest.mark.parametrize("path", ["x/secret.txt", "src/../x/secret.txt", "{root}/x/secret.txt", "alias"])
async def test_a_link_swapped_in_before_the_effect_leads_to_no_protected_place(
    bench: Workbench, hooks: Path, tool: str, input: dict[str, Any], path: str
) -> None:
    await bench.output("read", file_path=".git/hooks/secret.txt")
    (bench.root / "x").symlink_to(".git/hooks")  # the gate saw a folder here
    (bench.root / "alias").symlink_to(".git/hooks/secret.txt")
    given = path.format(root=bench.root)
    error = await bench.error(tool, file_path=given, **input)
    words = "now leads to a protected place; call it again with the real path, .git/hooks/secret.txt"
    assert error == f"{given} {words}"
    assert bench.preview(tool, file_path=given, **input) is None
    assert is_unhooked(hooks)


async def test_no_folder_is_made_in_a_protected_place_that_a_link_leads_to(bench: Workbench, hooks: Path) -> None:
    (bench.root / "x").symlink_to(".git/hooks")
    assert "protected place" in await bench.error("write", file_path="x/new/pre-commit", content="mine")
    assert is_unhooked(hooks)


async def test_a_folder_that_becomes_a_protected_one_while_it_is_opened_is_noticed(
    bench: Workbench, hooks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = files._step

    def move_after(folder: int, name: str, create: bool) -> tuple[int, bool]:
        opened = original(folder, name, create)
        if name == "x":
            (bench.root / "x").rename(bench.root / ".husky")
        return opened

    bench.put("x/a.txt", "harmless\n")
    await bench.output("read", file_path="x/a.txt")
    monkeypatch.setattr(files, "_step", move_after)
    assert "protected place" in await bench.error("write", file_path="x/a.txt", content="mine")
    assert (bench.root / ".husky/a.txt").read_text() == "harmless\n"


@pytest.mark.parametrize("path", [".git/hooks/new", "src/../.git/hooks/new", "{root}/.GIT/../.git/hooks/new"])
async def test_a_protected_place_that_was_named_may_be_changed(bench: Workbench, hooks: Path, path: str) -> None:
    (bench.root / ".GIT").mkdir(exist_ok=True)
    await bench.output("write", file_path=path.format(root=bench.root), content="mine")
    assert (hooks / "new").read_text() == "mine"


async def test_a_protected_name_outside_the_roots_names_no_protected_place(bench: Workbench, hooks: Path) -> None:
    (bench.outside / ".git").symlink_to(bench.root)
    path = f"{bench.outside}/.git/x/new"
    (bench.root / "x").symlink_to(".git/hooks")
    assert "protected place" in await bench.error("write", file_path=path, content="mine")
    assert is_unhooked(hooks)
