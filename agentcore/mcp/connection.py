"""One connection to an MCP server, for as long as it holds. Entered and left by the task that owns it.

Everybody else asks through it from tasks of his own. What the SDK raises is translated here, once: a server that has
gone, or one that says no.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from pydantic import JsonValue, ValidationError
from pydantic_core import PydanticSerializationError

from agentcore.mcp.callers import Caller, Callers
from agentcore.mcp.child import Child
from agentcore.mcp.http import http_transport
from agentcore.mcp.listed import MAX_LISTED, LeftOut
from agentcore.mcp.stdio import stdio_transport
from agentcore.mcp.targets import Target
from agentcore.mcp.watched import Watch, watched

if TYPE_CHECKING:
    import httpx2
    import mcp_types as types
    from mcp import Client
    from mcp.client._transport import TransportStreams
    from mcp.client.session import ClientRequestContext, IncomingMessage

log = logging.getLogger(__name__)

MAX_PAGES = 50
LIST_S = 30.0
SESSION_GONE = "Session terminated"
"""What the SDK makes of a server over HTTP that no longer knows us."""
_CHANGES = ("notifications/tools/list_changed", "notifications/prompts/list_changed")

Listed = TypeVar("Listed")


class Gone(Exception):
    """The connection has ended, or never was."""


class Refused(Exception):
    """The server answered that it will not; `str(error)` is what it said."""


def load_sdk() -> None:
    """Import what a connection needs: two seconds of work, once. Blocking.

    What it would log is not for an operator: it shows messages whole, and what fails is a state here.
    """
    import_module("mcp")
    for name in ("mcp", "client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


class Connection:
    """Made by `connected`."""

    def __init__(self, client: "Client", watch: Watch, child: Child | None, callers: Callers) -> None:
        self._client = client
        self._watch = watch
        self._child = child
        self._callers = callers

    @property
    def process_id(self) -> int | None:
        return None if self._child is None else self._child.process_id

    @property
    def is_lost(self) -> bool:
        """Nothing more will come of it; its owner may not know yet."""
        return self._watch.lost.is_set()

    async def wait_lost(self) -> None:
        """Return when nothing more will come of it."""
        await self._watch.lost.wait()

    # --- what there is ---

    @property
    def instructions(self) -> str:
        """What it says about the use of its tools."""
        return self._client.instructions or ""

    async def tools(self) -> "list[types.Tool]":
        """Raises: Gone, Refused."""
        self._watch.left_out.clear()
        if self._client.server_capabilities.tools is None:
            return []

        async def page(cursor: str | None) -> "tuple[Sequence[types.Tool], str | None]":
            listed = await self._client.list_tools(cursor=cursor)
            return listed.tools, listed.next_cursor

        return await self._all(page)

    async def prompts(self) -> "list[types.Prompt]":
        """Raises: Gone, Refused."""
        if self._client.server_capabilities.prompts is None:
            return []

        async def page(cursor: str | None) -> "tuple[Sequence[types.Prompt], str | None]":
            listed = await self._client.list_prompts(cursor=cursor)
            return listed.prompts, listed.next_cursor

        return await self._all(page)

    @property
    def left_out(self) -> "tuple[LeftOut, ...]":
        """What cannot be used of the tools that were listed last, and of the prompts since then."""
        return tuple(self._watch.left_out)

    async def _all(self, page: Callable[[str | None], Awaitable[tuple[Sequence[Listed], str | None]]]) -> list[Listed]:
        found: list[Listed] = []
        cursor: str | None = None
        with self._translated(), anyio.fail_after(LIST_S):
            for _ in range(MAX_PAGES):
                some, cursor = await page(cursor)
                found += some
                if cursor is None or len(found) >= MAX_LISTED:
                    break
        return found[:MAX_LISTED]

    # --- what is asked of it ---

    async def call(
        self,
        tool: str,
        input: Mapping[str, JsonValue],
        say: Callable[[str], None],
        caller: Caller,
    ) -> "types.CallToolResult":
        """`say` is told of its progress. Cancelling it tells the server. Raises: Gone, Refused."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            say(message or (f"{progress:g}" if total is None else f"{progress:g}/{total:g}"))

        async with self._as(caller):
            return await self._client.call_tool(tool, dict(input), progress_callback=told)

    async def read(self, uri: str, caller: Caller) -> "types.ReadResourceResult":
        """Raises: Gone, Refused."""
        async with self._as(caller):
            return await self._client.read_resource(uri)

    async def prompt(self, name: str, arguments: Mapping[str, str], caller: Caller) -> "types.GetPromptResult":
        """Raises: Gone, Refused."""
        async with self._as(caller):
            return await self._client.get_prompt(name, dict(arguments))

    @asynccontextmanager
    async def _as(self, caller: Caller) -> AsyncIterator[None]:
        """Raises: Gone, Refused."""
        async with self._callers.calling(caller):
            with self._translated():
                yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        try:
            yield
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or error.message == SESSION_GONE:
                self._watch.lose()
                raise Gone from error
            raise Refused(error.message or f"error {error.code}") from error
        except TimeoutError as error:
            raise Refused("it did not answer in time") from error
        except (ValidationError, PydanticSerializationError) as error:
            raise Refused("it sent an answer that makes no sense") from error
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            self._watch.lose()
            raise Gone from error
        except RuntimeError as error:  # of a client that was left, or asked too often for more input
            if self._watch.lost.is_set():
                raise Gone from error
            raise Refused(str(error)) from error

    # --- what it tells by itself ---

    async def hear_changes(self, changed: Callable[[], None], delays_s: Sequence[float]) -> None:
        """Have `changed` called whenever its tools or prompts may be others, as long as there is anything to hear; over
        the older protocol that needs no asking. A stream that was cut is opened again, `delays_s` later by how often
        that happened in a row."""
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
        from mcp.shared.exceptions import MCPError
        from mcp_types import METHOD_NOT_FOUND

        cuts = 0
        while True:
            try:
                async with self._client.listen(tools_list_changed=True, prompts_list_changed=True) as events:
                    if not (events.honored.tools_list_changed or events.honored.prompts_list_changed):
                        return
                    changed()  # nobody has heard what it said before this
                    async for _ in events:
                        cuts = 0
                        changed()
            except ListenNotSupportedError:
                return
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND:
                    return
            except (SubscriptionLost, TimeoutError):
                pass
            cuts += 1
            await anyio.sleep(delays_s[min(cuts, len(delays_s)) - 1])


