"""What all sandboxes have in common: whether one works here is tried once, and told in a sentence where it does not."""

from abc import ABC, abstractmethod

import anyio
from anyio import to_thread

from agentcore.ports.sandbox import SandboxProfile
from agentcore.sandbox import denials


class Probed(ABC):
    """The part of the Sandbox port that is about whether it works."""

    def __init__(self) -> None:
        self._why_not: str | None = "It is being tried whether commands can be confined here."
        self._probing = anyio.Lock()
        self._is_probed = False

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

    def why_failed(self, printed: str, profile: SandboxProfile) -> str | None:
        return denials.why_failed(printed, profile)

    @abstractmethod
    def _try(self) -> str | None:
        """Why it does not work here, as a sentence; None: it does. Blocking."""
