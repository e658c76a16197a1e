"""What one session sees of the servers: its tools under their names here, and what it is told of changes.

The user's own servers count, and those of a repository once a person has approved them as they stand; no other is ever
started. Satisfies the Servers port. Everything shown is read anew from the servers each time it is asked for, and stays
the same object while they have not changed, so that the beginning of a request does.
"""

import shlex
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import anyio
from anyio import to_thread

from agentcore.estimate import tokens_of_fixed
from agentcore.events import Notice
from agentcore.mcp.connection import Caller, Gone, Refused
from agentcore.mcp.content import Content, said_by
from agentcore.mcp.deferral import CallTool, ToolSearch
from agentcore.mcp.names import PREFIX, segments, tool_names
from agentcore.mcp.news import News, Seen
from agentcore.mcp.offers import Offer, OfferedPrompt
from agentcore.mcp.pool import McpServers
from agentcore.mcp.server import Server
from agentcore.mcp.targets import Target, Unusable, target_of
from agentcore.mcp.tool import McpTool, Patience, Scene, connection_to
from agentcore.messages import Document, Image, Text
from agentcore.origin import Origin
from agentcore.ports.models import ToolDefinition
from agentcore.ports.permission import Asker
from agentcore.ports.servers import Offered
from agentcore.ports.tools import Tool, ToolError, ToolSpec
from agentcore.settings.approvals import server_digest
from agentcore.settings.servers import McpServer
from agentcore.within import attribute, without_tags

if TYPE_CHECKING:
    import mcp_types as types

MOST_TOOLS = 30
MOST_TOKENS = 6_000
"""The contract's: above either the model is not told of them one by one, but finds them by `tool_search`."""
TAGS = ("resource", "mcp-prompt")

