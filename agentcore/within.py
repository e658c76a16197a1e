"""Texts that people write for agents (skills, instruction files), read without being led out of where they may lie.

A path is resolved through its links, judged, and then opened without following any. Nothing but a regular file of
text within a size is read: a pipe, a device or a sparse file of a gigabyte costs nothing. Blocks: call it in a worker.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcore.caps import safe_text
from agentcore.files import open_regular, opened_folder
from agentcore.ports.tools import ToolError

_SNIFFED_BYTES = 8192
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls, apart from tab and line feed
    "\u202a-\u202e\u2066-\u2069"  # what turns the direction of writing around
    "\U000e0000-\U000e007f]"  # letters that nobody sees
)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the texts of one session may lie. All folders but `home` and `config_dir` are resolved."""

    cwd: Path
    top: Path
    """The outermost folder whose files speak for a session in `cwd`."""
    roots: tuple[Path, ...]
    """What the session's tools may work in."""
    home: Path
    """Of the user."""
    config_dir: Path
    is_closed: Callable[[Path], bool]
    """Whether a real path holds credentials or state of the server's."""


def top_of(cwd: Path, roots: Sequence[Path]) -> Path:
    """The outermost of the roots (resolved) that hold a folder; itself where none does."""
    return min((root for root in roots if cwd.is_relative_to(root)), key=lambda root: len(root.parts), default=cwd)


class Unfit(Exception):
    """A file is there and is not read; `str(error)` is the end of a sentence that begins with its name."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where a text may lie, and how long it may be."""

    tops: tuple[Path, ...]
    """Resolved folders, one of which it has to be in with all its links."""
    limit_bytes: int
    is_closed: Callable[[Path], bool]
    """Whether a real path holds credentials or state of the server's."""
    where: str = "the project"
    """What the folders are, for people."""
    closed: str = "leads to credentials or to the server's own state"
    """What is said of a closed path."""


@dataclass(frozen=True, slots=True)
class Found:
    real: Path
    text: str
    """Made plain, see `plain_text`."""
    left_out_bytes: int = 0
    """What it is longer than the bound."""


def real_within(path: Path, bounds: Bounds) -> Path | None:
    """Where a path leads; None where there is nothing. Raises: Unfit for a place outside of the bounds."""
    try:
        real = path.resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, RuntimeError, ValueError):  # RuntimeError: a loop of links, before 3.13
        raise Unfit("cannot be resolved (a loop of links, or a name that is none)") from None
    if not any(real.is_relative_to(top) for top in bounds.tops):
        raise Unfit(f"leads out of {bounds.where}")
    if bounds.is_closed(real):
        raise Unfit(bounds.closed)
    return real


def read_within(path: Path, bounds: Bounds, *, may_cut: bool = False) -> Found | None:
    """The text of a file; None where there is none. With `may_cut` the beginning of one that is too long.

    Raises: Unfit.
    """
    real = real_within(path, bounds)
    if real is None:
        return None
    try:
        with opened_folder(real.parent) as folder, open_regular(folder, real.name) as file:
            data = file.read(bounds.limit_bytes + 1)
            size = file.seek(0, 2)
    except FileNotFoundError:
        return None
    except (OSError, ToolError) as error:
        raise Unfit(_why(error)) from None
    if b"\0" in data[:_SNIFFED_BYTES]:
        raise Unfit("is no text")
    if len(data) <= bounds.limit_bytes:
        return Found(real, plain_text(_decoded(data)))
    if not may_cut:
        raise Unfit(f"is larger than {bounds.limit_bytes // 1024} KiB")
    kept, _, _ = data[: bounds.limit_bytes].rpartition(b"\n")
    return Found(real, plain_text(_decoded(kept)), size - len(kept))


def _why(error: Exception) -> str:
    """In words of our own: those of the system hold paths."""
    if isinstance(error, ToolError):
        return "is no regular file"
    if isinstance(error, IsADirectoryError):
        return "is a folder"
    return f"cannot be opened ({type(error).__name__})"


def _decoded(data: bytes) -> str:
    return data.decode("utf-8-sig", errors="replace")


def plain_text(text: str) -> str:
    """Text as people see it: LF alone between lines, no control characters, nothing invisible that a model reads."""
    return safe_text(_INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def one_line(text: str, limit_chars: int = 200) -> str:
    """A name as part of a sentence."""
    line = " ".join(plain_text(text).split())
    return line if len(line) <= limit_chars else line[: limit_chars - 1] + "…"


def without_tags(text: str, tags: Sequence[str]) -> str:
    """Text that stands between `<tag …>` and `</tag>` and can neither end it nor begin another."""
    names = "|".join(map(re.escape, tags))
    mark = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}"
    return re.sub(rf"<(?=\s{{0,8}}/?\s{{0,8}}(?:{names})\b)", mark, text, flags=re.IGNORECASE)


def attribute(text: str) -> str:
    """A name as the value of a tag's attribute."""
    return one_line(text, 400).replace('"', "'").replace("<", "(").replace(">", ")")
