"""How commands are confined."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agentcore.events import Notice


@dataclass(frozen=True, slots=True)
class SandboxProfile:
    """What a confined command may reach. All else on the disk it may read, and not write."""

    writable: tuple[Path, ...]
    """Folders of the project, resolved. Protected places in them stay as they are."""
    hidden: tuple[Path, ...] = ()
    """Resolved: credentials and the server's own state. There is nothing in them."""
    readable: tuple[Path, ...] = ()
    """Inside of what is hidden."""
    protected: tuple[Path, ...] = ()
    """Files of the project that stay as they are, besides those of well-known names."""
    is_read_only: bool = False
    """Plan mode: nothing can be written but a private /tmp."""
    has_network: bool = False
    domains: tuple[str, ...] = ()
    """Without a network: what may be reached all the same, through a proxy. `*.example.com` is all below it."""


@dataclass(slots=True)
class Boxed:
    """A command as it is to be started, so that it runs confined."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    keep_fds: tuple[int, ...] = ()
    """Descriptors that it has to inherit."""
    remarks: list[str] = field(default_factory=list)
    """What was undone of what it did, a sentence each; complete when it has been left."""


class Sandbox(Protocol):
    """Confines commands, by what the system has for that."""

    kind: str

    @property
    def is_available(self) -> bool:
        """Whether it was tried, and works here."""
        ...

    @property
    def why_not(self) -> str | None:
        """A sentence for people; None where it works."""
        ...

    async def probe(self) -> None:
        """Find out whether it works here: once, whoever asks and however often."""
        ...

    def around(
        self, argv: Sequence[str], cwd: Path, environ: Mapping[str, str], profile: SandboxProfile
    ) -> AbstractAsyncContextManager[Boxed]:
        """Confine one command, which has ended before this is left. Only where it works. The event loop has to go on
        while it is started. Raises: OSError."""
        ...

    def look_back(self, profile: SandboxProfile) -> list[Notice]:
        """What commands left in the project that would run outside of the sandbox, as far as it was not told yet. The
        first look, before a command of the profile's roots, is what it is measured by. Blocking."""
        ...

    def why_failed(self, printed: str, profile: SandboxProfile) -> str | None:
        """What of the sandbox may be behind the failure of a command that printed this; None: nothing looks like it."""
        ...
