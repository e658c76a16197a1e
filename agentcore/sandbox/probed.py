"""What all sandboxes have in common: whether one works here is tried once, and told in a sentence where it does not;
what is there before a command, and what is left behind it."""

from abc import ABC, abstractmethod
from pathlib import Path

import anyio
from anyio import to_thread

from agentcore.events import Notice
from agentcore.ports.sandbox import SandboxProfile
from agentcore.sandbox import denials
from agentcore.sandbox.looking import Found, look
from agentcore.sandbox.planted import Repositories


class Probed(ABC):
    """The part of the Sandbox port that no system does in its own way."""

    def __init__(self) -> None:
        self._why_not: str | None = "It is being tried whether commands can be confined here."
        self._probing = anyio.Lock()
        self._is_probed = False
        self._repositories = Repositories()

    @property
    def is_available(self) -> bool:
        return self._why_not is None

    @property
    def why_not(self) -> str | None:
        return self._why_not

    async def probe(self) -> None:
        async with self._probing:
            if not self._is_probed:
                self._why_not = await to_thread.run_sync(self._try)
                self._is_probed = True

    def look_back(self, profile: SandboxProfile) -> list[Notice]:
        return [] if profile.is_read_only else self._repositories.news(profile)

    def _look(self, profile: SandboxProfile, cwd: Path) -> Found:
        """What is there before a command. Blocking."""
        held = () if profile.is_read_only else self._repositories.held(profile)
        return look(profile, cwd, held)

    def why_failed(self, printed: str, profile: SandboxProfile) -> str | None:
        return denials.why_failed(printed, profile)

    @abstractmethod
    def _try(self) -> str | None:
        """Why it does not work here, as a sentence; None: it does. Blocking."""
