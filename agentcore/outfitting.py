"""What a subagent works with, made as for the main agent but for who it is, where it works and in which mode.

Satisfies the Outfitter protocol for one session. Knows the makers of the process, never an agent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from agentcore.delegated import Identity, Skilled
from agentcore.events import Mode
from agentcore.hooked import Inside, check_by
from agentcore.hooks.asker import HookedAsker
from agentcore.permissions.gate import SessionGate
from agentcore.permissions.matching import is_removed
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.workspace import Workspace
from agentcore.ports.checkpoints import Checkpoints
from agentcore.ports.hooks import Hooks
from agentcore.ports.permission import Asker
from agentcore.ports.servers import Elsewhere, Lent, Servers
from agentcore.ports.tools import Tool
from agentcore.preloading import preloaded
from agentcore.session import Settings
from agentcore.skilled import SkillUse
from agentcore.skills.skill import SkillIndex
from agentcore.skills_in_use import SkillsInUse
from agentcore.toolbox import Toolbox
from agentcore.tools.skill import SkillTool
from agentcore.worktrees import Worktree, moved


class Makers(Protocol):
    """How the parts of any agent of a session are made."""

    def tools(
        self, workspace: Workspace, checkpoints: Checkpoints | None, mode: Callable[[], Mode]
    ) -> Mapping[str, Tool]: ...

    def hooks(self, tools: Mapping[str, Tool], workspace: Workspace, within: Inside | None) -> Hooks: ...

    def gate(
        self, workspace: Workspace, mode: Callable[[], Mode], asker: Asker | None, who: Identity | None, added: Rulebook
    ) -> SessionGate: ...

    def skills_in_use(self, gate: SessionGate) -> SkillsInUse:
        """What the skills of a subagent bring: rules that count until the run ends, and no model of their own."""
        ...


@dataclass(frozen=True, slots=True)
class SessionOutfitter:
    session: str
    settings: Callable[[], Settings]
    workspace: Workspace
    """The main agent's."""
    rules: Rulebook
    """Of files."""
    others: Mapping[str, Tool]
    """The main agent's tools. Those that depend on a workspace are made anew."""
    skill_index: Callable[[], SkillIndex]
    makers: Makers
    server_tools: Servers

    def tools(self, who: Identity, checkpoints: Checkpoints | None) -> Mapping[str, Tool]:
        made = self.makers.tools(who.workspace, checkpoints, who.mode)
        shared = {name: tool for name, tool in self.others.items() if name not in made and name != "skill"}
        allowed = {
            name: tool for name, tool in {**shared, **made}.items() if not is_removed(self.rules.deny, tool.spec)
        }
        return who.kind.chosen(allowed)

    def hooks(self, who: Identity, tools: Mapping[str, Tool]) -> Hooks:
        within = Inside(who.label, who.kind.name, who.log, who.mode, who.turn)
        return self.makers.hooks(self._with_servers(tools), who.workspace, within)

    def gate(self, who: Identity, asker: Asker | None, added: Rulebook) -> SessionGate:
        return self.makers.gate(who.workspace, who.mode, asker, who, added)

    def hold(self, asker: HookedAsker, gate: SessionGate, tools: Mapping[str, Tool]) -> None:
        asker.hold(check_by(gate, self._with_servers(tools)))

    def _with_servers(self, tools: Mapping[str, Tool]) -> Toolbox:
        """For looking up what a call is about. The session's view, not the subagent's own tools of servers: those know
        who asks, and would keep each other alive."""
        return Toolbox(tools, self.server_tools)

    def servers(self, who: Identity, asker: Asker | None, worktree: Worktree | None) -> Lent:
        elsewhere = None if worktree is None else Elsewhere(worktree.source, worktree.folder)
        return self.server_tools.lent(who.kind.has, asker, elsewhere)

    def skills(self, who: Identity, gate: SessionGate, tools: Mapping[str, Tool]) -> Skilled:
        bash, index = tools.get("bash"), self.skill_index()
        in_use = self.makers.skills_in_use(gate)
        use = SkillUse(self.session, self.settings, who.workspace, gate, bash, in_use)
        has_tool = bash is not None and who.kind.has(SkillTool.spec) and index.has_any_for_model
        offered = {"skill": SkillTool(self.skill_index, use.by_model)} if has_tool else {}
        return Skilled(offered, partial(preloaded, who.kind.skills, index, use))

    def moved_rules(self, worktree: Worktree) -> Rulebook:
        return moved(self.rules, worktree.source, worktree.folder, self.workspace.home)
