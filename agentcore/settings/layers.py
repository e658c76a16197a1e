"""One source of settings as a value: what a file says, by whose it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentcore.events import Mode
from agentcore.hooks.reading import HookFile
from agentcore.languages import LanguageSetup
from agentcore.origin import Origin
from agentcore.permissions.rulebook import Rulebook
from agentcore.permissions.rules import held_widely
from agentcore.settings.command_tools import CommandTool
from agentcore.settings.providers import ModelNames
from agentcore.settings.servers import McpServer


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says. Of a shared one there is only what may count."""

    origin: Origin
    choices: Mapping[str, Any] = field(default_factory=dict)
    """By dotted key; valid."""
    rules: Rulebook = field(default_factory=Rulebook)
    closed_modes: tuple[Mode, ...] = ()
    """Modes that no session may be in."""
    additional_directories: tuple[str, ...] = ()
    """As written."""
    hooks: HookFile | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    disabled_servers: frozenset[str] = frozenset()
    """Servers of `.mcp.json` files that are not wanted."""
    tools: tuple[CommandTool, ...] = ()
    names: ModelNames = field(default_factory=ModelNames)
    languages: tuple[LanguageSetup, ...] = ()
    notices: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Keys of a shared file that would loosen."""


def unreadable(origin: Origin, why: str) -> Layer:
    """In the place of a file of others that may have forbidden something: every change asks."""
    asks = held_widely(f"({origin.name} cannot be read)", origin)
    return Layer(origin, rules=Rulebook(ask=(asks,)), notices=(f"{why} Until then every change asks.",))
