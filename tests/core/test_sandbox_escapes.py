"""What a confined command tries and must not reach, with real processes; and what it may still do.

Nothing here would do harm if it came through: files are opened for writing and closed, victims are processes and
listeners of the test's own, addresses are those kept for documentation.
"""

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio.abc import SocketAttribute, SocketStream

from agentcore import processes
from agentcore.events import Mode, Notice
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import Outcome
from agentcore.processes import Command
from agentcore.sandbox.bubblewrap import Bubblewrap
from agentcore.sandbox.worktrees import MAX_TREES, linked_state
from agentcore.tools.boxed import Boxing
from agentcore.tools.catalogue import builtin_tools
from tests.core.test_tools import Workbench

pytestmark = pytest.mark.anyio

PYTHON = os.path.realpath(sys.executable)
KEY = "the private key"


class Cell(Workbench):
    """A workbench whose commands are confined; a git repository is in the project, and things that are hidden."""

    mode: Mode = "default"

    def __init__(self, base: Path, sandbox: Bubblewrap) -> None:
        self.sandbox = sandbox
        base = base.resolve()
        self.home, self.extra = base / "home", base / "extra"
        for folder in (self.home / ".ssh", self.extra, base / "project/keys", base / "project/.git/hooks"):
            folder.mkdir(parents=True)
        (self.home / ".ssh/id").write_text(KEY)
        super().__init__(base, hidden=(base / "project/keys", base / "project/etc/token", self.home / ".ssh"))
        self.put("keys/id", KEY)
        self.put("etc/token", KEY)
        self.put(".git/config", "[core]\n")
        self.put(".git/HEAD", "ref: refs/heads/main\n")
        (self.outside / "file").write_text("old")
        roots, seen = (self.root, self.extra), (self.outside, self.home)
        self.use(Workspace(self.root, roots, self.workspace.hidden, seen))

    def use(self, workspace: Workspace) -> None:
        self.workspace = workspace
        boxing = Boxing(self.sandbox, lambda: self.mode)
        made = builtin_tools(workspace, self.environ, self.blobs, boxing=boxing)
        self.tools = {tool.spec.name: tool for tool in made}

    async def run(self, command: str, **input: Any) -> str:
        with anyio.fail_after(30):
            return (await self.call("bash", command=command, **input)).output

    async def python(self, code: str) -> str:
        """What Python prints, the name of an error where it raises an OSError."""
        ending = "except OSError as e:\n    import errno; print(errno.errorcode[e.errno])"
        script = f"import os\ntry:\n{_indented(code)}\n{ending}"
        return (await self.run(f"{PYTHON} -IS - <<'END'\n{script}\nEND")).partition("\n[")[0]

    def files(self) -> dict[str, str]:
        return {str(path.relative_to(self.root)): path.read_text() for path in self.root.rglob("*") if path.is_file()}


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" for line in code.strip().split("\n"))


@pytest.fixture(scope="session")
def probed() -> Bubblewrap:
    if sys.platform != "linux":
        pytest.skip("bubblewrap is there for Linux")
    sandbox = Bubblewrap()
    anyio.run(sandbox.probe)
    if not sandbox.is_available:
        pytest.skip(f"the sandbox cannot run here: {sandbox.why_not}")
    return sandbox


@pytest.fixture
def cell(tmp_path: Path, probed: Bubblewrap) -> Cell:
    return Cell(tmp_path, probed)


