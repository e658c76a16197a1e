"""Servers that other people wrote, as they come from the registries."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from agentcore.mcp.content import outcome_of
from agentcore.mcp.states import State
from agentcore.mcp.targets import Target
from agentcore.ports.tools import ToolError
from tests.fakes import MemoryBlobs
from tests.mcp.serving import ENVIRON, WITHIN_S, pool, ready
from tests.mcp.test_servers import NOBODY
from tests.webserver import answer, web_server

pytestmark = pytest.mark.anyio
NODE = os.environ.get("AGENTCORE_MCP_SERVERS", "")
needs_node = pytest.mark.skipif(
    not NODE, reason="AGENTCORE_MCP_SERVERS names no node_modules/.bin with the servers of npm"
)


def python(name: str, *args: str, **environ: str) -> Target:
    argv = (str(Path(sys.executable).parent / name), *args)
    return Target(name, "stdio", "test", argv, {**ENVIRON, **environ}, Path("/"))


def node(name: str, *args: str, folder: Path = Path("/")) -> Target:
    return Target(name, "stdio", "test", (str(Path(NODE) / name), *args), ENVIRON, folder)


async def told(server: object, tool: str, **input: object) -> str:
    """What a tool comes to, as the model gets it."""
    connection = await server.connection(1)
    with anyio.fail_after(WITHIN_S):
        result = await connection.call(tool, input, lambda text: None, NOBODY)
    return (await outcome_of(result, MemoryBlobs())).output


async def test_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("x")
    async with pool() as servers:
        server = await ready(servers, python("mcp-server-git"))
        reads = {tool.name for tool in server.offer.tools if tool.read_only}
        assert {"git_status", "git_log", "git_diff"} <= reads
        assert not {"git_add", "git_commit", "git_reset"} & reads
        assert "new.txt" in await told(server, "git_status", repo_path=str(tmp_path))


async def test_time() -> None:
    async with pool() as servers:
        server = await ready(servers, python("mcp-server-time"))
        output = await told(
            server, "convert_time", source_timezone="UTC", time="12:00", target_timezone="Europe/Berlin"
        )
        assert "Europe/Berlin" in output


async def test_fetch() -> None:
    async with web_server() as web, pool() as servers:
        web.pages["/page"] = answer("<html><body><h1>Title</h1><p>Some words.</p></body></html>", "text/html")
        # without node: else it would first install something there
        target = python("mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips", PATH="/nowhere")
        server = await ready(servers, target)
        assert "Some words." in await told(server, "fetch", url=f"http://127.0.0.1:{web.port}/page")
        assert server.offer.prompts["fetch"].arguments == ("url",)


@needs_node
async def test_filesystem(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the text")
    async with pool() as servers:
        server = await ready(servers, node("mcp-server-filesystem", ".", folder=tmp_path))
        assert "the text" in await told(server, "read_text_file", path=str(tmp_path / "a.txt"))
        with pytest.raises(ToolError, match="denied"):
            await told(server, "read_text_file", path="/etc/passwd")


@needs_node
@pytest.mark.parametrize("how", ["stdio", "streamableHttp", "sse"])
async def test_everything(how: str) -> None:
    if how == "stdio":
        async with pool() as servers:
            await everything(await ready(servers, node("mcp-server-everything")))
        return
    from tests.mcp.serving import free_port, listening

    port = free_port()
    argv = [str(Path(NODE) / "mcp-server-everything"), how]
    process = subprocess.Popen(argv, env={**ENVIRON, "PORT": str(port)}, stderr=subprocess.DEVNULL)
    try:
        listening(port, process)
        async with pool() as servers:
            kind, path = ("sse", "sse") if how == "sse" else ("http", "mcp")
            target = Target("everything", kind, "test", url=f"http://127.0.0.1:{port}/{path}")
            await everything(await ready(servers, target))
    finally:
        process.kill()
        process.wait()


async def everything(server: object) -> None:
    assert await told(server, "echo", message="hello") == "Echo: hello"
    assert "5" in await told(server, "get-sum", a=2, b=3)
    assert "the image you requested" in await told(server, "get-tiny-image")
    steps: list[str] = []
    connection = await server.connection(1)
    with anyio.fail_after(WITHIN_S):
        await connection.call("trigger-long-running-operation", {"duration": 0.2, "steps": 2}, steps.append, NOBODY)
        read = await connection.read("demo://resource/static/document/architecture.md", NOBODY)
        prompt = await connection.prompt("args-prompt", {"city": "Rome"}, NOBODY)
    assert steps[-1] in ("2/2", "1/2")
    assert read.contents
    assert "Rome" in prompt.messages[0].content.text
    assert server.state is State.READY
