"""Where a session may work: its folder, the roots around it, and what stays closed inside them.

Every path is resolved through its symlinks before it is judged, so that a link cannot lead out. What is resolved
here can be swapped a moment later: whoever opens it must not follow links again.
"""

from dataclasses import dataclass, field
from pathlib import Path

from agentcore.permissions.rules import Rule


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
    scripts: frozenset[Path] = frozenset()
    """Files in it that hooks and servers run: to change one asks in every mode."""
    home: Path = field(default_factory=Path.home)
    """Of the user: what `~` stands for in rules and in shell lines."""
    deny: tuple[Rule, ...] = ()
    """What rules forbid: a walk through a folder leaves out the files that may not be read."""
    ask: tuple[Rule, ...] = ()
    """What a person is asked about first: a walk leaves that out as well."""

    def resolve(self, path: str) -> Path:
        """The real path behind `path` (relative to `cwd`; `~` is not expanded). Raises: OutsideRoots."""
        real = self._real(path)
        if self.is_hidden(real):
            raise OutsideRoots(self.why_closed(path))
        if not any(real.is_relative_to(root) for root in self.roots):
            raise OutsideRoots(f"{path} is outside the project: work inside {self.cwd}")
        return real

    def resolve_readable(self, path: str) -> Path:
        """As `resolve`, for tools that only read."""
        real = self._real(path)
        if any(real.is_relative_to(open_) for open_ in self.readable):
            return real
        return self.resolve(path)

    def is_hidden(self, real: Path) -> bool:
        """Whether a real path lies in a place that is closed to every tool."""
        return any(real.is_relative_to(closed) for closed in self.hidden)

    def is_unreadable(self, real: Path) -> bool:
        """As `is_hidden`, for what only reads."""
        return self.is_hidden(real) and not any(real.is_relative_to(open_) for open_ in self.readable)

    def why_closed(self, path: str) -> str:
        return f"{path} is closed to tools: it holds credentials or the server's own state"

    def closed_below(self, folder: Path) -> tuple[Path, ...]:
        """The closed places inside a real folder, relative to it: what a walk through it must leave out."""
        return tuple(closed.relative_to(folder) for closed in self.hidden if closed.is_relative_to(folder))

    def shown(self, real: Path) -> str:
        """A real path as the model should see it: relative to `cwd` where it lies inside."""
        return str(real.relative_to(self.cwd)) if real.is_relative_to(self.cwd) else str(real)

    def _real(self, path: str) -> Path:
        if "\0" in path:
            raise OutsideRoots("a path cannot contain a NUL character")
        try:
            real = (self.cwd / path).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: how Python before 3.13 reports a loop of links
            raise OutsideRoots(f"{path} cannot be resolved: its symbolic links form a loop") from error
        if real.is_symlink():  # how later versions leave one
            raise OutsideRoots(f"{path} cannot be resolved: its symbolic links form a loop")
        return real
