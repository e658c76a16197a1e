"""What a look at a repository may run, read off its files; and git's own commands without a question."""

import os
import subprocess
from pathlib import Path

import pytest

from agentcore.messages import ToolCall
from agentcore.origin import Origin
from agentcore.permissions.decision import Outlook, Stance, judge_call
from agentcore.permissions.disk import forbidden_in_index
from agentcore.permissions.facts import facts_about
from agentcore.permissions.paths import Anchors
from agentcore.permissions.repositories import Repository, is_plain, repository_at
from agentcore.permissions.rulebook import read_rules
from agentcore.permissions.rules import parse_rule
from agentcore.permissions.workspace import Workspace
from agentcore.tools.bash import BashTool


def git(folder: Path, *arguments: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *names, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    for name in (".env", "src/a.py"):
        (folder / name).write_text("x\n")
    git(folder, "init", "-q", ".")
    git(folder, "add", "--all")
    git(folder, "commit", "-qm", "x")
    return folder


def outlook(work: Path, command: str, mode: str = "default", **rules: list[str]) -> Outlook:
    book, _ = read_rules(rules, Origin("settings.toml"))
    workspace = Workspace(work, (work,), home=work.parent, deny=book.deny)
    call = ToolCall(id="c", name="bash", input={"command": command})
    return judge_call(call, BashTool.spec, facts_about(call, BashTool.spec, workspace), Stance(mode, book)).outlook


def test_what_git_writes_itself_is_plain(work: Path) -> None:
    git(work, "remote", "add", "origin", "https://example.com/x.git")
    git(work, "config", "branch.main.remote", "origin")
    git(work, "config", "user.name", "me")
    git(work, "config", "pull.rebase", "true")
    (work / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    git(work, "config", "core.hooksPath", ".husky")
    assert [outlook(work, line) for line in ("git status", "git diff", "git log", "cd src && git status")] == [
        *[Outlook.ALLOW] * 3,
        Outlook.ASK,  # two commands are no command without operators
    ]


NOT_PLAIN = {
    "core.fsmonitor": "touch x",
    "diff.external": "touch x",
    "diff.x.command": "touch x",
    "diff.x.textconv": "touch x",
    "filter.x.clean": "touch x",
    "filter.x.process": "touch x",
    "include.path": "../x",
    "includeIf.gitdir:/.path": "../x",
    "core.pager": "touch x",
    "core.sshCommand": "touch x",
    "core.worktree": "..",
    "core.attributesFile": "x",
    "gpg.program": "touch x",
    "log.showSignature": "true",
    "remote.origin.promisor": "true",
    "alias.status": "!touch x",
    "unheard.of": "x",
    "http.x.helper": "x",
}


@pytest.mark.parametrize(("key", "value"), NOT_PLAIN.items())
def test_a_configuration_that_may_name_a_program_asks(work: Path, key: str, value: str) -> None:
    git(work, "config", key, value)
    assert outlook(work, "git status") is Outlook.ASK
    assert outlook(work, "git status", allow=["Bash(git status:*)"]) is Outlook.ALLOW


ODD = [
    "[core] fsmonitor = touch x\n",
    "[diff]\n\trenames = x \\\n[pull]\n\texternal = touch x\n",
    "[core] [diff] external = touch x\n",
    "fsmonitor = touch x\n",
    "[core\n",
    "[core]\n\tbare = false\n" + "# more than is read\n" * 10_000,
]


@pytest.mark.parametrize("text", ODD)
def test_a_configuration_that_is_not_read_simply_asks(work: Path, text: str) -> None:
    (work / ".git" / "config").write_text(text)
    assert outlook(work, "git status") is Outlook.ASK


def test_a_hook_that_a_look_calls_asks_wherever_hooks_are(work: Path) -> None:
    (work / ".git" / "hooks" / "post-index-change").write_text("#!/bin/sh\n")
    assert outlook(work, "git status") is Outlook.ASK
    (work / ".git" / "hooks" / "post-index-change").unlink()
    assert outlook(work, "git status") is Outlook.ALLOW
    git(work, "config", "core.hooksPath", ".husky")
    (work / ".husky").mkdir()
    (work / ".husky" / "post-index-change").write_text("#!/bin/sh\n")
    assert outlook(work, "git status") is Outlook.ASK


def test_a_repository_inside_asks_since_git_looks_into_it(work: Path) -> None:
    git(work, "init", "-q", "sub")
    git(work / "sub", "commit", "-qm", "x", "--allow-empty")
    assert outlook(work, "git status") is Outlook.ALLOW
    git(work, "add", "sub")
    assert outlook(work, "git status") is Outlook.ASK


def test_a_folder_where_git_finds_another_repository_is_none_to_go_to_beside_git(work: Path) -> None:
    (work / "api").mkdir()
    git(work / "api", "init", "-q", "--bare", ".")
    (work / "api" / "sub").mkdir()
    git(work, "init", "-q", "other")
    rules = {"allow": ["Bash(git status:*)", "Bash(make:*)"]}
    went = {
        folder: outlook(work, f"cd {folder} && git status", **rules) for folder in ("src", "api", "api/sub", "other")
    }
    assert went == {"src": Outlook.ALLOW, **dict.fromkeys(("api", "api/sub", "other"), Outlook.ASK)}
    assert outlook(work, "cd api && make", **rules) is Outlook.ALLOW


def test_a_linked_work_tree_has_the_configuration_of_its_repository(work: Path) -> None:
    git(work, "worktree", "add", "-q", "../linked")
    linked = work.parent / "linked"
    assert repository_at(linked / "src") == Repository(linked, work / ".git/worktrees/linked", work / ".git")
    assert outlook(linked, "git status") is Outlook.ALLOW
    git(work, "config", "extensions.worktreeConfig", "true")
    (work / ".git/worktrees/linked/config.worktree").write_text("[core]\n\tfsmonitor = touch x\n")
    assert outlook(linked, "git status") is Outlook.ASK
    assert outlook(work, "git status") is Outlook.ALLOW


def test_what_is_tracked_is_read_off_the_index(work: Path) -> None:
    anchors = Anchors(work, work.parent)
    repository = repository_at(work)
    assert repository is not None
    assert is_plain(repository)
    rules = (parse_rule("Read(.env)"), parse_rule("Read(src/[ab].py)"))
    found = forbidden_in_index(repository, rules, anchors)
    assert found is not None
    assert [place.given for place in found] == [".env", "src/a.py"]
    git(work, "update-index", "--index-version", "4")
    assert forbidden_in_index(repository, rules, anchors) is None


def test_what_git_shows_is_asked_about_only_where_it_may_show_what_is_forbidden(work: Path) -> None:
    deny = ["Read(.env)"]
    shown = {
        line: outlook(work, line, deny=deny)
        for line in ("git diff", "git show", "git diff src", "git log", "git diff --stat")
    }
    assert shown == {
        "git diff": Outlook.ASK,
        "git show": Outlook.ASK,
        "git diff src": Outlook.ALLOW,
        "git log": Outlook.ALLOW,
        "git diff --stat": Outlook.ALLOW,
    }
    git(work, "rm", "-q", "--cached", ".env")
    assert outlook(work, "git diff", deny=deny) is Outlook.ALLOW
    assert outlook(work, "git diff .env", deny=deny) is Outlook.DENY


EVIL = "[core]\n\tfsmonitor = touch x\n"


@pytest.mark.parametrize("path", [b"../\xff", b"../evil ", b"../evil\r\n\n", b"../evil" + b"\n" * 9000])
def test_a_repository_that_a_file_leads_to_is_found_as_git_finds_it(work: Path, path: bytes) -> None:
    (work / "sub").mkdir()
    (work / "sub/.git").write_bytes(b"gitdir: " + path)
    evil = work / "sub" / os.fsdecode(path.rstrip(b"\r\n"))
    git(work, "init", "-q", "--bare", str(evil))
    (evil / "config").write_text(EVIL)
    repository = repository_at(work / "sub")
    assert repository is not None
    assert (repository.top, is_plain(repository)) == (work / "sub", False)


@pytest.mark.parametrize("path", [b"../\xff", b"../evil ", b"../evil" + b"\n" * 2_000_000])
def test_settings_that_are_shared_are_found_as_git_finds_them(work: Path, path: bytes) -> None:
    (work / ".git/commondir").write_bytes(path)
    evil = work / ".git" / os.fsdecode(path.rstrip(b"\r\n"))
    git(work, "init", "-q", "--bare", str(evil))
    (evil / "config").write_text(EVIL)
    repository = repository_at(work)
    assert repository is not None
    assert not is_plain(repository)


@pytest.mark.parametrize("name", ["config", "commondir", "index"])
def test_a_pipe_in_a_repository_is_not_waited_for(work: Path, name: str) -> None:
    (work / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(work / ".git" / name)
    repository = repository_at(work)
    assert repository is not None
    assert not is_plain(repository)
