"""What counts for a session: all layers in order, each value with where it came from.

    defaults < user < private per project < environment < command line

and behind them the shared files of the repository, which only tighten. Everything here blocks: call it in a worker.
What is read counts for one session from then on; a file that changes counts for sessions that are opened later.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcore.errors import Unprocessable
from agentcore.events import Mode
from agentcore.hooks.handlers import Handler
from agentcore.hooks.reading import handlers_of
from agentcore.languages import LanguageSetup
from agentcore.origin import Origin
from agentcore.permissions.rulebook import EFFECTS, Rulebook
from agentcore.settings import choices as model
from agentcore.settings.choices import KEYS, BadChoice, Choices, from_environment, getitem
from agentcore.settings.command_tools import CommandTool
from agentcore.settings.layers import Layer
from agentcore.settings.private import FILE_NAME
from agentcore.settings.providers import ModelNames
from agentcore.settings.scripts import scripts_in
from agentcore.settings.servers import McpServer
from agentcore.settings.sources import (
    Sources,
    read_imported_layer,
    read_private_layer,
    read_shared_layers,
    read_user_layer,
)
from agentcore.settings.tighter import TIGHTER

DEFAULT, COMMAND_LINE = "default", "the command line"


@dataclass(frozen=True, slots=True)
class Explained:
    """One line of `agentcore config`."""

    key: str
    value: Any
    """Plain, for JSON; nothing secret."""
    source: str


@dataclass(frozen=True, slots=True)
class Effective:
    """The settings of a session, or those of the process for sessions anywhere."""

    choices: Choices
    sources: Mapping[str, str]
    """Dotted key to the name of what set it."""
    rules: Rulebook = field(default_factory=Rulebook)
    closed_modes: Mapping[Mode, str] = field(default_factory=dict)
    """Modes that no session may be in, and the file that says so."""
    hooks: tuple[Handler, ...] = ()
    """Those of a shared origin are to run only when they are approved."""
    hooks_are_off: bool = False
    """The user turned all of them off, those of skills as well."""
    mcp_servers: tuple[McpServer, ...] = ()
    """One per name; those of a shared origin are to be started only when they are approved."""
    additional_directories: Mapping[Path, Origin] = field(default_factory=dict)
    """Resolved folders in which the session may work besides the roots, and who says so."""
    tools: tuple[CommandTool, ...] = ()
    names: ModelNames = field(default_factory=ModelNames)
    languages: tuple[LanguageSetup, ...] = ()
    """Language servers besides the known ones, or in place of one."""
    scripts: frozenset[Path] = frozenset()
    """Files of the project that hooks and servers run."""
    shared: tuple[Layer, ...] = ()
    """What the files of the repository say, the nearest folder first."""
    notices: tuple[str, ...] = ()
    """What has no effect, or not the one that was meant: a sentence each."""

    def explain(self) -> Iterator[Explained]:
        """Every value with where it came from."""
        for key in KEYS:
            value = getitem(self.choices, key)
            yield Explained(key, list(value) if isinstance(value, tuple) else value, self.sources[key])
        for effect in EFFECTS:
            for rule in self.rules.of(effect):
                yield Explained(f"permissions.{effect}", str(rule), rule.origin.name)
        for mode, file in self.closed_modes.items():
            yield Explained("permissions.closed_modes", mode, file)
        for folder, origin in self.additional_directories.items():
            yield Explained("permissions.additional_directories", str(folder), origin.name)
        for hook in self.hooks:
            yield Explained(f"hooks.{hook.event}", hook.title, hook.origin.name)
        for server in self.mcp_servers:
            yield Explained(f"mcp_servers.{server.name}", _shown_server(server), server.origin.name)
        for tool in self.tools:
            yield Explained(f"tools.{tool.name}", list(tool.argv), tool.origin.name)
        for short, name in self.names.aliases.items():
            yield Explained(f"aliases.{short}", name, FILE_NAME)
        for provider in self.names.providers:
            section = provider.section.model_dump(exclude_none=True, exclude={"api_key_command", "base_url"})
            yield Explained(f"providers.{provider.name}", section | _address(provider.section.base_url), FILE_NAME)


def for_process(sources: Sources) -> Effective:
    """What counts wherever a session works. Raises: Unprocessable for a file of ours that is wrong."""
    return _merged(sources, [read_user_layer(sources)], [], cwd=None)


def for_folder(sources: Sources, cwd: Path, project: str) -> Effective:
    """What counts for a session in `cwd` (resolved); `project` is the name of its private folder.

    Raises: Unprocessable for a file of ours that is wrong.
    """
    own = [read_user_layer(sources), read_private_layer(sources, cwd, project)]
    return _merged(sources, own, read_shared_layers(sources, cwd), cwd)


# --- putting in order ---


def _merged(sources: Sources, own: Sequence[Layer], shared: Sequence[Layer], cwd: Path | None) -> Effective:
    values, origins, notices = _chosen(sources, own)
    own = [*own, read_imported_layer(sources, with_allow=values.get("import_allow"))]
    notices = [*(notice for layer in own for notice in layer.notices), *notices]
    for layer in shared:
        notices += [*layer.notices, *_tighten(layer, values, origins)]
    folders, about_folders = ({}, []) if cwd is None else _folders(own, cwd, sources.home)
    everything = [*own, *shared]
    chosen = model.made(values)
    hooks = handlers_of(layer.hooks for layer in everything if layer.hooks is not None)
    servers = _servers(everything)
    return Effective(
        choices=chosen,
        sources={key: origins.get(key, DEFAULT) for key in KEYS},
        rules=sum((layer.rules for layer in everything), Rulebook()),
        closed_modes={mode: layer.origin.name for layer in own for mode in layer.closed_modes},
        hooks=() if chosen.disable_all_hooks else hooks,
        hooks_are_off=chosen.disable_all_hooks or any(layer.hooks is not None and layer.hooks.is_off for layer in own),
        mcp_servers=servers,
        scripts=frozenset() if cwd is None else scripts_in(_written(hooks, servers, cwd), cwd),
        additional_directories=folders,
        tools=_tools(own),
        names=own[0].names,
        languages=own[0].languages,
        shared=tuple(shared),
        notices=tuple(dict.fromkeys([*notices, *about_folders])),
    )


def _written(
    hooks: Iterable[Handler], servers: Iterable[McpServer], cwd: Path
) -> Iterator[tuple[Mapping[str, Any], Path]]:
    """What is run for a session, each with the folder that it speaks for: for what is the user's, the session's."""
    contents = (*((hook.written, hook.origin) for hook in hooks), *((server.raw, server.origin) for server in servers))
    for content, origin in contents:
        yield content, origin.base if origin.is_shared and origin.base is not None else cwd


def _chosen(sources: Sources, own: Sequence[Layer]) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """The values that were chosen, where each came from, and what the environment says in vain."""
    try:
        from_outside, notices = from_environment(sources.environ)
    except BadChoice as error:
        raise Unprocessable(str(error)) from None
    variables = {key: name for name, key in model.VARIABLES.items()}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in own:
        values |= layer.choices
        origins |= dict.fromkeys(layer.choices, layer.origin.name)
    values |= from_outside
    origins |= {key: variables[key] for key in from_outside}
    values |= sources.given
    origins |= dict.fromkeys(sources.given, COMMAND_LINE)
    return values, origins, notices


def _tighten(layer: Layer, values: dict[str, Any], origins: dict[str, str]) -> Iterator[str]:
    """Let a shared layer count as far as it is tighter; and tell what of it has no effect."""
    ignored = [*layer.ignored]
    for key, new in layer.choices.items():
        now = values.get(key, getitem(Choices(), key))
        if TIGHTER[key](new, now):
            values[key], origins[key] = new, layer.origin.name
        elif new != now:
            ignored.append(key)
    if ignored:
        keys = ", ".join(f"`{key}`" for key in ignored)
        yield f"{layer.origin.name} comes with the repository and can only tighten. Without effect: {keys}."


def _folders(own: Iterable[Layer], cwd: Path, home: Path) -> tuple[dict[Path, Origin], list[str]]:
    """The further folders of a session, relative ones meant from its working folder; and what is wrong with them."""
    found: dict[Path, Origin] = {}
    notices: list[str] = []
    for layer in own:
        for text in layer.additional_directories:
            folder = _existing(cwd / _expanded(text, home))
            if folder is None:
                where = f"`permissions.additional_directories` in {layer.origin.name}"
                notices.append(f"A folder of {where} is none, and is left out.")
            else:
                found.setdefault(folder, layer.origin)
    return found, notices


def _existing(folder: Path) -> Path | None:
    try:
        real = folder.resolve()
        return real if real.is_dir() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _expanded(text: str, home: Path) -> Path:
    return home / text[2:] if text.startswith("~/") else home if text == "~" else Path(text)


def _servers(layers: Sequence[Layer]) -> tuple[McpServer, ...]:
    """The first of each name, the user's own before a repository's, the project's own before those for all."""
    disabled = frozenset(name for layer in layers for name in layer.disabled_servers)
    found: dict[str, McpServer] = {}
    own = [layer for layer in layers if not layer.origin.is_shared]
    for layer in (*reversed(own), *(layer for layer in layers if layer.origin.is_shared)):
        for server in layer.mcp_servers:
            if not (layer.origin.is_shared and server.name in disabled):
                found.setdefault(server.name, server)
    return tuple(found.values())


def _tools(own: Sequence[Layer]) -> tuple[CommandTool, ...]:
    """The last of each name: the project's own before those for all."""
    return tuple({tool.name: tool for layer in own for tool in layer.tools}.values())


# --- telling ---


def _address(url: str | None) -> dict[str, str]:
    """Without a name and a password in it."""
    return {} if url is None else {"base_url": re.sub(r"//[^/?#]*@", "//", url)}


def _shown_server(server: McpServer) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": server.transport}
    shown |= {"url": server.url} if server.url else {"command": [server.command, *server.args]}
    shown |= {"env": sorted(server.env)} if server.env else {}
    return shown | ({"headers": sorted(server.headers)} if server.headers else {})