@pytest.fixture
def victim() -> Iterator[int]:
    """A process of the machine's, outside of the sandbox."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process.pid
        assert process.poll() is None, "it was killed from inside"
        process.kill()


# --- what it may do ---


async def test_the_project_further_folders_and_a_temporary_one_can_be_written(cell: Cell) -> None:
    command = f"echo a > a && echo b > {cell.extra}/b && echo c > /tmp/c && cat a {cell.extra}/b /tmp/c"
    assert await cell.run(command) == "a\nb\nc\n[exit code 0]"
    assert (cell.root / "a").read_text() == "a\n"
    assert (cell.extra / "b").read_text() == "b\n"
    assert await cell.run("ls /tmp/c") != "/tmp/c\n[exit code 0]"


async def test_git_commits_inside(cell: Cell) -> None:
    subprocess.run(["rm", "-rf", cell.root / ".git"], check=True)
    subprocess.run(["git", "init", "-q", cell.root], check=True)
    said = await cell.run(
        "echo x > x && git add x && git -c user.name=a -c user.email=a@b commit -qm x && git log --oneline"
    )
    assert said.endswith("[exit code 0]"), said


def git(*arguments: str | Path) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True, capture_output=True)


@pytest.fixture
def linked(cell: Cell) -> Path:
    """The shared folder of the repository that the project is a work tree of."""
    main = cell.outside / "main"
    git("init", "-q", main)
    git("-C", main, "commit", "-q", "--allow-empty", "-m", "first")
    subprocess.run(["rm", "-rf", cell.root], check=True)
    git("-C", main, "worktree", "add", "-q", cell.root)
    return main / ".git"


COMMIT = "echo x > x && git add x && git -c user.name=a -c user.email=a@b commit -qm second; git log --oneline | wc -l"


async def test_git_commits_in_a_linked_work_tree(cell: Cell, linked: Path) -> None:
    assert (await cell.run(COMMIT)).split("\n")[-2:] == ["2", "[exit code 0]"]


async def test_nothing_is_planted_in_the_repository_of_a_linked_work_tree(cell: Cell, linked: Path) -> None:
    own, config = linked / "worktrees/project", (linked / "config").read_text()
    pointers = [(own / name).read_text() for name in ("gitdir", "commondir")]
    for place in (
        linked / "hooks/pre-commit",
        linked / "config",
        own / "gitdir",
        own / "commondir",
        linked.parent / "x",
    ):
        await cell.run(f"echo x > {place}")
    await cell.run(f"echo x > {own}/config.worktree; mv {own} {linked}/old")
    assert not (linked / "hooks/pre-commit").exists()
    assert not (own / "config.worktree").exists()
    assert not (linked.parent / "x").exists()
    assert ((linked / "config").read_text(), [(own / name).read_text() for name in ("gitdir", "commondir")]) == (
        config,
        pointers,
    )


async def test_a_repository_that_does_not_name_the_work_tree_stays_closed(cell: Cell, linked: Path) -> None:
    (cell.extra / ".git").touch()
    (linked / "worktrees/project/gitdir").write_text(f"{cell.extra}/.git\n")
    assert "Read-only file system" in await cell.run(f"touch {linked}/x")
    assert not (linked / "x").exists()


async def test_a_protected_folder_stays_closed_to_a_command_that_works_inside_of_it(cell: Cell) -> None:
    cell.put(".claude/skills/one/.envrc", "x")
    cell.use(Workspace(cell.root / ".claude/skills/one", (cell.root,)))
    said = await cell.run("echo x > x; echo x > ../new; echo x > ../../settings.json")
    assert said.count("Read-only file system") == 3, said


@pytest.fixture
def apart(cell: Cell) -> Path:
    """The work tree of a subagent."""
    subprocess.run(["rm", "-rf", cell.root / ".git"], check=True)
    git("init", "-q", cell.root)
    git("-C", cell.root, "commit", "-q", "--allow-empty", "-m", "first")
    cell.put(".claude/settings.json", "{}")
    cell.put(".claude/worktrees/plain/file", "old")
    git("-C", cell.root, "worktree", "add", "-q", "--detach", ".claude/worktrees/one")
    return cell.root / ".claude/worktrees/one"


@pytest.mark.parametrize("cwd", ["", ".claude/worktrees/one"], ids=["from the project", "from inside"])
async def test_a_command_works_in_the_work_tree_of_a_subagent(cell: Cell, apart: Path, cwd: str) -> None:
    cell.use(Workspace(cell.root / cwd, (cell.root,)))
    assert (await cell.run(f"cd {apart}; mkdir in; {COMMIT}")).split("\n")[-2:] == ["2", "[exit code 0]"]
    assert (apart / "in").is_dir()
    cell.mode = "plan"
    assert "Read-only file system" in await cell.run(f"touch {apart}/y")


async def test_around_the_work_tree_of_a_subagent_all_stays_as_it_is(cell: Cell, apart: Path) -> None:
    own = cell.root / ".git/worktrees/one"
    before = {path: path.read_bytes() for path in (apart / ".git", own / "gitdir", own / "commondir")}
    for place in (
        ".claude/settings.json",
        ".claude/worktrees/plain/file",
        ".claude/worktrees/new",
        apart / ".git",
        own / "gitdir",
        own / "commondir",
        ".git/worktrees/two",
    ):
        assert "[exit code 0]" not in await cell.run(f"echo x > {place}")
    for command in (f"mv {apart} {apart}2", f"mv {own} {own}2", "mv .claude old"):
        assert "[exit code 0]" not in await cell.run(command)
    assert {path: path.read_bytes() for path in before} == before
    assert (cell.root / ".claude/settings.json").read_text() == "{}"
    assert ".envrc.unapproved" in await cell.run(f"echo x > {apart}/.envrc")
    assert not (apart / ".envrc").exists()


async def test_what_only_says_that_it_is_a_work_tree_stays_closed(cell: Cell, apart: Path) -> None:
    cell.put(".claude/worktrees/plain/.git", f"gitdir: {cell.root}/.git/worktrees/one\n")
    (cell.root / ".claude/worktrees/way").symlink_to(apart)
    assert "Read-only file system" in await cell.run("touch .claude/worktrees/plain/x")
    git("init", "-q", cell.outside / "other")
    git("-C", cell.outside / "other", "commit", "-q", "--allow-empty", "-m", "first")
    git("-C", cell.outside / "other", "worktree", "add", "-q", cell.root / ".claude/worktrees/far")
    for place in (f"{cell.outside}/other/.git", f"{cell.outside}/other/.git/worktrees/far", ".claude/worktrees/far"):
        assert "Read-only file system" in await cell.run(f"touch {place}/x")


@pytest.mark.parametrize("name", [".claude", ".vscode", ".config/git", "sub/.Claude/in"])
async def test_what_a_project_brings_in_a_protected_folder_is_no_repository(cell: Cell, name: str) -> None:
    up = "../" * name.count("/")
    cell.put(f"{name}/worktrees/x/gitdir", f"{up}../../../pkg/.git\n")
    cell.put(f"{name}/worktrees/x/commondir", "../..\n")
    cell.put("pkg/.git", f"gitdir: ../{name}/worktrees/x\n")
    assert not list(linked_state(cell.root / "pkg"))
    cell.use(Workspace(cell.root / "pkg", (cell.root / "pkg", cell.root)))
    said = await cell.run(f"touch ../{name}/x ../{name}/worktrees/x/x")
    assert "sub" in name or said.count("Read-only file system") == 2, said


async def test_the_work_trees_of_few_subagents_are_opened(cell: Cell, apart: Path) -> None:
    for number in range(MAX_TREES):
        git("-C", cell.root, "worktree", "add", "-q", "--detach", f"{apart}-{number}")
    said = await cell.run("for tree in .claude/worktrees/one*; do touch $tree/x; done")
    assert said.count("Read-only file system") == 1


async def test_the_roots_of_the_journal_can_be_read_inside_of_what_is_hidden(cell: Cell) -> None:
    own = cell.root / "keys/session"
    own.mkdir()
    (own / "journal").write_text("line\n")
    cell.use(Workspace(cell.root, (cell.root,), cell.workspace.hidden, (own,)))
    said = await cell.run(f"cat {own}/journal; ls keys; echo x >> {own}/journal")
    assert said.startswith("line\nsession\n")
    assert "Read-only file system" in said
    assert (own / "journal").read_text() == "line\n"


# --- files ---

WRITES = {
    "a file outside": "echo x > {outside}/new",
    "a file outside, changed": "echo x >> {outside}/file",
    "through a link": "ln -s {outside} way; echo x > way/new",
    "through a link of a folder": "ln -s / top; echo x > top{outside}/new",
    "by moving it out": "echo x > x; mv x {outside}/new",
    "by a hard link": "ln {outside}/file hard && echo x >> hard",
    "through the root of a process": "echo x > /proc/self/root{outside}/new; echo x > /proc/1/root{outside}/new",
    "through a folder of a process": "cd {outside}; echo x > /proc/self/cwd/new",
    "removed": "rm -f {outside}/file",
    "renamed": "mv {outside} gone",
    "its rights": "chmod 777 {outside}/file",
}


@pytest.mark.parametrize("command", WRITES.values(), ids=WRITES)
async def test_nothing_outside_can_be_written(cell: Cell, command: str) -> None:
    before = [(path.name, path.read_text(), path.stat().st_mode) for path in cell.outside.iterdir()]
    said = await cell.run(command.format(outside=cell.outside))
    assert [(path.name, path.read_text(), path.stat().st_mode) for path in cell.outside.iterdir()] == before, said


READS = {
    "plainly": "cat keys/id etc/token {ssh}/id",
    "by a copy": "cp -r keys k; cat k/id; cp etc/token t; cat t; cp -r {ssh} s; cat s/id",
    "through a link": "ln -s keys/id a; ln -s {ssh} b; cat a b/id",
    "by a hard link": "ln keys/id a; ln etc/token b; ln {ssh}/id c; cat a b c",
    "renamed": "mv keys k; mv etc e; cat k/id e/token",
    "with its folder moved": "mv etc/token e; cat e; mv etc e2; cat e2/token",
    "through a process": "for p in self 1 2; do cat /proc/$p/root{root}/keys/id /proc/$p/cwd/keys/id; done",
    "as an archive": "tar cf - . | cat; tar cf - {ssh} | cat",
    "by grep": "grep -r . keys etc {ssh}",
    "by a mount": "umount keys; umount -l {ssh}; cat keys/id {ssh}/id",
}


@pytest.mark.parametrize("command", READS.values(), ids=READS)
async def test_what_is_hidden_cannot_be_read(cell: Cell, command: str) -> None:
    said = await cell.run(command.format(root=cell.root, ssh=cell.home / ".ssh"))
    assert KEY not in said
    assert (cell.root / "etc/token").read_text() == KEY, "it was moved to where the next command reads it"
    assert KEY not in await cell.run("cat */* */*/* 2>&1")


GIT = {
    "a hook": "echo x > .git/hooks/pre-commit",
    "a hook, by a link": "ln -s .git/hooks h; echo x > h/pre-commit",
    "the folder of hooks replaced": "mkdir h; echo x > h/pre-commit; rmdir .git/hooks; mv h .git/hooks",
    "the settings": "git config core.hooksPath evil; echo '[core] fsmonitor = x' >> .git/config",
    "the settings replaced": "echo '[core] fsmonitor = x' > c; mv c .git/config",
    "the settings, removed": "rm -f .git/config; echo x > .git/config",
    "the repository renamed": "cp -r .git g; echo x >> g/config; mv .git old; mv g .git",
    "the repository removed": "rm -rf .git; mkdir -p .git; echo x > .git/config",
    "settings elsewhere": "mkdir evil; echo '[core] fsmonitor = x' > evil/config; echo ../evil > .git/commondir",
    "an attribute": "mkdir -p .git/info; echo '* filter=x' > .git/info/attributes",
    "settings of a work tree": "echo x > .git/config.worktree",
    "a module's hook": "mkdir -p .git/modules/x/hooks; echo x > .git/modules/x/hooks/post-checkout",
}
GIT_KEEPS = (
    "commondir",
    "config",
    "config.worktree",
    "hooks/pre-commit",
    "info/attributes",
    "modules/x/hooks/post-checkout",
)


@pytest.mark.parametrize("command", GIT.values(), ids=GIT)
async def test_nothing_is_planted_in_a_repository(cell: Cell, command: str) -> None:
    said = await cell.run(command)
    git = {name: (cell.root / ".git" / name).read_text() for name in GIT_KEEPS if (cell.root / ".git" / name).exists()}
    assert git == {"config": "[core]\n"}, said


# what a command does, and what is told of it
PLANTED_BELOW = {
    "a monitor": ("git init -q sub; git -C sub config core.fsmonitor x", "sub/.git (core.fsmonitor)"),
    "a folder of hooks": ("git init -q a/b; git -C a/b config core.hooksPath h", "a/b/.git (core.hookspath)"),
    "a filter": ("git init -q sub; git -C sub config filter.x.process y", "sub/.git (filter.process)"),
    "an alias": ("git init -q sub; git -C sub config alias.st '!x'", "sub/.git (alias.st)"),
    "how a module comes": ("git init -q s; git -C s config submodule.a.update '!x'", "s/.git (submodule.update)"),
    "more settings": ("git init -q sub; git -C sub config include.path ../x", "sub/.git (include.path)"),
    "settings of a kind": (
        "git init -q s; echo '[core] fsmonitor = x' >> s/.git/config",
        "s/.git (a setting that cannot be read simply)",
    ),
    "settings without end": (
        "git init -q s; yes '#' | head -c 200000 >> s/.git/config",
        "s/.git (settings that cannot be read)",
    ),
    "a pipe": ("git init -q s; rm s/.git/config; mkfifo s/.git/config", "s/.git (settings that cannot be read)"),
    "settings by a link": (
        "git init -q s; ln -sf {outside}/file s/.git/config",
        "s/.git (settings that lie elsewhere)",
    ),
    "settings of a work tree": (
        "git init -q sub; git config -f sub/.git/config.worktree core.sshCommand x",
        "sub/.git (core.sshcommand)",
    ),
    "hooks": (
        "git init -q s; mkdir -p s/.git/hooks; cp /bin/true s/.git/hooks/pre-commit; cp /bin/true s/.git/hooks/update",
        "s/.git (the hook pre-commit, the hook update)",
    ),
    "a crowd of hooks": (
        "git init -q s; mkdir -p s/.git/hooks; touch s/.git/hooks/{1..300}",
        "s/.git (more than 200 hooks)",
    ),
    "a hook in one that was there": (
        "rm -rf there/.git/info; mkdir there/.git/hooks; cp /bin/true there/.git/hooks/update",
        "there/.git (the hook update)",
    ),
    "a bare one": ("git init -q --bare x; git config -f x/config core.fsmonitor y", "x (core.fsmonitor)"),
    "one whose settings are elsewhere": (
        "mkdir -p x y/objects y/refs; echo ref: refs/heads/main > x/HEAD; echo ../y > x/commondir;"
        " git config -f y/config core.fsmonitor z",
        "x (core.fsmonitor)",
    ),
    "by a pointer to a name that is no text": (
        "git init -q e; git -C e config core.editor x; mv e/.git .git/$'\\xff '; mkdir s;"
        " printf 'gitdir: ../.git/\\377 \\r\\n\\n' >s/.git",
        "s/.git (core.editor)",
    ),
    "by a pointer that is no more than line ends": (
        "git init -q s; (echo ../../y; yes '' | head -c 2000000) > s/.git/commondir",
        "s/.git (settings that cannot be read)",
    ),
    "by a pointer": (
        "git init -q e; git -C e config core.editor x; mv e/.git .git/evil; mkdir s; echo gitdir: ../.git/evil >s/.git",
        "s/.git (core.editor)",
    ),
    "by a link": (
        "git init -q e; git -C e config core.editor x; mv e/.git .git/evil; mkdir s; ln -s ../.git/evil s/.git",
        "s/.git (core.editor)",
    ),
    "in a crowd": (
        "mkdir -p node_modules/{1..500}/lib; git init -q node_modules/77/lib/deep;"
        " git -C node_modules/77/lib/deep config core.fsmonitor x",
        "node_modules/77/lib/deep/.git (core.fsmonitor)",
    ),
    "in a further folder": (
        "git init -q {extra}/sub; git -C {extra}/sub config core.fsmonitor x",
        "extra/sub/.git (core.fsmonitor)",
    ),
    "of a name that is no line": (
        "git init -q $'a\\n[b]'; git -C a* config core.fsmonitor x",
        "a [b]/.git (core.fsmonitor)",
    ),
    "many": (
        "for n in 1 2 3 4 5 6 7; do git init -q $n; git -C $n config core.fsmonitor x; done",
        "1/.git (core.fsmonitor), 2/.git (core.fsmonitor), 3/.git (core.fsmonitor), 4/.git (core.fsmonitor),"
        " 5/.git (core.fsmonitor) and 2 more",
    ),
}


def _at(cell: Cell, command: str) -> str:
    return command.replace("{extra}", str(cell.extra)).replace("{outside}", str(cell.outside))


@pytest.mark.parametrize(("command", "places"), PLANTED_BELOW.values(), ids=PLANTED_BELOW)
async def test_a_repository_below_that_would_run_something_is_told_once(cell: Cell, command: str, places: str) -> None:
    cell.put("there/.git/HEAD", "ref: refs/heads/main\n")
    for name in ("objects", "refs", "info"):
        (cell.root / "there/.git" / name).mkdir()
    cell.put("there/.git/config", "[core]\n")
    with anyio.fail_after(30):
        outcome = await cell.call("bash", command=_at(cell, command))
        again = await cell.call("bash", command="touch a")
    text = (
        "Git would run what this names, outside of the sandbox, as soon as somebody uses git there:"
        f" {places}. Look at it first, or remove it."
    )
    assert outcome.output.endswith(f"[exit code 0]\n[{text}]")
    assert outcome.events == (Notice(level="warning", code="git_would_run", text=text),)
    assert (again.output, again.events) == ("(no output)\n[exit code 0]", ())


HARMLESS_BELOW = {
    "a new one": "git init -q sub; git init -q --bare bare",
    "a clone": f"git init -q a; cd a; {COMMIT}; cd ..; git clone -q a b; git -C b remote add c ../a; git -C b gc -q",
    "in part": f"git init -q a; cd a; {COMMIT}; cd ..; git clone -q --no-local --filter=blob:none --sparse a b",
    "a work tree of it": f"git init -q a; cd a; {COMMIT}; git worktree add -q ../b",
    "removed": "rm -rf hooked",
    "its work": f"cd hooked; rm -f .git/hooks/*; {COMMIT}",
}


@pytest.mark.parametrize("command", HARMLESS_BELOW.values(), ids=HARMLESS_BELOW)
async def test_a_repository_below_that_runs_nothing_new_is_nobodys_matter(cell: Cell, command: str) -> None:
    git("init", "-q", cell.root / "linked")
    await cell.run("git init -q hooked; mkdir -p hooked/.git/hooks; cp /bin/true hooked/.git/hooks/pre-commit")
    outcome = await cell.call("bash", command=command)
    assert outcome.output.endswith("\n[exit code 0]"), outcome.output
    assert outcome.events == ()


async def test_a_hook_that_is_changed_is_told_again(cell: Cell) -> None:
    put = "mkdir -p s/.git/hooks; cp /bin/{} s/.git/hooks/update"
    assert len((await cell.call("bash", command=f"git init -q s; {put.format('true')}")).events) == 1
    assert (
        len(
            (
                await cell.call("bash", command="cd s; git -c user.name=a -c user.email=b commit --allow-empty -qm x")
            ).events
        )
        == 0
    )
    assert len((await cell.call("bash", command=put.format("false"))).events) == 1


async def test_a_repository_below_that_was_there_keeps_its_settings_and_hooks(cell: Cell) -> None:
    git("init", "-q", cell.root / "a/b")
    config = (cell.root / "a/b/.git/config").read_text()
    for command in (
        "git -C a/b config core.fsmonitor x",
        "echo x > a/b/.git/hooks/update",
        "echo x > c; mv c a/b/.git/config",
        "mv a/b/.git a/b/old",
        "mv a/b a/old",
    ):
        said = await cell.run(command)
        assert "[exit code 0]" not in said
        assert "[This command ran in the sandbox, where only the project and /tmp can be written" in said, said
    assert (cell.root / "a/b/.git/config").read_text() == config
    assert await cell.run(f"cd a/b; {COMMIT}") == "1\n[exit code 0]"
    await cell.run("rm -rf a")
    assert (cell.root / "a/b/.git/config").read_text() == config


async def test_in_plan_mode_nothing_is_looked_for_and_nothing_lost(cell: Cell) -> None:
    await cell.run("true")
    git("init", "-q", cell.root / "s")
    git("-C", cell.root / "s", "config", "core.fsmonitor", "x")
    modes: tuple[tuple[Mode, int], ...] = (("plan", 0), ("default", 1))
    for cell.mode, notices in modes:
        assert len((await cell.call("bash", command="true")).events) == notices


async def test_a_program_that_becomes_another_is_told_again(cell: Cell) -> None:
    for name, notices in (("x", 1), ("x", 0), ("y", 1)):
        outcome = await cell.call("bash", command=f"git init -q s; git -C s config core.fsmonitor {name}")
        assert len(outcome.events) == notices


async def test_what_the_users_own_repository_says_is_nobodys_matter(cell: Cell) -> None:
    subprocess.run(["rm", "-rf", cell.root / ".git"], check=True)
    git("init", "-q", cell.root)
    git("-C", cell.root, "commit", "-q", "--allow-empty", "-m", "first")
    await cell.run("true")
    git("-C", cell.root, "config", "core.fsmonitor", "x")
    git("-C", cell.root, "worktree", "add", "-q", "--detach", ".claude/worktrees/one")
    assert (await cell.call("bash", command="true")).events == ()


async def test_in_a_linked_work_tree_the_shared_repository_is_the_users_and_what_lies_in_it_is_not(
    cell: Cell, linked: Path
) -> None:
    await cell.run("true")
    git("-C", cell.root, "config", "core.fsmonitor", "x")
    git("-C", cell.root, "worktree", "add", "-q", "--detach", "other")
    assert (await cell.call("bash", command="true")).events == ()
    place = f"{linked}/evil"
    outcome = await cell.call(
        "bash",
        command=f"git init -q s; git -C s config core.editor x; mv s/.git {place}; echo gitdir: {place} > s/.git",
    )
    assert "s/.git (core.editor)" in outcome.output


async def test_what_hooks_and_servers_leave_is_told_by_the_next_command(cell: Cell) -> None:
    boxing = Boxing(cell.sandbox, lambda: cell.mode)
    await cell.run("true")
    command = Command(("git", "-c", "safe.bareRepository=all", "init", "-q", "--bare", "b"), cell.root, os.environ)
    async with boxing.around(cell.workspace, command) as boxed:
        run = partial(subprocess.run, boxed.argv, env=boxed.environ, pass_fds=boxed.keep_fds, check=True)
        await to_thread.run_sync(run)
    (cell.root / "b/config").write_text("[core]\nfsmonitor = x\n")
    assert "b (core.fsmonitor)" in await cell.run("true")


PLANTED = {
    "echo x > .envrc": ".envrc",
    "mkdir .vscode; echo x > .vscode/tasks.json": ".vscode",
    "ln -s /bin/sh .bashrc": ".bashrc",
    "mkdir h; mv h .husky": ".husky",
    "mkdir -p .config/git; echo x > .config/git/config": ".config/git",
    "cd sub; echo x > .mcp.json": "sub/.mcp.json",
}


@pytest.mark.parametrize(("command", "name"), PLANTED.items(), ids=PLANTED.values())
async def test_a_protected_place_that_was_not_there_is_set_aside(cell: Cell, command: str, name: str) -> None:
    (cell.root / "sub").mkdir()
    (cell.root / ".config").mkdir()
    cell.use(Workspace(cell.root / "sub" if name.startswith("sub/") else cell.root, (cell.root,)))
    said = await cell.run(command.removeprefix("cd sub; "))
    assert not os.path.lexists(cell.root / name)
    assert os.path.lexists(cell.root / f"{name}.unapproved")
    assert said.endswith(
        f"[exit code 0]\n[{Path(name).name} is protected: what this command made is now {Path(name).name}.unapproved. "
        "Changing it needs a person: use the file tools.]"
    )
    await cell.run(command.removeprefix("cd sub; ").replace("mkdir h; ", "mkdir -p h; "))
    assert os.path.lexists(cell.root / f"{name}.unapproved-2")


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .claude/settings.json",
        "rm .claude",
        "rm .claude; mkdir .claude; echo x > .claude/settings.json",
        "ln -sfn evil .claude",
        "mv .claude old; mv evil .claude",
        "echo x > dot/claude/settings.json",
    ],
)
async def test_a_protected_link_leads_where_it_led(cell: Cell, command: str) -> None:
    cell.put("dot/claude/settings.json", "{}")
    cell.put("evil/settings.json", "evil")
    (cell.root / ".claude").symlink_to("dot/claude")
    await cell.run(command)
    assert (cell.root / ".claude").readlink() == Path("dot/claude")
    assert (cell.root / ".claude/settings.json").read_text() == "{}"


async def test_links_that_lead_in_a_circle_keep_no_command_from_running(cell: Cell) -> None:
    (cell.root / "circle").symlink_to("circle")
    (cell.root / ".envrc").symlink_to(".envrc")
    cell.put(".claude/worktrees/one/.git", f"gitdir: {cell.root}/circle\n")
    cell.put("sub/.git", "gitdir: ../circle\n")
    cell.put("bare/HEAD", "ref: refs/heads/main\n")
    cell.put("bare/commondir", "../circle\n")
    cell.use(Workspace(cell.root / "sub", (cell.root,)))
    assert await cell.run("echo x") == "x\n[exit code 0]"


async def test_a_folder_above_a_protected_place_stays_where_it_is(cell: Cell) -> None:
    cell.put("a/b/.vscode/tasks.json", "{}")
    cell.use(Workspace(cell.root / "a/b", (cell.root,)))
    for command in ("mv ../../a ../../old", "mv ../b ../old", "rm -rf .vscode", "echo x > .vscode/tasks.json"):
        assert "[exit code 0]" not in await cell.run(command)
    assert (cell.root / "a/b/.vscode/tasks.json").read_text() == "{}"


async def test_plan_mode_writes_nothing_but_its_own_temporary_files(cell: Cell) -> None:
    before = cell.files()
    cell.mode = "plan"
    said = await cell.run(
        f"echo x > /tmp/x && cat /tmp/x; touch a; rm -rf etc .git; echo x > {cell.extra}/x; echo x > .envrc"
    )
    assert said.startswith("x\n")
    assert said.endswith("where nothing can be written but /tmp, and protected places cannot.]"), (
        "no way out is offered"
    )
    assert cell.files() == before
    assert list(cell.extra.iterdir()) == []
    cell.mode = "default"
    assert await cell.run("touch a") == "(no output)\n[exit code 0]"


# --- the network and sockets ---


@pytest.fixture
async def listener() -> AsyncIterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_no_network_is_reached(cell: Cell, listener: int) -> None:
    connect = "import socket\nsocket.create_connection(({!r}, {}), 2)\nprint('ESCAPED')"
    assert await cell.python(connect.format("127.0.0.1", listener)) == "ECONNREFUSED"
    assert await cell.python(connect.format("192.0.2.1", 80)) == "ENETUNREACH"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        port = receiver.getsockname()[1]
        await cell.python(f"import socket\nsocket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))")
        with pytest.raises(BlockingIOError):
            receiver.recv(1)


async def test_sockets_of_the_machine_are_not_reached(cell: Cell) -> None:
    """Our own, an agent's, an engine's: wherever they lie, and the abstract ones."""
    places = [cell.root / "s", cell.outside / "s", "\0agentcore-test-" + str(os.getpid())]
    connect = "import socket\nsocket.socket(socket.AF_UNIX).connect({!r})\nprint('ESCAPED')"
    for place in map(str, places):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(place)
            server.listen()
            assert await cell.python(connect.format(place)) in ("ECONNREFUSED", "ENOENT")
    assert await cell.run("ls -A /run /var/tmp") == "/run:\n\n/var/tmp:\n[exit code 0]"


async def test_with_the_network_only_the_rest_is_confined(cell: Cell, listener: int) -> None:
    boxing = Boxing(cell.sandbox, lambda: "default", has_network=True)
    made = builtin_tools(cell.workspace, cell.environ, cell.blobs, boxing=boxing)
    cell.tools = {tool.spec.name: tool for tool in made}
    connect = f"import socket\nsocket.create_connection(('127.0.0.1', {listener}), 2)\nprint('connected')"
    assert await cell.python(connect) == "connected"
    assert "Read-only file system" in await cell.run(f"touch {cell.outside}/x")


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nfine"
ASK = "curl -sS -m 5 {}"


@pytest.fixture
async def origin() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server of the web on the loopback: its port, and the heads of what it was asked."""
    asked: list[bytes] = []

    async def answer(client: SocketStream) -> None:
        async with client:
            asked.append(await client.receive())
            await client.send(ANSWER)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, answer)
        yield listener.extra(SocketAttribute.local_port), asked
        group.cancel_scope.cancel()


