"""The making of agents: what a session gets of its own, on top of what the process lends to all.

Loaded with the first session, so that the start waits for nothing of it. Assembly without logic.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from agentcore.agent import Agent, Parts
from agentcore.app_config import AppConfig, models_of
from agentcore.attachments import Attachments
from agentcore.background.room import BackgroundTasks
from agentcore.beside import ModelBeside
from agentcore.candidates import Candidate, CoolDowns
from agentcore.checkpoints.session import SessionCheckpoints
from agentcore.compaction.compactor import Plan
from agentcore.confinement import confinement_of, hidden_from_tools
from agentcore.delegated import Identity, Lent
from agentcore.delegating import Delegation
from agentcore.errors import BadRequest
from agentcore.events import Mode, Notice
from agentcore.guard.guard import Guard
from agentcore.guard.scanning import Scanner
from agentcore.hooked import Inside, Ways, applier, check_by, hooks_of, mcp_caller, model_asker
from agentcore.hooks.asker import HookedAsker
from agentcore.hooks.exports import Exports
from agentcore.hooks.handlers import Handler
from agentcore.hooks.room import Later
from agentcore.judge import ModelJudge
from agentcore.languages import LanguageSetup
from agentcore.lsp.room import LanguageServers
from agentcore.marks import start_of
from agentcore.mcp.logins import Logins
from agentcore.mcp.pool import McpServers
from agentcore.mcp.tool import Scene
from agentcore.mcp.view import SessionServers
from agentcore.mentions import may_read_by
from agentcore.messages import Document
from agentcore.nearby import HooksAndSkills, nearby_of
from agentcore.origin import Origin
from agentcore.outfitting import SessionOutfitter
from agentcore.permissions.gate import Auto, SessionGate
from agentcore.permissions.grants import Standing
from agentcore.permissions.matching import is_removed
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.rules import BadRule, Rule, parse_rule
from agentcore.permissions.workspace import Workspace
from agentcore.ports.background import Background
from agentcore.ports.checkpoints import Checkpoints
from agentcore.ports.clock import Clock
from agentcore.ports.hooks import SessionSource
from agentcore.ports.log import EventLog
from agentcore.ports.permission import Asker
from agentcore.ports.sandbox import Sandbox
from agentcore.ports.servers import NO_SERVERS, Servers
from agentcore.ports.tools import Tool
from agentcore.processes import Around, unconfined
from agentcore.providers.registry import Providers
from agentcore.redaction import Redactor
from agentcore.retry import Patience
from agentcore.sessions.records import Grant, TaskProcess
from agentcore.sessions.store import OpenSession, project_of
from agentcore.settings.approvals import Approvals
from agentcore.settings.effective import Effective
from agentcore.settings.private import FILE_NAME, add_allow_rule, project_file, user_file
from agentcore.skills.finding import find_skills
from agentcore.skills.places import personal_folders
from agentcore.skills_in_use import SkillsInUse
from agentcore.subagents.tool import TaskTool
from agentcore.surrounded import surrounded
from agentcore.toolbox import Toolbox
from agentcore.tools.boxed import Boxing
from agentcore.tools.catalogue import WebAccess, builtin_tools
from agentcore.tools.own import by_name, command_tools
from agentcore.tools.pdf import whole_pdf_text
from agentcore.tools.web.cache import PageCache
from agentcore.tracing import requests as traced
from agentcore.tracing.recorder import Recorder
from agentcore.turn import HookModel, SideModel
from agentcore.within import Places, top_of
from agentcore.worktrees import Worktrees

if TYPE_CHECKING:  # loaded where it is wanted
    from agentcore.telemetry.room import Telemetry


@dataclass(frozen=True, slots=True)
class Shared:
    """What the process lends to every agent."""

    config: AppConfig
    providers: Providers
    approvals: Approvals
    clock: Clock
    patience: Patience
    default_model: str
    languages: tuple[LanguageSetup, ...]
    """The user's own language servers."""
    own_tools: tuple[Tool, ...]
    """Those of the caller and of installed packages."""
    sandbox: Sandbox
    environ: Mapping[str, str]
    """Of tools and hooks: without the keys of providers."""
    secrets: frozenset[str]
    later: Later
    """Starts what nobody waits for."""
    loading: Callable[[], AbstractContextManager[None]]
    """Entered around the loading of an SDK, in a worker."""
    telemetry: "Telemetry | None"
    """None: OpenTelemetry is off, and not loaded."""


