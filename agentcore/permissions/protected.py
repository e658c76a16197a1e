"""Places inside a project whose change reaches beyond it: hooks, shell start-up files, editor and agent settings.

Changing them asks in every mode, yolo included. The list follows the public conventions of coding agents.
"""

from pathlib import PurePath

_FOLDERS = frozenset(
    {
        ".agentcore",
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
_FILES = frozenset(
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
    if parts and parts[-1] in _FILES:
        return True
    if ".config" in parts[:-1] and "git" in parts[parts.index(".config") :]:
        return True
    return any(part in _FOLDERS for part in parts)
