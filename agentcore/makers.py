"""How the parts of the agents of one session are made: of the main one, and of each of its subagents.

Knows what the process lends, the session and what counts for it; never an agent. Assembly without logic.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from agentcore.app_config import AppConfig, models_of
from agentcore.background.room import BackgroundTasks
from agentcore.beside import ModelBeside
from agentcore.candidates import Candidate, CoolDowns
from agentcore.checkpoints.session import SessionCheckpoints
from agentcore.compaction.compactor import Plan
from agentcore.confinement import confinement_of, hidden_from_tools
from agentcore.delegated import Identity
from agentcore.errors import BadRequest
from agentcore.events import Mode, Notice
from agentcore.guard.guard import Guard
from agentcore.guard.scanning import Scanner
from agentcore.hooked import Inside, Ways, hooks_of, mcp_caller, model_asker
from agentcore.hooks.exports import Exports
from agentcore.hooks.room import Later
from agentcore.judge import ModelJudge
from agentcore.languages import LanguageSetup
from agentcore.lsp.room import LanguageServers
from agentcore.marks import start_of
from agentcore.mcp.pool import McpServers
from agentcore.mcp.tool import Scene
from agentcore.mcp.view import SessionServers
from agentcore.messages import Document
from agentcore.nearby import HooksAndSkills
from agentcore.permissions.gate import Auto, SessionGate
from agentcore.permissions.grants import Standing
from agentcore.permissions.matching import is_removed
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.rules import BadRule, Rule, parse_rule
from agentcore.permissions.workspace import Workspace
from agentcore.ports.background import Background
from agentcore.ports.checkpoints import Checkpoints
from agentcore.ports.clock import Clock
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
from agentcore.sessions.store import OpenSession
from agentcore.settings.approvals import Approvals
from agentcore.settings.effective import Effective
from agentcore.skills.places import personal_folders
from agentcore.skills_in_use import SkillsInUse
from agentcore.tools.boxed import Boxing
from agentcore.tools.catalogue import WebAccess, builtin_tools
from agentcore.tools.own import by_name, command_tools
from agentcore.tools.pdf import whole_pdf_text
from agentcore.tracing import requests as traced
from agentcore.tracing.recorder import Recorder
from agentcore.turn import HookModel, SideModel
from agentcore.within import Places, top_of

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


@dataclass(frozen=True, slots=True)
class Common:
    """What all agents of the process use, made with the first of them."""

    cool_downs: CoolDowns
    web: WebAccess
    languages: LanguageServers
    servers: McpServers


class SessionMakers:
    """Satisfies the Makers protocol for one session: its agents share the rules that are in force."""

    def __init__(
        self, shared: Shared, common: Common, session: OpenSession, effective: Effective, scanner: Scanner | None
    ) -> None:
        self._shared, self._common, self._session, self._effective = shared, common, session, effective
        model, self._fallbacks = models_of(shared.providers, effective)
        self.default_model = model or shared.default_model
        chosen = effective.choices
        self.compaction = Plan(chosen.compaction, chosen.auto_compact, chosen.compact_at)
        self.workspace = self._workspace()
        """The main agent's."""
        self.checkpoints = SessionCheckpoints(session.directory, self.workspace, shared.environ, shared.clock)
        self.guard = Guard(chosen.guard.mode, scanner, session.log.emit, text_of=partial(_document_text, session))
        self._exports = Exports(session.directory, shared.environ, shared.providers.key_variables)
        record = partial(_record_grant, session)
        self._standing = Standing(effective.rules, _granted(session), record, shared.clock.now)

    @property
    def places(self) -> Places:
        return places_of(self._shared.config, self.workspace)

    def mode(self) -> Mode:
        """Of the main agent."""
        return self._session.history.settings.mode

    def tell(self, notice: Notice) -> None:
        self._session.log.emit(notice.model_copy(update={"turn": self._session.history.ledger.turns or None}))

    # --- what each agent of the session has of its own ---

    def tools(
        self, workspace: Workspace, checkpoints: Checkpoints | None, mode: Callable[[], Mode]
    ) -> Mapping[str, Tool]:
        """Without what outlives its call."""
        made, _ = self._tools(workspace, checkpoints, None, mode)
        return made

    def main_tools(self, background: Background) -> tuple[dict[str, Tool], tuple[str, ...]]:
        """The main agent's by name, and a sentence for each of the user's that cannot be used.

        Raises: Unprocessable when two have the same name.
        """
        return self._tools(self.workspace, self.checkpoints, background, self.mode)

    def hooks(self, tools: Mapping[str, Tool], workspace: Workspace, within: Inside | None) -> HooksAndSkills:
        shared, effective = self._shared, self._effective
        ways = Ways(
            environ=shared.environ,
            secrets=shared.config.environ,
            later=shared.later,
            is_approved=partial(shared.approvals.is_approved, cwd=workspace.cwd),
            now=shared.clock.now,
            call_mcp=mcp_caller(tools),
        )
        return hooks_of(
            self._session,
            effective.hooks,
            ways,
            tools=tools,
            workspace=workspace,
            default_model=self.default_model,
            exports=self._exports,
            ask_model=model_asker(self._beside(HookModel), self._why_not_model),
            timeout_s=effective.choices.hook_timeout_s,
            check=self.guard.check_output,
            within=within,
            around=self._around_hooks(workspace, self.mode if within is None else within.mode),
        )

    def gate(
        self, workspace: Workspace, mode: Callable[[], Mode], asker: Asker | None, who: Identity | None, added: Rulebook
    ) -> SessionGate:
        chosen, sandbox = self._effective.choices.sandbox, self._shared.sandbox
        return SessionGate(
            workspace=workspace,
            mode=mode,
            asker=asker,
            standing=self._standing,
            auto=self._auto(who),
            is_sandboxed=lambda: chosen.enabled and sandbox.is_available,
            sandbox_allows=chosen.auto_allow,
            added=added,
        )

    def skills_in_use(self, gate: SessionGate) -> SkillsInUse:
        return SkillsInUse(gate.standing, None, self.tell, self._why_not_model)

    def main_skills_in_use(self, gate: SessionGate, hooks: HooksAndSkills) -> SkillsInUse:
        """Those of the main agent bring hooks, too."""
        rooms = None if self._effective.hooks_are_off else hooks.room
        return SkillsInUse(gate.standing, rooms, self.tell, self._why_not_model)

    # --- what they share ---

    def background(self) -> BackgroundTasks:
        session = self._session
        return BackgroundTasks(
            session.log,
            session.history.tasks,
            self.guard,
            self._shared.later,
            partial(_record_process, session),
            session.directory / "spill",
            self._shared.clock.now,
        )

    def servers(self, asker: Asker | None) -> Servers:
        shared, effective = self._shared, self._effective
        if not effective.mcp_servers:
            return NO_SERVERS
        cwd = Path(self._session.history.meta.cwd)
        confinement = confinement_of(shared.sandbox, shared.config, effective)
        return SessionServers(
            self._common.servers,
            effective.mcp_servers,
            Scene(self._session.id, cwd, self._session.blobs, asker, confinement),
            shared.config.environ,
            partial(shared.approvals.is_approved, cwd=cwd),
            partial(is_removed, effective.rules.deny),
        )

    def tracer(self) -> Callable[[], Recorder | None]:
        """What says whether, and with what, this moment's model calls are kept."""
        shared, history, log = self._shared, self._session.history, self._session.log
        path = self._session.directory / traced.FILE_NAME
        recorder = Recorder(path, shared.clock, lambda: log.last_seq, Redactor(shared.secrets))

        def tracer() -> Recorder | None:
            wanted = history.settings.trace
            return recorder if (shared.config.debug if wanted is None else wanted) else None

        return tracer

    def candidates_of(self, model: str) -> tuple[Candidate, ...]:
        """A model, and those that are asked when it fails. Raises: BadRequest."""
        return tuple(Candidate(*self._shared.providers.named(label)) for label in (model, *self._fallbacks))

    # --- parts of parts ---

    def _tools(
        self,
        workspace: Workspace,
        checkpoints: Checkpoints | None,
        background: Background | None,
        mode: Callable[[], Mode],
    ) -> tuple[dict[str, Tool], tuple[str, ...]]:
        environ = self._shared.environ
        made = builtin_tools(
            workspace,
            environ,
            self._session.blobs,
            checkpoints=checkpoints,
            web=self._common.web,
            boxing=self._boxing(mode),
            exported=partial(getattr, self._exports, "variables"),
            languages=self._common.languages,
            background=background,
        )
        known = by_name(made, self._shared.own_tools)
        commands, told = command_tools(self._effective.tools, known, workspace, environ, checkpoints)
        return by_name(tuple(known.values()), commands), told

    def _boxing(self, mode: Callable[[], Mode]) -> Boxing | None:
        """None where the user has switched the sandbox off."""
        chosen = self._effective.choices.sandbox
        if not chosen.enabled:
            return None
        return Boxing(self._shared.sandbox, mode, has_network=chosen.network, domains=chosen.allowed_domains)

    def _around_hooks(self, workspace: Workspace, mode: Callable[[], Mode]) -> Around:
        boxing = self._boxing(mode) if self._effective.choices.sandbox.hooks else None
        return unconfined if boxing is None else partial(boxing.around, workspace)

    def _auto(self, who: Identity | None) -> Auto:
        """What mode `auto` works with: the session's own models look at the calls of the main agent or a subagent."""
        history = self._session.history
        return Auto(ModelJudge(self._beside(SideModel, who)), lambda: tuple(history.prompts))

    def _beside(self, kind: type[SideModel], who: Identity | None = None) -> ModelBeside:
        """What asks the session's own models something that is none of its conversation."""
        history, default_model, candidates_of = self._session.history, self.default_model, self.candidates_of
        log: EventLog = self._session.log if who is None else who.log
        transcript, ledger = (history.transcript, history.ledger) if who is None else (who.transcript, who.ledger)
        clock, patience = self._shared.clock, self._shared.patience

        def candidates(model: str | None) -> tuple[Candidate, ...]:
            return candidates_of(model or history.settings.model or default_model)

        side = partial(kind, log, transcript, ledger, clock, patience)
        turn = partial(getattr, ledger, "turn" if kind is SideModel else "turns")
        return ModelBeside(side, candidates, self._common.cool_downs, patience, log, clock, turn)

    def _why_not_model(self, model: str) -> str | None:
        """Why a model cannot be asked, in a sentence; None where it can, as far as it is known."""
        providers = self._shared.providers
        try:
            return providers.why_not(providers.parse(model)[0])
        except BadRequest as error:
            return str(error)

    def _workspace(self) -> Workspace:
        config, effective = self._shared.config, self._effective
        workspace = Workspace(
            cwd=Path(self._session.history.meta.cwd),
            roots=(*config.roots, *effective.additional_directories),
            hidden=hidden_from_tools(config),
            readable=(self._session.directory.resolve(),),
            home=config.home,
            deny=effective.rules.deny,
            ask=effective.rules.ask,
            scripts=effective.scripts,
        )
        return replace(workspace, readable=(*workspace.readable, *personal_folders(places_of(config, workspace))))


def places_of(config: AppConfig, workspace: Workspace) -> Places:
    """Where what people wrote for agents is looked for."""
    return Places(
        cwd=workspace.cwd,
        top=top_of(workspace.cwd, config.roots),
        roots=workspace.roots,
        home=config.home,
        config_dir=config.config_dir,
        is_closed=workspace.is_hidden,
    )


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
