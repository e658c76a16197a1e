"""The tools `task_output` and `task_stop`: a look at what goes on in the background, and its end."""

from pydantic import Field, StrictBool

from agentcore.ports.background import Background, TaskReading
from agentcore.ports.tools import Outcome, ToolRoom, ToolSpec
from agentcore.tools.inputs import Plain
from agentcore.values import Value

DEFAULT_WAIT_MS = 30_000
MAX_WAIT_MS = 600_000

_TASK_ID = Field(min_length=1, max_length=20, description="The id of the task, `bg-N`.")


class TaskOutputInput(Value):
    task_id: Plain = _TASK_ID
    block: StrictBool = Field(default=False, description="Wait for the end of the task, `timeout` long at most.")
    timeout: int = Field(
        default=DEFAULT_WAIT_MS,
        ge=0,
        le=MAX_WAIT_MS,
        description=f"Milliseconds to wait with `block`; {DEFAULT_WAIT_MS} unless set.",
    )


class TaskStopInput(Value):
    task_id: Plain = _TASK_ID


class TaskOutputTool:
    spec = ToolSpec(
        name="task_output",
        description=(
            "Show how a background task stands, and what it has printed since you looked last. When a task ends "
            "you are told anyway: do not ask again and again, and wait only when you can do nothing else."
        ),
        input=TaskOutputInput,
        read_only=True,
        parallel_safe=True,
        timeout_s=None,  # `timeout` bounds it
    )

    def __init__(self, background: Background) -> None:
        self._background = background

    async def run(self, input: TaskOutputInput, room: ToolRoom) -> Outcome:
        wait_s = input.timeout / 1000 if input.block else 0.0
        return Outcome(_told(input.task_id, await self._background.output(input.task_id, wait_s)))

    def preview(self, input: TaskOutputInput) -> None:
        return None


class TaskStopTool:
    spec = ToolSpec(
        name="task_stop",
        description="End a background task and all that it started. What it printed at last is told to you afterwards.",
        input=TaskStopInput,
        read_only=True,  # it ends what the session itself began, and needs no more leave than that did
    )

    def __init__(self, background: Background) -> None:
        self._background = background

    async def run(self, input: TaskStopInput, room: ToolRoom) -> Outcome:
        state = await self._background.stop(input.task_id)
        return Outcome(f"{input.task_id}: {state}")

    def preview(self, input: TaskStopInput) -> None:
        return None


def _told(task_id: str, reading: TaskReading) -> str:
    """How it stands, and what is new. What it came to is told by itself."""
    printed = reading.output.strip("\n") or "(nothing new)"
    return f"[{task_id}: {reading.state}]\n{printed}"
