"""Places inside a project whose change reaches beyond it: hooks, shell start-up files, editor and agent settings.

Changing them asks in every mode, yolo included. The list follows the public conventions of coding agents.
"""

import os.path
import re
from itertools import pairwise
from pathlib import PurePath

from agentcore.permissions.workspace import Workspace

FOLDERS = frozenset(
    {
        ".agentcore",
        ".agents",
        ".cargo",
        ".claude",
        ".devcontainer",
        ".git",
        ".husky",
        ".idea",
        ".lefthook",
        ".lefthook-local",
        ".mvn",
        ".vscode",
        ".yarn",
    }
)
CONFIGURED = frozenset({"fish", "git"})
"""As `FOLDERS`, below a `.config`."""
_SHELL = """.bash_aliases .bash_login .bash_logout .bash_profile .bashrc .cshrc .kshrc .login .logout .mkshrc .profile
    .tcshrc .zlogin .zlogout .zprofile .zshenv .zshrc"""
_HOOKS = """.huskyrc .huskyrc.js .huskyrc.json .lintstagedrc .lintstagedrc.js .lintstagedrc.json .lintstagedrc.yaml
    .overcommit.yml .pre-commit-config.yaml .pre-commit-config.yml .simple-git-hooks.json lefthook.toml lefthook.yaml
    lefthook.yml lefthook-local.yml .lefthook.toml .lefthook.yaml .lefthook.yml .lefthook-local.yml"""
_TOOLS = """.envrc .gitconfig .gitmodules .mcp.json .npmrc .ripgreprc .yarnrc .yarnrc.yml gradle-wrapper.properties
    maven-wrapper.properties pyrightconfig.json"""
FILES = frozenset(f"{_SHELL} {_HOOKS} {_TOOLS}".split())
"""By their usual names; `_KINDS` are all that go by such a name, whatever its ending."""
_KINDS = re.compile(
    r"\.yarnrc.*|\.huskyrc.*|\.lintstagedrc.*|lint-staged\.config\..+|\.?simple-git-hooks\..+|\.?lefthook(-local)?\..+"
    r"|\.overcommit\.ya?ml|\.pre-commit-config\.ya?ml"
)


def is_protected(path: PurePath) -> bool:
    """Whether changing `path` (resolved) always needs a person. Upper and lower case are the same here."""
    parts = [part.lower() for part in path.parts]
    if parts and (parts[-1] in FILES or _KINDS.fullmatch(parts[-1])):
        return True
    if any(above == ".config" and part in CONFIGURED for above, part in pairwise(parts)):
        return True
    return any(part in FOLDERS and not (at == 0 and _is_elsewhere(parts)) for at, part in enumerate(parts))


def _is_elsewhere(parts: list[str]) -> bool:
    """Whether it is another working copy: what is protected there is said by the rest of the path."""
    return parts[:2] == [".claude", "worktrees"] and len(parts) > 3


def is_protected_place(real: PurePath, workspace: Workspace) -> bool:
    """As `is_protected`, for an absolute path, seen from the root it lies in; so are the session's scripts."""
    if real in workspace.scripts:
        return True
    root = next((root for root in workspace.roots if real.is_relative_to(root)), None)
    return is_protected(real if root is None else real.relative_to(root))


def is_protected_as_given(path: str, workspace: Workspace) -> bool:
    """Whether `path` names a protected place in a root by its words alone, wherever its links lead at the moment."""
    named = PurePath(os.path.normpath(workspace.cwd / path))
    return any(named.is_relative_to(root) for root in workspace.roots) and is_protected_place(named, workspace)
