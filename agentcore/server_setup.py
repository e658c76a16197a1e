"""What a person does to MCP servers from the command line: look, add, remove, approve, log in. No server has to run."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
from anyio import to_thread

from agentcore.app import App
from agentcore.confinement import confinement_of
from agentcore.errors import NotFound, Unprocessable
from agentcore.mcp.logins import Logins
from agentcore.mcp.pool import McpServers
from agentcore.mcp.states import CONNECT_S
from agentcore.mcp.targets import Confinement, Target, Unusable, target_of
from agentcore.serving import ServerState
from agentcore.sessions.store import project_of
from agentcore.settings.approvals import Approval, server_digest
from agentcore.settings.own_servers import add_server, remove_server
from agentcore.settings.private import project_file, user_file
from agentcore.settings.servers import McpServer

Standing = Literal["active", "waiting", "denied"]


@dataclass(frozen=True, slots=True)
class Listed:
    """A server that a session in a folder would use, or wait for."""

    name: str
    standing: Standing
    transport: str
    line: str
    """What is run or asked."""
    source: str
    """The file that names it."""


async def list_servers(app: App, folder: Path) -> list[Listed]:
    """Raises: Unprocessable."""
    effective = await app.effective(folder)
    decided = {(one.project, one.entry_sha256): one for one in await app.find_approvals([folder])}
    return [
        Listed(one.name, _standing(one, decided), one.transport, one.line, one.origin.name)
        for one in effective.mcp_servers
    ]


def _standing(server: McpServer, decided: Mapping[tuple[str, str], Approval]) -> Standing:
    if not server.origin.is_shared:
        return "active"
    known = decided.get((str(server.origin.base), server_digest(server)))
    if known is None or known.state == "waiting":
        return "waiting"
    return "active" if known.state == "allowed" else "denied"


async def try_servers(app: App, folder: Path) -> Sequence[ServerState]:
    """Connect to each server that may be used, side by side, and tell what came of it; nothing is left running.

    Raises: Unprocessable.
    """
    active = {one.name for one in await list_servers(app, folder) if one.standing == "active"}
    effective = await app.effective(folder)
    confinement = await to_thread.run_sync(confinement_of, app.sandbox, app.config, effective)
    servers = McpServers(login=Logins(app.config.config_dir).auth)
    unusable: list[ServerState] = []
    async with anyio.create_task_group() as tasks:
        servers.adopt(tasks)
        used = []
        for one in effective.mcp_servers:
            if one.name in active:
                try:
                    used.append(servers.use(_target(app, one, folder, confinement)))
                except Unprocessable as error:
                    unusable.append(ServerState(one.name, "failed", 0, str(error), one.transport, one.origin.name))
        with anyio.move_on_after(CONNECT_S):
            for server in used:
                await server.wait_started()
        states = [server.described() for server in used]
        await servers.close()
    return sorted([*states, *unusable], key=lambda state: state.name)


async def add(app: App, folder: Path | None, name: str, section: Mapping[str, Any]) -> Path:
    """Write a server into the user's settings, for one project where a folder is given; return the file.

    Raises: OSError, Unprocessable.
    """
    file = _file(app, folder)
    await to_thread.run_sync(add_server, file, name, section)
    return file


async def remove(app: App, folder: Path | None, name: str) -> None:
    """Raises: OSError, Unprocessable, NotFound."""
    if not await to_thread.run_sync(remove_server, _file(app, folder), name):
        raise NotFound(f"There is no MCP server {name} in these settings of yours: see agentcore mcp list.")


async def approve(app: App, folder: Path, name: str, *, allow: bool) -> Approval:
    """Say whether a server of a repository may run, as it stands. Raises: OSError, Unprocessable, NotFound."""
    found = [
        one for one in await app.find_approvals([folder]) if one.kind == "mcp_server" and name in (one.name, one.id)
    ]
    if not found:
        raise NotFound(f"No MCP server {name} of a repository waits here: see agentcore mcp list.")
    if len(found) > 1:
        ids = ", ".join(f"{one.id} ({one.source})" for one in found)
        raise Unprocessable(f"Several MCP servers are called {name}. Name one by its id: {ids}.")
    return await app.decide_approval([folder], found[0].id, allow=allow)


async def log_in(app: App, folder: Path, name: str, show: Callable[[str], Awaitable[None]]) -> int:
    """Log in at a server; return how many tools it has. Raises: OSError, Unprocessable, NotFound."""
    from agentcore.mcp.login import log_in as run_flow

    listed = {one.name: one for one in await list_servers(app, folder)}
    server = next((one for one in (await app.effective(folder)).mcp_servers if one.name == name), None)
    if server is None:
        raise NotFound(f"There is no MCP server {name} here: see agentcore mcp list.")
    if listed[name].standing != "active":
        raise Unprocessable(f"The MCP server {name} waits for approval: agentcore mcp approve {name}.")
    target = _address(app, server, folder)
    try:
        return await run_flow(target, Logins(app.config.config_dir), show)
    except Unusable as error:
        raise Unprocessable(str(error)) from None


async def log_out(app: App, folder: Path, name: str) -> None:
    """Forget a login. Raises: OSError, Unprocessable, NotFound."""
    server = next((one for one in (await app.effective(folder)).mcp_servers if one.name == name), None)
    if server is None:
        raise NotFound(f"There is no MCP server {name} here: see agentcore mcp list.")
    await to_thread.run_sync(Logins(app.config.config_dir).keep, _address(app, server, folder).url, None)


def _address(app: App, server: McpServer, folder: Path) -> Target:
    """Raises: Unprocessable."""
    if server.transport == "stdio":
        raise Unprocessable(f"The MCP server {server.name} is a command: there is no login.")
    return _target(app, server, folder, None)


def _target(app: App, server: McpServer, folder: Path, confinement: Confinement | None) -> Target:
    """Raises: Unprocessable."""
    try:
        return target_of(server, folder, app.config.environ, confinement)
    except Unusable as error:
        raise Unprocessable(str(error)) from None


def _file(app: App, folder: Path | None) -> Path:
    config_dir = app.config.config_dir
    return user_file(config_dir) if folder is None else project_file(config_dir, project_of(folder))
