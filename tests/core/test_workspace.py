"""What the workspace lets through: judged after all links are resolved."""

from pathlib import Path

import pytest

from agentcore.permissions.workspace import OutsideRoots, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    base = tmp_path.resolve()
    for name in ("project/src", "project/state/journal", "outside", "extra"):
        (base / name).mkdir(parents=True)
    project = base / "project"
    (project / "inner").symlink_to("src")
    (project / "out").symlink_to(base / "outside")
    (project / "chain").symlink_to("out")
    (project / "loop").symlink_to("loop")
    (project / "dangling").symlink_to(base / "outside" / "new")
    state = project / "state"
    return Workspace(project, (project, base / "extra"), hidden=(state,), readable=(state / "journal",))


@pytest.mark.parametrize("path", [".", "src/a.py", "src/../b.py", "inner/a.py", "new/folder/file", "../extra/x"])
def test_a_path_inside_the_roots_is_resolved(workspace: Workspace, path: str) -> None:
    assert workspace.resolve(path) == (workspace.cwd / path).resolve()


@pytest.mark.parametrize(
    "path",
    ["..", "../outside/a", "/etc/passwd", "src/../../outside", "out", "out/a", "chain/a", "dangling", "../project2"],
)
def test_a_path_that_leads_out_is_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises(OutsideRoots):
        workspace.resolve(path)


@pytest.mark.parametrize("path", ["state", "state/token", "src/../state/x", "a\0b", "loop"])
def test_closed_places_and_broken_paths_are_refused(workspace: Workspace, path: str) -> None:
    with pytest.raises(OutsideRoots):
        workspace.resolve_readable(path)


def test_the_own_journal_is_readable_but_not_writable(workspace: Workspace) -> None:
    assert workspace.resolve_readable("state/journal/1") == workspace.cwd / "state/journal/1"
    with pytest.raises(OutsideRoots):
        workspace.resolve("state/journal/1")


def test_closed_places_below_a_folder_are_named_relative_to_it(workspace: Workspace) -> None:
    assert workspace.closed_below(workspace.cwd) == (Path("state"),)
    assert workspace.closed_below(workspace.cwd / "src") == ()


def test_paths_are_shown_relative_to_the_working_directory(workspace: Workspace) -> None:
    extra = workspace.roots[1] / "x"
    assert workspace.shown(workspace.cwd / "src" / "a") == "src/a"
    assert workspace.shown(extra) == str(extra)
