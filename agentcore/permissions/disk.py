"""What lies on the disk where a shell line is not clear: files that a pattern names, and what lies below a folder.

Touches the file system, within bounds; behind them nothing is known, and that is said.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from agentcore.permissions.globs import STAR, fits
from agentcore.permissions.paths import Anchors, Place, forbids
from agentcore.permissions.repositories import Repository
from agentcore.permissions.rules import Rule
from agentcore.permissions.words import GLOB

MAX_ENTRIES = 20_000
"""Of folders that are looked at for one pattern or one walk: some 0.2 s."""


class TooMuch(Exception):
    """There is more on the disk than is looked at."""


def globbed(folder: Path, text: str, *, with_hidden: bool = False) -> list[str]:
    """The paths that a pattern with `GLOB` names, as the shell would write them. Raises: TooMuch."""
    left = iter(range(MAX_ENTRIES))
    start, parts = ("/", text.lstrip("/")) if text.startswith("/") else ("", text)
    found = [start]
    for part in parts.split("/"):
        if GLOB not in part:
            found = [_joined(one, part) for one in found]
            continue
        tokens = _tokens(part)
        found = [
            _joined(one, name)
            for one in found
            for name in _names(folder / one, left)
            if _is_meant(tokens, name, with_hidden)
        ]
    return [one for one in found if os.path.lexists(folder / one)]


def forbidden_below(folder: Path, given: str, rules: Sequence[Rule], anchors: Anchors, *, hidden: bool) -> list[Place]:
    """What below a folder rules forbid; `hidden`: what begins with a dot as well. Raises: TooMuch."""
    found, left = list[Place](), iter(range(MAX_ENTRIES))
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        for name in _names(here, left):
            if name.startswith(".") and not hidden:
                continue
            path = here / name
            is_folder = _is_folder(path)
            place = Place(f"{given}/{path.relative_to(folder)}", path, path, is_folder)
            if any(_has_literal(rule.spec or "", str(path)) and forbids(rule, place, anchors) for rule in rules):
                found.append(place)
            elif is_folder:
                waiting.append(path)
    return found


def forbidden_in_index(repository: Repository, rules: tuple[Rule, ...], anchors: Anchors) -> tuple[Place, ...] | None:
    """What of the files that a repository tracks rules forbid; None where that is not known."""
    try:
        state = (repository.git_dir / "index").stat()
    except OSError:
        return ()
    return _forbidden_in_index(repository, (state.st_mtime_ns, state.st_size, state.st_ino), rules, anchors)


@lru_cache(maxsize=16)
def _forbidden_in_index(
    repository: Repository, state: tuple[int, int, int], rules: tuple[Rule, ...], anchors: Anchors
) -> tuple[Place, ...] | None:
    """`state` makes it anew when the index was written."""
    data = repository.index()
    if data is None or data[:4] != b"DIRC" or int.from_bytes(data[4:8], "big") not in (2, 3):
        return None
    found = list[Place]()
    for name in _names_in(data):
        for rule in rules:
            if _has_literal(rule.spec or "", f"/{name}"):
                path = repository.top / name
                place = Place(name, path, path, is_folder=False)
                found += [place] if forbids(rule, place, anchors) else []
    return tuple(found)


def _names_in(data: bytes) -> Iterator[str]:
    """The names in an index of version 2 or 3: entries of 62 bytes and the name, filled up to a multiple of eight."""
    at = 12
    for _ in range(int.from_bytes(data[8:12], "big")):
        head = 64 if data[at + 60] & 0x40 else 62
        end = data.find(b"\0", at + head)
        if end < 0:
            return
        yield os.fsdecode(data[at + head : end])
        at += (end - at + 8) & ~7


@lru_cache(maxsize=256)
def _literals(spec: str) -> tuple[str, ...]:
    return (
        ()
        if re.search(r"[\[\\]", spec)
        else tuple(part for part in re.split(r"[*?/]+", spec) if part not in ("", "~", "."))
    )


def _has_literal(spec: str, path: str) -> bool:
    """Whether a path holds what a pattern says without a star: it is seen at once that most do not."""
    return all(part in path for part in _literals(spec)[-1:])


def _names(folder: Path, left: Iterator[int]) -> list[str]:
    found = list[str]()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if next(left, None) is None:
                raise TooMuch
            found.append(entry.name)
    return found


def _is_folder(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISDIR(path.lstat().st_mode)
    return False


def _tokens(part: str) -> tuple[str, ...]:
    return tuple(STAR if char == GLOB else char for char in part)


def _is_meant(tokens: Sequence[str], name: str, with_hidden: bool) -> bool:
    is_shown = with_hidden or not name.startswith(".") or tokens[:1] == (".",)
    return is_shown and fits(tokens, name)


def _joined(start: str, name: str) -> str:
    return name if not start else f"{start.rstrip('/')}/{name}"