def with_domains(cell: Cell, *domains: str) -> None:
    boxing = Boxing(cell.sandbox, lambda: "default", domains=domains)
    made = builtin_tools(cell.workspace, cell.environ, cell.blobs, boxing=boxing)
    cell.tools = {tool.spec.name: tool for tool in made}


async def test_an_allowed_host_is_reached_and_no_other(
    cell: Cell, origin: tuple[int, list[bytes]], listener: int
) -> None:
    port, asked = origin
    with_domains(cell, "127.0.0.1", "*.example.com")
    url = f"http://127.0.0.1:{port}/a?b=c"
    assert await cell.run(f"{ASK.format(url)} --noproxy x") == "fine\n[exit code 0]"
    assert asked[0].startswith(b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:")
    tunnel = await cell.run(f"{ASK.format(url)} --noproxy x -p")
    assert tunnel == "fine\n[exit code 0]"
    said = await cell.run(
        f"{ASK.format('http://example.org/')}; {ASK.format('http://localhost:' + str(port))} --noproxy x"
    )
    assert said.count("is not among the domains that commands may reach (sandbox.allowed_domains)") == 2
    assert said.split("\n")[-1] == (
        "[The sandbox let it reach *.example.com, 127.0.0.1 alone, and refused example.org, localhost.]"
    )
    assert len(asked) == 2


async def test_beside_the_proxy_there_is_no_network(cell: Cell, origin: tuple[int, list[bytes]]) -> None:
    with_domains(cell, "127.0.0.1")
    said = await cell.run(f"curl -sS -m 5 --noproxy '*' http://127.0.0.1:{origin[0]}/")
    assert ("[exit code 7]" in said, origin[1]) == (True, [])


async def test_a_command_behind_the_forwarder_ends_as_ever(cell: Cell, monkeypatch: Any) -> None:
    monkeypatch.setattr(processes, "TERM_GRACE_S", 10)
    with_domains(cell, "example.com")
    assert (await cell.run("exit 3")).endswith("[exit code 3]")
    assert (await cell.run("kill -9 $$")).endswith("[exit code 137]")
    assert await cell.run("yes | head -1") == "y\n[exit code 0]"
    said = await cell.run("trap 'sleep 0.1; echo bye > bye; exit' TERM; while :; do sleep 0.01; done", timeout=900)
    assert ("timed out" in said, (cell.root / "bye").read_text()) == (True, "bye\n")


async def test_the_environment_leads_to_no_agent(tmp_path: Path, cell: Cell) -> None:
    cell.environ = {
        "PATH": os.environ["PATH"],
        "SSH_AUTH_SOCK": "/run/agent",
        "XDG_RUNTIME_DIR": "/run/x",
        "TMPDIR": "/x",
    }
    cell.use(cell.workspace)
    names = {line for line in (await cell.run("env")).split("\n") if "=" in line}
    assert {"TMPDIR=/tmp", f"PATH={os.environ['PATH']}"} <= names
    told = {line.partition("=")[0] for line in names if not line.startswith("GIT_CONFIG_")}
    assert told == {"PATH", "TMPDIR", "AGENTCORE_CALL", "PWD", "SHLVL", "_"}


# --- processes ---


async def test_no_other_process_is_seen_or_hit(cell: Cell, victim: int) -> None:
    said = await cell.run(f"kill -9 {victim}; kill -0 {os.getpid()}; ls -d /proc/[0-9]* | wc -l")
    assert int(said.split("\n")[-2]) < 10
    assert await cell.run("cat /proc/*/cmdline | tr '\\0' ' ' | grep 'sleep 300' | grep -v grep | grep -v cat") == (
        "(no output)\n[exit code 1]"
    )


async def test_no_other_process_is_traced_or_read(cell: Cell, victim: int) -> None:
    libc = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    trace = f"r = libc.ptrace(16, {victim}, 0, 0)\nif r: raise OSError(ctypes.get_errno(), '')\nprint('ESCAPED')"
    assert await cell.python(libc + trace) == "ESRCH"
    for what in ("root/etc/passwd", "environ", "mem", "fd/0", "cwd"):
        assert await cell.python(f"os.stat('/proc/{victim}/{what}')\nprint('ESCAPED')") == "ENOENT"
    attach = f"fd = os.pidfd_open({victim})\nprint('ESCAPED')"
    assert await cell.python(attach) in ("ESRCH", "EINVAL")


async def test_what_hides_from_its_group_and_its_mark_ends_with_the_call(cell: Cell) -> None:
    """Ten at a time, each of another session and without an environment, which make new ones for ever."""
    name = f"31{os.getpid()}.25"
    swarm = f"for i in 1 2 3 4 5 6 7 8 9 10; do env -i setsid /bin/sh -c 'while :; do sleep {name}; done' & done; "
    assert await cell.run(f"{swarm} sleep 0.3; echo done") == "done\n[exit code 0]"
    assert not running_with(name)
    assert "timed out" in await cell.run(f"{swarm} wait", timeout=500)
    assert not running_with(name)


def running_with(words: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if words.encode() in line:
            found.append(line.decode())
    return found


async def test_a_command_lives_on_when_the_thread_that_asked_for_it_leaves(cell: Cell, monkeypatch: Any) -> None:
    from anyio._backends._asyncio import WorkerThread

    monkeypatch.setattr(WorkerThread, "MAX_IDLE_TIME", 0)
    said: list[str] = []

    async def run() -> None:
        said.append(await cell.run("touch here; until [ -e go ]; do sleep 0.01; done; echo survived"))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        with anyio.fail_after(10):
            while not (cell.root / "here").exists():  # noqa: ASYNC110 - other processes raise no events
                await anyio.sleep(0.01)
        for _ in range(8):  # several become idle, and the next look for one sends all the others away
            together = Barrier(3)
            async with anyio.create_task_group() as workers:
                for _ in range(3):
                    workers.start_soon(to_thread.run_sync, together.wait)
            await to_thread.run_sync(os.getpid)
        cell.put("go")
    assert said == ["survived\n[exit code 0]"]


SERVER = """
import os, anyio
from pathlib import Path
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import ToolRoom
from agentcore.sandbox.choosing import for_this_system
from agentcore.tools.bash import BashInput, BashTool
from agentcore.tools.boxed import Boxing
root = Path.cwd()
tool = BashTool(Workspace(root, (root,)), os.environ, boxing=Boxing(for_this_system(), lambda: "default"))
anyio.run(tool.run, BashInput(command={command!r}), ToolRoom("c", print))
"""


async def test_a_server_that_is_killed_takes_its_commands_along(cell: Cell) -> None:
    name = f"32{os.getpid()}.5"
    code = SERVER.format(command=f"env -i setsid sleep {name} & touch up; wait")
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], cwd=cell.root, env=os.environ | paths) as server:
        with anyio.fail_after(20):
            while not (cell.root / "up").exists():  # noqa: ASYNC110 - other processes raise no events
                await anyio.sleep(0.01)
        server.kill()
    with anyio.fail_after(2):  # soon: in the end the sweep of any other server's start would do it
        while running_with(name):  # noqa: ASYNC110 - other processes raise no events
            await anyio.sleep(0.01)


