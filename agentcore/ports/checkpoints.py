"""What files held before they were changed."""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agentcore.events import (
    Notice,
)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that is about to be made or replaced."""

    real: Path
    """Resolved."""
    before: bytes | None
    """What it holds; None where there is none."""
    mode: int | None
    """Its permission bits."""
    after: bytes
    made: tuple[Path, ...] = ()
    """Folders that were made for it, outermost first."""


@dataclass(slots=True)
class Coverage:
    """What came of keeping files around one command; complete when the command has been left."""

    notices: list[Notice] = field(default_factory=list)


class Checkpoints(Protocol):
    """Keeps what files hold before a run changes them."""

    def begin_run(self, run: str) -> None:
        """What changes from now on belongs to the run of this id. Touches no disk."""
        ...

    def changing(self, change: FileChange) -> AbstractContextManager[None]:
        """Keep what a file holds around its replacement. Blocking. Raises: ToolError; then it must not be replaced."""
        ...

    def around_command(self) -> AbstractAsyncContextManager[Coverage]:
        """Keep what a command changes, as far as that can be told. Raises: ToolError; then it must not be run."""
        ...
