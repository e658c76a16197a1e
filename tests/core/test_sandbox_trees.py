"""The looks at a project's folders: what they cost, what they miss not, and where they end."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from agentcore.ports.sandbox import SandboxProfile
from agentcore.sandbox import folder_tree, planted
from agentcore.sandbox.folder_tree import FRESH_NS, FolderTree
from agentcore.sandbox.planted import MAX_HELD, MAX_PROJECTS, Repositories


class Reads:
    """The folders that were read, in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self._real = os.scandir
        monkeypatch.setattr(folder_tree.os, "scandir", self._scandir)

    def _scandir(self, path: str) -> Any:
        self.names.append(Path(path).name)
        return self._real(path)

    def taken(self) -> list[str]:
        taken, self.names = self.names, []
        return taken


def looked(tree: FolderTree) -> list[str]:
    return sorted(str(path.relative_to(path.anchor)) for path in tree.repositories(50_000, time.monotonic() + 10))


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path.resolve() / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "c").mkdir()
    return top


def test_only_what_changed_is_read_again(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_tree, "FRESH_NS", -FRESH_NS * 100)  # what was just made counts as old
    reads, tree = Reads(monkeypatch), FolderTree((top,))
    assert looked(tree) == []
    assert sorted(reads.taken()) == ["a", "b", "c", "top"]
    (top / "a/b/.git").mkdir()
    (top / "c/file").touch()
    assert [Path(one).name for one in looked(tree)] == [".git"]
    assert sorted(reads.taken()) == ["b", "c"]
    (top / "file").touch()
    assert [Path(one).name for one in looked(tree)] == [".git"]
    assert reads.taken() == ["top"]


def test_what_changed_a_moment_before_is_read_again_though_it_looks_the_same(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    same = os.stat_result((0o40755, 7, 1, 1, 0, 0, 0, 0, 0, 0))

    class Same:
        st_ino, st_ctime_ns = same.st_ino, now

    tree = FolderTree((top,))
    monkeypatch.setattr(folder_tree.os, "lstat", lambda path: Same)  # the grain of the clock
    assert looked(tree) == []
    (top / "c/.git").mkdir()
    assert len(looked(tree)) == 1


def test_no_link_is_followed_and_no_repository_entered(top: Path) -> None:
    (top / "c/back").symlink_to(top)
    (top / "a/.GIT/inner/.git").mkdir(parents=True)
    (top / "a/b/.git").symlink_to(top)
    found = [Path("/", one).relative_to(top) for one in looked(FolderTree((top, top / "a")))]
    assert found == [Path("a/.GIT"), Path("a/b/.git")]


def test_what_is_hidden_from_commands_is_not_looked_into(top: Path) -> None:
    (top / "a/b/.git").mkdir()
    assert len(looked(FolderTree((top,)))) == 1
    assert looked(FolderTree((top,), (top / "a",))) == []


@pytest.mark.parametrize(
    ("names", "is_bare"),
    [
        ("HEAD objects refs", True),
        ("HEAD commondir", True),
        ("HEAD objects", False),
        ("objects refs commondir", False),
    ],
)
def test_what_git_takes_for_a_bare_repository(top: Path, names: str, *, is_bare: bool) -> None:
    for name in names.split():
        (top / "c" / name).touch()
    assert (looked(FolderTree((top,))) != []) is is_bare


def test_a_look_ends_at_its_bounds(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folders, is_whole in ((3, False), (4, True), (5, True)):
        tree = FolderTree((top,))
        monkeypatch.setattr(folder_tree, "MAX_FOLDERS", folders)
        looked(tree)
        assert tree.is_whole is is_whole
        assert tree.has_too_many is not is_whole


def test_a_bounded_look_goes_on_where_the_last_one_was(top: Path) -> None:
    for number in range(10):
        (top / f"{number}/.git").mkdir(parents=True)
    tree, told = FolderTree((top,)), set[Path]()
    assert list(tree.repositories(50_000, time.monotonic() - 1)) == []
    assert len(looked(tree)) == 10, "where it was: at the top"
    assert not tree.is_whole, "of two looks"
    time.sleep(2 * folder_tree.FRESH_NS / 1e9)  # what was changed just now is read again
    assert len(looked(tree)) == 10
    assert tree.is_whole
    for _ in range(6):
        told.update(found := list(tree.repositories(5, time.monotonic() + 10)))
        assert len(found) < 10
    assert len(told) == 10


def test_few_repositories_are_held_and_few_projects_remembered(tmp_path: Path) -> None:
    top = tmp_path.resolve()
    for name in (".", "z", "y", "a/b", "x", "w", "v/u"):
        (top / name / ".git").mkdir(parents=True)
        (top / name / ".git/config").touch()
    repositories, profile = Repositories(), SandboxProfile((top,))
    assert repositories.held(profile) == tuple(top / name / ".git/config" for name in ("w", "x", "y", "z"))
    assert MAX_HELD == 4
    for number in range(MAX_PROJECTS + 3):
        repositories.held(SandboxProfile((top / str(number),)))
    assert len(repositories._projects) == MAX_PROJECTS
    (top / "x/.git/config").write_text("[core]\n\tfsmonitor = x\n")
    assert repositories.news(profile) == [], "it was forgotten: nothing is told that may have been there"
    (top / "x/.git/config").unlink()
    assert repositories.held(profile) == tuple(top / name / ".git/config" for name in ("w", "y", "z"))


def test_what_was_replaced_by_a_link_is_held_no_more(tmp_path: Path) -> None:
    top = tmp_path.resolve()
    (top / "x/.git").mkdir(parents=True)
    (top / "x/.git/config").touch()
    repositories, profile = Repositories(), SandboxProfile((top,))
    assert repositories.held(profile) == (top / "x/.git/config",)
    (top / "x").rename(top / "y")
    (top / "x").symlink_to("y")
    assert repositories.held(profile) == ()


def test_what_a_look_did_not_reach_stays_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path.resolve()
    repositories, profile = Repositories(), SandboxProfile((top,))
    repositories.held(profile)
    (top / "a/.git").mkdir(parents=True)
    (top / "a/.git/config").write_text("[core]\n\tfsmonitor = x\n")
    told = []
    for folders in (10, 1, 10):
        monkeypatch.setattr(folder_tree, "MAX_FOLDERS", folders)
        told.append([notice.code for notice in repositories.news(profile)])
    assert told == [["git_would_run"], ["git_not_all_seen"], []]


def test_many_programs_are_told_in_few_words(tmp_path: Path) -> None:
    told = planted._told({"a": frozenset(planted.Program(f"p{n}\n", n) for n in range(7))})
    assert [notice.text.partition(": ")[2] for notice in told] == [
        "a (p0, p1, p2, p3, p4 and 2 more). Look at it first, or remove it."
    ]
