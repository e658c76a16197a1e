"""Commands that only show something: what runs without a question, by itself or beside what a rule allows.

A short table, and narrow on purpose: plain words, options that are known, paths inside the project.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentcore.permissions.inner import inner_commands, may_be
from agentcore.permissions.repositories import is_plain, looks_bare, repository_at
from agentcore.permissions.shell import Script, Segment
from agentcore.permissions.words import Word
from agentcore.permissions.workspace import OutsideRoots, Workspace
from agentcore.permissions.wrappers import unwrapped

_FLAGS = r"-[A-Za-z0-9]+"
_NOTHING = r"(?!)"

# Program to its options; all other words are paths inside the project, or for `_WORDS_ARE_TEXT` anything.
_OPTIONS: Mapping[str, str] = {
    "pwd": r"-[LP]",
    "ls": rf"{_FLAGS}|--color(=\w+)?|--all|--almost-all|--human-readable|--recursive|--reverse|--sort=\w+",
    "cat": _FLAGS,
    "head": rf"{_FLAGS}|--(lines|bytes)=-?\w+|\d+",
    "tail": r"-[0-9cnqvz]+|-n|-c|--(lines|bytes)=[+-]?\w+|\+?\d+",
    "wc": _FLAGS,
    "nl": _FLAGS,
    "stat": _FLAGS,
    "file": r"-[bhikL]+",
    "du": r"-[abchkmsxS0-9]+|--max-depth=\d+|--summarize|--human-readable",
    "tree": r"-[adfhiLpst0-9]+|\d+",
    "basename": _NOTHING,
    "dirname": _NOTHING,
    "realpath": _NOTHING,
    "readlink": r"-[efm]",
    "cmp": r"-[bls]+",
    "diff": r"-[abBdEipqstuwyU0-9]+|--brief|--color(=\w+)?|--unified(=\d+)?",
    "md5sum": _NOTHING,
    "sha1sum": _NOTHING,
    "sha256sum": _NOTHING,
    "grep": r"-[EFGPHhcilLnoqsvwxyABC0-9]+|--color(=\w+)?|--(after-context|before-context|context)=\d+",
    "whoami": _NOTHING,
    "uname": r"-[amnprsv]+",
    "which": r"-a",
    "true": _NOTHING,
    "false": _NOTHING,
    ":": _NOTHING,
    "echo": r"-[neE]+",
    "cd": _NOTHING,
}
_WORDS_ARE_TEXT = frozenset({"echo", "which", "basename", "dirname", ":", "true", "false"})
_OF_NO_USE_ALONE = frozenset({"cd", "echo", ":", "true", "false"})
"""Show nothing by themselves; they stand beside others, and alone they are asked about like any command."""
_MOVE = frozenset({"cd", "pushd", "popd"})
_GIT_ALONE = frozenset({"git"})
_NO_WORDS = frozenset({"pwd", "whoami", "uname"})

_SHOWN = (
    r"--no-color|--color(=\w+)?|--stat|--numstat|--shortstat|--name-only|--name-status|--oneline|--graph|--decorate"
)
_DIFF = rf"{_SHOWN}|-[pwbMs]|-U\d+|--cached|--staged|--word-diff|--summary|--no-ext-diff|--"
_LOG = (
    rf"{_DIFF}|-n|-\d+|-n\d+|--all|--merges|--no-merges|--reverse|--follow|--max-count=\d+"
    r"|--(format|pretty|since|until|after|before|author|grep|date)=.*"
)
_GIT: Mapping[str, str] = {
    "status": r"-[sbuvz]+|-u(no|normal|all)|--short|--branch|--porcelain(=v?[12])?|--long|--show-stash",
    "log": _LOG,
    "show": _LOG,
    "diff": _DIFF,
    "blame": r"-[lwtse]+|-L|\d+,\d+|-L\d+,\d+",
    "branch": r"-[avr]+|-vv|--list|--show-current|--all|--remotes",
    "rev-parse": r"--abbrev-ref|--short|--show-toplevel|--verify|--is-inside-work-tree|--git-dir",
    "ls-files": r"-[cdmos]+|--others|--modified|--deleted|--exclude-standard|--stage",
    "describe": r"--tags|--always|--dirty|--long",
    "remote": r"-v|--verbose",
    "shortlog": r"-[sne]+",
}
_GIT_NO_WORDS = frozenset({"branch", "remote"})


def are_harmless(script: Script, workspace: Workspace, *, is_moved: bool) -> tuple[bool, ...]:
    """For each command of a line, whether it only shows what lies in the project. Touches the file system.

    `is_moved`: the line changes the folder. After that a relative path is not what it seems.
    """
    moves = sum(segment.name in _MOVE for segment in script.segments)
    # Once there is a folder that is not the first one, git may find another repository there.
    runs_git = any(words and may_be(words[0], _GIT_ALONE) for words in inner_commands(script))
    scene = _Scene(workspace, max(moves, int(is_moved)), runs_git)
    return tuple(_is_harmless(segment, scene) for segment in script.segments)


@dataclass(frozen=True, slots=True)
class _Scene:
    workspace: Workspace
    moves: int
    """How often the line changes the folder."""
    runs_git: bool


def _is_harmless(segment: Segment, scene: _Scene) -> bool:
    inner = unwrapped(segment)
    words = inner.words
    if segment.is_special or inner.assignments or not words:
        return False
    if any(word.value is None for word in words) or not words[0].is_plain:
        return False
    name, rest = words[0].raw, words[1:]
    if name == "git":
        return _is_harmless_git(rest, scene)
    if name not in _OPTIONS:
        return False
    others = [word for word in rest if not re.fullmatch(_OPTIONS[name], word.loose)]
    if name in _NO_WORDS:
        return not others
    if any(word.loose.startswith("-") and word.loose != "-" for word in others):
        return False
    if name in _WORDS_ARE_TEXT:
        return True
    if name == "cd":  # without a word it goes home, and `-` is wherever it was before
        is_inside = [word.loose for word in others] not in ([], ["-"]) and _are_inside(others, scene, scene.moves - 1)
        return is_inside and (not scene.runs_git or _is_same_repository(others[-1], scene.workspace))
    return _are_inside(others, scene, scene.moves)


def shows_something(segment: Segment) -> bool:
    """Whether a harmless command is worth running by itself."""
    return segment.name not in _OF_NO_USE_ALONE


def _is_harmless_git(words: tuple[Word, ...], scene: _Scene) -> bool:
    if not words or not words[0].is_plain or words[0].raw not in _GIT:
        return False
    command = words[0].raw
    others = [word for word in words[1:] if not re.fullmatch(_GIT[command], word.loose)]
    if others and command in _GIT_NO_WORDS:
        return False
    is_known = not any(word.loose.startswith("-") for word in others) and _are_inside(others, scene, scene.moves)
    return is_known and _runs_nothing_else(scene.workspace)


def _runs_nothing_else(workspace: Workspace) -> bool:
    """Whether git would run nothing that the repository of the folder brings."""
    repository = repository_at(workspace.cwd)
    return not looks_bare(workspace.cwd) and (repository is None or is_plain(repository))


def _is_same_repository(word: Word, workspace: Workspace) -> bool:
    """Whether git finds the same repository in a folder as in the working folder."""
    folder = (workspace.cwd / word.loose).resolve()
    between = [folder, *folder.parents]
    is_bare = any(looks_bare(one) for one in between if one.is_relative_to(workspace.cwd) and one != workspace.cwd)
    return not is_bare and repository_at(folder) == repository_at(workspace.cwd)


def _are_inside(words: Sequence[Word], scene: _Scene, moves: int) -> bool:
    return not words or (moves == 0 and all(_is_inside(word, scene.workspace) for word in words))


def _is_inside(word: Word, workspace: Workspace) -> bool:
    """Whether a word is no path that leads out, whatever else it may be: a revision, a text to look for."""
    value = word.loose
    if value.startswith("~") or ".." in value.split("/"):
        return False
    try:
        workspace.resolve_readable(value)
    except (OutsideRoots, OSError, ValueError, RuntimeError):
        return False
    return True
