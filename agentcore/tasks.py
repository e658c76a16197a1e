"""The background tasks of one session: what runs, what has ended, and what of that the model was not told yet.

A fold like every other: the same calls build it while the session lives and when its journal is read back. The message
that names a task is itself the acknowledgement, so each is told once, whatever happens in between. Bounded: of the
tasks that were told only the last KEPT are remembered.
"""

from collections.abc import Sequence

from agentcore.events import TASK_ALIVE, TaskUpdate
from agentcore.session import BackgroundTask

KEPT = 50  # a listing that a person can still read; each holds its result


class Tasks:
    def __init__(self) -> None:
        self._tasks: dict[str, BackgroundTask] = {}
        """By id, in the order in which they began."""
        self._untold: dict[str, None] = {}
        """Ids of those that ended and that the model was not told about, in the order in which they ended."""
        self._count = 0
        """The highest N of any `bg-N`."""

    @property
    def all(self) -> tuple[BackgroundTask, ...]:
        """In the order in which they began."""
        return tuple(self._tasks.values())

    @property
    def running(self) -> tuple[BackgroundTask, ...]:
        """Those that are alive, one that is being stopped among them."""
        return tuple(task for task in self._tasks.values() if task.state in TASK_ALIVE)

    @property
    def untold(self) -> tuple[BackgroundTask, ...]:
        """What the model has still to be told, in the order in which it happened."""
        return tuple(self._tasks[task_id] for task_id in self._untold)

    @property
    def has_news(self) -> bool:
        """Whether something is worth a run of its own: what was stopped on purpose is told with the next one."""
        return any(task.state != "stopped" for task in self.untold)

    def find(self, task_id: str) -> BackgroundTask | None:
        return self._tasks.get(task_id)

    def next_id(self) -> str:
        """An id that was never used in this session, and is not until its task has begun."""
        return f"bg-{self._count + 1}"

    def updated(self, update: TaskUpdate, now: float) -> None:
        """A task began, ended, or is to end, at `now`."""
        self._saw(update.task_id)
        before = self._tasks.get(update.task_id)
        is_over = update.state not in TASK_ALIVE
        self._tasks[update.task_id] = BackgroundTask(
            task_id=update.task_id,
            kind=update.kind,
            label=update.label,
            state=update.state,
            started=now if before is None else before.started,
            ended=now if is_over else None,
            result=update.result,
        )
        if is_over:
            self._untold[update.task_id] = None

    def told(self, task_ids: Sequence[str]) -> None:
        """A message names them: the model knows."""
        for task_id in task_ids:
            self._saw(task_id)  # in a copy of another session nothing else tells that the id was used
            self._untold.pop(task_id, None)
        self._forget()

    def _saw(self, task_id: str) -> None:
        number = task_id.removeprefix("bg-")
        self._count = max(self._count, int(number) if number.isdecimal() else 0)

    def _forget(self) -> None:
        told = [one.task_id for one in self.all if one.state not in TASK_ALIVE and one.task_id not in self._untold]
        for task_id in told[:-KEPT]:
            del self._tasks[task_id]
