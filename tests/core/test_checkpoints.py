"""What a run does to files can be taken back, and nothing that a person did is ever taken with it."""

import errno
import os
import stat
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentcore.checkpoints import looks, prints, session, undo, vault
from agentcore.checkpoints.git import Git
from agentcore.checkpoints.manifest import digest_of
from agentcore.checkpoints.session import SessionCheckpoints, Undoing
from agentcore.errors import Unprocessable
from agentcore.events import Skipped, Undone
from agentcore.files import version_of
from agentcore.permissions.workspace import Workspace
from agentcore.ports.checkpoints import FileChange
from agentcore.ports.tools import Outcome, Tool, ToolError, ToolRoom
from agentcore.tools.catalogue import builtin_tools
from tests.fakes import FakeClock, MemoryBlobs

pytestmark = pytest.mark.anyio

COMMIT = "git -c user.name=x -c user.email=x@example.org commit -qm x"
Tree: TypeAlias = dict[bytes, tuple[bytes, int]]
"""Content and permission bits by path."""


class Bench:
    """A project, and the tools of one session over its checkpoints, called as the loop calls them."""

    def __init__(self, base: Path, *, git: bool = False) -> None:
        base = base.resolve()
        self.root, self.state = base / "project", base / "state"
        self.root.mkdir()
        self.state.mkdir()
        self.clock = FakeClock()
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(base)}
        self.workspace = Workspace(self.root, (self.root,), hidden=(self.root / "hidden",))
        self.runs = 0
        self.outcome = Outcome("")
        if git:
            self.sh("git init -q .")
        self.restart()

    def restart(self) -> None:
        """As after a SIGKILL and the next start."""
        self.checkpoints = SessionCheckpoints(self.state, self.workspace, self.environ, self.clock)
        made = builtin_tools(self.workspace, self.environ, MemoryBlobs(), checkpoints=self.checkpoints)
        self.tools: dict[str, Tool] = {tool.spec.name: tool for tool in made}

    def sh(self, command: str) -> None:
        subprocess.run(["bash", "-ec", command], cwd=self.root, check=True, capture_output=True)

    def commit(self) -> None:
        self.sh(f"git add -A && {COMMIT}")

    def put(self, name: str, content: str | bytes, mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return path

    def begin(self) -> None:
        self.runs += 1
        self.checkpoints.begin_run(f"run_{self.runs}")

    async def call(self, name: str, **input: Any) -> Outcome:
        tool = self.tools[name]
        try:
            self.outcome = await tool.run(tool.spec.input.model_validate(input), ToolRoom("call-1", lambda text: None))
        except ToolError as error:
            self.outcome = Outcome(str(error), is_error=True)
        return self.outcome

    async def write(self, name: str, content: str) -> None:
        if (self.root / name).exists():
            await self.call("read", file_path=name)
        assert not (await self.call("write", file_path=name, content=content)).is_error, self.outcome.output

    async def edit(self, name: str, old: str, new: str) -> None:
        await self.call("read", file_path=name)
        await self.call("edit", file_path=name, old_string=old, new_string=new)
        assert not self.outcome.is_error, self.outcome.output

    async def bash(self, command: str) -> None:
        await self.call("bash", command=command)
        assert self.outcome.output.endswith("[exit code 0]"), self.outcome.output

    def undo(self) -> Undone | None:
        """As the agent does."""
        undoing: Undoing | None = self.checkpoints.undo()
        if undoing is None:
            return None
        if undoing.is_final:
            self.checkpoints.retire(undoing.number)
        return undoing.event

    def tree(self) -> Tree:
        """Every file but git's own; links by what they lead to."""
        found: Tree = {}
        for path in self.root.rglob("*"):
            name = path.relative_to(self.root)
            if name.parts[0] == ".git" or (path.is_dir() and not path.is_symlink()):
                continue
            data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            found[os.fsencode(name)] = data, stat.S_IMODE(path.lstat().st_mode)
        return found

    @property
    def kept(self) -> list[str]:
        folder = self.state / "checkpoints"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def repository(tmp_path: Path) -> Bench:
    """A git work tree with a clean, a dirty, a removed, an untracked and an ignored file."""
    bench = Bench(tmp_path, git=True)
    for name in ("clean", "dirty", "removed", "sub/clean", "staged"):
        bench.put(name, f"{name} as committed\n")
    bench.put(".gitignore", "ignored\n*.secret\n")
    bench.commit()
    bench.put("dirty", "dirty as the person left it\n")
    bench.put("staged", "staged by the person\n")
    bench.sh("git add staged && rm removed")
    bench.put("untracked", b"\0binary\xff\n", 0o600)
    bench.put("ignored", "ignored\n")
    bench.put("mine.secret", "a secret\n")
    return bench


# --- there and back -----------------------------------------------------------------------------------------------


async def write_new(bench: Bench) -> None:
    await bench.write("new.txt", "new\n")


async def write_in_new_folders(bench: Bench) -> None:
    await bench.write("one/two/new.txt", "new\n")


async def write_over(bench: Bench) -> None:
    await bench.write("a.txt", "other\n")


async def edit(bench: Bench) -> None:
    await bench.edit("a.txt", "one", "two")


async def edit_twice(bench: Bench) -> None:
    await bench.edit("a.txt", "one", "two")
    await bench.edit("a.txt", "two", "three")


async def multi_edit(bench: Bench) -> None:
    await bench.call("read", file_path="a.txt")
    edits = [{"old_string": "one", "new_string": "two"}, {"old_string": "two", "new_string": "three"}]
    assert not (await bench.call("multi_edit", file_path="a.txt", edits=edits)).is_error


async def write_then_format(bench: Bench) -> None:
    """A command in no work tree changes what the run changed already: it is covered all the same."""
    await bench.edit("a.txt", "one", "two")
    await bench.write("b.txt", "b\n")
    await bench.bash("echo formatted >> a.txt; rm b.txt; echo again > b.txt")


async def write_and_remove(bench: Bench) -> None:
    await bench.edit("a.txt", "one", "two")
    await bench.bash("rm a.txt")


@pytest.mark.parametrize(
    "change",
    [
        write_new, write_in_new_folders, write_over, edit, edit_twice, multi_edit, write_then_format, write_and_remove,
    ],
    ids=lambda change: change.__name__,
)  # fmt: skip
async def test_what_file_tools_did_is_taken_back(bench: Bench, change: Callable[[Bench], Any]) -> None:
    bench.put("a.txt", "one\n", 0o640)
    before, folders = bench.tree(), sorted(bench.root.rglob("*"))
    bench.begin()
    await change(bench)
    after = bench.tree()
    assert after != before
    planned = bench.checkpoints.preview()
    assert bench.tree() == after
    done = bench.undo()
    assert planned is not None
    assert done == planned.event
    assert (bench.tree(), sorted(bench.root.rglob("*"))) == (before, folders)
    assert (bench.undo(), bench.kept) == (None, [])


CHANGES = [
    "echo more >> clean",
    "echo more >> dirty",
    "echo more >> staged",
    "echo more >> untracked",
    "echo new > new",
    "mkdir d; echo new > d/new",
    "rm clean",
    "rm dirty untracked",
    "rm -r sub",
    "chmod 755 clean untracked",
    "mv clean moved; mv untracked elsewhere",
    "echo back > removed",
    "git checkout -q -- . 2>&1",
    "git stash -q -u",
    "sed -i s/as/AS/ *clean && git -c user.name=x -c user.email=x@example.org commit -qam y",
    "echo new > new && git add -A && git -c user.name=x -c user.email=x@example.org commit -qm y",
    "printf 'x' > $'line\\nbreak'; printf x > $'latin-\\xe9'; printf y >> $'latin-\\xe9'",
    "chmod 400 clean && rm -f dirty && echo other > dirty && chmod 400 dirty",
    "head -c 3000000 /dev/zero > zeros",
    "cd sub && echo more >> clean && echo x > y",
]


@pytest.mark.parametrize("command", CHANGES)
async def test_what_a_command_did_in_a_work_tree_is_taken_back(repository: Bench, command: str) -> None:
    await check_taken_back(repository, command)


@pytest.mark.parametrize("command", CHANGES)
async def test_the_same_where_the_repository_is_known_from_before(
    repository: Bench, asked: list[str], command: str
) -> None:
    repository.begin()
    await repository.bash("true")
    asked.clear()
    await check_taken_back(repository, command)
    assert "config" not in asked


async def check_taken_back(repository: Bench, command: str) -> None:
    before = repository.tree()
    repository.begin()
    await repository.bash(command)
    assert repository.tree() != before
    assert repository.outcome.events == ()
    done = repository.undo()
    assert done is not None
    assert done.skipped == ()
    assert repository.tree() == before
    assert (repository.undo(), repository.kept) == (None, [])


async def test_names_that_are_no_text_are_told_safely(repository: Bench) -> None:
    repository.begin()
    await repository.bash("printf x > $'latin-\\xe9'")
    assert repository.undo() == Undone(deleted=("latin-\ufffd",))


async def test_runs_are_taken_back_one_by_one_the_last_first(bench: Bench) -> None:
    trees = []
    for number in range(3):
        trees.append(bench.tree())
        bench.begin()
        await bench.write("a.txt", f"{number}\n")
        await bench.write(f"{number}.txt", "x\n")
        bench.begin()  # a run without changes is none of them
    bench.restart()
    for before in reversed(trees):
        assert bench.undo() is not None
        assert bench.tree() == before
    assert bench.undo() is None


async def test_a_run_without_changes_leaves_nothing_on_disk(repository: Bench) -> None:
    repository.begin()
    await repository.bash("cat clean; git status; touch clean")
    assert repository.undo() is None
    assert list(repository.state.iterdir()) == []


async def test_a_run_that_ends_where_it_began_is_passed_over(bench: Bench) -> None:
    bench.begin()
    await bench.write("a.txt", "one\n")
    bench.begin()
    await bench.edit("a.txt", "one", "two")
    await bench.edit("a.txt", "two", "one")
    assert bench.undo() == Undone(deleted=("a.txt",))
    assert bench.kept == []


async def test_what_is_kept_is_private_and_by_content(bench: Bench) -> None:
    bench.put("a.txt", "same\n")
    bench.put("b.txt", "same\n")
    bench.begin()
    await bench.write("a.txt", "x\n")
    await bench.write("b.txt", "y\n")
    folder = bench.state / "checkpoints"
    assert len(bench.kept) == 2  # one content, one manifest
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


# --- what a person did stays --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("person", "why"),
    [
        ("echo mine > a.txt", undo.CHANGED),
        ("rm a.txt", undo.GONE_SINCE),
        ("rm a.txt; mkdir a.txt", undo.NO_FILE),
        ("rm a.txt; ln -s b.txt a.txt", undo.A_LINK),
        ("rm a.txt; ln -s ../state a.txt", undo.CLOSED),
        ("rm a.txt; mkfifo a.txt", undo.NO_FILE),
        ("printf 'one\\n' > a.txt", undo.AS_BEFORE),
        ("head -c 17000000 /dev/zero > a.txt", undo.CHANGED),
    ],
)
async def test_a_file_that_no_longer_holds_what_the_agent_left_stays(bench: Bench, person: str, why: str) -> None:
    bench.put("a.txt", "one\n")
    bench.put("b.txt", "b\n")
    bench.begin()
    await bench.edit("a.txt", "one", "two")
    await bench.write("new.txt", "new\n")
    bench.sh(person)
    expected = {name: held for name, held in bench.tree().items() if name != b"new.txt"} if "fifo" not in person else {}
    if why in (undo.NO_FILE, undo.A_LINK, undo.CLOSED):
        why = undo.WITHHELD.format(why, digest_of(b"one\n"))
    assert bench.undo() == Undone(deleted=("new.txt",), skipped=(Skipped(path="a.txt", why=why),))
    if expected:
        assert bench.tree() == expected
    assert bench.undo() is None


