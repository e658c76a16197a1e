"""What all sessions of one process share, and the making of agents out of it.

Assembly without logic: provider clients, the session store, the user's rules. Closing an agent closes nothing that
another one uses. Blocking work goes to worker threads here.
"""

import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, Unpack

import anyio.to_thread
from anyio.abc import TaskGroup

from agentcore.agent import Agent, Parts
from agentcore.attachments import Attachments
from agentcore.candidates import Candidate, CoolDowns
from agentcore.checkpoints.session import SessionCheckpoints, prune_all
from agentcore.clock import SystemClock
from agentcore.compaction.compactor import Plan
from agentcore.errors import BadRequest, ModeNotAllowed, Unprocessable
from agentcore.events import SessionUpdated, UserMessage
from agentcore.guard.building import make_scanner
from agentcore.guard.guard import Guard
from agentcore.guard.scanning import Scanner
from agentcore.hooked import Ways, check_by, hooks_of
from agentcore.hooks.asker import HookedAsker
from agentcore.judge import ModelJudge
from agentcore.limits import limits_from
from agentcore.marks import kill_orphans
from agentcore.mentions import may_read_by
from agentcore.messages import Document
from agentcore.origin import Origin
from agentcore.permissions.gate import Auto, SessionGate
from agentcore.permissions.grants import Standing, listed
from agentcore.permissions.matching import is_removed
from agentcore.permissions.rules import BadRule, Rule, parse_rule
from agentcore.permissions.workspace import Workspace
from agentcore.ports import Asker, Checkpoints, Clock, Hooks, Provider, SessionSource, Tool
from agentcore.providers.registry import LOOK_AGAIN_S, Providers
from agentcore.redaction import Redactor
from agentcore.retry import Patience
from agentcore.session import HistoryMessage, Settings, StandingRule, Summary
from agentcore.sessions.export import ExportFormat
from agentcore.sessions.records import Grant
from agentcore.sessions.store import OpenSession, SessionStore, project_of
from agentcore.settings import effective as layers
from agentcore.settings.approvals import Approval, Approvals, find, look, wanted
from agentcore.settings.choices import BadChoice, check
from agentcore.settings.effective import COMMAND_LINE, DEFAULT, Effective
from agentcore.settings.private import FILE_NAME, add_allow_rule, project_file, user_file
from agentcore.settings.sources import Sources
from agentcore.settings.standing import is_own, read_standing, remove_rule
from agentcore.skills.places import personal_folders
from agentcore.surrounded import surrounded
from agentcore.tools.catalogue import WebAccess, builtin_tools
from agentcore.tools.own import by_name, command_tools, installed_tools, own_tools
from agentcore.tools.pdf import whole_pdf_text
from agentcore.tools.web.cache import PageCache
from agentcore.tools.web.services import KEY_VARIABLES
from agentcore.turn import SideModel
from agentcore.within import Places, top_of

log = logging.getLogger(__name__)

T = TypeVar("T")
Args = TypeVarTuple("Args")

_FROM_SETTINGS = frozenset({"mode", "effort", "unattended", "max_turns"})
"""Choices that a session keeps once it has begun."""

# Credentials of the user's own tools; closed to every tool of the model wherever the roots lie.
_CREDENTIALS = (
    ".aws",
    ".azure",
    ".claude.json",
    ".claude/.credentials.json",
    ".config/gcloud",
    ".config/gh",
    ".docker/config.json",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".ssh",
)


