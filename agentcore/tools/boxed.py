"""The sandbox as the commands of one session run in it: what is theirs to write, by the mode of the moment."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from anyio import to_thread

from agentcore.events import Mode, Notice
from agentcore.permissions.workspace import Workspace
from agentcore.ports.sandbox import Boxed, Sandbox, SandboxProfile
from agentcore.processes import Command


@dataclass(frozen=True, slots=True)
class Boxing:
    """What `bash` confines its commands by."""

    sandbox: Sandbox
    mode: Callable[[], Mode]
    has_network: bool = False
    domains: tuple[str, ...] = ()

    async def is_ready(self) -> bool:
        """Whether commands can be confined; waits for the probe when it is still going on."""
        await self.sandbox.probe()
        return self.sandbox.is_available

    @asynccontextmanager
    async def around(self, workspace: Workspace, command: Command) -> AsyncIterator[Command]:
        """What runs in the place of a command that must be confined, or must not run. Raises: OSError."""
        await self.sandbox.probe()
        if not self.sandbox.is_available:
            raise OSError("commands cannot be confined here")
        async with Box(self.sandbox, self.profile(workspace)).around(command) as (confined, _):
            yield confined

    def profile(self, workspace: Workspace) -> SandboxProfile:
        return SandboxProfile(
            writable=workspace.roots,
            hidden=workspace.hidden,
            readable=workspace.readable,
            protected=tuple(sorted(workspace.scripts)),
            is_read_only=self.mode() == "plan",
            has_network=self.has_network,
            domains=self.domains,
        )


@dataclass(frozen=True, slots=True)
class Box:
    """The sandbox around one command."""

    sandbox: Sandbox
    profile: SandboxProfile

    @asynccontextmanager
    async def around(self, command: Command) -> AsyncIterator[tuple[Command, Boxed]]:
        """The command as it is to be run in place of the given one. Raises: OSError."""
        async with self.sandbox.around(command.argv, command.cwd, command.environ, self.profile) as boxed:
            yield (
                replace(command, argv=boxed.argv, environ=boxed.environ, keep_fds=boxed.keep_fds, is_boxed=True),
                boxed,
            )

    async def look_back(self) -> list[Notice]:
        """What is to be told of what commands left behind."""
        return await to_thread.run_sync(self.sandbox.look_back, self.profile)

    def words(self, printed: str, *, has_failed: bool) -> str | None:
        """What to say of a failure that looks like the sandbox's doing."""
        why = self.sandbox.why_failed(printed, self.profile) if has_failed else None
        if why is None or self.profile.is_read_only:  # in plan mode no way out of it is open
            return why
        return f"{why} If it cannot do without, call again with sandbox: false; a person is asked first."
