"""Which sandbox this system has. The only module that the assembly needs from this room."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from agentcore.events import Notice
from agentcore.ports.sandbox import Boxed, Sandbox, SandboxProfile
from agentcore.sandbox.bubblewrap import Bubblewrap
from agentcore.sandbox.seatbelt import Seatbelt


class NoSandbox:
    """Satisfies the Sandbox port where there is none."""

    kind = "none"
    is_available = False

    def __init__(self, why_not: str) -> None:
        self.why_not = why_not

    async def probe(self) -> None:
        return None

    def around(
        self, argv: Sequence[str], cwd: Path, environ: Mapping[str, str], profile: SandboxProfile
    ) -> AbstractAsyncContextManager[Boxed]:
        raise OSError("commands cannot be confined here")

    def look_back(self, profile: SandboxProfile) -> list[Notice]:
        return []

    def why_failed(self, printed: str, profile: SandboxProfile) -> str | None:
        return None


def for_this_system(platform: str = sys.platform) -> Sandbox:
    """Runs nothing yet: `probe` does."""
    if platform == "linux":
        return Bubblewrap()
    if platform == "darwin":
        return Seatbelt()
    return NoSandbox("This system has no sandbox for commands.")
