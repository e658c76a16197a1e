"""The user's own files: all that they say counts, and a mistake in them refuses with a sentence."""

from dataclasses import replace

from agentcore.origin import Origin
from agentcore.permissions.rulebook import EFFECTS
from agentcore.settings.command_tools import read_tools
from agentcore.settings.documents import Document
from agentcore.settings.language_servers import read_language_servers
from agentcore.settings.layers import Layer
from agentcore.settings.names import few
from agentcore.settings.providers import ModelNames, read_names
from agentcore.settings.sections import OF_THE_PROCESS, read_choices, read_hook_section, read_permissions, unknown_keys
from agentcore.settings.servers import read_servers


def read_user(document: Document, origin: Origin) -> Layer:
    """The user's own file. Raises: Unprocessable."""
    names, notices = read_names(document.data)
    languages, about_languages = read_language_servers(document.data.get("lsp", {}), document)
    return replace(_own(document, origin, names, [*notices, *about_languages]), languages=tuple(languages))


def read_private(document: Document, origin: Origin) -> Layer:
    """The user's own file for one project. Raises: Unprocessable."""
    notices = [
        f"`{key}` in {document.place(key)} has no effect: it counts in the settings.toml for all projects alone."
        for key in OF_THE_PROCESS
        if key in document.data
    ]
    return _own(document, origin, ModelNames(), notices)


def _own(document: Document, origin: Origin, names: ModelNames, notices: list[str]) -> Layer:
    data = document.data
    rules, folders, said = read_permissions(document, origin, EFFECTS)
    notices += [*said, *unknown_keys(document)]
    servers, about_servers = read_servers(data.get("mcp_servers", {}), "mcp_servers", origin, document)
    tools, about_tools = read_tools(data.get("tools", []), origin, document)
    hooks, about_hooks = read_hook_section(document, origin)
    return Layer(
        origin=origin,
        choices=read_choices(document),
        rules=rules,
        additional_directories=folders,
        hooks=hooks,
        mcp_servers=tuple(servers),
        tools=tuple(tools),
        names=names,
        notices=few([*notices, *about_servers, *about_tools, *about_hooks], document.name),
    )
