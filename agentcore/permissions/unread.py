"""What a walk through a folder leaves out because a deny rule forbids to read it there.

The call itself was judged by the folder it names; what lies inside is seen only while the folder is walked.
"""

import fnmatch
import os
from contextlib import suppress
from pathlib import Path

from agentcore.permissions.paths import Anchors, Place, forbids
from agentcore.permissions.rules import Rule
from agentcore.permissions.workspace import Workspace


class Unread:
    """Of one walk: what `Read(…)` forbids, and the rules of the walking tool's own name."""

    def __init__(self, workspace: Workspace, tool: str, given: str, folder: Path) -> None:
        """`folder` is where `given` leads, resolved."""
        self._named = Path(os.path.normpath(workspace.cwd / given))
        self._folder = folder
        self._anchors = Anchors(workspace.cwd, workspace.home)
        self._rules = [rule for rule in workspace.deny if _counts(rule, tool)]

    def has(self, name: str) -> bool:
        """Whether what lies at `name` (relative to the folder) is forbidden, by its name or by where it leads."""
        if not self._rules:
            return False
        real, is_folder = self._folder / name, False
        with suppress(OSError, RuntimeError):  # a loop of links leads nowhere
            real = real.resolve() if real.is_symlink() else real
            is_folder = real.is_dir()
        place = Place(name, self._named / name, real, is_folder)
        return any(forbids(rule, place, self._anchors) for rule in self._rules)


def _counts(rule: Rule, tool: str) -> bool:
    """Whether a rule means some of what a tool reads; one that means all of it has denied the call."""
    return rule.spec is not None and (rule.tool == "read" or fnmatch.fnmatchcase(tool, rule.tool))
