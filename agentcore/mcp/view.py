"""What one session sees of the servers: its tools under their names here, and what it is told of changes.

The user's own servers count, and those of a repository once a person has approved them as they stand; no other is ever
started. Satisfies the Servers port. Everything shown is read anew from the servers each time it is asked for, and stays
the same object while they have not changed, so that the beginning of a request does.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

import anyio
from anyio import to_thread

from agentcore.events import Notice
from agentcore.mcp.lent import LentServers, ServersApart
from agentcore.mcp.mentioned import Block, read_resource, use_prompt
from agentcore.mcp.names import PREFIX, segments, tool_names
from agentcore.mcp.news import News, Seen
from agentcore.mcp.offers import OfferedPrompt
from agentcore.mcp.pool import McpServers
from agentcore.mcp.server import Server
from agentcore.mcp.targets import Target, Unusable, target_of
from agentcore.mcp.tool import Scene, itself
from agentcore.mcp.toolset import Making, Offering, Toolset
from agentcore.origin import Origin
from agentcore.ports.models import ToolDefinition
from agentcore.ports.permission import Asker
from agentcore.ports.servers import Elsewhere, Lent
from agentcore.ports.tools import Tool, ToolError, ToolSpec
from agentcore.settings.approvals import server_digest
from agentcore.settings.servers import McpServer

MOST_SAID_CHARS = 8_000
"""Of what all servers of a session say about themselves."""


class SessionServers:
    """Of one session. Give them back with `close`."""

    def __init__(
        self,
        pool: McpServers,
        servers: Sequence[McpServer],
        scene: Scene,
        environ: Mapping[str, str],
        is_approved: Callable[[Origin, str], bool],
        is_removed: Callable[[ToolSpec], bool],
    ) -> None:
        """`servers` in order of precedence. `environ` fills their variables in. `is_approved` may touch the disk;
        `is_removed` says whether a rule forbids all that a tool does."""
        self._pool = pool
        self._configured = {server.name: server for server in servers}
        self._scene = scene
        self._environ = environ
        self._is_approved = is_approved
        self._making = Making(segments(self._configured), is_removed, _still(self._configured, is_approved))
        self._held: dict[str, Server] = {}
        self._unusable: dict[str, str] = {}
        self._news = News()
        self._toolset = Toolset(sorted(self._configured))
        self._late: set[str] = set()
        """Those that start still, and that a run has waited for: no other run does."""
        self._is_waiting = False
        self._is_closed = False

    # --- which servers ---

    async def look(self, within_s: float) -> None:
        allowed = await to_thread.run_sync(self._allowed)
        if self._is_closed:
            return
        for name in [name for name in self._held if name not in allowed]:
            self._held.pop(name).let_go()
        for name in allowed:
            self._hold(name)
        self._late = {name for name in self._late & self._held.keys() if self._held[name].is_starting}
        self._is_waiting = within_s > 0
        try:
            with anyio.move_on_after(within_s) as patience:
                for name, server in tuple(self._held.items()):
                    if name not in self._late:
                        await server.wait_started()
        finally:
            self._is_waiting = False
        if within_s > 0 and patience.cancelled_caught:
            self._late |= {name for name, server in self._held.items() if server.is_starting}

    @property
    def awaited(self) -> tuple[str, ...]:
        held = self._held.items() if self._is_waiting else ()
        return tuple(sorted(name for name, server in held if server.is_starting and name not in self._late))

    def _allowed(self) -> list[str]:
        """The names of those that may run. Blocking."""
        return [name for name, server in self._configured.items() if self._may_run(server)]

    def _may_run(self, server: McpServer) -> bool:
        return not server.origin.is_shared or self._is_approved(server.origin, server_digest(server))

    def _hold(self, name: str) -> None:
        held = self._held.get(name)
        if held is not None and not held.is_over:
            held.wake()
            return
        self._unusable.pop(name, None)
        try:
            scene = self._scene
            target: Target = target_of(self._configured[name], scene.cwd, self._environ, scene.confinement)
        except Unusable as error:
            self._unusable[name] = str(error)
            return
        if held is not None:
            held.let_go()
        self._held[name] = self._pool.use(target)

    def close(self) -> None:
        self._is_closed = True
        while self._held:
            self._held.popitem()[1].let_go()
        # who asks knows the hooks, and these the tools: a closed session is freed without the collector
        self._scene = replace(self._scene, asker=None)
        self._toolset.clear()

    # --- their tools ---

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._followed().tools

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return self._followed().definitions

    def _followed(self) -> Toolset:
        offerings, everything = self._offerings(), lambda spec: True
        self._toolset.follow(offerings, lambda: self._making.tools(offerings, self._scene, itself, everything))
        return self._toolset

    def _offerings(self) -> tuple[Offering, ...]:
        held = ((name, self._held[name]) for name in self._configured if name in self._held)
        return tuple(Offering(name, server, server.offer) for name, server in held)

    def lent(self, has: Callable[[ToolSpec], bool], asker: Asker | None, elsewhere: Elsewhere | None = None) -> Lent:
        apart = None if elsewhere is None else ServersApart(self._pool, elsewhere)
        scene = replace(self._scene, asker=asker)
        return LentServers(self._offerings, self._making, scene, has, sorted(self._configured), apart)

    # --- what people are told ---

    def take_notices(self) -> Sequence[Notice]:
        seen = {name: Seen("unusable", text) for name, text in self._unusable.items()}
        for name, server in self._held.items():
            offer = server.offer
            seen[name] = Seen(server.described().state, server.error or "", offer.names, offer.left_out)
        return self._news.take(seen)

    # --- what models are told besides ---

    def instructions(self) -> Mapping[str, str]:
        toolset, found, left = self._followed(), dict[str, str](), MOST_SAID_CHARS
        for one in self._offerings():
            text = one.offer.instructions
            if text and len(text) <= left and toolset.has_any_of(one.name):
                found[one.name] = text
                left -= len(text)
        return found

    # --- resources and prompts ---

    async def read(self, server: str, uri: str) -> tuple[Block, ...] | None:
        if server not in self._configured:
            return None
        return await read_resource(self._server(server), uri, self._scene)

    async def prompt(self, name: str, arguments: str) -> tuple[Block, ...] | None:
        found = self._find_prompt(name)
        if found is None:
            return None
        server, offered = found
        return await use_prompt(server, offered, name, arguments, self._scene)

    def _find_prompt(self, name: str) -> tuple[Server, OfferedPrompt] | None:
        if not name.startswith(PREFIX):
            return None
        for server, held in self._held.items():
            names = tool_names(self._making.segments[server], held.offer.prompts)
            for prompt, here in names.items():
                if here == name:
                    return held, held.offer.prompts[prompt]
        return None

    def _server(self, name: str) -> Server:
        """Raises: ToolError for one that does not run."""
        if name in self._held:
            return self._held[name]
        raise ToolError(self._unusable.get(name) or f"the MCP server {name} waits for approval")


def _still(
    configured: Mapping[str, McpServer], is_approved: Callable[[Origin, str], bool]
) -> Callable[[str], Callable[[], Awaitable[bool]]]:
    """By a server's name, whether it may be used still; knows nothing of a session's view."""

    def still(name: str) -> Callable[[], Awaitable[bool]]:
        server = configured[name]

        async def may_use() -> bool:
            if not server.origin.is_shared:
                return True
            return await to_thread.run_sync(is_approved, server.origin, server_digest(server))

        return may_use

    return still