Block = Text | Image | Document


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
        self._is_removed = is_removed
        self._segments = segments(self._configured)
        self._held: dict[str, Server] = {}
        self._unusable: dict[str, str] = {}
        self._news = News()
        self._basis: tuple[tuple[str, Offer], ...] = ()
        self._tools: dict[str, Tool] = {}
        self._shown: dict[str, Tool] = {}
        self._definitions: tuple[ToolDefinition, ...] = ()
        self._is_deferred = False
        self._late: set[str] = set()
        """Those that start still, and that a run has waited for: no other run does."""
        self._is_waiting = False
        self._is_closed = False
        self._stand_ins = self._made_stand_ins(self._own_tools())

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
        self._basis, self._tools, self._shown = (), {}, {}

    # --- their tools ---

    @property
    def tools(self) -> Mapping[str, Tool]:
        self._refresh()
        return self._shown

    def definitions(self) -> tuple[ToolDefinition, ...]:
        self._refresh()
        return self._definitions

    def _refresh(self) -> None:
        """Make the tools of the session anew, if any server offers others than the last time."""
        basis = tuple((name, self._held[name].offer) for name in self._configured if name in self._held)
        if len(basis) == len(self._basis) and all(
            name == before and offer is earlier
            for (name, offer), (before, earlier) in zip(basis, self._basis, strict=True)
        ):
            return
        self._basis = basis
        self._tools = self._made_tools(self._scene, lambda spec: True)
        definitions = _definitions(self._tools)
        # once it has found its tools by searching, a session goes on so: its requests begin the same
        self._is_deferred = self._is_deferred or _are_many(definitions)
        self._shown = self._tools | (self._stand_ins if self._is_deferred else {})
        if self._is_deferred:
            definitions = _definitions(self._stand_ins)
        if definitions != self._definitions:
            self._definitions = definitions

    def lent(self, has: Callable[[ToolSpec], bool], asker: Asker | None) -> Offered:
        self._refresh()
        tools = self._made_tools(replace(self._scene, asker=asker), has)
        definitions = _definitions(tools)
        if not _are_many(definitions):
            return Offered(tools, definitions)
        stand_ins = self._made_stand_ins(lambda: tools)
        return Offered(tools | stand_ins, _definitions(stand_ins))

    def _made_tools(self, scene: Scene, has: Callable[[ToolSpec], bool]) -> dict[str, Tool]:
        """All that the servers offer and that `has` says, by name, sorted."""
        made = (tool for name, offer in self._basis for tool in self._made(name, offer, scene))
        return {tool.spec.name: tool for tool in sorted(made, key=lambda one: one.spec.name) if has(tool.spec)}

    def _made(self, name: str, offer: Offer, scene: Scene) -> Iterator[Tool]:
        names = tool_names(self._segments[name], offer.names)
        for offered in offer.tools:
            tool = McpTool(names[offered.name], offered, self._held[name], scene, self._still(name))
            if not self._is_removed(tool.spec):
                yield tool

    def _still(self, name: str) -> Callable[[], Awaitable[bool]]:
        """Whether a server may be used still; knows nothing of this session's view."""
        server, is_approved = self._configured[name], self._is_approved

        async def may_use() -> bool:
            if not server.origin.is_shared:
                return True
            return await to_thread.run_sync(is_approved, server.origin, server_digest(server))

        return may_use

    def _own_tools(self) -> Callable[[], Mapping[str, Tool]]:
        me = weakref.ref(self)  # who asks is among them

        def own_tools() -> Mapping[str, Tool]:
            view = me()
            return {} if view is None else view._tools

        return own_tools

    def _made_stand_ins(self, tools: Callable[[], Mapping[str, Tool]]) -> dict[str, Tool]:
        """The two that stand for all of `tools`, sorted."""
        made: tuple[Tool, ...] = (CallTool(), ToolSearch(tools, sorted(self._configured)))
        return {tool.spec.name: tool for tool in made}

    # --- what people are told ---

    def take_notices(self) -> Sequence[Notice]:
        seen = {name: Seen("unusable", text) for name, text in self._unusable.items()}
        for name, server in self._held.items():
            seen[name] = Seen(server.described().state, server.error or "", server.offer.names)
        return self._news.take(seen)

    # --- resources and prompts ---

    async def read(self, server: str, uri: str) -> tuple[Block, ...] | None:
        if server not in self._configured:
            return None
        connection, patience = (
            await connection_to(self._server(server)),
            Patience(self._server(server).target.timeout_s),
        )
        content = Content(self._scene.blobs)
        with patience.scope, _refusing(server):
            result = await connection.read(uri, self._caller())
            for resource in result.contents:
                await content.add_resource(resource)
            return _framed("resource", f'server="{attribute(server)}" uri="{attribute(uri)}"', content)
        raise ToolError(f"the MCP server {server} did not answer in time")

    async def prompt(self, name: str, arguments: str) -> tuple[Block, ...] | None:
        found = self._find_prompt(name)
        if found is None:
            return None
        server, offered = found
        given = _given(offered, arguments)
        connection, patience = (
            await connection_to(self._server(server)),
            Patience(self._server(server).target.timeout_s),
        )
        with patience.scope, _refusing(server):
            result = await connection.prompt(offered.name, given, self._caller())
            return _framed("mcp-prompt", f'name="{attribute(name)}"', await said_by(result.messages, self._scene.blobs))
        raise ToolError(f"the MCP server {server} did not answer in time")

    def _find_prompt(self, name: str) -> tuple[str, OfferedPrompt] | None:
        if not name.startswith(PREFIX):
            return None
        for server, held in self._held.items():
            names = tool_names(self._segments[server], held.offer.prompts)
            for prompt, here in names.items():
                if here == name:
                    return server, held.offer.prompts[prompt]
        return None

    def _server(self, name: str) -> Server:
        """Raises: ToolError for one that does not run."""
        if name in self._held:
            return self._held[name]
        raise ToolError(self._unusable.get(name) or f"the MCP server {name} waits for approval")

    def _caller(self) -> Caller:
        async def decline(params: "types.ElicitRequestFormParams") -> "types.ElicitResult":
            from mcp_types import ElicitResult

            return ElicitResult(action="decline")

        return Caller(self._scene.session, decline)


def _definitions(tools: Mapping[str, Tool]) -> tuple[ToolDefinition, ...]:
    return tuple(tool.spec.definition() for tool in tools.values())


def _are_many(definitions: Sequence[ToolDefinition]) -> bool:
    return len(definitions) > MOST_TOOLS or tokens_of_fixed("", definitions) > MOST_TOKENS


@contextmanager
def _refusing(server: str) -> Iterator[None]:
    """Raises: ToolError, for what a connection says."""
    try:
        yield
    except Gone:
        raise ToolError(f"the connection to the MCP server {server} ended") from None
    except Refused as error:
        raise ToolError(f"the MCP server {server} refused: {error}") from None


def _framed(tag: Literal["resource", "mcp-prompt"], attributes: str, content: Content) -> tuple[Block, ...]:
    text = f"<{tag} {attributes}>\n{without_tags(content.text, TAGS)}\n</{tag}>"
    return (Text(text=text), *content.files)


def _given(prompt: OfferedPrompt, arguments: str) -> dict[str, str]:
    """The arguments of a prompt as they were typed, in their order; the last one takes the rest.

    Raises: ToolError when one is missing.
    """
    try:
        words = shlex.split(arguments)
    except ValueError:
        words = arguments.split()
    count = len(prompt.arguments)
    if len(words) > count > 0:
        words = [*words[: count - 1], " ".join(words[count - 1 :])]
    given = dict(zip(prompt.arguments, words, strict=False))
    if missing := [name for name in prompt.arguments if name in prompt.required and name not in given]:
        raise ToolError(f"it needs {' and '.join(missing)}: write /mcp__…__{prompt.name} {' '.join(prompt.arguments)}")
    return given