async def test_a_file_that_a_person_made_in_the_place_of_a_removed_one_stays(repository: Bench) -> None:
    repository.begin()
    await repository.bash("rm clean")
    repository.put("clean", "mine\n")
    assert repository.undo() == Undone(skipped=(Skipped(path="clean", why=undo.BACK_SINCE),))
    assert (repository.root / "clean").read_text() == "mine\n"


async def test_a_person_s_change_between_two_of_the_agent_s_is_what_is_gone_back_to(bench: Bench) -> None:
    bench.put("a.txt", "one\n")
    bench.begin()
    await bench.edit("a.txt", "one", "two")
    bench.put("a.txt", "two and mine\n")
    await bench.edit("a.txt", "two", "three")
    assert bench.undo() == Undone(restored=("a.txt",))
    assert (bench.root / "a.txt").read_text() == "two and mine\n"


async def test_an_earlier_state_of_the_agent_s_that_a_person_went_back_to_stays(bench: Bench) -> None:
    bench.put("a.txt", "one\n")
    bench.begin()
    await bench.edit("a.txt", "one", "two")
    await bench.edit("a.txt", "two", "three")
    bench.put("a.txt", "two\n")
    bench.restart()
    assert bench.undo() == Undone(skipped=(Skipped(path="a.txt", why=undo.CHANGED),))


