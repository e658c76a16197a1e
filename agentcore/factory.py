"""The making of agents: what a session gets of its own, on top of what the process lends to all.

Loaded with the first session, so that the start waits for nothing of it. Assembly without logic.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from agentcore.agent import Agent, Parts
from agentcore.attachments import Attachments
from agentcore.candidates import CoolDowns
from agentcore.confinement import hidden_from_tools
from agentcore.delegated import Lent
from agentcore.delegating import Delegation
from agentcore.guard.scanning import Scanner
from agentcore.hooked import applier, check_by
from agentcore.hooks.asker import HookedAsker
from agentcore.hooks.handlers import Handler
from agentcore.lsp.room import LanguageServers
from agentcore.makers import Common, SessionMakers, Shared, places_of
from agentcore.mcp.logins import Logins
from agentcore.mcp.pool import McpServers
from agentcore.mentions import may_read_by
from agentcore.nearby import nearby_of
from agentcore.origin import Origin
from agentcore.outfitting import SessionOutfitter
from agentcore.permissions.matching import is_removed
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.workspace import Workspace
from agentcore.ports.hooks import SessionSource
from agentcore.ports.permission import Asker
from agentcore.ports.servers import Servers
from agentcore.ports.tools import Tool
from agentcore.sessions.store import OpenSession, project_of
from agentcore.settings.effective import Effective
from agentcore.settings.private import FILE_NAME, add_allow_rule, project_file, user_file
from agentcore.skills.finding import find_skills
from agentcore.subagents.tool import TaskTool
from agentcore.surrounded import Surrounded, surrounded
from agentcore.toolbox import Toolbox
from agentcore.tools.catalogue import WebAccess
from agentcore.tools.own import by_name
from agentcore.tools.web.cache import PageCache
from agentcore.worktrees import Worktrees


class AgentFactory:
    """One per process."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.languages = LanguageServers(shared.environ, shared.clock, shared.languages)
        """For all sessions: whoever made this runs their `serve`."""
        self.servers = McpServers(login=Logins(shared.config.config_dir).auth, loading=shared.loading)
        """For all sessions: whoever made this gives them a task group by `adopt`, and closes them."""
        web = WebAccess(cache=PageCache(shared.clock))
        self._common = Common(CoolDowns(shared.clock), web, self.languages, self.servers)

    def make(
        self,
        session: OpenSession,
        effective: Effective,
        scanner: Scanner | None,
        asker: Asker | None,
        source: SessionSource,
    ) -> Agent:
        """Long, since each part needs the ones above it and nothing else does.

        Raises: Unprocessable when two tools have the same name.
        """
        shared, history = self._shared, session.history
        if effective.choices.durability == "os":
            session.log.trust_page_cache()
        if shared.telemetry is not None:
            session.log.listen(shared.telemetry.observer(session.id))
        makers = SessionMakers(shared, self._common, session, effective, scanner)
        background = makers.background()
        tools, told = makers.main_tools(background)
        toolbox = Toolbox(tools)  # hooks look into it; what is missing comes below
        hooks = makers.hooks(toolbox, makers.workspace, None)
        hooked = None if asker is None else HookedAsker(asker, hooks, lambda: history.settings.unattended != "deny")
        toolbox.servers = servers = makers.servers(hooked)
        gate = makers.gate(makers.workspace, makers.mode, hooked, None, Rulebook())
        in_use = makers.main_skills_in_use(gate, hooks)
        around = surrounded(
            session,
            makers.places,
            makers.workspace,
            gate,
            tools,
            in_use,
            memory_folder=shared.config.data_dir / "memory",
            secrets=shared.secrets,
            environ=shared.environ,
            servers=servers,
        )
        surroundings = around.surroundings  # alone: the rest of it knows the gate
        hooks.hold(nearby_of(surroundings, makers.workspace, makers.tell, makers.guard.check_output))
        others = by_name(tuple(tools.values()), around.tools)
        delegation = Delegation(self._lent(session, effective, makers, others, around, servers, asker))
        task = TaskTool(delegation, lambda: surroundings.agents, background)
        all_tools = by_name(tuple(others.values()), (task,))
        kept = {name: tool for name, tool in all_tools.items() if not is_removed(effective.rules.deny, tool.spec)}
        toolbox.own = kept
        if hooked is not None:
            write = partial(_write_rule, shared.config.config_dir, makers.workspace.cwd)
            hooked.hold(check_by(gate, toolbox), applier(session, gate, write, allows_yolo=shared.config.allow_yolo))
        parts = Parts(
            tools=kept,
            gate=gate,
            candidates_of=makers.candidates_of,
            cool_downs=self._common.cool_downs,
            patience=shared.patience,
            default_model=makers.default_model,
            clock=shared.clock,
            attachments=Attachments(session.blobs, makers.workspace, may_read_by(gate, tools["read"])),
            compaction=makers.compaction,
            checkpoints=makers.checkpoints,
            asker=hooked,
            warn_at=effective.choices.budget.warn_at,
            hooks=hooks,
            guard=makers.guard,
            surroundings=surroundings,
            expander=around.expander,
            background=background,
            delegation=delegation,
            in_use=in_use,
            servers=servers,
            tracer=makers.tracer(),
        )
        agent = Agent(session, parts, source)
        for text in told:
            agent.notice("warning", "settings_ignored", text)
        return agent

    def _lent(
        self,
        session: OpenSession,
        effective: Effective,
        makers: SessionMakers,
        others: Mapping[str, Tool],
        around: Surrounded,
        servers: Servers,
        asker: Asker | None,
    ) -> Lent:
        """What the subagents of a session borrow. `others`: the main agent's tools but the one that starts them."""
        shared, history, surroundings = self._shared, session.history, around.surroundings
        return Lent(
            session=session,
            workspace=makers.workspace,
            outfitter=SessionOutfitter(
                session.id,
                lambda: history.settings,
                makers.workspace,
                effective.rules,
                others,
                lambda: surroundings.index,
                makers,
                servers,
            ),
            said=lambda: surroundings.said,
            asker=asker,
            guard=makers.guard,
            checkpoints=makers.checkpoints,
            worktrees=Worktrees(makers.workspace, shared.environ),
            candidates_of=makers.candidates_of,
            default_model=makers.default_model,
            cool_downs=self._common.cool_downs,
            patience=shared.patience,
            clock=shared.clock,
            compaction=makers.compaction,
            warn_at=effective.choices.budget.warn_at,
        )

    def skill_hooks(self, cwd: Path) -> list[Handler]:
        """The hooks of the repository's skills around a folder (resolved). Blocking."""
        config = self._shared.config
        workspace = Workspace(cwd, config.roots, hidden=hidden_from_tools(config), home=config.home)
        skills = find_skills(places_of(config, workspace)).skills.values()
        return [hook for skill in skills if skill.is_shared for hook in skill.hooks]


def _write_rule(config_dir: Path, cwd: Path, rule: str, for_user: bool) -> Origin:
    """Write an allow rule to the user's private settings, and say where. Blocking. Raises: OSError, Unprocessable."""
    project = project_of(cwd)
    add_allow_rule(user_file(config_dir) if for_user else project_file(config_dir, project), rule)
    return Origin(FILE_NAME, config_dir) if for_user else Origin(f"projects/{project}/{FILE_NAME}", cwd)
