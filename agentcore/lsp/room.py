"""All language servers of a process: one for each language and project, however many sessions ask.

Satisfies the `Languages` port. Nothing is started before the first file of a language is changed or asked about, and
nothing at all before `serve` runs. Promise: when `serve` is left, no server and none of its children is alive.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup, TaskStatus

from agentcore.environment import command_environ
from agentcore.languages import (
    Checked,
    CodeAction,
    CodeFile,
    FileRewrite,
    LanguageSetup,
    LanguageState,
    Place,
    Problem,
    Spot,
    Symbol,
)
from agentcore.log_ids import logging_for
from agentcore.lsp import questions
from agentcore.lsp.known import merged, root_of
from agentcore.lsp.server import START_S, LanguageServer
from agentcore.lsp.supervisor import AT_WORK, Supervisor
from agentcore.ports.clock import Clock
from agentcore.ports.tools import ToolError

log = logging.getLogger(__name__)

MAX_SERVERS = 6
"""Running at once; each takes 100 to 500 MB. The one that was idle for the longest time makes room."""
IDLE_S = 600.0
LOOK_EVERY_S = 30.0
AGAIN_S = 600.0
"""After this a server that failed or was not there is tried once more."""
MAX_KEPT = 50
"""States of servers that are over, for `/v1/info`."""
AFTER_CHANGE_S = 3.0
LOADING_S = 15.0
"""What a change waits for its diagnostics at most; the second while the server loads, once."""


class LanguageServers:
    def __init__(
        self,
        environ: Mapping[str, str],
        clock: Clock,
        own: Sequence[LanguageSetup] = (),
        *,
        max_servers: int = MAX_SERVERS,
    ) -> None:
        """`environ` is what servers inherit, without the secrets in it; `own` are the user's, before the known ones."""
        self._environ = command_environ(environ)
        self._clock = clock
        self._setups = {suffix: setup for setup in reversed(merged(own)) for suffix in setup.suffixes}
        self._max_servers = max_servers
        self._supervisors: dict[tuple[str, Path], Supervisor] = {}
        self._group: TaskGroup | None = None

    # --- life ---

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Own the servers until cancelled, which ends them: run it in a task group of the process's own."""
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                task_status.started()
                while True:
                    await anyio.sleep(LOOK_EVERY_S)
                    self.stop_idle()
        finally:
            self._group = None

    def stop_idle(self) -> None:
        """Stop what nobody used for ten minutes."""
        for one in self._supervisors.values():
            if not one.users and self._clock.monotonic() - one.last_used >= IDLE_S:
                one.stop()

    def states(self) -> list[LanguageState]:
        """Of every server that was wanted, by language."""
        return sorted((one.shown() for one in self._supervisors.values()), key=lambda state: state.language)

    def covers(self, real: Path) -> bool:
        return real.suffix in self._setups

    # --- which server ---

    def _wanted(self, setup: LanguageSetup, root: Path) -> Supervisor:
        """The one supervisor of a language and project, started if there is none. Raises: ToolError."""
        key = setup.language, root
        known = self._supervisors.get(key)
        if known is not None and not (known.is_over and self._may_start_anew(known)):
            return known
        if self._group is None:
            raise ToolError("language servers are not available here: search with grep instead")
        self._make_room()
        self._supervisors.pop(key, None)
        made = self._supervisors[key] = Supervisor(setup, root, self._environ, self._clock)
        self._forget()
        with logging_for(None):  # it works for every session
            self._group.start_soon(made.run)
        return made

    def _may_start_anew(self, one: Supervisor) -> bool:
        return one.state not in ("failed", "missing") or self._clock.monotonic() - one.over_at >= AGAIN_S

    def _make_room(self) -> None:
        running = [one for one in self._supervisors.values() if not one.is_over]
        if len(running) < self._max_servers:
            return
        idle = [one for one in running if not one.users]
        if not idle:
            raise ToolError(f"{len(running)} language servers are busy, as many as may run: search with grep instead")
        min(idle, key=lambda one: one.last_used).stop()

    def _forget(self) -> None:
        over = [key for key, one in self._supervisors.items() if one.has_ended]
        for key in over[: max(len(over) - MAX_KEPT, 0)]:
            del self._supervisors[key]

    async def _supervisor(self, file: CodeFile) -> Supervisor:
        setup = self._setups.get(file.real.suffix)
        if setup is None:
            raise ToolError(f"there is no language server for {file.real.suffix or file.real.name}: search with grep")
        return self._wanted(setup, await to_thread.run_sync(root_of, setup, file.real, file.top))

    @asynccontextmanager
    async def _server(self, file: CodeFile) -> AsyncIterator[LanguageServer]:
        supervisor = await self._supervisor(file)
        async with supervisor.borrowed(START_S) as server:
            yield server

    # --- questions ---

    async def definition(self, spot: Spot) -> list[Place]:
        async with self._server(spot.file) as server:
            return await questions.definition(server, spot)

    async def references(self, spot: Spot) -> list[Place]:
        async with self._server(spot.file) as server:
            return await questions.references(server, spot)

    async def hover(self, spot: Spot) -> str:
        async with self._server(spot.file) as server:
            return await questions.hover(server, spot)

    async def symbols(self, file: CodeFile) -> list[Symbol]:
        async with self._server(file) as server:
            return await questions.symbols(server, file)

    async def workspace_symbols(self, file: CodeFile, query: str) -> list[Symbol]:
        async with self._server(file) as server:
            return await questions.workspace_symbols(server, file, query)

    async def diagnostics(self, file: CodeFile) -> list[Problem]:
        async with self._server(file) as server:
            with anyio.move_on_after(LOADING_S):
                document = await server.check(file)
                return await questions.problems(server, file, document.problems)
            raise ToolError(f"{server.setup.server} has not looked at this file yet: try again in a moment")

    async def rename(self, spot: Spot, new_name: str) -> list[FileRewrite]:
        async with self._server(spot.file) as server:
            return await questions.rename(server, spot, new_name)

    async def code_actions(self, spot: Spot) -> list[CodeAction]:
        async with self._server(spot.file) as server:
            return await questions.code_actions(server, spot)

    # --- after a change ---

    async def after_change(self, file: CodeFile) -> Checked | None:
        if not self.covers(file.real):
            return None
        try:
            supervisor = await self._supervisor(file)
        except ToolError:  # too many, or none here: no matter of the change
            return None
        if supervisor.state not in AT_WORK:
            return None
        if supervisor.silence.is_long:
            await _tell(supervisor, file)
            return None
        return await _checked(supervisor, file)


