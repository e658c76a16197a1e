"""A tool of a server, as every other tool: the loop, the gate and the hooks cannot tell the difference."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from agentcore.caps import safe_text
from agentcore.mcp.asking import Asking
from agentcore.mcp.callers import Caller
from agentcore.mcp.connection import Connection, Gone, Refused
from agentcore.mcp.content import outcome_of
from agentcore.mcp.offers import OfferedTool
from agentcore.mcp.server import Server
from agentcore.mcp.targets import Confinement
from agentcore.ports.blobs import Blobs
from agentcore.ports.permission import Asker
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.schema_input import SchemaInput

if TYPE_CHECKING:
    import mcp_types as types

RECONNECT_S = 10.0
"""For a server that is being connected when it is called."""
LONGEST_S = 3_600.0
"""Of a call in all, however much it tells of its progress; questions to a person do not count."""
MAX_PROGRESS = 500
MAX_PROGRESS_CHARS = 500
"""Of one word of progress, of which no more than so many are shown."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What the tools of one session are called in."""

    session: str
    cwd: Path
    blobs: Blobs
    asker: Asker | None
    confinement: Confinement | None = None
    """Of its servers that are to be confined."""


Reach = Callable[[Server], Awaitable[Server]]
"""Where a call goes: to a server itself, or to one in its place."""


async def itself(server: Server) -> Server:
    return server


class McpTool:
    """Satisfies the Tool port."""

    def __init__(
        self,
        name: str,
        offered: OfferedTool,
        server: Server,
        reach: Reach,
        scene: Scene,
        may_use: Callable[[], Awaitable[bool]],
    ) -> None:
        """`may_use` says whether the server may be used still: an approval can be taken back."""
        self._offered = offered
        self._server = server
        self._reach = reach
        self._scene = scene
        self._may_use = may_use
        self.spec = ToolSpec(
            name=name,
            description=offered.description,
            input=offered.input,
            read_only=offered.read_only,
            parallel_safe=offered.read_only,
            timeout_s=None,  # it keeps its own, which a question to a person does not use up
        )

    @property
    def server_name(self) -> str:
        """As it is configured."""
        return self._server.target.name

    async def run(self, input: SchemaInput, room: ToolRoom) -> Outcome:
        target = self._server.target
        if not await self._may_use():
            raise ToolError(f"The MCP server {target.name} is not approved any more. The user decides: do without it.")
        patience = Patience(target.timeout_s)
        asking = Asking(self._scene.asker, target.name, room.call_id)

        async def answer(params: "types.ElicitRequestFormParams") -> "types.ElicitResult":
            with patience.waiting_for_person():
                return await asking.answer(params)

        caller = Caller(self._scene.session, answer)
        with patience.scope:
            try:
                result = await self._called(input, patience.telling(room.say), caller)
            finally:
                patience.end()
            return await outcome_of(result, self._scene.blobs)
        raise ToolError(f"{self.spec.name} did not answer within {target.timeout_s:g} s and was stopped.")

    async def _called(self, input: SchemaInput, say: Callable[[str], None], caller: Caller) -> "types.CallToolResult":
        """Raises: ToolError."""
        name, connection = self.server_name, await connection_to(await self._reach(self._server))
        try:
            return await connection.call(self._offered.name, input.root, say, caller)
        except Gone:
            raise ToolError(
                f"The connection to the MCP server {name} ended during this call. It may have taken effect in whole, in"
                " part or not at all; look before you repeat it."
            ) from None
        except Refused as error:
            raise ToolError(f"The MCP server {name} refused: {error}") from None

    def preview(self, input: Any) -> str | None:
        return None


async def connection_to(server: Server) -> Connection:
    """Raises: ToolError when it is not connected, also not soon."""
    try:
        return await server.connection(RECONNECT_S)
    except Gone:
        why = f" ({server.error})" if server.error else ""
        raise ToolError(f"The MCP server {server.target.name} is not connected{why}. Go on without it.") from None


class Patience:
    """How long a call may go on: so long after each word of it, and no longer than the longest in all."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._left_s = LONGEST_S
        self._since = anyio.current_time()
        self._questions = 0
        self._is_over = False
        self.scope = anyio.CancelScope(deadline=self._since + timeout_s)

    def end(self) -> None:
        """The call is over: what is told from now on is not of it."""
        self._is_over = True

    def heard(self) -> None:
        if self._questions:
            return
        now = anyio.current_time()
        self._left_s -= now - self._since
        self._since = now
        self.scope.deadline = now + min(self._timeout_s, self._left_s)

    def telling(self, say: Callable[[str], None]) -> Callable[[str], None]:
        """Shows words of progress, as many as anybody reads."""
        told = 0

        def tell(text: str) -> None:
            nonlocal told
            if self._is_over:
                return
            self.heard()
            told += 1
            if told <= MAX_PROGRESS:
                say(safe_text(text)[:MAX_PROGRESS_CHARS] + "\n")

        return tell

    def waiting_for_person(self) -> "_Pause":
        return _Pause(self)

    def pause(self) -> None:
        self.heard()
        self._questions += 1
        self.scope.deadline = float("inf")

    def go_on(self) -> None:
        self._questions -= 1
        self._since = anyio.current_time()
        self.heard()


class _Pause:
    def __init__(self, patience: Patience) -> None:
        self._patience = patience

    def __enter__(self) -> None:
        self._patience.pause()

    def __exit__(self, *error: object) -> None:
        self._patience.go_on()
