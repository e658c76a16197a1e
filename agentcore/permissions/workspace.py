"""Where a session may work: its folder, the roots around it, and what stays closed inside them.

Every path is resolved through its symlinks before it is judged, so that a link cannot lead out.
"""

from dataclasses import dataclass
from pathlib import Path


class OutsideRoots(Exception):
    """The path leads out of the roots, or into a place that is closed to every tool."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Immutable; `cwd` and `roots` are absolute and resolved."""

    cwd: Path
    roots: tuple[Path, ...]
    hidden: tuple[Path, ...] = ()
    """Closed to every tool: credentials and the server's own state."""
    readable: tuple[Path, ...] = ()
    """Readable though outside or hidden: this session's own journal and spill files."""

    def resolve(self, path: str) -> Path:
        """The real path behind `path` (relative to `cwd`; `~` is not expanded). Raises: OutsideRoots."""
        real = self._real(path)
        if any(real.is_relative_to(closed) for closed in self.hidden):
            raise OutsideRoots(f"{path} is closed to tools: it holds credentials or the server's own state")
        if not any(real.is_relative_to(root) for root in self.roots):
            raise OutsideRoots(f"{path} is outside the project: work inside {self.cwd}")
        return real

    def resolve_readable(self, path: str) -> Path:
        """As `resolve`, for tools that only read."""
        real = self._real(path)
        if any(real.is_relative_to(open_) for open_ in self.readable):
            return real
        return self.resolve(path)

    def _real(self, path: str) -> Path:
        if "\0" in path:
            raise OutsideRoots("a path cannot contain a NUL character")
        return (self.cwd / path).resolve()
