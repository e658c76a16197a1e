"""What is wrong in a file that was changed."""

from pathlib import Path
from typing import Protocol


class Diagnostics(Protocol):
    """What language servers say about the files that a session changes."""

    async def after_change(self, real: Path) -> str:
        """What is wrong in a file (its real path) that was just changed, for the model; empty where there is nothing
        to say. Waits some seconds at most, and never raises."""
        ...