async def _checked(supervisor: Supervisor, file: CodeFile) -> Checked | None:
    """What is wrong with a file, or why that is not known in time: None where it is no matter of the change."""
    is_loading = supervisor.server is None or supervisor.server.is_loading
    patience_s = LOADING_S if is_loading and not supervisor.was_waited_for else AFTER_CHANGE_S
    begun = supervisor.silence.now()
    try:
        with anyio.move_on_after(patience_s):
            async with supervisor.borrowed(START_S, is_patient=False) as server:
                return await _look(server, file)
    except ToolError as error:
        log.debug("no diagnostics: %s", error)
        is_down = supervisor.server is None and supervisor.state not in ("missing", "stopped")
        return Checked(pending=supervisor.error or str(error)) if is_down else None
    supervisor.was_waited_for = True
    waited = f"{supervisor.setup.server} has not looked at it within {patience_s:g} s"
    if supervisor.silence.note_wait(begun):
        waited += " and says nothing: changes wait for it no more until it does"
    return Checked(pending=waited)


async def _tell(supervisor: Supervisor, file: CodeFile) -> None:
    """Show a change to a server that nobody waits for; it may say something of it."""
    server = supervisor.server
    if server is not None:
        with suppress(ToolError):
            await server.show(file)
            server.saved(file.real)


async def _look(server: LanguageServer, file: CodeFile) -> Checked:
    await server.show(file)
    server.saved(file.real)
    document = await server.check(file)
    new, old = document.news_of()
    return Checked(
        new=tuple(await questions.problems(server, file, new)), old=tuple(await questions.problems(server, file, old))
    )
