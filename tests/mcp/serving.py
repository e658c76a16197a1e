"""Servers for the tests to reach, and a pool to reach them with."""

import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio

from agentcore.mcp.pool import McpServers
from agentcore.mcp.server import Login, Server, no_login
from agentcore.mcp.states import State, Timing
from agentcore.mcp.targets import Target

HERE = Path(__file__).parent
ODD, SDK, LOCKED = HERE / "odd_server.py", HERE / "sdk_server.py", HERE / "login_server.py"
ASKING = HERE / "asking_server.py"
ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/tmp"}
QUICK = Timing(connect_s=60.0, settle_s=0.02, relist_s=0.0, delays_s=(0.0, 0.0, 0.01, 3600.0), idle_s=3600.0)
"""Nothing waits longer than it must, and what has failed four times is left alone."""
WITHIN_S = 60.0
"""For a process that imports the SDK on a loaded machine."""


def odd(*habits: str, name: str = "odd", folder: Path | None = None, timeout_s: float = 60.0) -> Target:
    argv = (sys.executable, "-I", str(ODD), *habits)
    return Target(name, "stdio", "test", argv, ENVIRON, folder or Path("/"), timeout_s=timeout_s)


def sdk(name: str = "sdk", folder: Path | None = None) -> Target:
    return Target(name, "stdio", "test", (sys.executable, "-I", str(SDK)), ENVIRON, folder or Path("/"))


@asynccontextmanager
async def pool(timing: Timing = QUICK, login: Login = no_login) -> AsyncIterator[McpServers]:
    servers = McpServers(timing=timing, login=login)
    async with anyio.create_task_group() as tasks:
        servers.adopt(tasks)
        try:
            yield servers
        finally:
            await servers.close()


async def ready(servers: McpServers, target: Target) -> Server:
    server = servers.use(target)
    await reached(server, State.READY)
    return server


async def reached(server: Server, state: State, tools: int | None = None) -> None:
    """Wait for a state of a server, and for as many tools."""
    with anyio.fail_after(WITHIN_S):
        while server.state is not state or (tools is not None and len(server.offer.tools) != tools):
            await server.wait_moved()


@contextmanager
def http_server(
    *how: str, port: int | None = None, program: Path = SDK
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A server over HTTP, once it listens: its port and its process."""
    port = port or free_port()
    process = subprocess.Popen([sys.executable, "-I", str(program), str(port), *how], stderr=subprocess.DEVNULL)
    try:
        listening(port, process)
        yield port, process
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listening(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    raise RuntimeError("the test's server has ended")
