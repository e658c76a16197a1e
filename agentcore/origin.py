"""Where something that was written down comes from (a rule, a hook, a skill), and so how much it may do.

What comes with a repository may tighten and never loosen, and what it wants to run waits for a person.
"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Origin:
    """The file, or whatever else, that something stands in."""

    name: str
    """As people are told it, never an absolute path: `settings.toml`, `.claude/settings.json`."""
    base: Path | None = None
    """Folder that its relative paths are meant from; None where they can be none."""
    is_shared: bool = False
    """Comes with the repository, so anybody who may change that may have written it."""
