"""What may be shown to the model, and to anybody."""

from typing import Protocol

from agentcore.ports.tools import Outcome


class OutputGuard(Protocol):
    """Looks at what a call says before the model, or anybody, is shown it."""

    @property
    def is_on(self) -> bool:
        """While it is, no output of a running call is shown."""
        ...

    async def check_outcome(self, outcome: Outcome) -> Outcome:
        """The result with what must not get through replaced."""
        ...

    async def check_output(self, text: str) -> str:
        """The same for a text of a hook, a person or the outside."""
        ...


class _NoGuard:
    is_on = False

    async def check_outcome(self, outcome: Outcome) -> Outcome:
        return outcome

    async def check_output(self, text: str) -> str:
        return text


NO_GUARD: OutputGuard = _NoGuard()