async def test_permissions_that_a_person_gave_stay(bench: Bench) -> None:
    path = bench.put("a.txt", "one\n", 0o640)
    bench.begin()
    await bench.edit("a.txt", "one", "two")
    path.chmod(0o600)
    assert bench.undo() == Undone(restored=("a.txt",))
    assert bench.tree() == {b"a.txt": (b"one\n", 0o600)}


async def test_a_folder_of_the_run_stays_with_what_a_person_put_into_it(bench: Bench) -> None:
    bench.begin()
    await bench.write("one/two/new.txt", "new\n")
    bench.put("one/mine.txt", "mine\n")
    assert bench.undo() == Undone(deleted=("one/two/new.txt",))
    assert sorted(path.name for path in bench.root.rglob("*")) == ["mine.txt", "one"]


async def test_a_file_that_was_ignored_is_not_taken_for_new(repository: Bench) -> None:
    before = repository.tree()
    repository.begin()
    await repository.bash("echo > .gitignore; echo more >> mine.secret")
    done = repository.undo()
    assert done == Undone(restored=(".gitignore",))
    assert repository.tree() == {**before, b"mine.secret": (b"a secret\nmore\n", 0o644)}


@pytest.mark.parametrize("source", ["mine.secret", "../outside.txt", "staged.o"])
async def test_a_file_that_a_command_moved_here_may_be_the_only_copy_and_stays(repository: Bench, source: str) -> None:
    repository.put(source, "precious\n")
    os.utime(repository.root / source, (1e9, 1e9))
    if source == "staged.o":
        repository.put(".gitignore", "*.o\n")
    repository.begin()
    await repository.bash(f"mv {source} here.txt; echo > new; cp clean copy; mv clean moved")
    done = repository.undo()
    assert done is not None
    assert done.skipped == (Skipped(path="here.txt", why=looks.OLDER),)
    assert (sorted(done.deleted), done.restored) == (["copy", "moved", "new"], ("clean",))
    assert (repository.root / "here.txt").read_text() == "precious\n"


async def test_a_file_that_git_was_told_to_overlook_is_not_restored_from_it(repository: Bench) -> None:
    repository.sh("git update-index --assume-unchanged clean")
    repository.put("clean", "mine\n")
    repository.begin()
    await repository.bash("git update-index --no-assume-unchanged clean; echo more >> clean")
    assert repository.undo() is None
    assert (repository.root / "clean").read_text() == "mine\nmore\n"


async def test_a_file_that_git_stores_in_another_form_is_told_and_left(repository: Bench) -> None:
    repository.put(".gitattributes", "crlf.txt text eol=crlf\n")
    repository.put("crlf.txt", "one\r\ntwo\r\n")
    repository.commit()
    repository.begin()
    await repository.bash("echo three >> crlf.txt")
    assert repository.undo() == Undone(skipped=(Skipped(path="crlf.txt", why=looks.STORED_OTHERWISE),))
    assert (repository.root / "crlf.txt").read_bytes() == b"one\r\ntwo\r\nthree\n"


Step: TypeAlias = tuple[str, str, str]
NAMES, TEXTS = ("a", "b", "d/c"), ("1", "2", "3", "")
STEPS = st.one_of(
    st.tuples(st.sampled_from(["write", "command", "person"]), st.sampled_from(NAMES), st.sampled_from(TEXTS)),
    st.tuples(st.sampled_from(["begin", "undo", "restart"]), st.just(""), st.just("")),
)


