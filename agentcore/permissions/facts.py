"""What is known about a call before it is judged: the paths it names, and for a shell line what it does to files.

Here the file system is touched: paths are resolved through their links. What is found is a value.
"""

from dataclasses import dataclass, field
from pathlib import Path

from agentcore.messages import ToolCall
from agentcore.permissions.looking import Look
from agentcore.permissions.paths import Anchors, Place, place_of
from agentcore.permissions.protected import is_protected_as_given, is_protected_place
from agentcore.permissions.readonly import are_harmless, shows_something
from agentcore.permissions.removal import critical_removal
from agentcore.permissions.shell import Script, read_script
from agentcore.permissions.workspace import OutsideRoots, Workspace
from agentcore.ports.tools import ToolSpec


@dataclass(frozen=True, slots=True)
class Line:
    """A shell line, and the places that it names."""

    script: Script
    writes: tuple[Place, ...] = ()
    """Behind `>`."""
    reads: tuple[Place, ...] = ()
    """Behind `<`, and arguments of programs that read files."""
    changed: tuple[Place, ...] = ()
    """Arguments of programs that change files, and what lines inside their arguments write."""
    possible_reads: tuple[Place, ...] = ()
    """What a pattern may name, and what rules forbid below a folder that is read."""
    possible_changes: tuple[Place, ...] = ()
    may_read: bool = False
    """An argument of a program that reads files is not known before it runs."""
    may_change: bool = False
    """The same of a program that changes files."""
    unknown_write: str | None = None
    """A redirection whose file only the shell will know."""
    unclear: str | None = None
    """Why it may reach a place that is closed or protected: a person is asked."""
    setting: str | None = None
    """What it sets in git's configuration, which may name a program."""
    critical: str | None = None
    """What it would remove that nobody removes by mistake."""
    harmless: tuple[bool, ...] = ()
    """For each segment, whether it changes nothing and shows nothing but what lies in the project."""

    @property
    def all_shows(self) -> bool:
        """Harmless commands alone, whatever stands between them, and no file behind `>` or `<`: of use where nothing
        may be changed."""
        is_whole = self.script.problem is None and not (self.script.writes or self.script.reads)
        is_of_use = any(map(shows_something, self.script.segments))
        return is_whole and all(self.harmless) and is_of_use

    @property
    def only_shows(self) -> bool:
        """One harmless command, without operators."""
        return self.script.is_single and self.harmless == (True,) and shows_something(self.script.segments[0])


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about the paths of a call, resolved through links."""

    outside: str | None = None
    """Why a path is closed to tools; None when all are inside."""
    protected: tuple[str, ...] = ()
    """Paths whose change always needs a person."""
    places: tuple[Place, ...] = ()
    """What the call names in the fields that hold paths."""
    line: Line | None = None
    """Of a shell call."""
    anchors: Anchors = field(default_factory=lambda: Anchors(Path("/"), Path("/")))
    """What the patterns of rules are meant from."""


def facts_about(call: ToolCall, spec: ToolSpec, workspace: Workspace) -> Facts:
    """Resolve the paths that a call names and say what kind of place they are."""
    command = (call.input or {}).get("command")
    if call.name == "bash" and isinstance(command, str):
        return _facts_of_line(command, workspace)
    resolve = workspace.resolve_readable if spec.read_only else workspace.resolve
    anchors = Anchors(workspace.cwd, workspace.home)
    protected, places = [], []
    for name in spec.paths:
        path = (call.input or {}).get(name)
        if not isinstance(path, str):
            continue
        try:
            real = resolve(path)
            places.append(place_of(path, workspace.cwd, real))
        except OutsideRoots as error:
            return Facts(outside=str(error))
        except (OSError, ValueError, RuntimeError):
            return Facts(outside=f"{path[:200]} is no usable path")
        if spec.edits and _is_protected(real, path, workspace):
            protected.append(path)
    return Facts(protected=tuple(protected), places=tuple(places), anchors=anchors)


def _facts_of_line(command: str, workspace: Workspace) -> Facts:
    script = read_script(command)
    look = Look(script, workspace)
    look.look()
    if look.closed is not None:
        return Facts(outside=look.closed)
    is_moved = len(look.folders) > 1
    line = Line(
        script=script,
        writes=tuple(look.writes),
        reads=tuple(dict.fromkeys(look.reads.certain)),
        changed=tuple(dict.fromkeys(look.changes.certain)),
        possible_reads=tuple(dict.fromkeys(look.reads.possible)),
        possible_changes=tuple(dict.fromkeys(look.changes.possible)),
        may_read=look.reads.is_open,
        may_change=look.changes.is_open,
        unknown_write=look.unknown,
        unclear=look.unclear,
        setting=look.setting,
        critical=critical_removal(script, look.folders, workspace),
        harmless=are_harmless(script, workspace, is_moved=is_moved),
    )
    anchors = Anchors(workspace.cwd, workspace.home)
    return Facts(protected=tuple(dict.fromkeys(look.protected)), line=line, anchors=anchors)


def _is_protected(real: Path, given: str, workspace: Workspace) -> bool:
    return is_protected_place(real, workspace) or is_protected_as_given(given, workspace)
