"""Runs the application under uvicorn until it is told to stop, and stops it in the right order.

Owns signals, connections and the end of the process; knows nothing of sessions. uvicorn alone would wait for open
event streams until they end by themselves, and would end by raising the signal again. Here the first signal awaits
`on_stop`, which closes the streams, then lets connections finish for a bounded time, and the exit code is 0; a
second signal ends the process at once. Promise: `on_started` runs only when the listener answers, and `on_stop`
runs exactly once, whatever happens.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from server.connection import Connection
from server.listener import BACKLOG, Listener

log = logging.getLogger(__name__)

STOP_LIMIT_S = 15.0  # running turns get 10 s to reach a boundary; the rest is for closing journals and streams
LINGER_S = 2.0  # for connections to take their last bytes; then they are cut
CUT_LIMIT_S = 2  # for handlers to end after their connections were cut; then uvicorn cancels them
MAX_DESCRIPTORS = 65_536  # each connection is one; the usual soft limit, 1024, is soon used up
KEEP_ALIVE_S = 60  # clients that reuse connections rarely meet one that closes at the same moment

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))

Started = Callable[[], None]
Stop = Callable[[], Awaitable[None]]


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run the daemon's coroutine on uvloop (where there is one) and return the exit code."""
    raise_descriptor_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def raise_descriptor_limit() -> None:
    """Take what the system lets this process have of open files and sockets, up to a bound."""
    if sys.platform == "win32":  # has no such limit
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # macOS may allow less than it says
        log.warning("the limit of open files stays at %d", soft)


async def serve(app: ASGIApp, listener: Listener, *, on_started: Started, on_stop: Stop) -> int:
    """Serve until SIGTERM, SIGINT or SIGHUP; return the exit code.

    Both callbacks run in the calling task, so `on_stop` may leave a task group that was entered before this call.
    Closes the listener.
    """
    server = _Server(_config(app), on_started, on_stop)
    try:
        await server.serve([listener.socket])
    finally:
        await server.stop()
        listener.close()
    return 0


class _Server(uvicorn.Server):
    """uvicorn's server with our start, our signals and our order of stopping."""

    def __init__(self, config: uvicorn.Config, on_started: Started, on_stop: Stop) -> None:
        super().__init__(config)
        self._on_started = on_started
        self._on_stop = on_stop
        self._has_stopped = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Tell the application first (the listener still answers: 503 to new prompts), then close connections."""
        await self.stop()
        cut = asyncio.get_running_loop().call_later(LINGER_S, self._cut_connections)
        try:
            await super().shutdown(sockets)
        finally:
            cut.cancel()
            self._cut_connections()

    async def stop(self) -> None:
        """Await `on_stop`, once and for a bounded time."""
        if self._has_stopped:
            return
        self._has_stopped = True
        try:
            # not an AnyIO scope: `on_stop` may leave a scope that is older than this one
            async with asyncio.timeout(STOP_LIMIT_S):
                await self._on_stop()
        except Exception:  # a failing stop must not keep the process alive
            log.exception("stopping the application failed; the process ends all the same")

    def _cut_connections(self) -> None:
        for connection in list(self.server_state.connections):
            if connection.transport is not None:
                connection.transport.abort()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals for the time of `serve`; do not raise them again afterwards as uvicorn does.

        The handler is a plain function on purpose: sse-starlette looks for a server behind a bound one and then
        ends all streams by itself; it also replaces `uvicorn.Server.handle_exit`, which is not used here.
        """

        def handle(number: int, _frame: FrameType | None) -> None:
            if self.should_exit:
                _exit_at_once(number)
            self.should_exit = True

        before = {number: signal.getsignal(number) for number in SIGNALS}
        # whoever started us may have chosen to ignore a signal (nohup)
        taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
        for number in taken:
            signal.signal(number, handle)
        try:
            yield
        finally:
            for number in taken:
                signal.signal(number, before[number])


def _exit_at_once(number: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(128 + number)


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,  # paths hold tickets
        workers=1,  # else WEB_CONCURRENCY would decide
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=int(LINGER_S) + CUT_LIMIT_S,
    )


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
