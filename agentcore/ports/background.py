"""What goes on beside the conversation."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from agentcore.events import (
    TaskKind,
    TaskState,
)
from agentcore.ports.tools import Outcome


@dataclass(frozen=True, slots=True)
class TaskRoom:
    """What the work of a background task is given."""

    task_id: str
    """`bg-N`. A question that the work has for a person carries it (`Ask.task_id`): then the request lives until the
    task ends, whatever becomes of the run."""
    take: Callable[[bytes], None]
    """Take what it prints, for `Background.output`. Bounded: what is too long keeps its end."""
    began: Callable[[int], None]
    """A process began that leads a group of its own, by its process id: it goes on record, so that the next start ends
    what a killed server left of it."""


TaskWork: TypeAlias = Callable[[TaskRoom], Awaitable[Outcome]]
"""What a background task does. Cancellation must end all that it started. ToolError is a failed outcome; `is_error`
makes the task `failed`; its events are told before its end. The output is what the model is told when it ends, so it
should be short or to the point."""


@dataclass(frozen=True, slots=True)
class TaskReading:
    """A look at a background task."""

    label: str
    state: TaskState
    output: str
    """What it printed since the last look; long output has lost its beginning, and says so."""
    result: str | None = None
    """What it came to; None while it runs."""


class Background(Protocol):
    """Work of one session that outlives the call and the run that began it.

    At most 8 at once. A cancel of the run leaves them alone; closing the session stops them; a stop of the server
    leaves them in the journal as they were, and the next load finds them `lost`. The result of each reaches the model
    by itself, exactly once: at the next border of the run that goes on, or in a run that begins for it.
    """

    def start(self, label: str, work: TaskWork, *, kind: TaskKind) -> str:
        """Begin a task and return its id; `work` has not begun to run yet. `label` is one short line for people.

        Raises: ToolError when as many run already, or the session is being closed; StorageUnavailable.
        """
        ...

    async def output(self, task_id: str, wait_s: float = 0.0) -> TaskReading:
        """Look at a task; with `wait_s` wait so long at most for its end. Raises: ToolError when there is no such."""
        ...

    async def stop(self, task_id: str) -> TaskState:
        """End a task and wait until it has ended, for some seconds at most; one that has ended stays as it is.

        Returns its state: `stopping` where it does not end. Raises: ToolError when there is no such.
        """
        ...
