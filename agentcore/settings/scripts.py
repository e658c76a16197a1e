"""The files of a project that a command names: they are approved with it, so that a changed script waits again; and no
agent changes them without a question.

What a script itself loads, a module by its name, and what a package manager's file says are not found here. Blocks for
as long as it takes to read a few small files.
"""

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from agentcore.settings.places import project_top

MAX_WORDS = 2000
"""Of one command that are looked at; more is no command that a person reads before he approves it."""
MAX_FOLDERS = 8
"""That its relative paths may be meant from."""
MAX_BYTES = 1024 * 1024
"""Of a file that is read whole. A larger one is known by its size and its times, which change with it."""

_WRITTEN = re.compile(r"""(?<![<>])(?:\d*|&)>{1,2}\|?[ \t]*[^\s;&|()<>"'`]+""")
"""Where a command's output goes: such a file changes each time, and is not run by that name."""
_BETWEEN = re.compile(r"""[\s;&|()<>{}=,"'`]+""")


def pinned_files(content: Mapping[str, Any], base: Path, cwd: Path | None) -> dict[str, str]:
    """Path from the top of the project to what names its content, for each file that an entry's command names.

    `base` is the folder that the entry speaks for, `cwd` the one that it runs in, where that is known.
    """
    top = project_top(base, () if cwd is None else (cwd,))
    found: dict[str, str] = {}
    for path in _named(content, base, cwd, top):
        content_id = _content_of(path)
        if content_id is not None:
            found[path.relative_to(top).as_posix()] = content_id
    return dict(sorted(found.items()))


def scripts_in(entries: Iterable[tuple[Mapping[str, Any], Path]], cwd: Path) -> frozenset[Path]:
    """The files of the project around a folder (resolved) that the commands of these entries name, as they name them
    and as links lead to them. Each entry comes with the folder that it speaks for."""
    top = project_top(cwd, ())
    named = {path for content, base in entries for path in _named(content, base, cwd, top) if _is_file(path)}
    return frozenset(named | {Path(os.path.realpath(path)) for path in named})


def _named(content: Mapping[str, Any], base: Path, cwd: Path | None, top: Path) -> Iterator[Path]:
    """Whatever below the top of a project the command of an entry may name, be there anything or not."""
    words = list(dict.fromkeys(islice(_candidates(content), MAX_WORDS)))
    for folder in _folders(words, dict.fromkeys((base, cwd or base, top))):
        for word in words:
            path = _inside(folder, word, top)
            if path is not None:
                yield path


def _candidates(content: Mapping[str, Any]) -> Iterator[str]:
    """The words of a command, and the pieces of those that may hold more than a path."""
    command, args = content.get("command"), content.get("args")
    if not isinstance(command, str):
        return
    texts = [one for one in (command, *(args if isinstance(args, list) else ())) if isinstance(one, str)]
    read = [_WRITTEN.sub(" ", text) for text in texts]
    for word in (one for text in read for one in (text, *_words(text), *_BETWEEN.split(text))):
        yield word
        yield word.rpartition("$")[2].partition("/")[2]  # `$CLAUDE_PROJECT_DIR/x`, and `/x` behind a substitution


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that does not end
        return []


def _folders(words: Iterable[str], given: Iterable[Path]) -> list[Path]:
    """Where a relative path may be meant from: the given ones, and those that the command goes to."""
    folders = list(given)
    named = (folder / word for folder in tuple(folders) for word in words if word.strip("./") and "\0" not in word)
    folders += islice((path for path in named if os.path.isdir(path)), MAX_FOLDERS)  # noqa: PTH112 - Path.is_dir raises
    return list(dict.fromkeys(folders))


def _inside(folder: Path, word: str, top: Path) -> Path | None:
    """The path that a word names below the top of the project."""
    if not word or "\0" in word:
        return None
    path = Path(os.path.normpath(folder / word))
    return path if path != top and path.is_relative_to(top) else None


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for a name that is too long


def _content_of(path: Path) -> str | None:
    """What tells a file's content from another; None where there is no regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        return "unreadable"
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > MAX_BYTES:
            return f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}"
        return hashlib.sha256(os.read(descriptor, MAX_BYTES + 1)).hexdigest()
    except OSError:
        return "unreadable"
    finally:
        os.close(descriptor)
