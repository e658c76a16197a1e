"""What all sessions of one process share, and the making of agents out of it.

Assembly without logic: provider clients, the session store, the user's rules. Closing an agent closes nothing that
another one uses. Blocking work goes to worker threads here.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

import anyio.to_thread
from anyio.abc import TaskGroup

from agentcore.agent import Agent
from agentcore.app_config import AppConfig, completed, defaults_of, given_in
from agentcore.checkpoints.session import prune_all
from agentcore.clock import SystemClock
from agentcore.errors import BadRequest, JournalDamaged, ModeNotAllowed, Unprocessable
from agentcore.events import Mode, SessionUpdated, UserMessage
from agentcore.guard.building import make_scanner
from agentcore.guard.scanning import Scanner
from agentcore.languages import LanguageState
from agentcore.limits import limits_from
from agentcore.marks import kill_orphans
from agentcore.origin import Origin
from agentcore.permissions.grants import listed, unexpired
from agentcore.ports.clock import Clock
from agentcore.ports.permission import Asker
from agentcore.ports.sandbox import Sandbox
from agentcore.ports.tools import Tool
from agentcore.providers.registry import LOOK_AGAIN_S, Providers
from agentcore.redaction import Redactor
from agentcore.retry import Patience
from agentcore.serving import ServerState
from agentcore.session import HistoryMessage, Settings, StandingRule, Summary
from agentcore.sessions.export import ExportFormat
from agentcore.sessions.records import Written
from agentcore.sessions.store import OpenSession, SessionStore, project_of
from agentcore.settings import effective as layers
from agentcore.settings.approvals import Approval, Approvals, find, hook_to_approve, look, wanted
from agentcore.settings.effective import Effective
from agentcore.settings.private import FILE_NAME, add_allow_rule, project_file, user_file
from agentcore.settings.sources import Sources
from agentcore.settings.standing import is_own, read_standing, remove_rule
from agentcore.telemetry.switch import Switch
from agentcore.telemetry.wanted import wanted_by
from agentcore.tools.own import installed_tools, own_tools
from agentcore.tools.web.services import KEY_VARIABLES
from agentcore.tracing.keeping import prune as prune_traces

if TYPE_CHECKING:  # loaded with the first session
    from agentcore.factory import AgentFactory
    from agentcore.telemetry.room import Telemetry
    from agentcore.traces import Trace

log = logging.getLogger(__name__)

T = TypeVar("T")
Args = TypeVarTuple("Args")


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
        telemetry: "Telemetry | None" = None,
    ) -> None:
        """Raises: BadRequest, ModeNotAllowed and Unprocessable for what was chosen here or in the user's settings, and
        for two tools of one name.

        `loading` is entered around the loading of each provider's SDK, in a worker thread. `tools` are the caller's
        own, besides those that installed packages bring; all sessions share them. `scanners` look beside the built-in
        one of the guard. `telemetry` takes the place of what the OTEL_* variables ask for.
        """
        self.sources = Sources(config.config_dir, config.home, config.roots, config.environ, given_in(config))
        self.settings = everywhere = layers.for_process(self.sources)
        """What counts wherever a session works."""
        self.clock = clock or SystemClock()
        self.providers = providers or Providers(config.environ, everywhere.names, loading=loading)
        self.config = config = completed(config, self.providers, everywhere)
        self.approvals = Approvals(config.config_dir)
        installed, told = installed_tools()
        self._own_tools = tuple(own_tools(tools, installed).values())
        wanted_telemetry = wanted_by(config.environ)
        self._telemetry = Switch(wanted_telemetry, telemetry)
        self.notices = (*everywhere.notices, *self.providers.notices(), *told, *wanted_telemetry.notices)
        """What has no effect, or not the effect that was meant, in the user's settings: a sentence each."""
        self._store = SessionStore(config.data_dir / "sessions", config.roots, self.clock)
        keys = self.providers.key_variables
        self._tool_environ = {name: value for name, value in config.environ.items() if name not in keys}
        self._patience = patience or Patience()
        self._factory: AgentFactory | None = None
        self._tasks: TaskGroup | None = None
        self._loading = loading
        self._scanners = tuple(scanners)
        self.default_model = config.model or self.providers.choose()
        self._closed_modes: Mapping[Mode, str] = {}
        """Modes that no session may be in, and the file that says so; as it was read last."""
        self.validate(config.defaults)
        self._closed_modes = everywhere.closed_modes

    # --- settings ---

    def validate(self, settings: Settings) -> None:
        """Check what a session is asked to be. Raises: BadRequest, ModeNotAllowed."""
        if settings.model is not None:
            self.providers.parse(settings.model)
        if settings.mode == "yolo" and not self.config.allow_yolo:
            raise ModeNotAllowed("Mode yolo is off: start the server with --allow-yolo to permit it.")
        if (file := self._closed_modes.get(settings.mode)) is not None:
            raise ModeNotAllowed(f"Mode {settings.mode} is off: {file} turns it off, under `permissions`.")

    async def effective(self, cwd: Path) -> Effective:
        """The settings of a session that begins or is loaded now in a folder (resolved); it keeps them.

        Raises: Unprocessable for a file of the user's that is wrong.
        """
        effective = await _in_worker(layers.for_folder, self.sources, cwd, project_of(cwd))
        self._closed_modes = effective.closed_modes  # of the user's files, so the same in every folder
        return effective

    async def defaults(self, cwd: Path) -> Settings:
        """What a new session in a folder starts from. Raises: Unprocessable."""
        effective = await self.effective(cwd)
        settings, limits = defaults_of(self.config, effective), effective.choices.budget
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
        factory, scanner = await self._agent_factory(), await self._scanner(effective)
        session = await _in_worker(self._store.create, cwd, settings)
        with _let_go_if_it_fails(session):
            agent = factory.make(session, effective, scanner, asker, "startup")
            await self._tell(agent, effective)
            await agent.look_for_servers()
            return agent

    async def open(self, session_id: str, asker: Asker | None, *, takeover: bool = False) -> Agent:
        """Load a session, with `takeover` also one that another process holds.

        Raises: NotFound, SessionLocked, JournalDamaged, StorageUnavailable, Unprocessable.
        """
        session = await _in_worker(partial(self._store.open, session_id, takeover=takeover))
        with _let_go_if_it_fails(session):
            unwritten = await _in_worker(self._write_late, session)  # first: the settings are read with them
            effective = await self.effective(Path(session.history.meta.cwd))
            factory, scanner = await self._agent_factory(), await self._scanner(effective)
            agent = factory.make(session, effective, scanner, asker, "resume")
            await self._tell(agent, effective)
            for rule in unwritten:
                text = f"The rule {rule}, which was allowed for good, could not be written to the settings."
                agent.notice("warning", "rule_not_persisted", text)
            await agent.look_for_servers()
            await _in_worker(agent.prune_checkpoints)
            agent.end_cut_compaction()
            agent.end_cut_subagents(await _in_worker(agent.sweep_worktrees))
            agent.end_cut_questions()
            await _in_worker(agent.kill_lost_tasks)
            agent.lose_tasks()
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
        factory, scanner = await self._agent_factory(), await self._scanner(effective)
        session, message = await _in_worker(self._store.fork, session_id, size, at, given)
        with _let_go_if_it_fails(session):
            agent = factory.make(session, effective, scanner, asker, "fork")
            await self._tell(agent, effective)
            agent.end_cut_subagents()
            await agent.look_for_servers()
            _tell_repaired(agent, session)
            self._leave_yolo(agent)
            return agent, message

    def _leave_yolo(self, agent: Agent) -> None:
        """Take a session that was begun elsewhere, or before, out of a mode that is off here."""
        mode = agent.settings.mode
        file = self._closed_modes.get(mode)
        if file is not None or (mode == "yolo" and not self.config.allow_yolo):
            agent.update(SessionUpdated(mode="default", by="server"))
            where = "on this server" if file is None else f"by {file}"
            agent.notice("warning", "mode_not_allowed", f"Mode {mode} is off {where}: the session is in default.")

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

    async def trace(self, session_id: str, size: int | None, redactor: Redactor) -> "Trace":
        """What happened in a session and what was sent to models meanwhile. Raises: NotFound, JournalDamaged."""

        def read() -> "Trace":
            from agentcore.traces import trace_of  # for those who want to look

            directory = self._store.directory_of(session_id)
            try:
                return trace_of(directory, session_id, redactor, size)
            except OSError as error:
                raise JournalDamaged(f"The session's journal cannot be read: {error.strerror}.") from error

        return await _in_worker(read)

    @property
    def secrets(self) -> frozenset[str]:
        """The keys of providers and search services that this process was started with."""
        names = self.providers.key_variables | KEY_VARIABLES
        return frozenset(value for name, value in self.config.environ.items() if name in names)

    async def blob(self, session_id: str, blob: str) -> bytes:
        """The bytes of an image or document of a session, loaded or not. Raises: NotFound, KeyError."""
        return await _in_worker(self._store.blob, session_id, blob)

    async def persist(self, agent: Agent, rule: str, *, for_user: bool, expires_at: float | None = None) -> Origin:
        """Write an allow rule to the user's private settings, and say where. Raises: OSError, Unprocessable."""
        project = project_of(agent.cwd)
        file = self._user_file() if for_user else self._project_file(agent.cwd)
        await _in_worker(partial(add_allow_rule, file, rule, expires_at))
        if for_user:
            return Origin(FILE_NAME, self.config.config_dir)
        return Origin(f"projects/{project}/{FILE_NAME}", agent.cwd)

    def _write_late(self, session: OpenSession) -> list[str]:
        """Write the rules of answers that the end of a process came before; those that cannot be. Blocking.

        Raises: StorageUnavailable.
        """
        failed = []
        for answer in tuple(session.history.unwritten.values()):
            for_user, rule = answer.scope == "user", answer.rule or ""
            file = self._user_file() if for_user else self._project_file(Path(session.history.meta.cwd))
            try:
                if answer.expires_at is None or answer.expires_at > self.clock.now():
                    add_allow_rule(file, rule, answer.expires_at)
            except (OSError, Unprocessable) as error:
                log.warning("session %s: a rule could not be written: %s", session.id, error)
                failed.append(rule)
            session.log.record(Written(request_id=answer.request_id))
            session.history.unwritten.pop(answer.request_id)
        return failed

    async def standing_rules(self) -> list[StandingRule]:
        """The rules in the user's own settings, of whatever project. Those of loaded sessions: `Agent.rules`."""
        rules = await _in_worker(read_standing, self.config.config_dir)
        return list(listed(unexpired(rules, self.clock.now())))

    async def remove_rule(self, rule: StandingRule) -> bool:
        """Take an allow rule out of the user's own settings; False where it stands in no file that `always` writes to.

        Raises: OSError, Unprocessable.
        """
        if rule.effect != "allow" or not is_own(rule.source):
            return False
        return await _in_worker(remove_rule, self.config.config_dir, rule.source, rule.rule)

    async def find_approvals(self, folders: Iterable[Path]) -> list[Approval]:
        """What the repositories around these folders want to run, with what was decided about it."""
        folders, factory = list(folders), await self._agent_factory()
        found = await _in_worker(look, self.sources, folders)
        known = {one.id for one in found}
        for folder in folders:
            for hook in await _in_worker(_skill_hooks, factory, folder):
                found += [hook] if hook.id not in known else []
                known.add(hook.id)
        return await _in_worker(self.approvals.states, found)

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

    async def prune_traces(self) -> None:
        """Forget traces that are too old, in all sessions."""
        await _in_worker(lambda: prune_traces(self._store.directories(), self.clock.now()))

    async def warm(self) -> None:
        """Load the default provider, so that the first prompt does not wait for it. Raises: ProviderError."""
        provider, _ = self.providers.named(self.default_model)
        await provider.warm()

    async def look_nearby(self) -> None:
        """Ask the model servers on this machine what they have, if that was not done lately."""
        await _in_worker(self.providers.look, LOOK_AGAIN_S)

    @cached_property
    def sandbox(self) -> Sandbox:
        """Of all sessions that have not switched it off; whether it works here shows when it was probed."""
        from agentcore.sandbox.choosing import for_this_system  # not needed for the start

        return for_this_system()

    async def probe_sandbox(self) -> None:
        """Find out whether commands can be confined here; once, whoever asks."""
        if self.settings.choices.sandbox.enabled:
            await self.sandbox.probe()

    async def warm_sessions(self) -> None:
        """Load what the first session needs, ahead of it."""
        await self._agent_factory()

    async def close(self) -> None:
        if self._factory is not None:
            await self._factory.servers.close()
        await self.providers.close()
        await self._telemetry.close()

    # --- assembly ---

    async def _tell(self, agent: Agent, effective: Effective) -> None:
        """Say what of the settings around a session has no effect, and what waits for a person."""
        for text in effective.notices:
            if text not in self.settings.notices:
                agent.notice("warning", "settings_ignored", text)
        if effective.choices.sandbox.enabled:
            await self.sandbox.probe()
            if self.sandbox.why_not is not None:
                agent.notice("warning", "sandbox_unavailable", f"{self.sandbox.why_not} Each command asks.")
        states = await _in_worker(self._approval_states, effective, agent.cwd)
        if waiting := [one for one in states if one.waits]:
            what = f"{len(waiting)} {'thing waits' if len(waiting) == 1 else 'things wait'}"
            files = ", ".join(dict.fromkeys(one.source for one in waiting))
            text = f"{what} for approval before it runs (hooks and MCP servers of {files}): see agentcore hooks."
            agent.notice("info", "approval_needed", text)

    def _approval_states(self, effective: Effective, cwd: Path) -> list[Approval]:
        """Blocking."""
        return self.approvals.states(list(wanted(effective.shared, cwd)))

    async def _agent_factory(self) -> "AgentFactory":
        """The one of this process; the first call loads it."""
        if self._factory is not None:
            return self._factory
        made = await _in_worker(self._make_factory)
        if self._factory is None:  # two first sessions at once share one
            self._factory = made
            if self._tasks is not None:  # else nothing runs here: it is only looked at
                self._start_later(made.languages.serve)
            if self._tasks is not None:
                made.servers.adopt(self._tasks)
        return self._factory

    def language_states(self) -> list[LanguageState]:
        """Of the language servers that were wanted until now."""
        return [] if self._factory is None else self._factory.languages.states()

    def server_states(self) -> Sequence[ServerState]:
        """Of the MCP servers that sessions use."""
        return () if self._factory is None else self._factory.servers.describe()

    def _make_factory(self) -> "AgentFactory":
        """Blocking."""
        from agentcore.factory import AgentFactory
        from agentcore.makers import Shared

        return AgentFactory(
            Shared(
                config=self.config,
                providers=self.providers,
                approvals=self.approvals,
                clock=self.clock,
                patience=self._patience,
                default_model=self.default_model,
                languages=self.settings.languages,
                own_tools=self._own_tools,
                sandbox=self.sandbox,
                environ=self._tool_environ,
                secrets=self.secrets,
                later=self._start_later,
                telemetry=self._telemetry.turn_on(Redactor(self.secrets)),
                loading=self._loading,
            )
        )

    async def _scanner(self, effective: Effective) -> Scanner | None:
        """Raises: Unprocessable where the guard is on and cannot be made."""
        return await _in_worker(partial(make_scanner, effective.choices.guard.mode, self.secrets, self._scanners))

    def adopt(self, tasks: TaskGroup) -> None:
        """Run in this group what nobody waits for: hooks that are told and not asked, language servers."""
        self._tasks = tasks

    def _start_later(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._tasks is None:
            log.warning("what nobody waits for does not run: App.adopt was given no task group")
        else:
            self._tasks.start_soon(run)

    def _user_file(self) -> Path:
        return user_file(self.config.config_dir)

    def _project_file(self, cwd: Path) -> Path:
        return project_file(self.config.config_dir, project_of(cwd))


def _skill_hooks(factory: "AgentFactory", folder: Path) -> list[Approval]:
    return [hook_to_approve(hook, folder) for hook in factory.skill_hooks(folder)]


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


async def _in_worker(function: Callable[[Unpack[Args]], T], *args: *Args) -> T:
    return await anyio.to_thread.run_sync(function, *args)