class Model:
    """What must come of it: a run remembers, for each path, what was there and what the agent left."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.runs: list[dict[str, tuple[str | None, str | None]]] = [{}]

    def agent(self, name: str, text: str | None) -> None:
        now = self.files.get(name)
        if now != text:
            before, left = self.runs[-1].get(name, (now, now))
            self.runs[-1][name] = (before if left == now else now, text)
            self.set(name, text)

    def set(self, name: str, text: str | None) -> None:
        self.files.pop(name, None)
        if text is not None:
            self.files[name] = text

    def undo(self) -> None:
        self.runs = [run for run in self.runs if any(before != left for before, left in run.values())]
        for name, (before, left) in (self.runs.pop() if self.runs else {}).items():
            if self.files.get(name) == left:
                self.set(name, before)
        self.runs.append({})


@pytest.mark.parametrize("git", [False, True])
def test_no_walk_of_agent_and_person_loses_what_the_person_did(
    tmp_path_factory: pytest.TempPathFactory, git: bool
) -> None:
    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(STEPS, min_size=4, max_size=14))
    def walk(steps: list[Step]) -> None:
        bench = Bench(tmp_path_factory.mktemp("walk"), git=git)
        anyio.run(walked, bench, steps)

    walk()


async def walked(bench: Bench, steps: list[Step]) -> None:
    model = Model()
    bench.begin()
    for kind, name, text in steps:
        wanted = text or None
        if kind == "write" and text:
            await bench.write(name, text)
            model.agent(name, text)
        elif kind == "command" and (bench.root / ".git").exists():
            await bench.bash(f"mkdir -p d; rm -f {name}; " + (f"printf {text} > {name}" if text else "true"))
            model.agent(name, wanted)
        elif kind == "person":
            path = bench.root / name
            path.unlink(missing_ok=True)
            if text:
                bench.put(name, text)
            model.set(name, wanted)
        elif kind == "undo":
            bench.undo()
            model.undo()
            bench.begin()
        elif kind == "begin":
            bench.begin()
            model.runs.append({})
        elif kind == "restart":
            bench.restart()
            bench.checkpoints.begin_run(f"run_{bench.runs}")
        assert {os.fsdecode(name): data.decode() for name, (data, _) in bench.tree().items()} == model.files, steps


# --- where it must not reach --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("swap", "why"),
    [
        ("mv sub away; ln -s ../state sub", undo.CLOSED),
        ("mv sub away; ln -s away sub", undo.A_LINK),
        ("rm -r sub; echo > sub", undo.A_LINK),
    ],
)
async def test_no_link_is_followed_on_the_way_back(bench: Bench, swap: str, why: str) -> None:
    (bench.state / "a.txt").write_text("two\n")  # it holds what the agent left
    bench.put("sub/a.txt", "one\n")
    bench.begin()
    await bench.edit("sub/a.txt", "one", "two")
    bench.sh(swap)
    before = bench.tree()
    done = bench.undo()
    assert done is not None
    assert (done.restored, done.deleted, [one.path for one in done.skipped]) == ((), (), ["sub/a.txt"])
    assert done.skipped[0].why == undo.WITHHELD.format(why, digest_of(b"one\n"))
    assert bench.tree() == before
    assert (bench.state / "a.txt").read_text() == "two\n"


async def test_a_link_that_comes_between_the_look_and_the_change_is_not_followed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bench.state / "a.txt").write_text("two\n")
    bench.put("sub/a.txt", "one\n")
    bench.begin()
    await bench.edit("sub/a.txt", "one", "two")
    original = undo.Undo._replace

    def swapped(*args: Any) -> None:
        bench.sh("mv sub away; ln -s ../state sub")
        original(*args)

    monkeypatch.setattr(undo.Undo, "_replace", swapped)
    done = bench.undo()
    assert done is not None
    assert [one.path for one in done.skipped] == ["sub/a.txt"]
    assert ((bench.state / "a.txt").read_text(), (bench.root / "away/a.txt").read_text()) == ("two\n", "two\n")


async def test_a_save_that_comes_between_the_look_and_the_change_stays(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put("a.txt", "one\n")
    bench.begin()
    await bench.edit("a.txt", "one", "two")
    original = undo.Undo._replace

    def saved(*args: Any) -> None:
        bench.put("a.txt", "mine\n")
        original(*args)

    monkeypatch.setattr(undo.Undo, "_replace", saved)
    assert bench.undo() == Undone(skipped=(Skipped(path="a.txt", why=undo.CHANGED),))
    assert (bench.root / "a.txt").read_text() == "mine\n"


async def test_protected_and_closed_places_are_left(bench: Bench) -> None:
    bench.put(".vscode/settings.json", "{}\n")
    bench.put("later/a.txt", "one\n")
    bench.begin()
    await bench.write(".vscode/settings.json", '{"a": 1}\n')
    await bench.edit("later/a.txt", "one", "two")
    bench.workspace = Workspace(bench.root, (bench.root,), hidden=(bench.root / "later",))
    bench.restart()
    before = bench.tree()
    assert bench.undo() == Undone(
        skipped=(
            Skipped(path=".vscode/settings.json", why=undo.PROTECTED),
            Skipped(path="later/a.txt", why=undo.WITHHELD.format(undo.CLOSED, digest_of(b"one\n"))),
        )
    )
    assert bench.tree() == before


async def test_closed_places_are_not_kept_around_a_command(repository: Bench) -> None:
    repository.put("hidden/key", "a key\n")
    repository.begin()
    await repository.bash("echo more >> hidden/key; echo more >> dirty")
    assert repository.undo() == Undone(restored=("dirty",))
    assert (repository.root / "hidden/key").read_text() == "a key\nmore\n"


HOSTILE = """
echo clean filter=evil > .gitattributes
cat > .git/config <<END
[core]
    repositoryformatversion = 0
    fsmonitor = "touch $PWD/../ran; echo"
    hooksPath = hooks
