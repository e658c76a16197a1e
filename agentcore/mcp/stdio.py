"""The transport over a command's pipes: a message a line, for the SDK to speak through.

Our own in the place of the SDK's, whose reader keeps a line without an end in memory for good, and which does not
notice a server that has gone. Promise: its streams end when the process does.
"""

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from agentcore.mcp.child import Child, running
from agentcore.mcp.reading import is_worth_it, read_again
from agentcore.mcp.targets import Target

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Of one message: four pictures of 5 MB as base64."""
MAX_PARTS = 2_000_000
"""Of one message: what makes a small text large in memory is how many values it has."""


_UNSENT = 64
"""Messages that wait for a server that does not read: a call that is cancelled does not wait for it as well."""


class TooLarge(Exception):
    """A server sent more than anybody keeps; `str(error)` is a sentence."""


@asynccontextmanager
async def stdio_transport(target: Target) -> AsyncIterator["tuple[TransportStreams, Child]"]:
    """Start the server's command and speak with it. Raises: OSError, ValueError; TooLarge, as part of a group."""
    from mcp.shared.message import SessionMessage

    async with running(target) as child:
        incoming, read = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        write, outgoing = anyio.create_memory_object_stream["SessionMessage"](_UNSENT)
        async with incoming, read, write, outgoing, anyio.create_task_group() as group:
            group.start_soon(child.hear_errors)
            group.start_soon(_receive, child, incoming, SessionMessage)
            group.start_soon(_send, child, outgoing)
            yield (read, write), child
            group.cancel_scope.cancel()


async def _receive(
    child: Child,
    incoming: "MemoryObjectSendStream[SessionMessage | Exception]",
    wrap: "type[SessionMessage]",
) -> None:
    lines = Lines()
    async with incoming:
        while chunk := await child.receive():
            for line in lines.add(chunk):
                message = await _read(line)
                if message is None:
                    continue  # something that it prints where messages belong
                with suppress(anyio.BrokenResourceError):  # nobody listens any more
                    await incoming.send(wrap(message))


async def _read(line: bytes) -> "JSONRPCMessage | None":
    from mcp_types import jsonrpc_message_adapter

    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return await to_thread.run_sync(read_again, line) if is_worth_it(line) else None


async def _send(child: Child, outgoing: "MemoryObjectReceiveStream[SessionMessage]") -> None:
    async with outgoing:
        async for item in outgoing:
            line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await child.send(line.encode(errors="replace") + b"\n")
            except OSError:
                return  # it has gone; the other stream ends with it


class Lines:
    """Puts chunks together to lines, within bounds."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that are complete now. Raises: TooLarge."""
        *complete, rest = chunk.split(b"\n")
        for piece in complete:
            line = b"".join((*self._pieces, piece))
            self._pieces, self._size = [], 0
            check_message(line)
            if line.strip():
                yield line
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > MAX_MESSAGE_BYTES:
            raise TooLarge(f"It sent a message of more than {MAX_MESSAGE_BYTES // 1024 // 1024} MiB.")


def check_message(line: bytes) -> None:
    """Raises: TooLarge."""
    if len(line) > MAX_MESSAGE_BYTES:
        raise TooLarge(f"It sent a message of more than {MAX_MESSAGE_BYTES // 1024 // 1024} MiB.")
    if len(line) > MAX_PARTS and sum(map(line.count, (b",", b"[", b"{"))) > MAX_PARTS:
        raise TooLarge(f"It sent a message of more than {MAX_PARTS:,} values.")
