"""A resource or a prompt of a server as blocks of a message, because a person has named it."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

from agentcore.mcp.callers import Caller
from agentcore.mcp.connection import Gone, Refused
from agentcore.mcp.content import Content, said_by
from agentcore.mcp.offers import OfferedPrompt
from agentcore.mcp.server import Server
from agentcore.mcp.tool import Patience, Scene, connection_to
from agentcore.messages import Document, Image, Text
from agentcore.ports.tools import ToolError
from agentcore.within import attribute, without_tags

if TYPE_CHECKING:
    import mcp_types as types

TAGS = ("resource", "mcp-prompt")

Block: TypeAlias = Text | Image | Document


async def read_resource(server: Server, uri: str, scene: Scene) -> tuple[Block, ...]:
    """Raises: ToolError, StorageUnavailable."""
    name, connection = server.target.name, await connection_to(server)
    content = Content(scene.blobs)
    with Patience(server.target.timeout_s).scope, _refusing(name):
        result = await connection.read(uri, _caller(scene))
        for resource in result.contents:
            await content.add_resource(resource)
        return _framed("resource", f'server="{attribute(name)}" uri="{attribute(uri)}"', content)
    raise ToolError(f"the MCP server {name} did not answer in time")


async def use_prompt(
    server: Server, prompt: OfferedPrompt, shown_name: str, arguments: str, scene: Scene
) -> tuple[Block, ...]:
    """`shown_name` is what it is called here; `arguments` as they were typed. Raises: ToolError, StorageUnavailable."""
    given = _given(prompt, arguments)
    name, connection = server.target.name, await connection_to(server)
    with Patience(server.target.timeout_s).scope, _refusing(name):
        result = await connection.prompt(prompt.name, given, _caller(scene))
        said = await said_by(result.messages, scene.blobs)
        return _framed("mcp-prompt", f'name="{attribute(shown_name)}"', said)
    raise ToolError(f"the MCP server {name} did not answer in time")


def _caller(scene: Scene) -> Caller:
    async def decline(params: "types.ElicitRequestFormParams") -> "types.ElicitResult":
        from mcp_types import ElicitResult

        return ElicitResult(action="decline")

    return Caller(scene.session, decline)


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
