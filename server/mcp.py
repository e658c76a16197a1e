"""`agentcore mcp`: the MCP servers of a folder, those of the user's own settings, approval, and login.

Needs no running server; what is changed counts for sessions that are opened later, an approval at once. Promise: what
is approved is shown whole before it runs, and no token, environment or header is ever printed.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from agentcore import server_setup
from agentcore.app import App
from agentcore.errors import AgentError
from agentcore.server_setup import Listed
from agentcore.serving import ServerState
from server.config import app_in, notices_in
from server.settings import CannotStart, existing_folder
from server.terminal import sentence, table, visible

_ABOUT_SERVERS = ("MCP server", ".mcp.json", "mcp_servers", "mcpServers")
"""Words of notices about them."""
EXIT_FAILED = 1
"""Of `list --check`, where a server does not answer, or a file that names one has a mistake."""


def main(arguments: argparse.Namespace, line: Sequence[str] = ()) -> int:
    """Do what was asked; return the exit code. `line` is the command of a server to add. Raises: CannotStart."""
    folder = existing_folder(arguments.cwd)
    try:
        app = app_in(folder)
        if arguments.action == "list":
            return anyio.run(_list, app, folder, arguments.check)
        lines = anyio.run(_done, app, folder, arguments, line)
    except (AgentError, OSError) as error:
        raise CannotStart(sentence(error)) from error
    _write(lines)
    return 0


async def _done(app: App, folder: Path, arguments: argparse.Namespace, line: Sequence[str]) -> list[str]:
    project = folder if getattr(arguments, "project", False) else None
    match arguments.action:
        case "add":
            await server_setup.add(app, project, arguments.name, section_of(arguments, line))
            return [f"Added {visible(arguments.name)}. Sessions that are opened from now on use it."]
        case "remove":
            await server_setup.remove(app, project, arguments.name)
            return [f"Removed {visible(arguments.name)}."]
        case "approve":
            return await _approved(app, folder, arguments.name, allow=not arguments.deny)
        case "logout":
            await server_setup.log_out(app, folder, arguments.name)
            return [f"Logged out of {visible(arguments.name)}."]
        case _:
            show = partial(_show, opens=not arguments.no_browser)
            count = await server_setup.log_in(app, folder, arguments.name, show)
            return [f"Logged in at {visible(arguments.name)}: {count} tool{'' if count == 1 else 's'}."]


async def _list(app: App, folder: Path, is_tried: bool) -> int:
    """Tell the servers, and on stderr what is wrong in the files that name them."""
    for notice in await notices_in(app, folder):
        sys.stderr.write(f"note: {visible(notice)}\n")
    _write(_listed(servers := await server_setup.list_servers(app, folder)))
    if not is_tried:
        return 0
    states = await server_setup.try_servers(app, folder)
    if servers:
        _write(_tried(states))
    is_sound = all(one.state == "ready" for one in states) and not await _has_mistakes(app, folder)
    return 0 if is_sound else EXIT_FAILED


def _listed(servers: Sequence[Listed]) -> Iterator[str]:
    if not servers:
        yield "No MCP servers here. Add one: agentcore mcp add NAME -- COMMAND, or agentcore mcp add NAME URL."
        return
    rows = [("SERVER", "STATE", "TYPE", "WHAT", "FROM")]
    rows += [(one.name, one.standing, one.transport, one.line, one.source) for one in servers]
    yield from table(rows)
    if any(one.standing == "waiting" for one in servers):
        yield "Those that wait run once they are approved: agentcore mcp approve NAME."


def _tried(states: Sequence[ServerState]) -> Iterator[str]:
    yield ""
    if not states:
        yield "None of them may run, so none was tried."
        return
    rows = [("SERVER", "NOW", "TOOLS", "")]
    yield from table([*rows, *((one.name, one.state, str(one.tools), one.error or "") for one in states)])


async def _has_mistakes(app: App, folder: Path) -> bool:
    """Whether a server, or a file of them, is written so that it does not count as it was meant."""
    notices = (await app.effective(folder)).notices
    return any(word in notice for notice in notices for word in _ABOUT_SERVERS)


def _write(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


async def _approved(app: App, folder: Path, name: str, *, allow: bool) -> list[str]:
    one = await server_setup.approve(app, folder, name, allow=allow)
    return [
        f"{'active' if allow else 'denied'}  {visible(one.title)} in {visible(one.source)}",
        f"        {visible(one.content)}",
        f"In {visible(one.project)}, from now on.",
    ]


async def _show(url: str, *, opens: bool) -> None:
    """Bring a login page before the person: the address on stderr, and the browser where there is one."""
    sys.stderr.write(f"Allow it in your browser:\n{visible(url)}\n")
    sys.stderr.flush()
    if opens:
        import webbrowser

        await anyio.to_thread.run_sync(webbrowser.open, url)


def section_of(arguments: argparse.Namespace, line: Sequence[str]) -> dict[str, Any]:
    """The server as it is written into a settings file. Raises: CannotStart."""
    section: dict[str, Any] = {} if arguments.type is None else {"type": arguments.type}
    if bool(line) == (arguments.url is not None):
        raise CannotStart("Say what it is: agentcore mcp add NAME URL, or agentcore mcp add NAME -- COMMAND [ARG…].")
    if arguments.url is not None and "://" not in arguments.url and "${" not in arguments.url:
        url, name = visible(arguments.url), visible(arguments.name)
        raise CannotStart(f"{url} is no URL. A command stands behind --: agentcore mcp add {name} -- {url}")
    if line and arguments.header:
        raise CannotStart("A server that is a command has no --header.")
    if arguments.url is not None and arguments.env:
        raise CannotStart("A server at an address has no --env.")
    if line:
        section["command"] = line[0]
        section |= {"args": list(line[1:])} if line[1:] else {}
    else:
        section["url"] = arguments.url
    section |= _pairs(arguments.env, "=", "env", "--env NAME=VALUE")
    section |= _pairs(arguments.header, ":", "headers", "--header 'NAME: VALUE'")
    return section if arguments.timeout is None else section | {"timeout": arguments.timeout * 1000}


def _pairs(given: list[str], separator: str, key: str, usage: str) -> dict[str, dict[str, str]]:
    """Raises: CannotStart."""
    pairs = {}
    for text in given:
        name, found, value = text.partition(separator)
        if not found or not name.strip():
            raise CannotStart(f"Write {usage}.")
        pairs[name.strip()] = value.strip()
    return {key: pairs} if pairs else {}