async def test_a_command_may_clean_up_when_its_time_is_over(cell: Cell, monkeypatch: Any) -> None:
    monkeypatch.setattr(processes, "TERM_GRACE_S", 10)
    said = await cell.run(
        "trap 'sleep 0.1; echo bye > bye; exit' TERM; touch up; while :; do sleep 0.01; done", timeout=700
    )
    assert "timed out" in said
    assert (cell.root / "bye").read_text() == "bye\n"


# --- the kernel ---


async def test_no_setting_of_the_kernel_can_be_written(cell: Cell) -> None:
    """Asked, not tried. What belongs to a process of the sandbox is its own."""
    code = """
for top in ("/proc", "/sys"):
    for folder, below, names in os.walk(top):
        own = [one for one in below if folder == "/proc" and (one.isdigit() or one in ("self", "thread-self"))]
        below[:] = [one for one in below if one not in own]
        for name in names:
            path = os.path.join(folder, name)
            if not os.path.islink(path) and os.access(path, os.W_OK):
                print(path)
print(len(os.listdir("/proc/sys")) > 3)
"""
    assert await cell.python(code) == "True"


async def test_system_files_cannot_be_opened_for_writing(cell: Cell) -> None:
    for path in ("/etc/passwd", "/proc/sys/kernel/core_pattern"):
        assert await cell.python(f"os.close(os.open({path!r}, os.O_WRONLY))\nprint('ESCAPED')") in ("EROFS", "EACCES")


