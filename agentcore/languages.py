"""What is known about code: the words between the tools that ask and the room that talks to language servers.

Lines and columns count from 1, columns in characters (code points), whatever a server counts in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

Texts: TypeAlias = Callable[[Path], str | None]
"""The text of a file that the asking session may see, by its real path; None for any other. Blocking, never raises."""
Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class CodeFile:
    """A file that is asked about."""

    real: Path
    """Resolved, inside of `top`."""
    top: Path
    """The outermost folder that may be a project's; resolved."""
    texts: Texts


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a file that is asked about."""

    file: CodeFile
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Place:
    """A place that was found."""

    path: Path
    line: int
    column: int
    text: str | None = None
    """Its line; None where the session may not see the file."""


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    kind: str
    place: Place
    container: str = ""
    depth: int = 0
    """How many symbols it lies in."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A diagnostic that is worth a look."""

    severity: Severity
    place: Place
    message: str
    """One line."""
    source: str = ""
    """Who says so, and the rule's name: `Pyright reportUndefinedVariable`."""


@dataclass(frozen=True, slots=True)
class FileRewrite:
    """What a file would be after an edit that a server worked out; nothing was changed."""

    path: Path
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class CodeAction:
    title: str
    kind: str
    rewrites: tuple[FileRewrite, ...] = ()
    """None where only the server itself could carry it out."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The problems of a file after a change."""

    new: tuple[Problem, ...] = ()
    """Those that the file did not have when it was last looked at."""
    old: tuple[Problem, ...] = ()
    pending: str = ""
    """Why they are not known yet, as a sentence; empty when they are."""


LanguageServing: TypeAlias = Literal["starting", "ready", "silent", "restarting", "stopped", "failed", "missing"]
"""`silent`: it runs, but said nothing for so long that changes no longer wait for it."""


@dataclass(frozen=True, slots=True)
class LanguageState:
    """One language server, as it is shown to people."""

    language: str
    server: str
    state: LanguageServing
    error: str = ""
    """Why it is not ready, as a sentence without paths."""


class Languages(Protocol):
    """What all sessions of a process ask about code. All but `after_change` raise ToolError with what to do."""

    def covers(self, real: Path) -> bool:
        """Whether there is a server for files of this name. Touches no disk."""
        ...

    async def definition(self, spot: Spot) -> list[Place]: ...

    async def references(self, spot: Spot) -> list[Place]: ...

    async def hover(self, spot: Spot) -> str: ...

    async def symbols(self, file: CodeFile) -> list[Symbol]: ...

    async def workspace_symbols(self, file: CodeFile, query: str) -> list[Symbol]:
        """Those of the project around a file."""
        ...

    async def diagnostics(self, file: CodeFile) -> list[Problem]: ...

    async def rename(self, spot: Spot, new_name: str) -> list[FileRewrite]:
        """What a rename would change. Changes nothing."""
        ...

    async def code_actions(self, spot: Spot) -> list[CodeAction]:
        """What the server offers there. Changes nothing."""
        ...

    async def after_change(self, file: CodeFile) -> Checked | None:
        """Look at a file that was just changed, for a few seconds at most; None where nobody can. Never raises."""
        ...


@dataclass(frozen=True, slots=True)
class LanguageSetup:
    """One language server that may be started: built in, or `[lsp.<name>]` of the user's settings."""

    language: str
    """Its name in the settings and for people; a later setup of the same name replaces an earlier one."""
    argv: tuple[str, ...]
    suffixes: Mapping[str, str]
    """Ends of file names, with their dot, and the language's id in the protocol for each."""
    markers: tuple[str, ...] = ()
    """Files that make a folder a project of this language."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Set besides what the server inherits."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """`initializationOptions`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What `workspace/configuration` is answered with, by section."""

    @property
    def server(self) -> str:
        """The program's name, for people."""
        return Path(self.argv[0]).name
