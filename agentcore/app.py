"""What all sessions of one process share, and the making of agents out of it.

Assembly without logic: provider clients, the session store, the user's rules. Closing an agent closes nothing that
another one uses. Blocking work goes to worker threads here.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple, Unpack

import anyio.to_thread

from agentcore.agent import Agent, Parts
from agentcore.attachments import Attachments
from agentcore.candidates import Candidate, CoolDowns
from agentcore.checkpoints.session import SessionCheckpoints, prune_all
from agentcore.clock import SystemClock
from agentcore.compaction.compactor import Plan
from agentcore.configuration import Configuration, read_configuration
from agentcore.errors import BadRequest, ModeNotAllowed, Unprocessable
from agentcore.events import SessionUpdated, UserMessage
from agentcore.permissions.gate import SessionGate
from agentcore.permissions.rules import Rule, parse_rule
from agentcore.permissions.workspace import Workspace
from agentcore.ports import Asker, Clock, Provider
from agentcore.providers.registry import LOOK_AGAIN_S, Providers
from agentcore.redaction import Redactor
from agentcore.retry import Patience
from agentcore.session import HistoryMessage, Settings, Summary
from agentcore.sessions.export import ExportFormat
from agentcore.sessions.records import Grant
from agentcore.sessions.store import OpenSession, SessionStore, project_of
from agentcore.settings import add_allow_rule, allow_rules, project_file, user_file
from agentcore.tools.catalogue import builtin_tools
from agentcore.tools.marks import kill_orphans

T = TypeVar("T")
Args = TypeVarTuple("Args")

# Credentials of the user's own tools; closed to every tool of the model wherever the roots lie.
_CREDENTIALS = (
    ".aws",
    ".azure",
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
    ) -> None:
        """Raises: BadRequest, ModeNotAllowed and Unprocessable for what was chosen here or in the user's settings.

        `loading` is entered around the loading of each provider's SDK, in a worker thread.
        """
        configuration = read_configuration(user_file(config.config_dir))
        self.clock = clock or SystemClock()
        self.providers = providers or Providers(config.environ, configuration, loading=loading)
        self.config = config = _completed(config, configuration, self.providers)
        self.notices = (*configuration.notices, *self.providers.notices())
        """What has no effect, or not the effect that was meant, in the user's settings: a sentence each."""
        self._store = SessionStore(config.data_dir / "sessions", config.roots, self.clock)
        keys = self.providers.key_variables
        self._tool_environ = {name: value for name, value in config.environ.items() if name not in keys}
        self._compaction = Plan(configuration.compaction, configuration.auto_compact, configuration.compact_at)
        self._patience = patience or Patience()
        self._cool_downs = CoolDowns(self.clock)
        self.default_model = config.model or self.providers.choose()
        self.validate(config.defaults)

    # --- settings ---

    def validate(self, settings: Settings) -> None:
        """Check what a session is asked to be. Raises: BadRequest, ModeNotAllowed."""
        if settings.model is not None:
            self.providers.parse(settings.model)
        if settings.mode == "yolo" and not self.config.allow_yolo:
            raise ModeNotAllowed("Mode yolo is off: start the server with --allow-yolo to permit it.")

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
        rules = await _in_worker(self._rules, cwd)  # first: what is wrong with them leaves no session behind
        session = await _in_worker(self._store.create, cwd, settings)
        with _let_go_if_it_fails(session):
            return self._agent(session, rules, asker)

    async def open(self, session_id: str, asker: Asker | None, *, takeover: bool = False) -> Agent:
        """Load a session, with `takeover` also one that another process holds.

        Raises: NotFound, SessionLocked, JournalDamaged, StorageUnavailable, Unprocessable.
        """
        session = await _in_worker(partial(self._store.open, session_id, takeover=takeover))
        with _let_go_if_it_fails(session):
            rules = await _in_worker(self._rules, Path(session.history.meta.cwd))
            agent = self._agent(session, rules, asker)
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
        rules = await _in_worker(self._rules, cwd)  # first: what is wrong with them leaves no session behind
        session, message = await _in_worker(self._store.fork, session_id, size, at, given)
        with _let_go_if_it_fails(session):
            agent = self._agent(session, rules, asker)
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
        """The keys of providers that this process was started with."""
        names = self.providers.key_variables
        return frozenset(value for name, value in self.config.environ.items() if name in names)

    async def blob(self, session_id: str, blob: str) -> bytes:
        """The bytes of an image or document of a session, loaded or not. Raises: NotFound, KeyError."""
        return await _in_worker(self._store.blob, session_id, blob)

    async def persist(self, agent: Agent, rule: str, *, for_user: bool) -> None:
        """Write an allow rule to the user's private settings. Raises: OSError, Unprocessable."""
        file = self._user_file() if for_user else self._project_file(agent.cwd)
        await _in_worker(partial(add_allow_rule, file, rule))

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

    def _agent(self, session: OpenSession, rules: list[Rule], asker: Asker | None) -> Agent:
        granted = [rule for text in session.history.grants if (rule := parse_rule(text)) is not None]
        workspace = self._workspace(session)
        gate = SessionGate(
            workspace=workspace,
            mode=lambda: session.history.settings.mode,
            asker=asker,
            on_grant=lambda rule: session.log.record(Grant(rule=str(rule))),
            allow=[*rules, *granted],
            deny=[],
        )
        checkpoints = SessionCheckpoints(session.directory, workspace, self._tool_environ, self.clock)
        made = builtin_tools(workspace, self._tool_environ, session.blobs, checkpoints=checkpoints)
        tools = {tool.spec.name: tool for tool in made}
        parts = Parts(
            tools=tools,
            gate=gate,
            candidates_of=self._candidates_of,
            cool_downs=self._cool_downs,
            patience=self._patience,
            default_model=self.default_model,
            clock=self.clock,
            attachments=Attachments(session.blobs, workspace),
            compaction=self._compaction,
            checkpoints=checkpoints,
        )
        return Agent(session, parts)

    def _candidates_of(self, model: str) -> tuple[Candidate, ...]:
        return tuple(Candidate(*self._provider_of(label)) for label in (model, *self.config.fallbacks))

    def _provider_of(self, model: str) -> tuple[Provider, str]:
        provider, name = self.providers.parse(model)
        return self.providers.get(provider), name

    def _workspace(self, session: OpenSession) -> Workspace:
        config, home = self.config, Path.home()
        own = (config.data_dir, config.state_dir, config.config_dir, *config.hidden)
        return Workspace(
            cwd=Path(session.history.meta.cwd),
            roots=config.roots,
            hidden=tuple(path.resolve() for path in (*own, *(home / name for name in _CREDENTIALS))),
            readable=(session.directory.resolve(),),
        )

    def _rules(self, cwd: Path) -> list[Rule]:
        return [*allow_rules(self._user_file()), *allow_rules(self._project_file(cwd))]

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


def _completed(config: AppConfig, configuration: Configuration, providers: Providers) -> AppConfig:
    """Fill in what the user's settings say where nothing was chosen here; models get their full names.

    Raises: BadRequest.
    """
    own = {"mode": configuration.mode, "effort": configuration.effort}
    given = {name: getattr(config.defaults, name) for name in config.defaults.model_fields_set}
    chosen = {name: value for name, value in own.items() if value is not None} | given
    with _in_settings("model", config.model is None):
        model = configuration.model if config.model is None else config.model
        model = None if model is None else providers.full_name(model)
    with _in_settings("fallbacks", not config.fallbacks):
        fallbacks = tuple(map(providers.full_name, config.fallbacks or configuration.fallbacks))
    return replace(config, model=model, fallbacks=fallbacks, defaults=Settings(**chosen))


@contextmanager
def _in_settings(key: str, is_from_there: bool) -> Iterator[None]:
    """Say where a name stands that leads nowhere."""
    try:
        yield
    except BadRequest as error:
        raise BadRequest(f"`{key}` in settings.toml: {error}" if is_from_there else str(error)) from None


async def _in_worker(function: Callable[[Unpack[Args]], T], *args: *Args) -> T:
    return await anyio.to_thread.run_sync(function, *args)
