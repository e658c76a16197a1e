"""The MCP servers that are written for the user, by `agentcore mcp add`, and taken out again.

Into his own settings, never into a repository: `settings.toml` for everywhere, `projects/<project>/settings.toml` for
one project. What else stands there, comments included, stays as it is.
"""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

from agentcore.errors import Unprocessable
from agentcore.folders import make_private
from agentcore.origin import Origin
from agentcore.settings.documents import Document
from agentcore.settings.private import FILE_NAME, change_settings
from agentcore.settings.servers import read_servers

KEY = "mcp_servers"


def add_server(file: Path, name: str, section: Mapping[str, Any]) -> None:
    """Write a server into a settings file: locked, replaced atomically, private.

    Raises: OSError; Unprocessable for what is no server, and when there is one of this name.
    """
    document = Document(FILE_NAME, {KEY: {name: dict(section)}}, "", "TOML")
    _, problems = read_servers(document.data[KEY], KEY, Origin(FILE_NAME), document)
    if problems:
        raise Unprocessable(problems[0])

    def add(settings: MutableMapping[str, Any]) -> bool:
        servers = settings.setdefault(KEY, {})
        if not isinstance(servers, dict):
            raise Unprocessable(f"`{KEY}` in {FILE_NAME} is no table of servers. Mend it.")
        if name in servers:
            raise Unprocessable(f"There is an MCP server {name} in {FILE_NAME} already. Remove it first.")
        servers[name] = dict(section)
        return True

    make_private(file.parent)
    change_settings(file, add)


def remove_server(file: Path, name: str) -> bool:
    """Take a server out of a settings file; whether it was there. Raises: OSError, Unprocessable."""

    def remove(settings: MutableMapping[str, Any]) -> bool:
        servers = settings.get(KEY)
        if not isinstance(servers, dict) or name not in servers:
            return False
        del servers[name]
        if not servers:
            del settings[KEY]
        return True

    return file.exists() and change_settings(file, remove)
