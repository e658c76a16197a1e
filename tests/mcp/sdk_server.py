"""A well-behaved MCP server on the official SDK, with tools to be watched by. Run as a program by the tests.

`sdk_server.py` speaks over its pipes, `sdk_server.py PORT` over streamable HTTP, `sdk_server.py PORT sse` in the older
way.
"""

import base64
import os
import sys

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ImageContent, TextContent, ToolAnnotations

server = MCPServer("tester", log_level="ERROR")
READS = ToolAnnotations(read_only_hint=True)
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@server.tool(annotations=READS)
def process_id() -> str:
    """Say the id of the process."""
    return str(os.getpid())


@server.tool(annotations=READS)
def environment() -> str:
    """Say the names of the variables."""
    return " ".join(sorted(os.environ))


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=True))
def search(words: str) -> str:
    """Search the world."""
    return words


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count aloud."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"number {number}")
    return f"counted to {to}"


@server.tool()
async def wait(file: str) -> str:
    """Say in a file that it waits, and there as well that it was cancelled."""
    path = anyio.Path(file)
    await path.write_text("waits")
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await path.write_text("cancelled")
    return "never"


@server.tool()
def die() -> str:
    """End the process at once."""
    os._exit(3)


@server.tool(structured_output=False)
def pictures(number: int, bytes_each: int = 0) -> list[ImageContent | TextContent]:
    """Show pictures."""
    data = base64.b64encode(PIXEL + bytes(bytes_each)).decode()
    shown = [ImageContent(type="image", data=data, mime_type="image/png") for _ in range(number)]
    return [TextContent(type="text", text="look"), *shown]


@server.tool()
async def grow(number: int, ctx: Context) -> str:
    """Offer more tools, each with a word about it."""
    for index in range(number):
        server.add_tool(lambda: "grown", name=f"grown_{index}", description="It grew.")
        await ctx.notify_tools_changed()
    return "grown"


@server.tool()
async def shrink(ctx: Context) -> str:
    """Offer fewer tools."""
    for tool in await server.list_tools():
        if tool.name.startswith("grown_"):
            server.remove_tool(tool.name)
    await ctx.notify_tools_changed()
    return "shrunk"


@server.resource("note://one")
def note() -> str:
    """A note."""
    return "the first note"


@server.prompt()
def greet(name: str, how: str = "kindly") -> str:
    """Greet somebody."""
    return f"Greet {name} {how}."


async def main() -> None:
    if len(sys.argv) == 1:
        await server.run_stdio_async()
    elif len(sys.argv) == 2:
        await server.run_streamable_http_async(port=int(sys.argv[1]))
    else:
        await server.run_sse_async(port=int(sys.argv[1]))


if __name__ == "__main__":
    anyio.run(main)
