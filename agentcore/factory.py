"""The making of agents: what a session gets of its own, on top of what the process lends to all.

Loaded with the first session, so that the start waits for nothing of it. Assembly without logic.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio.to_thread

from agentcore.agent import Agent, Parts
from agentcore.app_config import AppConfig, models_of
from agentcore.attachments import Attachments
from agentcore.candidates import Candidate, CoolDowns
from agentcore.checkpoints.session import SessionCheckpoints
from agentcore.compaction.compactor import Plan
from agentcore.guard.guard import Guard
from agentcore.guard.scanning import Scanner
from agentcore.hooked import Ways, check_by, hooks_of
from agentcore.hooks.asker import HookedAsker
from agentcore.hooks.room import Later
from agentcore.judge import ModelJudge
from agentcore.languages import LanguageSetup
from agentcore.lsp.room import LanguageServers
from agentcore.mentions import may_read_by
from agentcore.messages import Document
from agentcore.permissions.gate import Auto, SessionGate
from agentcore.permissions.grants import Standing
from agentcore.permissions.matching import is_removed
from agentcore.permissions.rules import BadRule, Rule, parse_rule
from agentcore.permissions.workspace import Workspace
from agentcore.ports import Asker, Checkpoints, Clock, Hooks, Sandbox, SessionSource, Tool
from agentcore.providers.registry import Providers
from agentcore.redaction import Redactor
from agentcore.retry import Patience
from agentcore.sessions.records import Grant
from agentcore.sessions.store import OpenSession
from agentcore.settings.approvals import Approvals
from agentcore.settings.effective import Effective
from agentcore.skills.places import personal_folders
from agentcore.surrounded import surrounded
from agentcore.tools.boxed import Boxing
from agentcore.tools.catalogue import WebAccess, builtin_tools
from agentcore.tools.own import by_name, command_tools
from agentcore.tools.pdf import whole_pdf_text
from agentcore.tools.web.cache import PageCache
from agentcore.tracing.recorder import Recorder
from agentcore.tracing.requests import FILE_NAME
from agentcore.turn import SideModel
from agentcore.within import Places, top_of

# Credentials of the user's own tools; closed to every tool of the model wherever the roots lie.
_CREDENTIALS = (
    ".aws",
    ".azure",
    ".cargo/credentials.toml",
    ".claude.json",
    ".claude/.credentials.json",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".docker/config.json",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".ssh",
    ".terraform.d",
)


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


class AgentFactory:
    """One per process."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._cool_downs = CoolDowns(shared.clock)
        self._web = WebAccess(cache=PageCache(shared.clock))
        self.languages = LanguageServers(shared.environ, shared.clock, shared.languages)
        """For all sessions: whoever made this runs their `serve`."""

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
        workspace = self._workspace(session, effective)
        checkpoints = SessionCheckpoints(session.directory, workspace, shared.environ, shared.clock)
        tools, told = self._tools(session, effective, workspace, checkpoints)
        guard = Guard(chosen.guard.mode, scanner, session.log.emit, text_of=partial(_document_text, session))
        hooks = self._hooks(session, effective, tools, workspace, guard)
        hooked = None if asker is None else HookedAsker(asker, hooks, lambda: history.settings.unattended != "deny")
        model, fallbacks = models_of(shared.providers, effective)
        default_model = model or shared.default_model
        auto = self._auto(session, default_model, fallbacks)
        gate = self._gate(session, effective, workspace, hooked, auto)
        around = surrounded(
            session,
            self._places(workspace),
            workspace,
            gate,
            tools,
            memory_folder=shared.config.data_dir / "memory",
            secrets=shared.secrets,
            environ=shared.environ,
        )
        all_tools = by_name(tuple(tools.values()), around.tools)
        kept = {name: tool for name, tool in all_tools.items() if not is_removed(effective.rules.deny, tool.spec)}
        if hooked is not None:
            hooked.hold(check_by(gate, kept))
        parts = Parts(
            tools=kept,
            gate=gate,
            candidates_of=partial(self._candidates_of, fallbacks),
            cool_downs=self._cool_downs,
            patience=shared.patience,
            default_model=default_model,
            clock=shared.clock,
            attachments=Attachments(session.blobs, workspace, may_read_by(gate, tools["read"])),
            compaction=Plan(chosen.compaction, chosen.auto_compact, chosen.compact_at),
            checkpoints=checkpoints,
            asker=hooked,
            warn_at=chosen.budget.warn_at,
            hooks=hooks,
            guard=guard,
            surroundings=around.surroundings,
            expander=around.expander,
            tracer=self._tracer(session),
        )
        agent = Agent(session, parts, source)
        for text in told:
            agent.notice("warning", "settings_ignored", text)
        return agent

    def _hooks(
        self, session: OpenSession, effective: Effective, tools: Mapping[str, Tool], workspace: Workspace, guard: Guard
    ) -> Hooks:
        shared = self._shared
        return hooks_of(
            session,
            effective.hooks,
            Ways(shared.environ, shared.config.environ, shared.later, shared.approvals.is_approved),
            tools=tools,
            workspace=workspace,
            timeout_s=effective.choices.hook_timeout_s,
            check=guard.check_output,
        )

    def _gate(
        self, session: OpenSession, effective: Effective, workspace: Workspace, asker: Asker | None, auto: Auto
    ) -> SessionGate:
        chosen = effective.choices.sandbox
        return SessionGate(
            workspace=workspace,
            mode=lambda: session.history.settings.mode,
            asker=asker,
            standing=Standing(effective.rules, _granted(session), partial(_record_grant, session)),
            auto=auto,
            is_sandboxed=lambda: chosen.enabled and self._shared.sandbox.is_available,
            sandbox_allows=chosen.auto_allow,
        )

    def _auto(self, session: OpenSession, default_model: str, fallbacks: tuple[str, ...]) -> Auto:
        """What mode `auto` works with: the session's own models look at its calls."""
        history, log = session.history, session.log
        clock, patience = self._shared.clock, self._shared.patience
        side = SideModel(log, history.transcript, history.ledger, clock, patience)

        def candidates() -> tuple[Candidate, ...]:
            return self._candidates_of(fallbacks, history.settings.model or default_model)

        turn = partial(getattr, history.ledger, "turn")
        judge = ModelJudge(side, candidates, self._cool_downs, patience, log, clock, turn)
        return Auto(judge, lambda: tuple(history.prompts))

    def _tools(
        self, session: OpenSession, effective: Effective, workspace: Workspace, checkpoints: Checkpoints
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
            boxing=self._boxing(session, effective),
            languages=self.languages,
        )
        known = by_name(made, self._shared.own_tools)
        commands, told = command_tools(effective.tools, known, workspace, environ, checkpoints)
        return by_name(tuple(known.values()), commands), told

    def _boxing(self, session: OpenSession, effective: Effective) -> Boxing | None:
        """None where the user has switched the sandbox off."""
        chosen = effective.choices.sandbox
        if not chosen.enabled:
            return None
        return Boxing(
            self._shared.sandbox,
            lambda: session.history.settings.mode,
            has_network=chosen.network,
            domains=chosen.allowed_domains,
        )

    def _tracer(self, session: OpenSession) -> Callable[[], Recorder | None]:
        shared, history, log = self._shared, session.history, session.log
        path = session.directory / FILE_NAME
        recorder = Recorder(path, shared.clock, lambda: log.last_seq, Redactor(shared.secrets))

        def tracer() -> Recorder | None:
            wanted = history.settings.trace
            return recorder if (shared.config.debug if wanted is None else wanted) else None

        return tracer

    def _candidates_of(self, fallbacks: tuple[str, ...], model: str) -> tuple[Candidate, ...]:
        return tuple(Candidate(*self._shared.providers.named(label)) for label in (model, *fallbacks))

    def _workspace(self, session: OpenSession, effective: Effective) -> Workspace:
        config = self._shared.config
        own = (config.data_dir, config.state_dir, config.config_dir, *config.hidden)
        workspace = Workspace(
            cwd=Path(session.history.meta.cwd),
            roots=(*config.roots, *effective.additional_directories),
            hidden=tuple(path.resolve() for path in (*own, *(config.home / name for name in _CREDENTIALS))),
            readable=(session.directory.resolve(),),
            home=config.home,
            deny=effective.rules.deny,
        )
        return replace(workspace, readable=(*workspace.readable, *personal_folders(self._places(workspace))))

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


def _granted(session: OpenSession) -> Iterator[Rule]:
    """The rules of the journal; one that an older version wrote and that means nothing any more allows nothing."""
    for text in session.history.grants:
        with suppress(BadRule):
            yield parse_rule(text)


def _record_grant(session: OpenSession, rule: Rule, is_granted: bool) -> None:
    session.log.record(Grant(rule=str(rule), is_revoked=not is_granted))


async def _document_text(session: OpenSession, document: Document) -> str:
    """For the guard. Raises: ToolError, KeyError."""
    return await whole_pdf_text(await anyio.to_thread.run_sync(session.blobs.get, document.blob))
