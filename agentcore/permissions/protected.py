"""Places inside a project whose change reaches beyond it: hooks, shell start-up files, editor and agent settings.

Changing them asks in every mode, yolo included. The list follows the public conventions of coding agents.
"""

import os.path
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
        ".mvn",
        ".vscode",
        ".yarn",
    }
)
FILES = frozenset(
    {
        ".bash_login",
        ".bash_profile",
        ".bashrc",
        ".envrc",
        ".gitconfig",
        ".gitmodules",
        ".mcp.json",
        ".npmrc",
        ".pre-commit-config.yaml",
        ".profile",
        ".ripgreprc",
        ".yarnrc",
        ".yarnrc.yml",
        ".zprofile",
        ".zshenv",
        ".zshrc",
        "gradle-wrapper.properties",
        "lefthook.yml",
        "maven-wrapper.properties",
        "pyrightconfig.json",
    }
)


def is_protected(path: PurePath) -> bool:
    """Whether changing `path` (resolved) always needs a person. Upper and lower case are the same here."""
    parts = [part.lower() for part in path.parts]
    if parts and parts[-1] in FILES:
        return True
    if ".config" in parts[:-1] and "git" in parts[parts.index(".config") :]:
        return True
    return any(part in FOLDERS for part in parts)


def is_protected_place(real: PurePath, workspace: Workspace) -> bool:
    """As `is_protected`, for an absolute path, seen from the root it lies in."""
    root = next((root for root in workspace.roots if real.is_relative_to(root)), None)
    return is_protected(real if root is None else real.relative_to(root))


def is_protected_as_given(path: str, workspace: Workspace) -> bool:
    """Whether `path` names a protected place in a root by its words alone, wherever its links lead at the moment."""
    named = PurePath(os.path.normpath(workspace.cwd / path))
    return any(named.is_relative_to(root) for root in workspace.roots) and is_protected_place(named, workspace)
