"""What runs at a moment: a command, a web address, a question to a model or a tool, with all that settings say about
it. Values without behaviour."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from agentcore.hooks.matching import EVERYTHING, Matcher
from agentcore.origin import Origin

SHOWN_CHARS = 60


@dataclass(frozen=True, slots=True)
class CommandAction:
    """A command line for the shell, or with `args` a program that is run without one."""

    command: str
    args: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class HttpAction:
    """An address that gets the input as a POST."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    """Values may hold `$NAME` and `${NAME}`."""
    variables: frozenset[str] = frozenset()
    """The names that may be filled in from the environment; any other one becomes nothing."""


@dataclass(frozen=True, slots=True)
class PromptAction:
    """A question about the input that a model answers with yes or no."""

    prompt: str
    """`$ARGUMENTS` in it is the input; without, it follows."""
    model: str | None = None
    """None: the session's own."""
    goes_on: bool = False
    """Behind a call its no is told to the model; else it ends the run."""


@dataclass(frozen=True, slots=True)
class McpAction:
    """A tool of an MCP server that is connected."""

    server: str
    tool: str
    input: Mapping[str, Any]
    """`${path.to.value}` in its texts is what the input of the hook has there."""


@dataclass(frozen=True, slots=True)
class BrokenAction:
    """Settings that cannot be used, of a handler that must not fail open."""

    why: str


Action: TypeAlias = CommandAction | HttpAction | PromptAction | McpAction | BrokenAction


@dataclass(frozen=True)
class Handler:
    """One handler of one event, from one file."""

    origin: Origin
    event: str
    place: str
    """Where it stands in its file: `PreToolUse[0].hooks[1]`."""
    written: Mapping[str, Any]
    """As its file has it, the matcher apart."""
    action: Action
    matcher_text: str = ""
    matcher: Matcher = EVERYTHING
    condition: str | None = None
    """A permission rule (`if`): it runs only for calls that the rule is about."""
    timeout_s: float | None = None
    """None: the default of the settings."""
    is_async: bool = False
    """Nobody waits for it, and it decides nothing."""
    is_waking: bool = False
    """What it says with exit code 2 is told to the model with the next prompt, since nobody waits for it."""
    is_once: bool = False
    """It runs the first time only, of those that its run or session has."""
    is_fail_closed: bool = False
    """Where it fails or takes too long, that counts as its no."""

    @cached_property
    def identity(self) -> str:
        """Equal for handlers that do the same: they run once."""
        return _canonical(self.written)

    @cached_property
    def sha256(self) -> str:
        """What an approval is pinned to: everything that is written about it, with its event and its matcher."""
        written = {"event": self.event, "matcher": self.matcher_text, "handler": self.written}
        return hashlib.sha256(_canonical(written).encode()).hexdigest()

    @property
    def title(self) -> str:
        """A few words about it for people. Of an address only the host: the rest may be a secret."""
        match self.action:
            case CommandAction(command=command, args=args):
                return _short(" ".join((command, *(args or ()))))
            case PromptAction(prompt=prompt):
                return _short(" ".join(prompt.split()))
            case McpAction(server=server, tool=tool):
                return _short(f"{tool} of {server}")
            case HttpAction(url=url):
                return urlsplit(url).hostname or "http"
            case BrokenAction():
                return "cannot be used"

    def __str__(self) -> str:
        return f"{self.place} in {self.origin.name} ({self.title})"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