@dataclass(frozen=True, slots=True)
class AppConfig:
    """Where the process works and what it may do."""

    roots: tuple[Path, ...]
    """Resolved; the first is the default working folder of a session."""
    data_dir: Path
    state_dir: Path
    config_dir: Path
    model: str | None = None
    """Default for sessions that name none; None: what the user's settings say, else whatever is ready."""
    fallbacks: tuple[str, ...] = ()
    """Models (`provider/model`) that stand in for a session's own one when it fails, in order of preference;
    none: those of the user's settings."""
    defaults: Settings = field(default_factory=Settings)
    """For brand-new sessions; the user's settings fill in what is not set here."""
    allow_yolo: bool = False
    hidden: tuple[Path, ...] = ()
    """Further files and folders that are closed to every tool of the model."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    home: Path = field(default_factory=Path.home)
    """Of the user: where his credentials lie, and what he wrote for other agents."""


class App:
    """One per process."""

    def __init__(
        self,
        config: AppConfig,
        *,
        clock: Clock | None = None,
        providers: Providers | None = None,
        patience: Patience | None = None,
        loading: Callable[[], AbstractContextManager[None]] = nullcontext,
        tools: Sequence[Tool] = (),
        scanners: Sequence[Scanner] = (),
    ) -> None:
        """Raises: BadRequest, ModeNotAllowed and Unprocessable for what was chosen here or in the user's settings, and
        for two tools of one name.

        `loading` is entered around the loading of each provider's SDK, in a worker thread. `tools` are the caller's
        own, besides those that installed packages bring; all sessions share them. `scanners` look beside the built-in
        one of the guard.
        """
        self.sources = Sources(config.config_dir, config.home, config.roots, config.environ, _given(config))
        self.settings = everywhere = layers.for_process(self.sources)
        """What counts wherever a session works."""
        self.clock = clock or SystemClock()
        self.providers = providers or Providers(config.environ, everywhere.names, loading=loading)
        self.config = config = self._completed(config)
        self.approvals = Approvals(config.config_dir)
        installed, told = installed_tools()
        self._own_tools = tuple(own_tools(tools, installed).values())
        self.notices = (*everywhere.notices, *self.providers.notices(), *told)
        """What has no effect, or not the effect that was meant, in the user's settings: a sentence each."""
        self._store = SessionStore(config.data_dir / "sessions", config.roots, self.clock)
        keys = self.providers.key_variables
        self._tool_environ = {name: value for name, value in config.environ.items() if name not in keys}
        self._patience = patience or Patience()
        self._cool_downs = CoolDowns(self.clock)
        self._web = WebAccess(cache=PageCache(self.clock))
        self._tasks: TaskGroup | None = None
        self._scanners = tuple(scanners)
        self.default_model = config.model or self.providers.choose()
        self.validate(config.defaults)

    # --- settings ---

    def validate(self, settings: Settings) -> None:
        """Check what a session is asked to be. Raises: BadRequest, ModeNotAllowed."""
        if settings.model is not None:
            self.providers.parse(settings.model)
        if settings.mode == "yolo" and not self.config.allow_yolo:
            raise ModeNotAllowed("Mode yolo is off: start the server with --allow-yolo to permit it.")

    async def effective(self, cwd: Path) -> Effective:
        """The settings of a session that begins or is loaded now in a folder (resolved); it keeps them.

        Raises: Unprocessable for a file of the user's that is wrong.
        """
        return await _in_worker(layers.for_folder, self.sources, cwd, project_of(cwd))

    async def defaults(self, cwd: Path) -> Settings:
        """What a new session in a folder starts from. Raises: Unprocessable."""
        effective = await self.effective(cwd)
        settings, limits = _defaults(self.config, effective), effective.choices.budget
        if settings.budget is not None:
            return settings
        budget = limits_from(
            limits.session_usd, limits.session_tokens, limits.session_time_s, limits.session_tool_calls
        )
        return settings.model_copy(update={"budget": budget})

    def work_folder(self, cwd: str | None) -> Path:
        """The resolved working folder of a session. Raises: Unprocessable when it is not below a root."""
        root = self.config.roots[0]
        try:
            folder = root if cwd is None else (root / Path(cwd)).resolve()
            is_folder = folder.is_dir()
        except (OSError, ValueError):
            raise BadRequest("cwd is no usable path.") from None
        if not any(folder.is_relative_to(allowed) for allowed in self.config.roots):
            raise Unprocessable(f"cwd {cwd} is outside the server's roots. Start the server with --root for it.")
        if not is_folder:
            raise Unprocessable(f"{cwd or 'The first root'} is no folder.")
        return folder

    # --- sessions ---

    async def create(self, cwd: Path, settings: Settings, asker: Asker | None) -> Agent:
        """Begin a new session. Raises: Unprocessable, StorageUnavailable."""
        effective = await self.effective(cwd)  # first: what is wrong with it leaves no session behind
        scanner = await self._scanner(effective)
        session = await _in_worker(self._store.create, cwd, settings)
        with _let_go_if_it_fails(session):
            agent = self._agent(session, effective, scanner, asker, "startup")
            await self._tell(agent, effective)
            return agent

    async def open(self, session_id: str, asker: Asker | None, *, takeover: bool = False) -> Agent:
        """Load a session, with `takeover` also one that another process holds.

        Raises: NotFound, SessionLocked, JournalDamaged, StorageUnavailable, Unprocessable.
        """
        session = await _in_worker(partial(self._store.open, session_id, takeover=takeover))
        with _let_go_if_it_fails(session):
            effective = await self.effective(Path(session.history.meta.cwd))
            scanner = await self._scanner(effective)
            agent = self._agent(session, effective, scanner, asker, "resume")
            await self._tell(agent, effective)
            await _in_worker(agent.prune_checkpoints)
            agent.end_cut_compaction()
            _tell_repaired(agent, session)
            self._leave_yolo(agent)
            return agent

    async def fork(
        self,
        session_id: str,
        size: int | None,
        at: str | int | None,
        given: Mapping[str, Any],
        asker: Asker | None,
    ) -> tuple[Agent, UserMessage | None]:
        """Begin a session with the history of another, loaded or not, up to `at`; see SessionStore.fork.

        Raises: BadRequest, NotFound, JournalDamaged, StorageUnavailable, Unprocessable.
        """
        cwd = await _in_worker(self._store.cwd_of, session_id)
        effective = await self.effective(cwd)  # first: what is wrong with it leaves no session behind
        scanner = await self._scanner(effective)
        session, message = await _in_worker(self._store.fork, session_id, size, at, given)
        with _let_go_if_it_fails(session):
            agent = self._agent(session, effective, scanner, asker, "fork")
            await self._tell(agent, effective)
            _tell_repaired(agent, session)
            self._leave_yolo(agent)
            return agent, message

    def _leave_yolo(self, agent: Agent) -> None:
        """Take a session that was begun elsewhere out of a mode that is off here."""
        if agent.settings.mode == "yolo" and not self.config.allow_yolo:
            agent.update(SessionUpdated(mode="default", by="server"))
            agent.notice("warning", "mode_not_allowed", "Mode yolo is off on this server: the session is in default.")

    async def resolve(self, name: str) -> str:
        return await _in_worker(self._store.resolve, name)

    async def newest_of(self, cwd: Path) -> str | None:
        return await _in_worker(self._store.newest_of, cwd)

    async def summaries(self) -> list[Summary]:
        return await _in_worker(self._store.summaries)

    @property
    def unreadable_sessions(self) -> tuple[str, ...]:
        """Ids of the sessions that are there and that the last `summaries` could not read."""
        return self._store.unreadable

    async def display(
        self, session_id: str, size: int | None = None, after_seq: int = 0, limit: int | None = None
    ) -> tuple[list[HistoryMessage], int]:
        """The messages of a session, loaded or not, up to byte `size` of its journal; and the last number in it."""
        return await _in_worker(self._store.display, session_id, size, after_seq, limit)

    async def lines_after(self, session_id: str, seq: int, before: int) -> list[bytes]:
        """The next durable events behind number `seq` and below `before`, as encoded lines: a piece of bounded size,
        or none when there are no more."""
        return await _in_worker(self._store.lines_after, session_id, seq, before)

    async def export(
        self, session_id: str, size: int | None, form: ExportFormat, redactor: Redactor
    ) -> Iterator[bytes]:
        """A session as a file; see SessionStore.export. Taking its pieces blocks. Raises: NotFound, JournalDamaged."""
        return await _in_worker(self._store.export, session_id, size, form, redactor)

    @property
    def secrets(self) -> frozenset[str]:
        """The keys of providers and search services that this process was started with."""
        names = self.providers.key_variables | KEY_VARIABLES
        return frozenset(value for name, value in self.config.environ.items() if name in names)

    async def blob(self, session_id: str, blob: str) -> bytes:
        """The bytes of an image or document of a session, loaded or not. Raises: NotFound, KeyError."""
        return await _in_worker(self._store.blob, session_id, blob)

    async def persist(self, agent: Agent, rule: str, *, for_user: bool) -> Origin:
        """Write an allow rule to the user's private settings, and say where. Raises: OSError, Unprocessable."""
        project = project_of(agent.cwd)
        file = self._user_file() if for_user else self._project_file(agent.cwd)
        await _in_worker(partial(add_allow_rule, file, rule))
        if for_user:
            return Origin(FILE_NAME, self.config.config_dir)
        return Origin(f"projects/{project}/{FILE_NAME}", agent.cwd)

    async def standing_rules(self) -> list[StandingRule]:
        """The rules in the user's own settings, of whatever project. Those of loaded sessions: `Agent.rules`."""
        return list(listed(await _in_worker(read_standing, self.config.config_dir)))

    async def remove_rule(self, rule: StandingRule) -> bool:
        """Take an allow rule out of the user's own settings; False where it stands in no file that `always` writes to.

        Raises: OSError, Unprocessable.
        """
        if rule.effect != "allow" or not is_own(rule.source):
            return False
        return await _in_worker(remove_rule, self.config.config_dir, rule.source, rule.rule)

    async def find_approvals(self, folders: Iterable[Path]) -> list[Approval]:
        """What the repositories around these folders want to run, with what was decided about it."""
        found, projects = await _in_worker(look, self.sources, folders)
        return await _in_worker(self.approvals.states, found, projects)

    async def decide_approval(self, folders: Iterable[Path], approval_id: str, *, allow: bool) -> Approval:
        """Let something of a repository run, or not; in force at once. Returns what it is.

        Raises: NotFound, Unprocessable, OSError.
        """
        approval = find(await self.find_approvals(folders), approval_id)
        await _in_worker(partial(self.approvals.decide, approval, allow=allow, now=self.clock.now()))
        return approval

    async def end_orphans(self) -> None:
        """End the commands that a killed server left running."""
        await _in_worker(kill_orphans)

    async def sweep(self) -> None:
        """Remove the sessions that a killed server had half made."""
        await _in_worker(self._store.sweep)

    async def prune_checkpoints(self) -> None:
        """Forget checkpoints that are too old, in all sessions."""
        await _in_worker(lambda: prune_all(self._store.directories(), self.clock.now()))

    async def warm(self) -> None:
        """Load the default provider, so that the first prompt does not wait for it. Raises: ProviderError."""
        await self._provider_of(self.default_model)[0].warm()

    async def look_nearby(self) -> None:
        """Ask the model servers on this machine what they have, if that was not done lately."""
        await _in_worker(self.providers.look, LOOK_AGAIN_S)

    async def close(self) -> None:
        await self.providers.close()

    # --- assembly ---

    async def _tell(self, agent: Agent, effective: Effective) -> None:
        """Say what of the settings around a session has no effect, and what waits for a person."""
        for text in effective.notices:
            if text not in self.settings.notices:
                agent.notice("warning", "settings_ignored", text)
        states = await _in_worker(self.approvals.states, list(wanted(effective.shared)), ())
        if waiting := [one for one in states if one.waits]:
            what = f"{len(waiting)} {'thing waits' if len(waiting) == 1 else 'things wait'}"
            files = ", ".join(dict.fromkeys(one.source for one in waiting))
            text = f"{what} for approval before it runs (hooks and MCP servers of {files}): see agentcore hooks."
            agent.notice("info", "approval_needed", text)

    def _agent(
        self,
        session: OpenSession,
        effective: Effective,
        scanner: Scanner | None,
        asker: Asker | None,
        source: SessionSource,
    ) -> Agent:
        workspace = self._workspace(session, effective)
        checkpoints = SessionCheckpoints(session.directory, workspace, self._tool_environ, self.clock)
        tools, told = self._tools(session, effective, workspace, checkpoints)
        mode = effective.choices.guard.mode
        guard = Guard(mode, scanner, session.log.emit, text_of=partial(_document_text, session))
        hooks = self._hooks(session, effective, tools, workspace, guard)
        hooked = (
            None if asker is None else HookedAsker(asker, hooks, lambda: session.history.settings.unattended != "deny")
        )
        chosen = effective.choices
        model, fallbacks = self._models(effective)
        gate = SessionGate(
            workspace=workspace,
            mode=lambda: session.history.settings.mode,
            asker=hooked,
            standing=Standing(effective.rules, _granted(session), partial(_record_grant, session)),
            auto=self._auto(session, model or self.default_model, fallbacks),
        )
        may_read = may_read_by(gate, tools["read"])
        around = surrounded(
            session,
            self._places(workspace),
            workspace,
            gate,
            tools,
            memory_folder=self.config.data_dir / "memory",
            secrets=self.secrets,
            environ=self._tool_environ,
        )
        tools = by_name(tuple(tools.values()), around.tools)
        tools = {name: tool for name, tool in tools.items() if not is_removed(effective.rules.deny, tool.spec)}
        if hooked is not None:
            hooked.hold(check_by(gate, tools))
        parts = Parts(
            tools=tools,
            gate=gate,
            candidates_of=partial(self._candidates_of, fallbacks),
            cool_downs=self._cool_downs,
            patience=self._patience,
            default_model=model or self.default_model,
            clock=self.clock,
            attachments=Attachments(session.blobs, workspace, may_read),
            compaction=Plan(chosen.compaction, chosen.auto_compact, chosen.compact_at),
            checkpoints=checkpoints,
            asker=hooked,
            warn_at=chosen.budget.warn_at,
            hooks=hooks,
            guard=guard,
            surroundings=around.surroundings,
            expander=around.expander,
        )
        agent = Agent(session, parts, source)
        for text in told:
            agent.notice("warning", "settings_ignored", text)
        return agent

    def _hooks(
        self, session: OpenSession, effective: Effective, tools: Mapping[str, Tool], workspace: Workspace, guard: Guard
    ) -> Hooks:
        return hooks_of(
            session,
            effective.hooks,
            Ways(self._tool_environ, self.config.environ, self._start_later, self.approvals.is_approved),
            tools=tools,
            workspace=workspace,
            timeout_s=effective.choices.hook_timeout_s,
            check=guard.check_output,
        )

    def _auto(self, session: OpenSession, default_model: str, fallbacks: tuple[str, ...]) -> Auto:
        """What mode `auto` works with: the session's own models look at its calls."""
        history, log = session.history, session.log
        side = SideModel(log, history.transcript, history.ledger, self.clock, self._patience)

        def candidates() -> tuple[Candidate, ...]:
            return self._candidates_of(fallbacks, history.settings.model or default_model)

        turn = partial(getattr, history.ledger, "turn")
        judge = ModelJudge(side, candidates, self._cool_downs, self._patience, log, self.clock, turn)
        return Auto(judge, lambda: tuple(history.prompts))

    async def _scanner(self, effective: Effective) -> Scanner | None:
        """Raises: Unprocessable where the guard is on and cannot be made."""
        return await _in_worker(partial(make_scanner, effective.choices.guard.mode, self.secrets, self._scanners))

    def adopt(self, tasks: TaskGroup) -> None:
        """Run in this group what nobody waits for (hooks that are told, not asked)."""
        self._tasks = tasks

    def _start_later(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._tasks is None:
            log.warning("a hook that nobody waits for does not run: App.adopt was given no task group")
        else:
            self._tasks.start_soon(run)

    def _tools(
        self, session: OpenSession, effective: Effective, workspace: Workspace, checkpoints: Checkpoints
    ) -> tuple[dict[str, Tool], tuple[str, ...]]:
        """All tools of a session by name, and a sentence for each of the user's that cannot be used.

        Raises: Unprocessable when two have the same name.
        """
        environ = self._tool_environ
        made = builtin_tools(workspace, environ, session.blobs, checkpoints=checkpoints, web=self._web)
        known = by_name(made, self._own_tools)
        commands, told = command_tools(effective.tools, known, workspace, environ, checkpoints)
        return by_name(tuple(known.values()), commands), told

    def _completed(self, config: AppConfig) -> AppConfig:
        """Fill in what the settings say where nothing was chosen here. Raises: BadRequest."""
        model, fallbacks = self._models(self.settings)
        return replace(config, model=model, fallbacks=fallbacks, defaults=_defaults(config, self.settings))

    def _models(self, effective: Effective) -> tuple[str | None, tuple[str, ...]]:
        """The full names of the model and of those that stand in for it. Raises: BadRequest."""
        chosen, sources = effective.choices, effective.sources
        with _standing_in(sources["model"], "model"):
            model = None if chosen.model is None else self.providers.full_name(chosen.model)
        with _standing_in(sources["fallbacks"], "fallbacks"):
            return model, tuple(map(self.providers.full_name, chosen.fallbacks))

    def _candidates_of(self, fallbacks: tuple[str, ...], model: str) -> tuple[Candidate, ...]:
        return tuple(Candidate(*self._provider_of(label)) for label in (model, *fallbacks))

    def _provider_of(self, model: str) -> tuple[Provider, str]:
        provider, name = self.providers.parse(model)
        return self.providers.get(provider), name

    def _workspace(self, session: OpenSession, effective: Effective) -> Workspace:
        config, home = self.config, self.config.home
        own = (config.data_dir, config.state_dir, config.config_dir, *config.hidden)
        workspace = Workspace(
            cwd=Path(session.history.meta.cwd),
            roots=(*config.roots, *effective.additional_directories),
            hidden=tuple(path.resolve() for path in (*own, *(home / name for name in _CREDENTIALS))),
            readable=(session.directory.resolve(),),
            home=home,
            deny=effective.rules.deny,
        )
        return replace(workspace, readable=(*workspace.readable, *personal_folders(self._places(workspace))))

    def _places(self, workspace: Workspace) -> Places:
        return Places(
            cwd=workspace.cwd,
            top=top_of(workspace.cwd, self.config.roots),
            roots=workspace.roots,
            home=self.config.home,
            config_dir=self.config.config_dir,
            is_closed=workspace.is_hidden,
        )

    def _user_file(self) -> Path:
        return user_file(self.config.config_dir)

    def _project_file(self, cwd: Path) -> Path:
        return project_file(self.config.config_dir, project_of(cwd))


@contextmanager
def _let_go_if_it_fails(session: OpenSession) -> Iterator[None]:
    """A session that was opened and cannot be used is held by nobody."""
    try:
        yield
    except BaseException:
        session.log.close()
        raise


def _tell_repaired(agent: Agent, session: OpenSession) -> None:
    if session.repaired is not None:
        agent.notice("warning", "journal_repaired", session.repaired)


def _given(config: AppConfig) -> dict[str, Any]:
    """What was chosen here, and so wins over every file. Raises: BadRequest."""
    given: dict[str, Any] = {name: getattr(config.defaults, name) for name in _FROM_SETTINGS & _fields_set(config)}
    given |= {} if config.model is None else {"model": config.model}
    given |= {"fallbacks": config.fallbacks} if config.fallbacks else {}
    for key, value in given.items():
        try:
            check(key, value)
        except BadChoice as error:
            raise BadRequest(f"{key} is wrong: {error}.") from None
    return given


def _defaults(config: AppConfig, effective: Effective) -> Settings:
    """What a new session starts from. What was chosen here stands in `effective` already, as far as settings know it:
    `config.defaults` may by now hold what the user's file says, which is weaker than that for one project."""
    chosen = effective.choices.model_dump(include={key for key in _FROM_SETTINGS if effective.sources[key] != DEFAULT})
    given = {name: getattr(config.defaults, name) for name in _fields_set(config) - _FROM_SETTINGS}
    return Settings(**chosen | given)


def _fields_set(config: AppConfig) -> set[str]:
    return config.defaults.model_fields_set


async def _document_text(session: OpenSession, document: Document) -> str:
    """For the guard. Raises: ToolError, KeyError."""
    return await whole_pdf_text(await _in_worker(session.blobs.get, document.blob))


def _record_grant(session: OpenSession, rule: Rule, is_granted: bool) -> None:
    session.log.record(Grant(rule=str(rule), is_revoked=not is_granted))


def _granted(session: OpenSession) -> Iterator[Rule]:
    """The rules of the journal; one that an older version wrote and that means nothing any more allows nothing."""
    for text in session.history.grants:
        with suppress(BadRule):
            yield parse_rule(text)


@contextmanager
def _standing_in(source: str, key: str) -> Iterator[None]:
    """Say where a name stands that leads nowhere."""
    try:
        yield
    except BadRequest as error:
        raise BadRequest(str(error) if source == COMMAND_LINE else f"`{key}` in {source}: {error}") from None


async def _in_worker(function: Callable[[Unpack[Args]], T], *args: *Args) -> T:
    return await anyio.to_thread.run_sync(function, *args)
