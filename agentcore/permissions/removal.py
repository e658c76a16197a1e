"""Removals that are never approved by a rule or a hook: the root, a top-level folder, home, the project, what is above
it, and what stands behind a variable that may be empty."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from agentcore.permissions.inner import inner_commands, may_be
from agentcore.permissions.shell import Script
from agentcore.permissions.words import HOLE, HOME, Word
from agentcore.permissions.workspace import Workspace

_REMOVERS = frozenset({"rm", "rmdir"})
_RECURSIVE = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--r.*")
_BEHIND_VARIABLE = re.compile(rf"{HOLE}+(?:/+{HOLE}*)?\.?")
"""`$X`, `$X/`, `$X/*`: everything, where the variable holds a folder or nothing."""
_GLOB_BEHIND_VARIABLE = re.compile(rf"{HOLE}+/*{HOLE}|{HOLE}+/+")


def critical_removal(script: Script, bases: tuple[Path | None, ...], workspace: Workspace) -> str | None:
    """What a line would remove that only a person may say yes to; None for nothing of the kind.

    `bases`: where its relative paths may be meant from; None for a folder that is not known.
    """
    for words in inner_commands(script):
        for target in _targets(words):
            if _is_critical(target, _is_recursive(words), bases, workspace):
                return f"{words[0].raw} of {target.raw.replace(HOLE, '…')[:200]}"
    return None


def _targets(words: tuple[Word, ...]) -> Iterator[Word]:
    if not words or not may_be(words[0], _REMOVERS):
        return
    if words[0].loose.rpartition("/")[2] == HOLE and not _is_recursive(words):
        return  # any program at all, with an argument
    is_option = True
    for word in words[1:]:
        if is_option and word.loose == "--":
            is_option = False
        elif not is_option or not word.loose.startswith("-"):
            yield word


def _is_recursive(words: tuple[Word, ...]) -> bool:
    return any(_RECURSIVE.fullmatch(word.loose) for word in words[1:])


def _is_critical(word: Word, is_recursive: bool, bases: tuple[Path | None, ...], workspace: Workspace) -> bool:
    text = word.loose.replace(HOME, str(workspace.home))
    if text == "~" or text.startswith("~/"):
        text = str(workspace.home) + text[1:]
    elif text.startswith("~"):
        return True
    if text.startswith(HOLE) and "/" not in text.strip(HOLE + "/") and not _is_glob_alone(word):
        return bool(_GLOB_BEHIND_VARIABLE.fullmatch(text)) or (is_recursive and bool(_BEHIND_VARIABLE.fullmatch(text)))
    return any(_leads_to_critical(base, text, workspace) for base in bases)


def _is_glob_alone(word: Word) -> bool:
    """`*` and its like: everything in the folder, not a variable."""
    return re.match(r"['\"]?[$`{]", word.raw) is None and word.raw[:1] != HOLE


def _leads_to_critical(base: Path | None, text: str, workspace: Workspace) -> bool:
    parts = text.split("/")
    at = next((index for index, part in enumerate(parts) if HOLE in part), None)
    known = "/".join(parts if at is None else parts[:at]) or ("/" if text.startswith("/") else ".")
    if base is None and not known.startswith("/"):
        return at is not None or known.strip("./") == ""
    folder = Path(os.path.normpath(known if base is None else base / known))
    if at is not None and parts[at].strip(HOLE + ".") != "":
        return folder == Path("/")  # some of what lies in a folder
    return any(_is_precious(path, workspace) for path in {folder, _real(folder)})


def _is_precious(path: Path, workspace: Workspace) -> bool:
    if path.parent in (path, Path("/")):
        return True
    return any(kept.is_relative_to(path) for kept in (workspace.home, workspace.cwd, *workspace.roots))


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
