"""What the files of a git repository say, without asking git: where it is, whether its configuration names programs,
and what it tracks. Touches the file system; nothing of the repository runs.

A configuration is plain when each of its keys is one that is known to name nothing that runs. A repository that came in
an archive may hold any; one that was cloned holds what git itself wrote.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcore.folders import read_regular

MAX_CONFIG_BYTES = 100_000
MAX_INDEX_BYTES = 50_000_000
MAX_POINTER_BYTES = 1 << 20
"""As git has it."""
POINTER = b"gitdir: "
_LINK = b"\0\0\xe0\0"
"""The mode of a repository inside the tree, as the index has it: git looks into that one's configuration too."""
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=(.*))?")
_PLAIN_KEYS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|quotepath|longpaths|abbrev|preloadindex|untrackedcache|commitgraph|compression|bigfilethreshold|hookspath"
    r"|protecthfs|protectntfs|splitindex|sharedrepository)"
    r"|diff\.(renames|renamelimit|algorithm|colormoved|noprefix|mnemonicprefix|context)|user\.(name|email|signingkey|useconfigonly)|author\.(name|email)|committer\.(name|email)"
    r"|remote\.(url|fetch|push|pushurl|prune|tagopt|mirror|skipfetchall|gh-resolved)"
    r"|branch\.(remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base|github-pr-owner-number"
    r"|autosetuprebase|autosetupmerge)"
    r"|(init|pull|push|fetch|gc|color|advice|status|rebase|commit|merge|checkout|i18n|rerere|safe|maintenance|index"
    r"|feature|pack|repack|http|url|submodule)\.(?!template|recurse|.*(program|command|cmd|helper|tool|driver|hook|proxy"
    r"|verbose|gpg|sign|editor)).*|extensions\.(objectformat|refstorage|worktreeconfig)"
)
"""Names without what stands in quotes between their parts: `remote.origin.url` is `remote.url`."""


@dataclass(frozen=True, slots=True)
class Repository:
    top: Path
    """The folder of its work tree."""
    git_dir: Path
    shared_dir: Path
    """Where its configuration and hooks are: another one in a linked work tree."""

    def index(self) -> bytes | None:
        """What it tracks, as git keeps it: names end in a NUL. None where that is not known."""
        return _bytes_of(self.git_dir / "index", MAX_INDEX_BYTES)


def repository_at(folder: Path) -> Repository | None:
    """The repository whose work tree a folder lies in, as git finds it; None where there is none."""
    for above in (folder, *folder.parents):
        place = above / ".git"
        if place.is_dir():
            return Repository(above, place, _shared(place))
        if place.is_file() and (real := _linked(place)) is not None:
            return Repository(above, real, _shared(real))
    return None


def is_plain_key(name: str) -> bool:
    """Whether a key, in lower case, names nothing that runs, whatever its value."""
    return name != "core.hookspath" and _PLAIN_KEYS.fullmatch(name) is not None


def looks_bare(folder: Path) -> bool:
    """Whether git would take a folder itself for a repository."""
    return all((folder / name).exists() for name in ("HEAD", "objects", "refs"))


def is_plain(repository: Repository) -> bool:
    """Whether looking at the work tree runs nothing that the repository brings: no program in its configuration, no
    hook that a look at the index calls, no repository inside it."""
    hooks = [repository.shared_dir / "hooks"]
    names = ["config"]
    for name, value in _settings(repository.shared_dir / "config"):
        if not _PLAIN_KEYS.fullmatch(name):
            return False
        if name == "core.hookspath":
            hooks.append(repository.top / Path(value).expanduser())
        if name == "extensions.worktreeconfig":
            names.append("config.worktree")
    if "config.worktree" in names:
        settings = _settings(repository.git_dir / "config.worktree")
        if any(not _PLAIN_KEYS.fullmatch(name) or name == "core.hookspath" for name, _ in settings):
            return False
    if any((folder / "post-index-change").exists() for folder in hooks):
        return False
    index = repository.index()
    return index is not None and _LINK not in index and not any(repository.git_dir.glob("sharedindex.*"))


def _settings(file: Path) -> Iterator[tuple[str, str]]:
    """As `settings_in`, of a file."""
    data = _bytes_of(file, MAX_CONFIG_BYTES)
    if data is None:
        yield "", ""
        return
    yield from settings_in(data)


def settings_in(data: bytes) -> Iterator[tuple[str, str]]:
    """The keys of a configuration in lower case, with their values; an empty key for what cannot be read simply."""
    section = ""
    for line in data.decode(errors="replace").removeprefix("\ufeff").split("\n"):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        if (found := _SECTION.fullmatch(text)) is not None:
            section = found[1].lower()
        elif (found := _KEY.fullmatch(text)) is not None and section and not text.endswith("\\"):
            yield f"{section}.{found[1].lower()}", (found[2] or "").strip().strip('"')
        else:
            yield "", ""


def _bytes_of(file: Path, limit: int) -> bytes | None:
    """Nothing for a file that is not there; None for one that cannot be read whole."""
    try:
        return read_regular(file, limit)
    except FileNotFoundError:
        return b""
    except (OSError, ValueError):
        return None


def _linked(place: Path) -> Path | None:
    """Where `gitdir: …` of a `.git` that is a file leads; itself where that is not known, so that it holds nothing."""
    try:
        text = read_regular(place, MAX_POINTER_BYTES)
        return _path_in(place.parent, text.removeprefix(POINTER)) if text.startswith(POINTER) else None
    except (OSError, ValueError, RuntimeError):
        return place


def _shared(git_dir: Path) -> Path:
    """Where `commondir` leads; itself where that is not known, so that it holds nothing."""
    place = git_dir / "commondir"
    try:
        return _path_in(git_dir, read_regular(place, MAX_POINTER_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        return git_dir
    except (OSError, ValueError, RuntimeError):
        return place


def _path_in(folder: Path, text: bytes) -> Path:
    """As git reads it: line ends do not count, all else does, whatever its encoding.

    Raises: ValueError, RuntimeError for a loop of links.
    """
    return (folder / os.fsdecode(text.rstrip(b"\r\n"))).resolve()