[filter "evil"]
    clean = touch $PWD/../ran; cat
    smudge = touch $PWD/../ran; cat
    required = true
[filter "ev=il.x"]
    process = touch $PWD/../ran
[diff "evil"]
    textconv = touch $PWD/../ran; cat
    command = touch $PWD/../ran
END
mkdir hooks; printf '#!/bin/sh\\ntouch %s/../ran\\n' "$PWD" > hooks/post-index-change; chmod +x hooks/*
touch -d '2020-01-01' clean
"""


async def test_nothing_of_a_hostile_repository_runs(repository: Bench) -> None:
    repository.sh(HOSTILE)
    ran = repository.root.parent / "ran"
    repository.begin()
    await repository.bash("echo more >> dirty; touch -d '2021-01-01' clean")
    assert repository.outcome.events == ()
    assert not ran.exists()
    done = repository.undo()
    assert done is not None
    assert "dirty" in done.restored
    assert not ran.exists()
    repository.sh("git status")
    assert ran.exists()  # so it would have run


# --- what is known of a repository from before ---------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What git is asked, in order. Whatever was found is held for known as soon as it can be."""
    monkeypatch.setattr(prints, "CLOCK_NS", -(10**18))
    told: list[str] = []
    start = Git._start

    def noted(self: Git, environ: Any, *arguments: str, **more: Any) -> Any:
        told.append(arguments[0])
        return start(self, environ, *arguments, **more)

    monkeypatch.setattr(Git, "_start", noted)
    return told


async def test_a_repository_is_asked_for_once_and_its_index_once_a_command(repository: Bench, asked: list[str]) -> None:
    repository.begin()
    await repository.bash("true")
    assert asked == ["config", "rev-parse", "status", "ls-files", "status"]
    for command, more in (("true", []), ("git add dirty", ["ls-files"])):
        asked.clear()
        await repository.bash(command)
        assert asked == ["status", "ls-files", "status", *more]


async def test_what_has_changed_within_a_tick_is_asked_for_again(
    repository: Bench, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prints, "CLOCK_NS", 10**18)
    repository.begin()
    for _ in range(2):
        asked.clear()
        await repository.bash("true")
        assert asked == ["config", "rev-parse", "status", "ls-files"] * 2


EVIL = "filter.evil.clean 'touch RAN; cat'"
OUTER = f"git config -f ../.git/config {EVIL}"


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ("true", f"git config {EVIL}"),
        ("git config include.path evil", f"git config -f .git/evil {EVIL}"),
        ("true", f"cp -r .git ../own; git config -f ../own/config {EVIL}; echo ../../own > .git/commondir"),
        ("true", f"{OUTER}; rm .git/HEAD"),
        ("true", f"{OUTER}; rm -rf .git"),
    ],
    ids=["config", "include", "commondir", "no HEAD", "outer"],
)
async def test_a_filter_that_comes_into_force_later_never_runs(
    repository: Bench, asked: list[str], before: str, change: str
) -> None:
    ran = repository.root.parent / "ran"
    repository.put(".gitattributes", "* filter=evil\n")
    repository.commit()
    repository.sh("cd ..; git init -q .; cp project/.gitattributes .; git add .gitattributes; git add -f project/clean")
    repository.begin()
    await repository.bash(before)
    await repository.bash(change.replace("RAN", str(ran)))
    for number in range(2):
        await repository.bash(f"touch -d 202{number}-01-01 clean sub/clean")
    assert not ran.exists()
    subprocess.run(["git", "status"], cwd=repository.root, check=False, capture_output=True)
    assert ran.exists()  # so it would have run


async def test_a_link_that_comes_in_between_makes_it_another_work_tree(repository: Bench, asked: list[str]) -> None:
    repository.workspace = Workspace(repository.root / "sub", (repository.root,))
    repository.restart()
    repository.begin()
    await repository.bash("true")
    asked.clear()
    await repository.bash("ln -s ../.git .git")
    assert asked == ["status", "ls-files", "config", "rev-parse", "status", "ls-files"]


async def test_a_repository_that_comes_in_between_is_the_one_that_is_looked_at(
    repository: Bench, asked: list[str]
) -> None:
    inner = repository.root / "sub"
    repository.workspace = Workspace(inner, (inner,))
    repository.restart()
    repository.begin()
    await repository.bash("true")
    asked.clear()
    await repository.bash(f"git init -q . && git add clean && {COMMIT}")
    assert asked == ["status", "ls-files", "config", "rev-parse", "status", "ls-files"]
    repository.begin()
    await repository.bash("echo more >> clean; echo new > new")
    assert repository.undo() == Undone(restored=("clean",), deleted=("new",))


async def test_the_program_git_is_not_one_that_the_agent_can_write(repository: Bench) -> None:
    repository.put("bin/git", "#!/bin/sh\ntouch ../ran\n", 0o755)
    repository.environ["PATH"] = f"{repository.root}/bin:.:{repository.environ['PATH']}"
    repository.restart()
    repository.begin()
    await repository.bash("echo more >> dirty")
    assert repository.undo() == Undone(restored=("dirty",))
    assert not (repository.root.parent / "ran").exists()


# --- what cannot be kept ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call_name", ["fsync", "replace"])
async def test_a_file_that_cannot_be_kept_is_not_changed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, call_name: str
) -> None:
    bench.put("a.txt", "one\n")
    bench.begin()
    await bench.call("read", file_path="a.txt")
    with monkeypatch.context() as full:
        full.setattr(os, call_name, no_space)
        told = await bench.call("write", file_path="a.txt", content="two\n")
    assert told == Outcome(
        "not written: what is there now could not be kept for an undo (No space left on device)", is_error=True
    )
    assert (bench.root / "a.txt").read_text() == "one\n"
    assert bench.undo() is None
    await bench.write("a.txt", "two\n")
    assert bench.undo() == Undone(restored=("a.txt",))


async def test_a_command_is_not_run_when_its_files_cannot_be_kept(
    repository: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "MEMORY_BYTES", 1)
    monkeypatch.setattr(looks.tempfile, "TemporaryFile", no_space)
    repository.begin()
    told = await repository.call("bash", command="echo > ran")
    assert told.is_error
    assert told.output.startswith("not run: ")
    assert not (repository.root / "ran").exists()


def no_space(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_what_is_too_large_is_told_and_left(repository: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "MAX_FILES", 3)
    monkeypatch.setattr(looks.Budget.__init__, "__defaults__", (looks.MAX_BYTES, 4))
    repository.put("big", b"x" * (looks.MAX_FILE_BYTES + 1))
    for number in range(4):
        repository.put(f"zz{number}", "x\n")
    repository.begin()
    await repository.bash("echo more | tee -a big dirty zz0 zz1 zz2 zz3")
    done = repository.undo()
    assert done is not None
    assert {one.path: one.why for one in done.skipped} == {
        "big": looks.TOO_LARGE,
        "zz2": looks.TOO_MUCH,
        "zz3": looks.TOO_MUCH,
    }
    assert sorted(done.restored) == ["dirty", "zz0", "zz1"]


async def test_links_are_told_and_left(repository: Bench) -> None:
    repository.sh("ln -s clean link")
    repository.begin()
    await repository.bash("ln -sf dirty link; rm dirty; ln -s clean dirty; ln -s clean new")
    done = repository.undo()
    assert done is not None
    assert (done.restored, done.deleted) == ((), ())
    assert {one.path for one in done.skipped} == {"link", "dirty", "new"}
    assert (repository.root / "dirty").is_symlink()


# --- something else in a file's place -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "restored", "deleted"),
    [
        ("rm -r sub; echo now > sub", {"sub/clean", "sub/untracked"}, {"sub"}),
        ("rm untracked; mkdir -p untracked/a/b; echo now > untracked/a/b/c", {"untracked"}, {"untracked/a/b/c"}),
        ("rm dirty clean; mkdir dirty clean", {"dirty", "clean"}, set()),
        (
            "rm -r sub; mkdir -p sub/untracked; echo now > sub/untracked/x; echo > sub/clean",
            {"sub/clean", "sub/untracked"},
            {"sub/untracked/x"},
        ),
    ],
)
async def test_a_file_comes_back_when_what_the_agent_put_in_its_place_is_away(
    repository: Bench, command: str, restored: set[str], deleted: set[str]
) -> None:
    repository.put("sub/untracked", "precious\n")
    before = repository.tree()
    repository.begin()
    await repository.bash(command)
    planned = repository.checkpoints.preview()
    done = repository.undo()
    assert done is not None
    assert planned is not None
    assert planned.event == done
    assert (set(done.restored), set(done.deleted), done.skipped) == (restored, deleted, ())
    assert repository.tree() == before
    assert repository.kept == []


@pytest.mark.parametrize(
    ("command", "person"),
    [
        ("rm untracked; ln -s clean untracked", "true"),
        ("rm untracked; mkfifo untracked", "true"),
        ("head -c 17000000 /dev/zero > untracked", "true"),
        ("rm untracked; mkdir untracked", "echo mine > untracked/mine"),
        ("rm untracked; mkdir untracked", "ln -s . untracked/mine"),
        ("rm untracked; mkdir untracked; echo > untracked/ignored", "true"),
        ("rm untracked; mkdir untracked; echo > untracked/x", "echo mine > untracked/x"),
        ("true; rm untracked", "ln -s clean untracked"),
    ],
)
async def test_a_file_whose_place_is_taken_is_kept_and_it_is_told_where(
    repository: Bench, command: str, person: str
) -> None:
    repository.begin()
    await repository.write("by-tool.txt", "x\n")
    repository.begin()
    await repository.bash(command)
    repository.sh(person)
    there = repository.tree() if "fifo" not in command else {}
    planned, done = repository.checkpoints.preview(), repository.undo()
    assert done is not None
    assert planned is not None
    assert planned.event == done
    [skipped] = [one for one in done.skipped if one.path == "untracked"]
    name = skipped.why.rpartition("checkpoints/")[2].partition(" ")[0]
    kept = repository.state / "checkpoints" / name
    assert kept.read_bytes() == b"\0binary\xff\n"
    if there:
        assert {**repository.tree(), **there} == there
    assert repository.undo() == Undone(deleted=("by-tool.txt",))
    repository.restart()
    assert repository.undo() is None
    assert kept.exists()
    repository.begin()
    await repository.write("next.txt", "x\n")
    assert repository.undo() == Undone(deleted=("next.txt",))
    assert kept.exists()
    repository.clock.time += vault.KEPT_S + 1
    repository.checkpoints.prune()
    assert not kept.exists()


@pytest.mark.parametrize(
    ("situation", "why"),
    [("no git", session.NO_GIT), ("no work tree", session.NO_WORK_TREE), ("slow", "took longer"), ("broken", "cannot")],
)
async def test_a_command_that_is_not_covered_is_told_once(
    repository: Bench, monkeypatch: pytest.MonkeyPatch, situation: str, why: str
) -> None:
    if situation == "no git":
        repository.environ["PATH"] = "/nowhere"
    elif situation == "no work tree":
        repository.sh("rm -rf .git")
    elif situation == "slow":
        monkeypatch.setattr(session, "LOOK_S", 0.0)
    else:
        repository.put(".git/index", "no index")
    repository.restart()
    repository.begin()
    notices = []
    for _ in range(2):
        await repository.bash("echo > new")
        notices += repository.outcome.events
    assert [notice.code for notice in notices] == ["command_not_covered"]  # type: ignore[attr-defined] # all notices
    assert why in str(notices[0])
    assert repository.undo() is None
    await repository.write("by-tool.txt", "x\n")
    assert repository.undo() == Undone(deleted=("by-tool.txt",))


async def test_what_a_cancelled_command_did_is_taken_back(repository: Bench) -> None:
    before = repository.tree()
    repository.begin()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: repository.call("bash", command="echo more >> dirty; echo > new; sleep 60"))
            while not (repository.root / "new").exists():  # noqa: ASYNC110 - another process makes it
                await anyio.sleep(0.005)
            group.cancel_scope.cancel()
    assert repository.undo() == Undone(restored=("dirty",), deleted=("new",))
    assert repository.tree() == before


async def test_a_disk_that_is_full_on_the_way_back_leaves_the_run_for_another_try(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.txt", "b.txt"):
        bench.put(name, "one\n")
    bench.begin()
    for name in ("a.txt", "b.txt"):
        await bench.edit(name, "one", "two")
    original = undo.replace_file

    def full(folder: int, name: str, *rest: Any) -> None:
        if name == "b.txt":
            no_space()
        original(folder, name, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(undo, "replace_file", full)
        done = bench.undo()
    assert done is not None
    assert (done.restored, [one.path for one in done.skipped]) == (("a.txt",), ["b.txt"])
    assert bench.undo() == Undone(restored=("b.txt",), skipped=(Skipped(path="a.txt", why=undo.AS_BEFORE),))


async def test_what_was_restored_is_durable_before_its_run_is_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.put("a.txt", "one\n")
    bench.begin()
    await bench.edit("a.txt", "one", "two")
    synced: list[Path] = []
    original = os.fsync

    def seen(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").readlink())
        original(file)

    monkeypatch.setattr(os, "fsync", seen)
    undoing = bench.checkpoints.undo()
    assert undoing is not None
    assert path in synced
    assert len(bench.kept) == 2


async def test_a_file_that_was_moved_and_linked_to_stays_where_it_is(repository: Bench) -> None:
    repository.sh("touch -d 2020-01-01 untracked")
    repository.begin()
    await repository.bash("mv untracked elsewhere; ln -s elsewhere untracked")
    before = repository.tree()
    done = repository.undo()
    assert done is not None
    assert (done.restored, done.deleted) == ((), ())
    assert {one.path: one.why for one in done.skipped}["elsewhere"] == looks.OLDER
    assert repository.tree() == before


async def test_the_names_of_what_was_restored_and_removed_are_durable_before_its_run_is_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kept/a.txt", "removed/a.txt", "added/a.txt", "around/a.txt"):
        bench.put(name, "one\n")
    bench.sh("git init -q .")
    bench.begin()
    await bench.edit("kept/a.txt", "one", "two")
    await bench.bash("rm -r removed; echo > added/new.txt")
    await bench.write("around/made/new.txt", "new\n")
    synced: list[tuple[Path, set[str]]] = []
    original = os.fsync

    def seen(file: int) -> None:
        folder = Path(f"/proc/self/fd/{file}").readlink()
        synced.append((folder, {path.name for path in folder.iterdir()} if folder.is_dir() else set()))
        original(file)

    monkeypatch.setattr(os, "fsync", seen)
    assert bench.checkpoints.undo() is not None
    for folder in (bench.root, *(bench.root / name for name in ("kept", "removed", "added", "around"))):
        assert (folder, {path.name for path in folder.iterdir()}) in synced
    assert not (bench.root / "around/made").exists()


async def test_a_folder_that_cannot_be_synced_leaves_the_run_for_another_try(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put("a.txt", "one\n")
    bench.begin()
    await bench.edit("a.txt", "one", "two")
    original = os.fsync

    def fails(file: int) -> None:
        if Path(f"/proc/self/fd/{file}").readlink() == bench.root:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        original(file)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        assert bench.undo() == Undone(restored=("a.txt",))
    assert bench.undo() == Undone(skipped=(Skipped(path="a.txt", why=undo.AS_BEFORE),))
    assert bench.undo() is None


async def test_what_a_manifest_names_is_durable_before_the_change(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put("a.txt", "one\n")
    bench.begin()
    synced: list[str] = []
    original, replace = os.fsync, os.replace

    def seen(file: int) -> None:
        synced.append(Path(f"/proc/self/fd/{file}").readlink().name)
        original(file)

    def renamed(old: Any, new: Any, **more: Any) -> None:
        replace(old, new, **more)
        name = Path(os.fsdecode(old)).name
        if name in synced:
            synced[synced.index(name)] = Path(os.fsdecode(new)).name
        if name.startswith(".agentcore-"):
            synced.append("CHANGED")

    monkeypatch.setattr(os, "fsync", seen)
    monkeypatch.setattr(os, "replace", renamed)
    monkeypatch.setattr(Path, "replace", renamed)
    await bench.edit("a.txt", "one", "two")
    before = synced[: synced.index("CHANGED")]
    [content] = [name for name in bench.kept if len(name) == 64]
    [manifest] = [name for name in bench.kept if name.startswith("run-")]
    assert before == ["state", content, manifest, "checkpoints"]


@pytest.mark.parametrize("damage", ["newer", "cut", "folder"])
async def test_a_last_checkpoint_that_cannot_be_read_stops_the_undo(bench: Bench, damage: str) -> None:
    """It took back an older run in its place, and deleted it."""
    for name in ("one", "two"):
        bench.begin()
        await bench.write(name, "x\n")
    last = bench.state / "checkpoints" / bench.kept[-1]
    told = last.read_text()
    if damage == "folder":
        last.unlink()
        last.mkdir()
    else:
        last.write_text('{"format": 2, "run": "x"}' if damage == "newer" else told[:20])
    before, kept = bench.tree(), bench.kept
    for ask in (bench.checkpoints.preview, bench.checkpoints.undo):
        with pytest.raises(Unprocessable, match=last.name):
            ask()
    assert (bench.tree(), bench.kept) == (before, kept)
    if damage == "folder":
        last.rmdir()
    last.write_text(told)
    assert [bench.undo(), bench.undo()] == [Undone(deleted=("two",)), Undone(deleted=("one",))]


async def test_a_run_that_goes_on_leaves_its_checkpoint_that_cannot_be_read(bench: Bench) -> None:
    bench.begin()
    await bench.write("one", "x\n")
    path = bench.state / "checkpoints" / bench.kept[-1]
    path.write_text("cut")
    bench.restart()
    bench.checkpoints.begin_run("run_1")
    await bench.write("two", "x\n")
    assert path.read_text() == "cut"
    assert bench.undo() == Undone(deleted=("two",))
    with pytest.raises(Unprocessable):
        bench.undo()


async def test_a_content_that_was_damaged_is_not_restored(bench: Bench) -> None:
    bench.put("a.txt", "one\n")
    bench.begin()
    await bench.edit("a.txt", "one", "two")
    [blob] = [name for name in bench.kept if len(name) == 64]
    (bench.state / "checkpoints" / blob).write_text("other\n")
    assert bench.undo() == Undone(skipped=(Skipped(path="a.txt", why=undo.LOST),))


# --- a kill at any point ------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is no more: nothing that would clean up gets anything done."""


WRITES = [
    ("a.txt", "two\n"),
    ("a.txt", "three\n"),
    ("new/b.txt", "b\n"),
    ("new/b.txt", "bb\n"),
]


@pytest.mark.parametrize("number", range(1, 40))
@pytest.mark.parametrize("person", [None, "mine\n"])
def test_a_kill_at_any_point_of_a_change_leaves_the_undo_honest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int, person: str | None
) -> None:
    bench.put("a.txt", "one\n")
    before = bench.tree()
    bench.begin()
    with monkeypatch.context() as patched, suppress(Killed):
        kill(patched, number)
        change_all(bench)
    bench.restart()
    if person is not None:
        bench.put("a.txt", person)
    done = bench.undo()
    files = {name: held for name, held in bench.tree().items() if not name.endswith(b".tmp")}
    assert files == (before if person is None else {b"a.txt": (person.encode(), 0o644)})
    if done is not None:
        assert "a.txt" not in done.restored or person is None


@pytest.mark.parametrize("number", range(1, 16))
def test_an_undo_that_is_killed_anywhere_is_finished_by_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    bench.put("a.txt", "one\n")
    before = bench.tree()
    bench.begin()
    change_all(bench)
    with monkeypatch.context() as patched, suppress(Killed):
        kill(patched, number)
        bench.undo()
    bench.restart()
    bench.undo()
    assert {name: held for name, held in bench.tree().items() if not name.endswith(b".tmp")} == before
    bench.checkpoints.prune()
    assert bench.undo() is None


def kill(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Kill at the nth call that changes the disk, and refuse all after it."""
    made = 0

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            made += 1
            if made >= number:
                raise Killed
            return original(*args, **kwargs)

        return call

    for name in ("fsync", "replace", "unlink", "mkdir", "rmdir", "utime"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))


def change_all(bench: Bench) -> None:
    """As the file tools do, in this thread."""
    editor = bench.tools["write"]._editor  # type: ignore[attr-defined] # the port does not show it; a thread would hide the kill
    for name, after in WRITES:
        path = bench.root / name
        if path.exists():
            editor._versions.remember(path, version_of(path.read_bytes()))
        editor.apply("write", name, lambda before, after=after: after, create_folders=True)


# --- how long -----------------------------------------------------------------------------------------------------


async def test_checkpoints_are_kept_for_seven_days(bench: Bench) -> None:
    bench.put("a.txt", "one\n")
    bench.begin()
    await bench.edit("a.txt", "one", "two")
    bench.clock.time += vault.KEPT_S - 1
    bench.begin()
    await bench.edit("a.txt", "two", "three")
    bench.restart()
    bench.checkpoints.prune()
    assert len(bench.kept) == 4
    bench.clock.time += 2
    bench.checkpoints.prune()
    assert bench.undo() == Undone(restored=("a.txt",))
    assert (bench.root / "a.txt").read_text() == "two\n"
    assert bench.undo() is None


async def test_what_a_killed_process_left_half_made_is_swept(bench: Bench) -> None:
    folder = bench.state / "checkpoints"
    folder.mkdir()
    for name in ("0" * 64, "half.tmp"):
        (folder / name).write_text("left")
    bench.checkpoints.prune()
    assert bench.kept == []


async def test_what_another_process_is_keeping_is_not_swept(bench: Bench) -> None:
    folder = bench.state / "checkpoints"
    folder.mkdir()
    young = folder / ("0" * 64)
    young.write_text("being kept")
    os.utime(young, (bench.clock.time, bench.clock.time))
    session.prune_all([bench.state], bench.clock.time + 60)
    assert bench.kept == [young.name]


def test_a_change_that_fails_leaves_no_trace(bench: Bench) -> None:
    path = bench.put("a.txt", "one\n")
    bench.begin()
    with pytest.raises(ToolError), bench.checkpoints.changing(FileChange(path, b"one\n", 0o644, b"two\n")):
        raise ToolError("refused")
    assert (bench.undo(), bench.kept) == (None, [])
