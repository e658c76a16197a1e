"""What a walk through a folder leaves out because a rule forbids to read it there, or asks a person first.

The call itself was judged by the folder it names; what lies inside is seen only while the folder is walked. A file
that a rule asks about can be read by its name, and then a person is asked. And what a call itself names is judged
again where it is opened: since it was, the path may have come to lead elsewhere.
"""

import fnmatch
import os
from contextlib import suppress
from pathlib import Path

from agentcore.permissions.paths import Anchors, Place, forbids, place_of
from agentcore.permissions.rules import Rule
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import ToolError


class Unread:
    """Of one walk: what `Read(…)` forbids or asks about, and the rules of the walking tool's own name."""

    def __init__(self, workspace: Workspace, tool: str, given: str, folder: Path) -> None:
        """`folder` is where `given` leads, resolved."""
        self._named = Path(os.path.normpath(workspace.cwd / given))
        self._folder = folder
        self._anchors = Anchors(workspace.cwd, workspace.home)
        self._rules = [rule for rule in workspace.deny if _counts(rule, tool)]
        here = Place(given, self._named, folder, is_folder=True)
        asks = (rule for rule in workspace.ask if _counts(rule, tool))
        self._rules += [rule for rule in asks if not forbids(rule, here, self._anchors)]  # else it asked about the walk

    def has(self, name: str) -> bool:
        """Whether what lies at `name` (relative to the folder) is left out, by its name or by where it leads."""
        if not self._rules:
            return False
        real, is_folder = self._folder / name, False
        with suppress(OSError, RuntimeError):  # a loop of links leads nowhere
            real = real.resolve() if real.is_symlink() else real
            is_folder = real.is_dir()
        place = Place(name, self._named / name, real, is_folder)
        return any(forbids(rule, place, self._anchors) for rule in self._rules)


def demand_undenied(workspace: Workspace, tool: str, given: str, real: Path, *, edits: bool = False) -> None:
    """Judge once more by the deny rules where a path leads, as it is opened (resolved). Blocking.

    `edits`: the tool changes what it opens. Raises: ToolError.
    """
    rules = [rule for rule in workspace.deny if _counts(rule, tool) or (edits and rule.tool == "edit")]
    if rules:
        place, anchors = place_of(given, workspace.cwd, real), Anchors(workspace.cwd, workspace.home)
        if any(rule.spec is not None and forbids(rule, place, anchors) for rule in rules):
            raise ToolError(f"{given} leads to a place that a rule denies")


def _counts(rule: Rule, tool: str) -> bool:
    """Whether a rule means some of what a tool reads; one that means all of it has met the call."""
    return rule.spec is not None and (rule.tool == "read" or fnmatch.fnmatchcase(tool, rule.tool))
