"""Which files this session has seen, and in which version: nothing is overwritten that the model does not know."""

from collections import OrderedDict
from pathlib import Path

from agentcore.ports.tools import ToolError

MAX_FILES = 10_000
"""What falls out of the record must be read again before it is changed."""


class FileVersions:
    """One per session, shared by its file tools; keyed by resolved path. Safe to use from worker threads."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Path, str] = OrderedDict()

    def remember(self, real: Path, version: str) -> None:
        self._seen[real] = version
        self._seen.move_to_end(real)
        if len(self._seen) > MAX_FILES:
            self._seen.popitem(last=False)

    def demand_fresh(self, real: Path, version: str, shown: str) -> None:
        """Raises: ToolError unless `version` is the one that was last read or written here."""
        seen = self._seen.get(real)
        if seen is None:
            raise ToolError(f"{shown} exists and was not read in this session: read it first")
        if seen != version:
            raise ToolError(f"{shown} has changed since it was read: read it again first")