LIBC = "import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\n"
CALLS = {
    "a mount": ("mount(b'none', b'etc', b'tmpfs', 0, None)", "EPERM"),
    "a bind": ("mount(b'etc', b'etc', None, 4096, None)", "EPERM"),
    "made writable": ("mount(None, b'keys', None, 32 | 4096, None)", "EPERM"),
    "taken off": ("umount2(b'keys', 2)", "EPERM"),
    "a user namespace": ("unshare(0x10000000)", "EPERM"),
    "a mount namespace": ("unshare(0x20000)", "EPERM"),
    "another's namespace": ("setns(0, 0)", "EPERM"),
    "another root": ("chroot(b'etc')", "EPERM"),
    "a device": ("mknod(b'device', 0o60600, 0xfe00)", "EPERM"),
    "another user": ("setuid(1234)", "EINVAL EPERM"),
    "a keyring": ("syscall(250, 0, -4, 0)", "EPERM ENOSYS"),
    "a clone with a user namespace": ("syscall(56, 0x10000011, 0, 0, 0, 0)", "EPERM"),
    "a clone of the new kind": ("syscall(435, 0, 0)", "ENOSYS"),
    "a ring": ("syscall(425, 1, 0)", "EPERM"),
    "a program in the kernel": ("syscall(321, 0, 0, 0)", "EPERM"),
    "a handle of a file": ("open_by_handle_at(-100, None, 0)", "EPERM"),
}
X86_ONLY = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the calls are those of x86-64")