@asynccontextmanager
async def connected(
    target: Target, changed: Callable[[], None], watch: Watch, auth: "httpx2.Auth | None" = None
) -> AsyncIterator[Connection]:
    """Connect, greet, and disconnect on leaving; the SDK has to be loaded before (`load_sdk`). `changed` is called when
    the server says that what it offers is other than before.

    Raises: Gone, Refused, OSError and what transports raise, also in groups, entering or at any time while inside.
    """
    from mcp import Client
    from mcp_types import Implementation

    callers = Callers()
    async with _transport(target, watch, auth) as (streams, child):
        client = Client(
            watched(streams, watch),
            cache=None,
            message_handler=_heard_by(changed),
            elicitation_callback=callers.asked,
            list_roots_callback=None if target.folder is None else _roots_of(target),
            client_info=Implementation(name="agentcore", version="1"),
        )
        async with client:
            watch.version = client.protocol_version
            try:
                yield Connection(client, watch, child, callers)
            finally:
                watch.lose()


@asynccontextmanager
async def _transport(
    target: Target, watch: Watch, auth: "httpx2.Auth | None"
) -> "AsyncIterator[tuple[TransportStreams, Child | None]]":
    if target.transport == "stdio":
        async with stdio_transport(target) as (streams, child):
            try:
                yield streams, child
            finally:
                watch.last_words = child.last_words()
    else:
        async with http_transport(target, watch, auth) as streams:
            yield streams, None


def _heard_by(changed: Callable[[], None]) -> Any:
    async def heard(message: "IncomingMessage") -> None:
        if getattr(message, "method", None) in _CHANGES:
            changed()

    return heard


def _roots_of(target: Target) -> Any:
    async def roots(context: "ClientRequestContext") -> Any:
        from mcp_types import ListRootsResult

        assert target.folder is not None
        roots = [{"uri": target.folder.as_uri(), "name": target.folder.name}]
        return ListRootsResult.model_validate({"roots": roots})

    return roots
