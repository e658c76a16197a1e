"""Whether what is mounted in a sandbox is what was looked at.

bubblewrap takes its sources by their names, one system call after another, while commands that run already may put a
link in the place of a folder. So its mounts are compared with what was opened without following a link, while it waits
and before the command begins: each shows nothing of the machine's disk but such a place, or is a copy of a mount of the
machine's, where that is and read-only. Where a mount landed can be bent only by who can write in that place anyway.
Linux. Blocking.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

_PLACE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_BUILT, _OLD = "/newroot", "/oldroot"
"""Where bubblewrap builds what the command will see, and has the machine's files until it is done."""
_ESCAPED = re.compile(r"\\([0-7]{3})")
_MOUNT_ID = re.compile(rb"^mnt_id:\s*([0-9]+)", re.MULTILINE)

Node = tuple[int, int]
"""Device and inode."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What a sandbox may show of the machine's disk."""

    nodes: Mapping[Path, Node]
    """By the place where it is to be seen. They are held open, so that no number is given out again."""
    writable: frozenset[Path]
    covers: frozenset[Path]
    """Where something empty is to be."""
    host: tuple["_Line", ...]
    """The mounts of the machine."""


@dataclass(frozen=True, slots=True)
class _Line:
    id: int
    device: str
    root: str
    """What of its file system it shows."""
    point: str
    is_read_only: bool

    @property
    def copied(self) -> tuple[str, str, str]:
        return self.device, self.root, self.point


@contextmanager
def opened(sources: Mapping[Path, Path]) -> Iterator[dict[Path, Node]]:
    """Hold what is to be seen at each place, by the resolved path of its source, opened link-free from the root on.

    Raises: OSError.
    """
    with ExitStack() as held:
        folders = {Path("/"): _held(held, "/", None)}
        yield {place: _node(_open(held, source, folders)) for place, source in sources.items()}


def _open(held: ExitStack, path: Path, known: dict[Path, int]) -> int:
    """`known` are those that are open already."""
    if path not in known:
        known[path] = _held(held, path.name, _open(held, path.parent, known))
    return known[path]


def _held(held: ExitStack, name: str, folder: int | None) -> int:
    descriptor = os.open(name, _PLACE, dir_fd=folder)
    held.callback(os.close, descriptor)
    return descriptor


def _node(descriptor: int) -> Node:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def mounts_of(process: str) -> tuple[_Line, ...]:
    """Raises: OSError."""
    text = Path(f"/proc/{process}/mountinfo").read_text(errors="surrogateescape")
    return tuple(_parsed(line.split(" ")) for line in text.splitlines())


def _parsed(words: Sequence[str]) -> _Line:
    root, point = (_ESCAPED.sub(lambda found: chr(int(found[1], 8)), word) for word in words[3:5])
    return _Line(int(words[0]), words[2], root, point, "ro" in words[5].split(","))


def is_as_expected(process: int, expected: Expected) -> bool:
    """Whether the sandbox that this process builds, and waits in, shows what it should. Raises: OSError."""
    devices = {line.device for line in expected.host}
    copies = {line.copied for line in expected.host}
    seen, fresh = set[Path](), set[Path]()
    for line in mounts_of(str(process)):
        place = _place(line.point)
        if line.device not in devices:  # made by bubblewrap: nothing of the machine's is in it
            fresh.add(place or Path("/"))
        elif place is None:
            if not _is_below(line.point, _OLD):
                return False
        elif place in expected.nodes and _is_on_top(process, line, expected.nodes[place]):
            if not line.is_read_only and place not in expected.writable:
                return False
            seen.add(place)
        elif (line.device, line.root, str(place)) not in copies or not (
            line.is_read_only or _is_inside(place, expected.writable) or _is_out_of_reach(process, line)
        ):
            return False
    return seen == set(expected.nodes) and expected.covers <= fresh


def _place(point: str) -> Path | None:
    """Where the command will see it; None for what it will not."""
    return Path(point.removeprefix(_BUILT) or "/") if _is_below(point, _BUILT) else None


def _is_below(point: str, top: str) -> bool:
    return point == top or point.startswith(f"{top}/")


def _is_inside(place: Path, folders: frozenset[Path]) -> bool:
    return any(parent in folders for parent in place.parents)


def _is_on_top(process: int, line: _Line, node: Node) -> bool:
    """Whether this mount is what is found at its place, and shows this."""
    return _found(process, line) == (line.id, node)


def _is_out_of_reach(process: int, line: _Line) -> bool:
    """Whether another mount covers this one, or the user may not look there: then bubblewrap leaves it writable."""
    try:
        found = _found(process, line)
    except PermissionError:
        return True
    return found is not None and found[0] != line.id


def _found(process: int, line: _Line) -> tuple[int, Node] | None:
    """Of what is found where a mount is: the mount that it belongs to, and what it is. Raises: OSError."""
    try:
        descriptor = os.open(f"/proc/{process}/root{line.point}", _PLACE)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = _MOUNT_ID.search(Path(f"/proc/self/fdinfo/{descriptor}").read_bytes())
        return None if found is None else (int(found[1]), _node(descriptor))
    finally:
        os.close(descriptor)
