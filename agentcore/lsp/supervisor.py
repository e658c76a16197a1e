"""The life of one language server of one project: started, watched, started anew after a crash, stopped when idle.

One task of the App's own runs `Supervisor.run`; sessions only wait for what it has. Whatever a server does, that task
ends it with all its children, and nothing that it does reaches a session but as a sentence.
"""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from agentcore.languages import LanguageServing, LanguageSetup, LanguageState
from agentcore.lsp.known import Missing, options_of, program_of, settings_of
from agentcore.lsp.pipes import spawned
from agentcore.lsp.server import LanguageServer, StartFailed
from agentcore.lsp.silence import Silence
from agentcore.ports.clock import Clock
from agentcore.ports.tools import ToolError

log = logging.getLogger(__name__)

MAX_CRASHES = 3
"""After so many it stays down, unless it ran well in between."""
RAN_WELL_S = 600.0
BACKOFF_S = (1.0, 5.0, 20.0)
"""Before each start after a crash."""

AT_WORK: frozenset[LanguageServing] = frozenset({"starting", "ready"})
OVER: frozenset[LanguageServing] = frozenset({"stopped", "failed", "missing"})
"""Its task has ended, or is about to."""


class Supervisor:
    def __init__(self, setup: LanguageSetup, root: Path, environ: Mapping[str, str], clock: Clock) -> None:
        self.setup = setup
        self.root = root
        self.state: LanguageServing = "starting"
        self.error = ""
        """Why it is not ready, as a sentence without paths."""
        self.users = 0
        """Sessions that wait for something of it."""
        self.last_used = clock.monotonic()
        self.over_at = 0.0
        self.was_waited_for = False
        """Somebody gave it the long time for loading once; nobody does that again."""
        self.silence = Silence()
        """While it is long, no change waits."""
        self._environ = environ
        self._clock = clock
        self._server: LanguageServer | None = None
        self._changed = anyio.Event()
        self._stopping = anyio.Event()
        self._crashes = 0
        self._has_ended = False

    @property
    def is_over(self) -> bool:
        return self.state in OVER or self._stopping.is_set()

    @property
    def has_ended(self) -> bool:
        """Nothing of it runs any more."""
        return self._has_ended

    @property
    def server(self) -> LanguageServer | None:
        """The running server, while there is one that is ready."""
        return None if self._server is None or self._server.is_broken else self._server

    def shown(self) -> LanguageState:
        language, server = self.setup.language, self.setup.server
        if self.state in AT_WORK and self.silence.is_long:
            return LanguageState(language, server, "silent", f"{server} said nothing while two changes waited for it")
        return LanguageState(language, server, self.state, self.error)

    def stop(self) -> None:
        """Let its task end; returns at once."""
        self._stopping.set()

    @asynccontextmanager
    async def borrowed(self, timeout_s: float, *, is_patient: bool = True) -> AsyncIterator[LanguageServer]:
        """Wait until the server is ready and keep it from being stopped as idle.

        `is_patient`: also while it is started anew after a failure. Raises: ToolError.
        """
        self.users += 1
        try:
            yield await self._ready(timeout_s, is_patient=is_patient)
        finally:
            self.users -= 1
            self.last_used = self._clock.monotonic()

    async def _ready(self, timeout_s: float, *, is_patient: bool) -> LanguageServer:
        with anyio.move_on_after(timeout_s):
            while self.server is None and not self.is_over and (is_patient or self.state != "restarting"):
                await self._changed.wait()
        if self.server is not None:
            return self.server
        if self.error and self.state != "stopped":
            raise ToolError(f"{self.error}; search with grep instead")
        raise ToolError(f"{self.setup.server} is still starting: try again in a moment, or search with grep")

    async def run(self) -> None:
        """Keep the server running until it is told to stop or has crashed too often. Raises nothing."""
        try:
            while not self._stopping.is_set():
                self._become("starting", self.error)
                begun = self._clock.monotonic()
                reason = await self._run_once()
                if self._stopping.is_set():
                    break
                if not self._goes_on(reason, begun):
                    return
                with anyio.move_on_after(BACKOFF_S[self._crashes - 1]):
                    await self._stopping.wait()
            self._become("stopped")
        except Missing as error:
            self._become("missing", str(error))
        finally:
            self._server = None
            self.over_at = self._clock.monotonic()
            if self.state not in OVER:
                self._become("stopped")
            self._has_ended = True

    def _goes_on(self, reason: str, begun: float) -> bool:
        """Whether it is started again after a crash."""
        self._crashes = 1 if self._clock.monotonic() - begun >= RAN_WELL_S else self._crashes + 1
        log.warning("language server %s: %s", self.setup.server, reason)
        sentence = f"The language server {self.setup.server} does not run: {reason}"
        if self._crashes > MAX_CRASHES:
            self._become("failed", f"{sentence}, {self._crashes} times in a row")
            return False
        self._become("restarting", sentence)
        return True

    async def _run_once(self) -> str:
        """One process from its start to its end; return why it ended. Raises: Missing."""
        program = await to_thread.run_sync(program_of, self.setup, self._environ)
        options = await to_thread.run_sync(options_of, self.setup, program)
        settings = await to_thread.run_sync(settings_of, self.setup, self.root)
        argv = (str(program), *self.setup.argv[1:])
        environ = {**self._environ, **self.setup.environ}
        try:
            async with spawned(argv, self.root, environ) as process:
                server = LanguageServer(self.setup, self.root, process, settings, self.silence)
                reason = await self._attended(server, options)
                if words := process.last_words():
                    log.debug("last words of %s: %s", self.setup.server, words)
                return reason
        except (OSError, ValueError) as error:
            return f"it cannot be started ({type(error).__name__})"
        except Exception:  # no server may end the task group that all sessions live in
            log.exception("the client of %s failed", self.setup.server)
            return "the client failed, see the log"

    async def _attended(self, server: LanguageServer, options: Mapping[str, object]) -> str:
        """Start a server and stay until it has ended or is told to; return why it ended."""
        failure = ""
        async with anyio.create_task_group() as group:
            group.start_soon(self._exchange, server, group.cancel_scope)
            group.start_soon(self._stop, server, group.cancel_scope)
            try:
                await server.start(options)
            except StartFailed as error:
                failure = str(error)
                group.cancel_scope.cancel()
            else:
                self._server = server
                self._become("ready")
        return failure or server.reason

    async def _stop(self, server: LanguageServer, scope: anyio.CancelScope) -> None:
        await self._stopping.wait()
        is_started = self._server is not None
        self._server = None
        if is_started:
            await server.stop()
        scope.cancel()

    async def _exchange(self, server: LanguageServer, scope: anyio.CancelScope) -> None:
        await server.exchange()
        self._server = None
        scope.cancel()

    def _become(self, state: LanguageServing, error: str = "") -> None:
        self.state, self.error = state, error
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