class AgentFactory:
    """One per process."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cool_downs = CoolDowns(shared.clock)
        self._web = WebAccess(cache=PageCache(shared.clock))
        self.languages = LanguageServers(shared.environ, shared.clock, shared.languages)
        """For all sessions: whoever made this runs their `serve`."""
        self.servers = McpServers(login=Logins(shared.config.config_dir).auth, loading=shared.loading)
        """For all sessions: whoever made this gives them a task group by `adopt`, and closes them."""

    def make(
        self,
        session: OpenSession,
        effective: Effective,
        scanner: Scanner | None,
        asker: Asker | None,
        source: SessionSource,
    ) -> Agent:
        """Raises: Unprocessable when two tools have the same name."""
        shared, chosen, history = self._shared, effective.choices, session.history
        if chosen.durability == "os":
            session.log.trust_page_cache()
        if shared.telemetry is not None:
            session.log.listen(shared.telemetry.observer(session.id))
        workspace = self._workspace(session, effective)
        checkpoints = SessionCheckpoints(session.directory, workspace, shared.environ, shared.clock)
        guard = Guard(chosen.guard.mode, scanner, session.log.emit, text_of=partial(_document_text, session))
        exports = Exports(session.directory, shared.environ, shared.providers.key_variables)
        background = self._background(session, guard)
        makers = _Makers(self, session, effective, guard, exports)
        tools, told = self._tools(session, effective, workspace, checkpoints, exports, background, makers.mode)
        toolbox = Toolbox(tools)  # hooks look into it; what is missing comes below
        hooks = makers.hooks(toolbox, workspace, None)
        hooked = None if asker is None else HookedAsker(asker, hooks, lambda: history.settings.unattended != "deny")
        toolbox.servers = servers = self._servers(session, effective, hooked)
        model, fallbacks = models_of(shared.providers, effective)
        default_model = model or shared.default_model
        plan = Plan(chosen.compaction, chosen.auto_compact, chosen.compact_at)
        gate = makers.gate(workspace, makers.mode, hooked, None, Rulebook())
        rooms = None if effective.hooks_are_off else hooks.room
        in_use = SkillsInUse(gate.standing, rooms, partial(_tell, session), self._why_not_model)
        around = surrounded(
            session,
            self._places(workspace),
            workspace,
            gate,
            tools,
            in_use,
            memory_folder=shared.config.data_dir / "memory",
            secrets=shared.secrets,
            environ=shared.environ,
            servers=servers,
        )
        surroundings = around.surroundings  # alone: the rest of it knows the gate
        lent = Lent(
            session=session,
            workspace=workspace,
            outfitter=SessionOutfitter(
                session.id,
                lambda: history.settings,
                workspace,
                effective.rules,
                by_name(tuple(tools.values()), around.tools),
                lambda: surroundings.index,
                makers,
                servers,
            ),
            said=lambda: surroundings.said,
            asker=asker,
            guard=guard,
            checkpoints=checkpoints,
            worktrees=Worktrees(workspace, shared.environ),
            candidates_of=partial(self._candidates_of, fallbacks),
            default_model=default_model,
            cool_downs=self._cool_downs,
            patience=shared.patience,
            clock=shared.clock,
            compaction=plan,
            warn_at=chosen.budget.warn_at,
        )
        hooks.hold(nearby_of(surroundings, workspace, partial(_tell, session), guard.check_output))
        delegation = Delegation(lent)
        task = TaskTool(delegation, lambda: surroundings.agents, background)
        all_tools = by_name(tuple(tools.values()), around.tools, (task,))
        kept = {name: tool for name, tool in all_tools.items() if not is_removed(effective.rules.deny, tool.spec)}
        toolbox.own = kept
        if hooked is not None:
            write = partial(_write_rule, shared.config.config_dir, workspace.cwd)
            hooked.hold(check_by(gate, toolbox), applier(session, gate, write, allows_yolo=shared.config.allow_yolo))
        parts = Parts(
            tools=kept,
            gate=gate,
            candidates_of=partial(self._candidates_of, fallbacks),
            cool_downs=self._cool_downs,
            patience=shared.patience,
            default_model=default_model,
            clock=shared.clock,
            attachments=Attachments(session.blobs, workspace, may_read_by(gate, tools["read"])),
            compaction=plan,
            checkpoints=checkpoints,
            asker=hooked,
            warn_at=chosen.budget.warn_at,
            hooks=hooks,
            guard=guard,
            surroundings=surroundings,
            expander=around.expander,
            background=background,
            delegation=delegation,
            in_use=in_use,
            servers=servers,
            tracer=self._tracer(session),
        )
        agent = Agent(session, parts, source)
        for text in told:
            agent.notice("warning", "settings_ignored", text)
        return agent

    def _background(self, session: OpenSession, guard: Guard) -> BackgroundTasks:
        return BackgroundTasks(
            session.log,
            session.history.tasks,
            guard,
            self._shared.later,
            partial(_record_process, session),
            session.directory / "spill",
            self._shared.clock.now,
        )

    def _servers(self, session: OpenSession, effective: Effective, asker: Asker | None) -> Servers:
        shared = self._shared
        if not effective.mcp_servers:
            return NO_SERVERS
        return SessionServers(
            self.servers,
            effective.mcp_servers,
            Scene(
                session.id,
                Path(session.history.meta.cwd),
                session.blobs,
                asker,
                confinement_of(shared.sandbox, shared.config, effective),
            ),
            shared.config.environ,
            partial(shared.approvals.is_approved, cwd=Path(session.history.meta.cwd)),
            partial(is_removed, effective.rules.deny),
        )

    def _hooks(
        self,
        session: OpenSession,
        effective: Effective,
        tools: Mapping[str, Tool],
        workspace: Workspace,
        guard: Guard,
        exports: Exports,
        within: Inside | None,
        mode: Callable[[], Mode],
    ) -> HooksAndSkills:
        shared = self._shared
        model, _ = models_of(shared.providers, effective)
        beside = self._beside(session, effective, HookModel)
        return hooks_of(
            session,
            effective.hooks,
            Ways(
                environ=shared.environ,
                secrets=shared.config.environ,
                later=shared.later,
                is_approved=partial(shared.approvals.is_approved, cwd=workspace.cwd),
                now=shared.clock.now,
                call_mcp=mcp_caller(tools),
            ),
            tools=tools,
            workspace=workspace,
            default_model=model or shared.default_model,
            exports=exports,
            ask_model=model_asker(beside, self._why_not_model),
            timeout_s=effective.choices.hook_timeout_s,
            check=guard.check_output,
            within=within,
            around=self._around_hooks(effective, workspace, mode),
        )

    def _gate(
        self,
        effective: Effective,
        workspace: Workspace,
        mode: Callable[[], Mode],
        asker: Asker | None,
        standing: Standing,
        auto: Auto,
        added: Rulebook,
    ) -> SessionGate:
        chosen = effective.choices.sandbox
        return SessionGate(
            workspace=workspace,
            mode=mode,
            asker=asker,
            standing=standing,
            auto=auto,
            is_sandboxed=lambda: chosen.enabled and self._shared.sandbox.is_available,
            sandbox_allows=chosen.auto_allow,
            added=added,
        )

    def _auto(self, session: OpenSession, effective: Effective, who: Identity | None) -> Auto:
        """What mode `auto` works with: the session's own models look at its calls, for the main agent or a subagent."""
        judge = ModelJudge(self._beside(session, effective, SideModel, who))
        return Auto(judge, lambda: tuple(session.history.prompts))

    def _beside(
        self, session: OpenSession, effective: Effective, kind: type[SideModel], who: Identity | None = None
    ) -> ModelBeside:
        """What asks the session's own models something that is none of its conversation."""
        history = session.history
        model, fallbacks = models_of(self._shared.providers, effective)
        default_model = model or self._shared.default_model
        log: EventLog = session.log if who is None else who.log
        transcript, ledger = (history.transcript, history.ledger) if who is None else (who.transcript, who.ledger)
        clock, patience = self._shared.clock, self._shared.patience

        def candidates(model: str | None) -> tuple[Candidate, ...]:
            return self._candidates_of(fallbacks, model or history.settings.model or default_model)

        side = partial(kind, log, transcript, ledger, clock, patience)
        turn = partial(getattr, ledger, "turn" if kind is SideModel else "turns")
        return ModelBeside(side, candidates, self._cool_downs, patience, log, clock, turn)

    def _tools(
        self,
        session: OpenSession,
        effective: Effective,
        workspace: Workspace,
        checkpoints: Checkpoints | None,
        exports: Exports,
        background: Background | None,
        mode: Callable[[], Mode],
    ) -> tuple[dict[str, Tool], tuple[str, ...]]:
        """All tools of a session by name, and a sentence for each of the user's that cannot be used.

        Raises: Unprocessable when two have the same name.
        """
        environ = self._shared.environ
        made = builtin_tools(
            workspace,
            environ,
            session.blobs,
            checkpoints=checkpoints,
            web=self._web,
            boxing=self._boxing(effective, mode),
            exported=partial(getattr, exports, "variables"),
            languages=self.languages,
            background=background,
        )
        known = by_name(made, self._shared.own_tools)
        commands, told = command_tools(effective.tools, known, workspace, environ, checkpoints)
        return by_name(tuple(known.values()), commands), told

    def _boxing(self, effective: Effective, mode: Callable[[], Mode]) -> Boxing | None:
        """None where the user has switched the sandbox off."""
        chosen = effective.choices.sandbox
        if not chosen.enabled:
            return None
        return Boxing(
            self._shared.sandbox,
            mode,
            has_network=chosen.network,
            domains=chosen.allowed_domains,
        )

    def _around_hooks(self, effective: Effective, workspace: Workspace, mode: Callable[[], Mode]) -> Around:
        boxing = self._boxing(effective, mode) if effective.choices.sandbox.hooks else None
        return unconfined if boxing is None else partial(boxing.around, workspace)

    def _tracer(self, session: OpenSession) -> Callable[[], Recorder | None]:
        shared, history, log = self._shared, session.history, session.log
        path = session.directory / traced.FILE_NAME
        recorder = Recorder(path, shared.clock, lambda: log.last_seq, Redactor(shared.secrets))

        def tracer() -> Recorder | None:
            wanted = history.settings.trace
            return recorder if (shared.config.debug if wanted is None else wanted) else None

        return tracer

    def _candidates_of(self, fallbacks: tuple[str, ...], model: str) -> tuple[Candidate, ...]:
        return tuple(Candidate(*self._shared.providers.named(label)) for label in (model, *fallbacks))

    def _why_not_model(self, model: str) -> str | None:
        """Why a model cannot be asked, in a sentence; None where it can, as far as it is known."""
        providers = self._shared.providers
        try:
            return providers.why_not(providers.parse(model)[0])
        except BadRequest as error:
            return str(error)

    def _workspace(self, session: OpenSession, effective: Effective) -> Workspace:
        config = self._shared.config
        workspace = Workspace(
            cwd=Path(session.history.meta.cwd),
            roots=(*config.roots, *effective.additional_directories),
            hidden=hidden_from_tools(config),
            readable=(session.directory.resolve(),),
            home=config.home,
            deny=effective.rules.deny,
            ask=effective.rules.ask,
        )
        return replace(workspace, readable=(*workspace.readable, *personal_folders(self._places(workspace))))

    def skill_hooks(self, cwd: Path) -> list[Handler]:
        """The hooks of the repository's skills around a folder (resolved). Blocking."""
        config = self._shared.config
        workspace = Workspace(cwd, config.roots, hidden=hidden_from_tools(config), home=config.home)
        skills = find_skills(self._places(workspace)).skills.values()
        return [hook for skill in skills if skill.is_shared for hook in skill.hooks]

    def _places(self, workspace: Workspace) -> Places:
        config = self._shared.config
        return Places(
            cwd=workspace.cwd,
            top=top_of(workspace.cwd, config.roots),
            roots=workspace.roots,
            home=config.home,
            config_dir=config.config_dir,
            is_closed=workspace.is_hidden,
        )


