"""One configured server, owned by one task for its whole life: connects, listens for changes, connects again.

The task that enters a connection leaves it, whatever ends it: a process that died, an address that answers no more
(then the SDK cancels the body of this task and raises a group), a start that hangs, a word of ours. Promise: nobody
waits for a server longer than he said, and what goes wrong with one is a state with a sentence, never an exception
for somebody else.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from agentcore.mcp.connection import Connection, Gone, Refused, connected, load_sdk
from agentcore.mcp.offers import NOTHING, Offer, offer_of
from agentcore.mcp.states import GIVEN_UP_AFTER, MOST_RELIST_S, SERVING, STABLE_S, TIMING, State, Timing, told
from agentcore.mcp.targets import Target
from agentcore.mcp.watched import Watch
from agentcore.redaction import Redactor
from agentcore.serving import ServerState
from agentcore.within import one_line

if TYPE_CHECKING:
    import httpx2
    import mcp_types as types

log = logging.getLogger(__name__)

_MAX_ERROR_CHARS = 300

Login = Callable[[Target], "Awaitable[httpx2.Auth | None]"]
"""What a server over HTTP is shown, where somebody has logged in there."""


Loading = Callable[[], AbstractContextManager[None]]
"""Entered around the loading of the SDK, in a worker."""


async def no_login(target: Target) -> "httpx2.Auth | None":
    return None


class Server:
    """Run by exactly one task; everything else about it is plain functions and waiting."""

    def __init__(
        self, target: Target, *, timing: Timing = TIMING, login: Login = no_login, loading: Loading = nullcontext
    ) -> None:
        self.target = target
        self.offer: Offer = NOTHING
        """Replaced as a whole; the same object while nothing has changed."""
        self.state = State.CONNECTING
        self.error: str | None = None
        self.has_begun = False
        """Its task runs, or has run."""
        self.ended = anyio.Event()
        self._timing = timing
        self._login = login
        self._loading = loading
        self._redactor = Redactor(target.secrets)
        self._connection: Connection | None = None
        self._failures = 0
        self._ready_at = 0.0
        self._is_stopping = False
        self._scope = anyio.CancelScope()
        self._moved = anyio.Event()
        """Set, and replaced, with each change."""
        self._changed = anyio.Event()
        """Set by a word of the server's."""
        self._woken = anyio.Event()
        self._users = 0
        self._users_moved = anyio.Event()
        """Set, and replaced, whenever there is one more or less."""

    def described(self) -> ServerState:
        target = self.target
        state, tools = SERVING[self.state], len(self.offer.tools)
        return ServerState(target.name, state, tools, self.error, target.transport, target.source)

    # --- its users ---

    def use(self) -> None:
        self._count_users(1)

    def let_go(self) -> None:
        self._count_users(-1)

    def _count_users(self, more: int) -> None:
        self._users += more
        self._users_moved.set()
        self._users_moved = anyio.Event()

    def wake(self) -> None:
        """Try a server again that is tried seldom by now: somebody is there who would use it."""
        if self.state in (State.FAILED, State.NEEDS_LOGIN):
            self._woken.set()

    def stop(self) -> None:
        """Let it end; `ended` tells when it has."""
        self._is_stopping = True
        self._scope.cancel()

    @property
    def is_over(self) -> bool:
        """It has ended, or is about to: nobody can begin to use it."""
        return self._is_stopping or self.state is State.STOPPED

    @property
    def is_starting(self) -> bool:
        return self.state is State.CONNECTING

    async def wait_started(self) -> None:
        """Return when it is connected, or was tried in vain."""
        while self.is_starting:
            await self.wait_moved()

    async def wait_moved(self) -> None:
        """Return at its next change of state, of connection or of what it offers."""
        await self._moved.wait()

    async def connection(self, within_s: float) -> Connection:
        """What to ask it through; waits a little where it is being connected. Raises: Gone."""
        with anyio.move_on_after(within_s):
            while self._held is None and self.state in (State.CONNECTING, State.READY, State.LOST):
                await self.wait_moved()
        if self._held is None:
            raise Gone
        return self._held

    @property
    def _held(self) -> Connection | None:
        """The connection, if it holds."""
        return None if self._connection is None or self._connection.is_lost else self._connection

    # --- its task ---

    async def run(self) -> None:
        """Own it until it is stopped, or nobody has used it for a while."""
        self.has_begun = True
        try:
            with self._scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._leave_when_unused)
                    while True:
                        await self._try()
                        await self._wait_to_try_again()
        finally:
            self.offer = NOTHING
            self._move(State.STOPPED)
            self.ended.set()

    async def _leave_when_unused(self) -> None:
        while True:
            while self._users:
                await self._users_moved.wait()
            with anyio.move_on_after(self._timing.idle_s):
                while not self._users:
                    await self._users_moved.wait()
            if not self._users:
                self.stop()
                return

    async def _try(self) -> None:
        """Connect once and stay for as long as it holds. The barrier: whatever ends it becomes a state."""
        watch = Watch()
        self._changed = anyio.Event()
        limit = anyio.CancelScope(deadline=anyio.current_time() + self._timing.connect_s)
        why = "It ended the connection."
        try:
            with limit:
                await to_thread.run_sync(self._load)
                auth = await self._login(self.target)
                async with connected(self.target, self._change, watch, auth) as connection:
                    await self._look(connection)
                    limit.deadline = float("inf")
                    await self._stay(connection)
        except OSError as error:
            program = f"{error.filename}: " if error.filename else ""
            why = f"It cannot be started: {program}{error.strerror or type(error).__name__}."
        except Refused as error:
            why = f"It refused to be connected: {error}."
        except Gone:
            pass
        except Exception as error:  # of other people's transports, and there is no list; what it is becomes a state
            log.debug("MCP server %s", self.target.name, exc_info=True)
            why = told(error)
        if limit.cancelled_caught:
            why = f"It did not answer within {self._timing.connect_s:g} s."
        self._lose(watch, watch.why or why)

    def _load(self) -> None:
        with self._loading():
            load_sdk()

    async def _stay(self, connection: Connection) -> None:
        """Be there until it is lost, and look anew whenever it says that it changed."""
        self._ready_at = anyio.current_time()
        self._connection = connection
        self._move(State.READY)
        async with anyio.create_task_group() as group:
            group.start_soon(connection.hear_changes, self._change, self._timing.delays_s)
            group.start_soon(self._look_again, connection)
            await connection.wait_lost()
            group.cancel_scope.cancel()

    async def _look_again(self, connection: Connection) -> None:
        pause_s = self._timing.relist_s
        while True:
            await self._changed.wait()
            await anyio.sleep(self._timing.settle_s)
            self._changed = anyio.Event()
            try:
                await self._look(connection)
            except Refused as error:
                log.info("MCP server %s changed and cannot be asked for what it offers: %s", self.target.name, error)
            except Gone:
                return
            self._move(State.READY)
            await anyio.sleep(pause_s)
            pause_s = min(2 * pause_s, MOST_RELIST_S) if self._changed.is_set() else self._timing.relist_s

    async def _look(self, connection: Connection) -> None:
        """Raises: Gone, Refused."""
        tools, prompts = await connection.tools(), await self._prompts(connection)
        said, left_out = connection.instructions, connection.left_out
        self.offer = await to_thread.run_sync(offer_of, tools, prompts, said, left_out)
        for text in self.offer.left_out:
            log.info("MCP server %s: %s", self.target.name, text)

    async def _prompts(self, connection: Connection) -> "list[types.Prompt]":
        """One that cannot list them is used without. Raises: Gone."""
        try:
            return await connection.prompts()
        except Refused as error:
            log.info("MCP server %s: its prompts are left out: %s", self.target.name, one_line(str(error)))
            return []

    def _change(self) -> None:
        self._changed.set()

    def _lose(self, watch: Watch, why: str) -> None:
        was_ready = self.state is State.READY
        held_s = anyio.current_time() - self._ready_at
        self._connection = None
        self._failures = 1 if was_ready and held_s >= STABLE_S else self._failures + 1
        said = f" Its last words: {watch.last_words}" if watch.last_words else ""
        self.error = one_line(self._redactor.text(why + said), _MAX_ERROR_CHARS)
        if watch.needs_login:
            self.error = f"It wants a login: agentcore mcp login {self.target.name}"
            self.offer = NOTHING
            self._move(State.NEEDS_LOGIN)
        elif was_ready or (self.state is State.LOST and self._failures < GIVEN_UP_AFTER):
            self._move(State.LOST)
        else:
            self.offer = NOTHING
            self._move(State.FAILED)
        log.info("MCP server %s is %s: %s", self.target.name, SERVING[self.state], self.error)

    def _move(self, state: State) -> None:
        if state is State.READY:
            self.error = None
        self.state = state
        self._moved.set()
        self._moved = anyio.Event()

    async def _wait_to_try_again(self) -> None:
        self._woken = anyio.Event()
        delays = self._timing.delays_s
        with anyio.move_on_after(delays[min(self._failures, len(delays)) - 1]):
            await self._woken.wait()
