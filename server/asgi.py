"""The application: the hub behind the routes behind the guard. Assembly, no logic.

`start` and `stop` must be called by the same task: they enter and leave the task group that holds every run.
"""

import logging
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from agentcore.app import App
from agentcore.app_config import AppConfig
from agentcore.errors import AgentError
from agentcore.events import ServerStopping
from agentcore.redaction import Redactor
from agentcore.session import Settings
from server import frames
from server.barrier import barrier
from server.collector import loading
from server.guard import Admission, Guard
from server.hub import Hub
from server.idempotency import Answers, once
from server.notes import DEMO, about_the_choice
from server.problems import HANDLERS, edge
from server.routes.all import ENDPOINTS
from server.routes.table import Endpoint
from server.settings import ServerSettings
from server.tickets import Tickets

logger = logging.getLogger(__name__)


class Application:
    """What the daemon serves: `app` between `start` and `stop`."""

    def __init__(self, settings: ServerSettings, core: App | None = None) -> None:
        self.core = core or App(core_config(settings), loading=loading)
        tickets = Tickets(self.core.clock)
        self._routes = Starlette(routes=[_route(endpoint) for endpoint in ENDPOINTS], exception_handlers=HANDLERS)
        self._routes.router.redirect_slashes = False  # a path that is not in the table is a 404, also with a slash
        self._routes.state.tickets = tickets
        self._routes.state.redactor = Redactor({settings.token, *self.core.secrets})
        admission = Admission(
            token=settings.token,
            allowed_hosts=frozenset(settings.allowed_hosts),
            allow_origins=frozenset(settings.allow_origins),
        )
        self.app: ASGIApp = Guard(self._routes, admission, tickets.redeem)
        self._tasks: TaskGroup | None = None
        self.left_open = 0
        """Runs that were not at their end when it stopped; they go on when their sessions are loaded again."""

    @property
    def notices(self) -> list[str]:
        """What people should know at the start, a sentence each."""
        providers, names = self.core.providers, dict.fromkeys(map(_provider_of, self._models))
        not_ready = [why_not for name in names if (why_not := providers.why_not(name)) is not None]
        no_script = [why_not for model in self._models if (why_not := providers.why_no_script(model)) is not None]
        return list(dict.fromkeys([*about_the_choice(self.core), *not_ready, *no_script, *self.core.notices]))

    @property
    def model(self) -> str:
        """What new sessions use, for people."""
        model, *fallbacks = self._models
        what = " (a demo that follows a script and needs no key)" if model == DEMO else ""
        then = f"; when it fails {', '.join(fallbacks)}" if fallbacks else ""
        return f"{model}{what}; mode {self.core.config.defaults.mode}{then}"

    @property
    def _models(self) -> tuple[str, ...]:
        return (self.core.default_model, *self.core.config.fallbacks)

    async def start(self) -> None:
        self._tasks = await anyio.create_task_group().__aenter__()
        self._routes.state.hub = hub = Hub(self.core, self._tasks)
        self._routes.state.answers = Answers(self.core.clock, self._tasks)
        self._tasks.start_soon(hub.watch, name="watchdog of readers and sessions")
        self._tasks.start_soon(self.tidy_up, name="tidying up behind killed servers")
        for what, work in (
            ("trying the sandbox", self.core.probe_sandbox),
            ("loading what sessions need", self.core.warm_sessions),
            ("loading the provider", self._warm),
            ("asking the model servers on this machine", self._look_nearby),
        ):
            self._tasks.start_soon(_guarded, what, work, name=what)

    async def stop(self) -> None:
        """Let turns reach a border, end the streams, let go of every journal."""
        if self._tasks is None:
            return
        tasks, self._tasks = self._tasks, None
        hub: Hub = self._routes.state.hub
        self.left_open = await hub.stop(frames.control(ServerStopping()))
        self._routes.state.answers.close()
        await tasks.__aexit__(None, None, None)
        await self.core.close()

    async def tidy_up(self) -> None:
        """End what killed servers left running, remove what they had half made, forget checkpoints that are too old."""
        await _guarded("ending what a killed server left running", self.core.end_orphans)
        await _guarded("removing what a killed server had half made", self.core.sweep)
        await _guarded("forgetting old checkpoints", self.core.prune_checkpoints)
        await _guarded("forgetting old traces", self.core.prune_traces)

    async def _warm(self) -> None:
        """Load the default provider ahead of the first prompt; a failure shows when it is used."""
        try:
            with loading():
                await self.core.warm()
        except AgentError as error:
            logger.info("the default provider is not ready: %s", error)

    async def _look_nearby(self) -> None:
        """Find out what runs on this machine; say so if new sessions would need what does not, or is not there."""
        await self.core.look_nearby()
        providers = self.core.providers
        asked = [model for model in self._models if providers.why_not(_provider_of(model)) is None]
        for doubt in dict.fromkeys(map(providers.doubt, asked)):
            if doubt is not None:
                logger.warning("%s", doubt)


async def _guarded(what: str, work: Callable[[], Awaitable[None]]) -> None:
    with barrier(what):
        await work()


def build(settings: ServerSettings) -> Application:
    """Make the application. Raises: AgentError for a model or mode that cannot be."""
    return Application(settings)


def core_config(settings: ServerSettings) -> AppConfig:
    chosen = {"mode": settings.mode, "effort": settings.effort, "unattended": settings.unattended}
    return AppConfig(
        roots=settings.roots,
        data_dir=settings.data_dir,
        state_dir=settings.state_dir,
        config_dir=settings.config_dir,
        model=settings.model,
        defaults=Settings.model_validate({name: value for name, value in chosen.items() if value is not None}),
        allow_yolo=settings.allow_yolo,
        debug=settings.debug,
        hidden=() if settings.token_file is None else (settings.token_file,),
    )


def _provider_of(model: str) -> str:
    return model.partition("/")[0]


def _route(endpoint: Endpoint) -> Route:
    handler = once(endpoint) if endpoint.takes_key else endpoint.handler
    return Route(endpoint.path, edge(handler), methods=[endpoint.method])
