"""What git runs because a git folder says so: programs that its settings name, and hooks.

Nothing of it runs here, and nothing is asked of git. What cannot be read simply counts as something that runs. Only
what lies in `roots` is read, since only that can have been written from inside of a sandbox. Blocking.
"""

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from agentcore.folders import read_regular
from agentcore.permissions.repositories import (
    MAX_CONFIG_BYTES,
    MAX_POINTER_BYTES,
    POINTER,
    is_plain_key,
    settings_in,
)

MAX_HOOKS = 200
"""Looked at in one folder; git brings 14 samples."""
_ALSO_PLAIN = frozenset(
    {
        "core.sparsecheckout",
        "core.sparsecheckoutcone",
        "core.worktree",
        "extensions.partialclone",
        "lfs.repositoryformatversion",
        "remote.partialclonefilter",
        "remote.promisor",
    }
)
"""What git writes itself when it clones in part, or a module."""


@dataclass(frozen=True, slots=True)
class Program:
    """Something in a git folder that makes git run a program."""

    name: str
    """For people, not yet made one line."""
    content: object
    """Equal for what is the same."""


UNREADABLE = Program("settings that cannot be read", None)


def led_to(place: Path, roots: Sequence[Path]) -> Path | None:
    """The git folder that a `.git` is or leads to; None for what is none, or lies outside of all roots."""
    with suppress(OSError, ValueError, RuntimeError):
        if place.is_file():
            text = read_regular(place, MAX_POINTER_BYTES)
            return _own(_path_in(place.parent, text.removeprefix(POINTER)), roots) if text.startswith(POINTER) else None
        return _own(place, roots)
    return None


def programs_of(folder: Path, roots: Sequence[Path], own: Collection[Path]) -> frozenset[Program]:
    """All that git runs by the word of a git folder; what those in `own` say is left out, also for their work trees."""
    try:
        shared = _shared(folder, roots)
    except (OSError, ValueError, RuntimeError):
        return frozenset((UNREADABLE,))
    of_tree = _settings(folder / "config.worktree", roots)
    return frozenset(of_tree if shared in own else (*of_tree, *_settings(shared / "config", roots), *_hooks(shared)))


def _own(path: Path, roots: Sequence[Path]) -> Path | None:
    """Where a path leads, if that lies in a root. Raises: OSError, RuntimeError for a loop of links."""
    real = path.resolve(strict=True)
    return real if any(real.is_relative_to(root) for root in roots) else None


def _shared(folder: Path, roots: Sequence[Path]) -> Path:
    """Where the settings and hooks of a work tree are. Raises: OSError, ValueError, RuntimeError."""
    try:
        text = read_regular(folder / "commondir", MAX_POINTER_BYTES)
    except FileNotFoundError:
        return folder
    return _own(_path_in(folder, text), roots) or folder


def _path_in(folder: Path, text: bytes) -> Path:
    """As git reads it: line ends do not count, all else does, whatever its encoding."""
    return folder / os.fsdecode(text.rstrip(b"\r\n"))


def _settings(file: Path, roots: Sequence[Path]) -> Iterator[Program]:
    try:
        real = _own(file, roots)
        if real is None:
            yield Program("settings that lie elsewhere", str(file))
            return
        data = read_regular(real, MAX_CONFIG_BYTES)
    except FileNotFoundError:
        return
    except (OSError, ValueError, RuntimeError):
        yield UNREADABLE
        return
    for name, value in settings_in(data):
        if value.startswith("!") or not (name in _ALSO_PLAIN or is_plain_key(name)):
            yield Program(name or "a setting that cannot be read simply", value if name else data)


def _hooks(shared: Path) -> Iterator[Program]:
    try:
        with os.scandir(shared / "hooks") as entries:
            found = list(islice(entries, MAX_HOOKS + 1))
    except OSError:
        return
    if len(found) > MAX_HOOKS:
        yield Program(f"more than {MAX_HOOKS} hooks", None)
    for entry in found:
        if not entry.name.endswith(".sample"):
            with suppress(OSError):
                status = entry.stat()
                if stat.S_ISREG(status.st_mode) and status.st_mode & 0o111:
                    yield Program(f"the hook {entry.name}", (status.st_ino, status.st_size, status.st_ctime_ns))