@X86_ONLY
@pytest.mark.parametrize(("call", "refusals"), CALLS.values(), ids=CALLS)
async def test_what_ways_out_begin_with_is_refused(cell: Cell, call: str, refusals: str) -> None:
    code = f"{LIBC}if libc.{call} >= 0:\n    print('ESCAPED')\nelse:\n    print(errno.errorcode[ctypes.get_errno()])"
    assert await cell.python(code) in refusals.split()


async def test_no_right_is_left_and_none_is_gained(cell: Cell) -> None:
    said = await cell.run("grep -E '^(Cap|NoNew|Seccomp:)' /proc/self/status")
    assert said.split() == [
        *(word for name in ("Inh", "Prm", "Eff", "Bnd", "Amb") for word in (f"Cap{name}:", "0" * 16)),
        *("NoNewPrivs:", "1", "Seccomp:", "2", "[exit", "code", "0]"),
    ]
    assert "nosuid" in await cell.run(f"grep ' {cell.root} ' /proc/self/mounts")


async def test_no_descriptor_comes_along(cell: Cell) -> None:
    code = "for number in range(3, 64):\n    try: os.fstat(number)\n    except OSError: continue\n    print(number)"
    assert await cell.python(code) == "(no output)"


async def test_devices_are_those_of_every_program(cell: Cell) -> None:
    said = await cell.run("ls /dev")
    assert set(said.split("\n")[:-1]) == {
        *(
            "core",
            "fd",
            "full",
            "null",
            "ptmx",
            "pts",
            "random",
            "shm",
            "stderr",
            "stdin",
            "stdout",
            "tty",
            "urandom",
            "zero",
        )
    }
    assert await cell.run("echo x > /dev/null; head -c 1 /dev/zero | wc -c") == "1\n[exit code 0]"


