"""An MCP server on the official SDK that wants to know things before it answers, in the newest protocol: there a call
is answered with what is missing, and made again. Run as a program by the tests.
"""

from typing import Annotated

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp_types import CreateMessageResult, ListRootsResult, SamplingMessage, TextContent, ToolAnnotations
from pydantic import BaseModel

server = MCPServer("asker", log_level="ERROR")
READS = ToolAnnotations(read_only_hint=True)


class Color(BaseModel):
    color: str


async def color() -> Elicit[Color]:
    return Elicit("Which color?", Color)


async def thought() -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(type="text", text="Think."))], max_tokens=9)


async def places() -> ListRoots:
    return ListRoots()


@server.tool(annotations=READS)
async def ask(chosen: Annotated[Color, Resolve(color)]) -> str:
    """Ask for a color."""
    return chosen.color


@server.tool(annotations=READS)
async def think(thought: Annotated[CreateMessageResult, Resolve(thought)]) -> str:
    """Have the client's model think."""
    return str(thought.content)


@server.tool(annotations=READS)
async def where(found: Annotated[ListRootsResult, Resolve(places)]) -> str:
    """Say what it is told of places."""
    return " ".join(str(root.uri) for root in found.roots)


if __name__ == "__main__":
    anyio.run(server.run_stdio_async)