class _Makers:
    """Satisfies the Makers protocol for one session: its agents share the rules that are in force."""

    def __init__(
        self, factory: AgentFactory, session: OpenSession, effective: Effective, guard: Guard, exports: Exports
    ) -> None:
        self._factory = factory
        self._session = session
        self._effective = effective
        self._guard = guard
        self._exports = exports
        now = factory._shared.clock.now
        self._standing = Standing(effective.rules, _granted(session), partial(_record_grant, session), now)

    def mode(self) -> Mode:
        """Of the main agent."""
        return self._session.history.settings.mode

    def tools(
        self, workspace: Workspace, checkpoints: Checkpoints | None, mode: Callable[[], Mode]
    ) -> Mapping[str, Tool]:
        """Without what outlives its call."""
        session, effective = self._session, self._effective
        made, _ = self._factory._tools(session, effective, workspace, checkpoints, self._exports, None, mode)
        return made

    def hooks(self, tools: Mapping[str, Tool], workspace: Workspace, within: Inside | None) -> HooksAndSkills:
        mode = self.mode if within is None else within.mode
        return self._factory._hooks(
            self._session, self._effective, tools, workspace, self._guard, self._exports, within, mode
        )

    def gate(
        self, workspace: Workspace, mode: Callable[[], Mode], asker: Asker | None, who: Identity | None, added: Rulebook
    ) -> SessionGate:
        auto = self._factory._auto(self._session, self._effective, who)
        return self._factory._gate(self._effective, workspace, mode, asker, self._standing, auto, added)

    def skills_in_use(self, gate: SessionGate) -> SkillsInUse:
        return SkillsInUse(gate.standing, None, partial(_tell, self._session), self._factory._why_not_model)


