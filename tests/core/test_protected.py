"""Places whose change reaches beyond the project: writing there asks in mode yolo too, by tool and by shell line."""

import shlex

import pytest

from agentcore.messages import ToolCall
from agentcore.permissions.decision import Outlook, Stance, judge_call
from agentcore.permissions.facts import facts_about
from agentcore.permissions.protected import FILES, FOLDERS
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import ToolSpec
from agentcore.tools.bash import BashTool
from agentcore.values import Value

WRITE = ToolSpec("write", "", Value, edits=True, paths=("file_path",))

ASKED = [
    *sorted(FILES),
    *(f"{folder}/x" for folder in sorted(FOLDERS)),
    "sub/.bash_aliases",
    ".BASHRC",
    ".config/git/config",
    ".config/fish/config.fish",
    "sub/.config/fish/conf.d/a.fish",
    ".yarnrc.local.yml",
    ".huskyrc.cjs",
    ".lintstagedrc.mjs",
    "lint-staged.config.js",
    "simple-git-hooks.cjs",
    "lefthook.json",
    "lefthook-local.toml",
    ".lefthook-local.yaml",
    ".overcommit.yaml",
    ".claude/settings.json",
    ".claude/worktrees",
    ".claude/worktrees.json",
    ".claude/agents/worktrees/x.md",
    ".claude/worktrees/x/.git",
    ".claude/worktrees/x/.claude/settings.json",
    ".claude/worktrees/x/.envrc",
    ".claude/worktrees/../settings.json",
    ".vscode/worktrees/x",
]
FREE = [
    "a.py",
    ".claude/worktrees/x/a.py",
    ".claude/worktrees/x/src/deep/a.py",
    "worktrees/x",
    "lefthook.md/x",
    "mylefthook.yml",
    "yarnrc.yml",
    ".yarnx/x",
    ".config/nvim/init.lua",
    "config/git/x",
    "git/config",
    ".gitignore",
    ".bashrc.d/x",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    home = tmp_path_factory.mktemp("home")
    (home / "work").mkdir()
    return Workspace(cwd=home / "work", roots=(home / "work",), home=home)


@pytest.mark.parametrize(
    ("path", "expected"), [*((path, Outlook.ASK) for path in ASKED), *((path, Outlook.ALLOW) for path in FREE)]
)
def test_a_change_of_a_protected_place_asks_in_mode_yolo_too(project: Workspace, path: str, expected: Outlook) -> None:
    calls = [
        (ToolCall(id="c", name="write", input={"file_path": path}), WRITE),
        (ToolCall(id="c", name="write", input={"file_path": str(project.cwd / path)}), WRITE),
        (ToolCall(id="c", name="bash", input={"command": f"make > {shlex.quote(path)}"}), BashTool.spec),
        (ToolCall(id="c", name="bash", input={"command": f"cp a.py {shlex.quote(path)}"}), BashTool.spec),
    ]
    found = [judge_call(call, spec, facts_about(call, spec, project), Stance("yolo")).outlook for call, spec in calls]
    assert found == [expected] * len(calls)


def test_a_working_copy_is_no_way_around_by_a_link(project: Workspace) -> None:
    folder = project.cwd / ".claude" / "worktrees"
    folder.mkdir(parents=True)
    (folder / "x").symlink_to("..")
    call = ToolCall(id="c", name="write", input={"file_path": ".claude/worktrees/x/settings.json"})
    assert judge_call(call, WRITE, facts_about(call, WRITE, project), Stance("yolo")).outlook is Outlook.ASK