async def test_nothing_is_typed_into_a_terminal(cell: Cell) -> None:
    code = "import fcntl, pty\n_, terminal = pty.openpty()\nfcntl.ioctl(terminal, 0x5412, b'x')\nprint('ESCAPED')"
    assert await cell.python(code) == "EPERM"
    assert await cell.python("os.close(os.open('/dev/tty', os.O_RDWR))\nprint('ESCAPED')") == "ENXIO"


# --- what is said ---


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("touch {outside}/x", "only the project and /tmp can be written"),
        ("echo 'curl: (6) Could not resolve host: example.com' >&2; exit 6", "which has no network"),
        ("echo 'Permission denied'; exit 1", "that may be the reason"),
    ],
)
async def test_a_failure_that_looks_like_a_denial_says_so(cell: Cell, command: str, words: str) -> None:
    said = await cell.run(command.format(outside=cell.outside))
    assert words in said.split("\n")[-1]
    assert "sandbox: false" in said


@pytest.mark.parametrize("command", ["echo 'Permission denied'", "echo 'test failed'; exit 1", "false"])
async def test_other_endings_say_nothing_of_it(cell: Cell, command: str) -> None:
    assert "sandbox" not in await cell.run(command)


async def test_a_call_may_leave_it(cell: Cell) -> None:
    assert await cell.run(f"echo new > {cell.outside}/file", sandbox=False) == "(no output)\n[exit code 0]"
    assert (cell.outside / "file").read_text() == "new\n"


async def test_a_missing_working_folder_is_told(cell: Cell) -> None:
    cell.use(Workspace(cell.root / "gone", (cell.root,)))
    outcome: Outcome = await cell.call("bash", command="true")
    assert (outcome.is_error, "working directory" in outcome.output) == (True, True)
