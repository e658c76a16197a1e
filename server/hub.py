"""The loaded sessions of one daemon: load, look up, close one, stop all.

Loading is the only thing that waits. One task group holds every run; nothing runs that nobody waits for.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakSet

import anyio
from anyio.abc import TaskGroup

from agentcore.agent import Agent
from agentcore.app import App
from agentcore.errors import StorageUnavailable
from agentcore.events import UserMessage
from agentcore.session import Settings
from server.barrier import barrier
from server.bus import STALL_S, Bus, Sleepers
from server.last_words import CLOSING_S, STOPPING_S
from server.live import LiveSession
from server.problems import Problem

logger = logging.getLogger(__name__)

IDLE_S = 30 * 60.0  # the contract's patience with a loaded session that nobody uses
TAKEN_OVER = "taken over by another server"
BORDER_WAIT_S = 10.0  # the contract's bound: how long running turns may take to reach a border when stopping


class Hub:
    def __init__(self, app: App, tasks: TaskGroup) -> None:
        self.app = app
        self._tasks = tasks
        self._live: dict[str, LiveSession] = {}
        self._opening: set[str] = set()
        self._is_draining = False
        self._ended: WeakSet[Bus] = WeakSet()
        """Of sessions that are not loaded any more: who has not taken all of one yet is what holds it."""
        self.arrivals = Sleepers()
        """Who waits for sessions that come, and for the end of all."""
        self.farewell = b""
        """The last bytes of every stream, once they are to end."""
        app.adopt(tasks)

    # --- looking up ---

    async def get(self, name: str) -> LiveSession:
        """A loaded session by id, unique prefix or `latest`. Raises: Problem `not_found` for one that is not loaded."""
        live = self.find(name)
        if live is None:
            session_id = await self.app.resolve(name)
            live = self.find(session_id)
        if live is None:
            hint = f'Session {session_id} is not loaded. Load it with POST /v1/sessions {{"resume": "{session_id}"}}.'
            raise Problem("not_found", hint)
        live.used_at = self.app.clock.monotonic()
        return live

    async def resolve(self, name: str) -> str:
        """The id behind a name, loaded or not. Raises: NotFound, AmbiguousPrefix."""
        return name if name in self._live else await self.app.resolve(name)

    def find(self, session_id: str) -> LiveSession | None:
        """A loaded session by its whole id; one that another server has taken over is not loaded here any more."""
        live = self._live.get(session_id)
        return None if live is None or live.is_taken_over else live

    def __iter__(self) -> Iterator[LiveSession]:
        return iter(tuple(self._live.values()))

    # --- loading ---

    async def create(self, cwd: Path, settings: Settings) -> LiveSession:
        """Begin a new session."""
        self.refuse_draining()
        live = LiveSession(self._tasks, self.app.clock)
        _bind(live, await self.app.create(cwd, settings, asker=live.requests))
        self._admit(live)
        return live

    async def load(self, name: str, *, takeover: bool = False) -> tuple[LiveSession, bool]:
        """The session of that name, loaded if need be; and whether it was loaded already.

        With `takeover` also one that another server holds: that one ends its run and has no further effect.
        """
        self.refuse_draining()
        session_id = await self.app.resolve(name)
        loaded = self._live.get(session_id)
        if loaded is not None and loaded.is_taken_over:
            await self.close(loaded, TAKEN_OVER)
            loaded = None
        elif loaded is not None and loaded.is_broken and not loaded.is_busy:
            await self.close(loaded, "its journal could not be written")
            loaded = None
        if loaded is not None and not loaded.is_closing:
            return loaded, True
        if loaded is not None:
            raise Problem("session_opening", "The session is being closed. Try again in a moment.")
        if session_id in self._opening:
            raise Problem("session_opening", "Another request is loading this session. Try again in a moment.")
        self._opening.add(session_id)
        try:
            live = LiveSession(self._tasks, self.app.clock)
            _bind(live, await self.app.open(session_id, asker=live.requests, takeover=takeover))
        finally:
            self._opening.discard(session_id)
        self._admit(live)
        live.wake()
        return live, False

    async def fork(
        self, name: str, at: str | int | None, given: Mapping[str, Any]
    ) -> tuple[LiveSession, UserMessage | None]:
        """Begin a session with the history of another, loaded or not, up to `at`; and the prompt that comes next there.

        Raises: Problem `session_busy` while a run of it is going on.
        """
        self.refuse_draining()
        session_id = await self.resolve(name)
        original, size = self._live.get(session_id), None
        if original is not None:
            original.refuse_busy()
            size = original.agent.log.size
        live = LiveSession(self._tasks, self.app.clock)
        agent, message = await self.app.fork(session_id, size, at, given, asker=live.requests)
        _bind(live, agent)
        self._admit(live)
        return live, message

    def _admit(self, live: LiveSession) -> None:
        live.loaded_at = self.app.clock.now()
        self._live[live.id] = live
        self.arrivals.wake()

    async def close(self, live: LiveSession, reason: str) -> None:
        """Cancel the session's run, tell its readers, and unload it; the journal stays. What cannot be ended in order
        is left as it is, as a SIGKILL would leave it."""
        with barrier(f"closing session {live.id}"):
            await live.close(reason)
        live.finish()
        self._forget(live)

    async def watch(self) -> None:
        """End the connections of readers that cannot keep up, and tidy up, for as long as the hub lives."""
        while True:
            await anyio.sleep(STALL_S / 4)
            with barrier("looking after the sessions"):
                self.drop_stalled(anyio.current_time())
                self.tidy()

    def drop_stalled(self, now: float) -> None:
        """End the connections of readers that cannot keep up, or do not take the end of what they read."""
        for bus in (*(live.bus for live in self), *self._ended):
            bus.drop_stalled(now)

    def tidy(self) -> None:
        """Let go of sessions that another server has taken over, unload those that nobody uses, and close what has
        waited for its answer for too long. One that fails keeps no other from that."""
        for live in self:
            if not live.is_closing:
                with barrier(f"looking after session {live.id}"):
                    self._look_after(live)

    def _look_after(self, live: LiveSession) -> None:
        now = self.app.clock.monotonic()
        if live.is_taken_over:
            self._tasks.start_soon(self.close, live, TAKEN_OVER, name=f"end of {live.id}")
        elif live.is_in_use:
            live.used_at = now
        elif now - live.used_at >= IDLE_S:
            if live.has_end_hooks:
                live.leave()  # in this step: what came before its hooks have heard it would be lost
                self._tasks.start_soon(self._unload_heard, live, name=f"end of {live.id}")
            else:
                self._unload(live)
            return
        live.call_person()
        try:
            live.expire()
        except StorageUnavailable:
            logger.warning("session %s: what expired stays open, its journal cannot be written", live.id)

    async def _unload_heard(self, live: LiveSession) -> None:
        await live.say_end(CLOSING_S)
        self._unload(live)

    def _unload(self, live: LiveSession) -> None:
        with barrier(f"unloading session {live.id}"):
            live.unload("idle")
        live.finish()
        self._forget(live)

    def _forget(self, live: LiveSession) -> None:
        if self._live.get(live.id) is live:
            del self._live[live.id]
        self._ended.add(live.bus)

    # --- stopping ---

    def refuse_draining(self) -> None:
        """Raises: Problem `draining` once the server is stopping."""
        if self._is_draining:
            raise Problem("draining", "The server is stopping. Try again when it is back.")

    async def stop(self, farewell: bytes) -> int:
        """Take no more work, let turns reach a border for a while, end every stream; return how many runs stay open.

        Stopping is not cancelling: what waits for an answer or did not reach a border stays in the journal as it is.
        """
        self._is_draining = True
        for live in self:
            live.pause()
        with anyio.move_on_after(BORDER_WAIT_S):
            while any(  # noqa: ASYNC110 - there is no one event: a run ends, or it comes to wait for a person
                live.is_busy and not live.waits_for_person for live in self
            ):
                await anyio.sleep(0.02)
        async with anyio.create_task_group() as endings:
            for live in self:
                endings.start_soon(live.say_end, STOPPING_S)
        left_open = sum(live.agent.open_run is not None for live in self)
        self.farewell = farewell
        for live in self:
            live.finish(farewell=farewell)
        self._live.clear()
        self.arrivals.wake()
        self._tasks.cancel_scope.cancel()
        return left_open


def _bind(live: LiveSession, agent: Agent) -> None:
    """Give a session its agent; where that fails, nobody holds it."""
    try:
        live.bind(agent)
    except BaseException:
        agent.close()
        raise