def _tell(session: OpenSession, notice: Notice) -> None:
    session.log.emit(notice.model_copy(update={"turn": session.history.ledger.turns or None}))


def _write_rule(config_dir: Path, cwd: Path, rule: str, for_user: bool) -> Origin:
    """Write an allow rule to the user's private settings, and say where. Blocking. Raises: OSError, Unprocessable."""
    project = project_of(cwd)
    add_allow_rule(user_file(config_dir) if for_user else project_file(config_dir, project), rule)
    return Origin(FILE_NAME, config_dir) if for_user else Origin(f"projects/{project}/{FILE_NAME}", cwd)


def _granted(session: OpenSession) -> Iterator[Rule]:
    """The rules of the journal; one that an older version wrote and that means nothing any more allows nothing."""
    for text, expires_at in session.history.grants.items():
        with suppress(BadRule):
            yield replace(parse_rule(text), expires_at=expires_at)


def _record_grant(session: OpenSession, rule: Rule, is_granted: bool) -> None:
    session.log.record(Grant(rule=str(rule), is_revoked=not is_granted, expires_at=rule.expires_at))


def _record_process(session: OpenSession, task_id: str, pid: int) -> None:
    session.log.record(TaskProcess(task_id=task_id, pid=pid, start=start_of(pid)))


async def _document_text(session: OpenSession, document: Document) -> str:
    """For the guard. Raises: ToolError, KeyError."""
    return await whole_pdf_text(await anyio.to_thread.run_sync(session.blobs.get, document.blob))
