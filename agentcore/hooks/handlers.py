"""What runs at a moment: a command or a web address, with all that settings say about it. Values without behaviour."""

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
class BrokenAction:
    """Settings that cannot be used, of a handler that must not fail open."""

    why: str


Action: TypeAlias = CommandAction | HttpAction | BrokenAction


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
                line = " ".join((command, *(args or ())))
                return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 1]}…"
            case HttpAction(url=url):
                return urlsplit(url).hostname or "http"
            case BrokenAction():
                return "cannot be used"

    def __str__(self) -> str:
        return f"{self.place} in {self.origin.name} ({self.title})"


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
