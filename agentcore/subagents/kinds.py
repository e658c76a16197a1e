"""The kinds of subagents as values: what a file says about one, and the two that are built in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from types import MappingProxyType

from agentcore.events import Mode
from agentcore.origin import Origin
from agentcore.permissions.names import native_name
from agentcore.ports.tools import Tool, ToolSpec

MAX_TURNS = 100  # the contract's
LABEL_CHARS = 24
"""Of a kind's name in a label: with a number and a vendor's call id it stays below what vendors take as an id."""
NOT_FOR_SUBAGENTS = frozenset({"exit_plan_mode", "task", "task_output", "task_stop"})
"""No nesting; plan mode and background tasks are the session's, and the main agent's to see to."""
_READING = frozenset({"lsp"})
"""Tools that a kind which only reads has too, though some of their actions write: its mode refuses those."""
_BUILT_IN = Origin("built in")


@dataclass(frozen=True, slots=True)
class AgentKind:
    name: str
    description: str
    """When it is of use, for the main agent."""
    prompt: str
    """What it is told in the place of the main agent's system prompt."""
    origin: Origin = _BUILT_IN
    tools: tuple[str, ...] | None = None
    """Names or patterns (`mcp__server__*`) of the tools that it has; None: all."""
    disallowed: tuple[str, ...] = ()
    """The same for those that it has not."""
    model: str | None = None
    """None: the session's."""
    mode: Mode | None = None
    """None: the session's; see `modes`."""
    max_turns: int = MAX_TURNS
    effort: str | None = None
    skills: tuple[str, ...] = ()
    """Names of those that it is told with its task."""
    is_background: bool = False
    is_isolated: bool = False
    """It works in a git worktree of its own."""
    only_reads: bool = False

    def has(self, spec: ToolSpec) -> bool:
        """Whether it is given a tool."""
        if spec.name in NOT_FOR_SUBAGENTS or _is_among(spec.name, self.disallowed):
            return False
        if self.only_reads and not (spec.name in _READING or (spec.read_only and spec.asks is None)):
            return False
        return self.tools is None or _is_among(spec.name, self.tools)

    def chosen(self, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        return {name: tool for name, tool in tools.items() if self.has(tool.spec)}

    @property
    def label(self) -> str:
        """What the labels of its subagents begin with."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower())[:LABEL_CHARS].strip("-") or "agent"


def _is_among(name: str, entries: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name.lower(), native_name(entry)) for entry in entries)


GENERAL = AgentKind(
    name="general-purpose",
    description="Does a piece of work by itself, of several steps and with all tools.",
    prompt=(
        "You are a subagent: another agent has handed you one task. You work by yourself with the tools you are given."
        "\n\n- Do what the task says, all of it and nothing else.\n- Look before you change, and check what you did."
        "\n- A tool may be refused. Then find another way, or say what you could not do; do not repeat it."
    ),
)
EXPLORE = AgentKind(
    name="explore",
    description="Finds things out and changes nothing: searches the project, reads files, looks things up.",
    prompt=(
        "You are a subagent that finds things out: another agent has handed you one question. You can read and search,"
        " and you change nothing.\n\n- Search broadly first, then read what matters."
        "\n- Answer with what you found and where: name files and lines."
    ),
    mode="plan",
    only_reads=True,
)
BUILT_IN: Mapping[str, AgentKind] = MappingProxyType({kind.name: kind for kind in (EXPLORE, GENERAL)})


@dataclass(frozen=True, slots=True)
class AgentIndex:
    """What there is for the context that goes on."""

    kinds: Mapping[str, AgentKind] = field(default_factory=lambda: BUILT_IN)
    """By name in lower case, sorted."""
    notices: tuple[str, ...] = ()
    """What is wrong with files, a sentence each."""

    def find(self, name: str) -> AgentKind | None:
        return self.kinds.get(name.strip().lower())
