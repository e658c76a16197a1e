"""`agentcore` with a small application in place of the real one, for tests of the process around it.

Run as a program with the arguments of `agentcore`. `STUB_STOP` says how its `stop` behaves: `end` (closes the
streams), `hang` or `fail`.
"""

import json
import os
import sys
import types
from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel

from server import cli
from server.settings import RunSettings, ServerSettings


class StubApplication:
    """Streams that end with a farewell when the server stops, and handlers that do not care."""

    notices = ("the model is a stub",)
    model = "fake/m"
    left_open = 2

    def __init__(self, settings: ServerSettings) -> None:
        from sse_starlette import EventSourceResponse
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response, StreamingResponse
        from starlette.routing import Route

        from server.guard import Admission, Guard
        from server.problems import HANDLERS

        self.stopping: anyio.Event | None = None

        async def health(_request: Request) -> Response:
            return JSONResponse({"ok": True})

        async def events(_request: Request) -> Response:
            return EventSourceResponse(self._events(), sep="\n")

        async def flood(_request: Request) -> Response:
            return StreamingResponse(_flood())

        async def hang(_request: Request) -> Response:
            await anyio.sleep_forever()
            raise AssertionError

        async def echo(request: Request) -> Response:
            return JSONResponse({"bytes": len(await request.body())})

        routes = [
            Route("/echo", echo, methods=["POST"]),
            Route("/v1/health", health),
            Route("/events", events),
            Route("/flood", flood),
            Route("/hang", hang),
        ]
        public = frozenset(("GET", path) for path in ("/v1/health", "/events", "/flood", "/hang"))
        app = Starlette(routes=routes, exception_handlers=dict(HANDLERS))
        self.app = Guard(app, Admission(settings.token, public=public), lambda _ticket, _session: False)

    async def start(self) -> None:
        self.stopping = anyio.Event()

    async def stop(self) -> None:
        print("stopping", file=sys.stderr, flush=True)
        match os.environ.get("STUB_STOP", "end"):
            case "hang":
                await anyio.sleep_forever()
            case "fail":
                raise RuntimeError("cannot stop")
        assert self.stopping is not None
        self.stopping.set()

    async def _events(self) -> AsyncIterator[bytes]:
        assert self.stopping is not None
        yield b": connected\n\n"
        await self.stopping.wait()
        yield b"event: server_stopping\ndata: {}\n\n"


async def _flood() -> AsyncIterator[bytes]:
    while True:
        yield b"x" * 65536
        await anyio.lowlevel.checkpoint()


def tell_run(settings: RunSettings) -> int:
    """In place of a headless run: tell what it would get."""
    told = {"prompt": settings.prompt, "cwd": str(settings.cwd)}
    print(json.dumps({**told, "output": settings.output, "max_turns": settings.max_turns}))
    return 7


if __name__ == "__main__":
    stub = types.ModuleType("server.asgi")
    stub.build = StubApplication  # type: ignore[attr-defined]  # a module made here has no declared names
    sys.modules["server.asgi"] = stub
    headless = types.ModuleType("server.headless")
    headless.main = tell_run  # type: ignore[attr-defined]  # as above
    sys.modules["server.headless"] = headless
    sys.exit(cli.main())
