"""Tools from outside: what other packages bring (the entry point group `agentcore.tools`), and the commands that the
user's settings declare.

An entry point names a callable without arguments that gives tools (objects that satisfy the `Tool` port). What cannot
be loaded is told and left out; two tools of one name are a mistake that nobody but their owner can settle, so nothing
starts. Nothing ever takes the place of a built-in tool.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points

from agentcore.errors import Unprocessable
from agentcore.permissions.workspace import Workspace
from agentcore.ports.checkpoints import Checkpoints
from agentcore.ports.tools import Tool, ToolSpec
from agentcore.settings.command_tools import CommandTool
from agentcore.tools.catalogue import NAMES
from agentcore.tools.commands import RunsCommand

log = logging.getLogger(__name__)

GROUP = "agentcore.tools"


def installed_tools(points: Iterable[EntryPoint] | None = None) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """The tools of other packages, and a sentence for each package whose tools cannot be used. Blocking.

    Packages that somebody installed beside the server are trusted as the server is: their code runs in it.
    """
    tools: list[Tool] = []
    notices: list[str] = []
    for point in sorted(entry_points(group=GROUP) if points is None else points, key=lambda point: point.name):
        try:
            tools += _tools_of(point)
        except Exception as error:  # a stranger's code may raise anything, and the server starts without its tools
            log.exception("the tools of entry point %s cannot be loaded", point.name)
            notices.append(f"The tools of the entry point {point.name!r} cannot be used: {type(error).__name__}.")
    return tuple(tools), tuple(notices)


def _tools_of(point: EntryPoint) -> Sequence[Tool]:
    make: Callable[[], Iterable[Tool]] = point.load()
    tools = tuple(make())
    for tool in tools:
        if not isinstance(getattr(tool, "spec", None), ToolSpec) or not callable(getattr(tool, "run", None)):
            raise TypeError(f"{type(tool).__name__} is no tool")
    return tools


def own_tools(*sets: Sequence[Tool]) -> dict[str, Tool]:
    """Tools from outside, by name. Raises: Unprocessable when two have the same, or one has that of a built-in one."""
    found = by_name(*sets)
    for name in sorted(found.keys() & NAMES):
        raise Unprocessable(f"{_whose(found[name])} brings a tool {name!r}, and so does this server. Rename it.")
    return found


def command_tools(
    declared: Iterable[CommandTool],
    taken: Iterable[str],
    workspace: Workspace,
    environ: Mapping[str, str],
    checkpoints: Checkpoints | None = None,
) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """The tools of the user's settings, and a sentence for each that cannot be used.

    `taken` are names in use besides those of the built-in tools, which are nobody's, absent or not.
    """
    tools: list[Tool] = []
    notices: list[str] = []
    names = {*taken, *NAMES}
    for one in declared:
        try:
            if one.name in names:
                raise ValueError("there is a tool of that name already")
            tools.append(RunsCommand(one, workspace, environ, checkpoints))
            names.add(one.name)
        except ValueError as error:
            notices.append(f"The tool {one.name!r} in {one.origin.name} cannot be used: {error}.")
    return tuple(tools), tuple(notices)


def by_name(*sets: Sequence[Tool]) -> dict[str, Tool]:
    """All tools of a session, sorted by name. Raises: Unprocessable when two of them have the same name."""
    found: dict[str, Tool] = {}
    for tool in (tool for tools in sets for tool in tools):
        name = tool.spec.name
        if name in found:
            one, other = _whose(found[name]), _whose(tool)
            raise Unprocessable(f"Two tools are called {name!r}: one of {one}, one of {other}. Remove one of them.")
        found[name] = tool
    return dict(sorted(found.items()))


def _whose(tool: Tool) -> str:
    """Where a tool comes from, for whoever has to remove one."""
    return f"{type(tool).__module__}.{type(tool).__qualname__}"
