"""The background tasks of one live session: begun, looked at, stopped, and their ends put into the journal.

Satisfies the Background port over the table of `agentcore.tasks`. The tasks run in a group that outlives every run.
Promise: each task that begins has exactly one end in the journal, unless the process stops; then it has none, and the
next load finds it lost. Who listens is told of an end in the step in which it is journaled.
"""

import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from agentcore.background.printed import Printed
from agentcore.caps import cap_output, safe_text
from agentcore.errors import AgentError
from agentcore.events import TaskKind, TaskState, TaskUpdate
from agentcore.ports.background import TaskReading, TaskRoom, TaskWork
from agentcore.ports.guard import OutputGuard
from agentcore.ports.log import EventLog
from agentcore.ports.tools import Outcome, ToolError
from agentcore.session import BackgroundTask
from agentcore.tasks import Tasks

log = logging.getLogger(__name__)

MAX_RUNNING = 8  # the contract's
LABEL_CHARS = 80
GUARD_GRACE_S = 2.0  # 400 KB of the worst text
STOP_S = 3.0
"""How long whoever ends a task waits for that; a command is gone in well under a second."""
END_S = 10.0
"""How long the closing of a session waits for its tasks; a command is ended within half of that."""
STOPPED = "[stopped before it was done]"
UNCHECKED = "[what it came to could not be checked for personal data and secrets, and is withheld]"
LOST = "lost: the server stopped while this ran. It may have taken effect in whole, in part or not at all."

Start = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
"""Starts what runs beside everything else."""
Listener = Callable[[str, TaskState], None]
"""Is told the id of a task that has ended, and how."""


@dataclass(slots=True)
class _Alive:
    """A task that runs."""

    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    ended: anyio.Event = field(default_factory=anyio.Event)


class BackgroundTasks:
    """`listener` is set by whoever wants to know of ends; `forget` lets go of it."""

    def __init__(
        self,
        session_log: EventLog,
        table: Tasks,
        guard: OutputGuard,
        start: Start,
        remember: Callable[[str, int], None],
        spill: Path,
        now: Callable[[], float],
    ) -> None:
        """`remember` journals the process that a task began, by the task's id; `spill` is the folder for output that is
        too long to be kept in memory."""
        self._log = session_log
        self._table = table
        self._guard = guard
        self._start = start
        self._remember = remember
        self._spill = spill
        self._now = now
        self._alive: dict[str, _Alive] = {}
        self._printed: dict[str, Printed] = {}
        """Of all tasks of this load that the table remembers."""
        self._is_closing = False
        self.listener: Listener | None = None

    # --- the port ---

    def start(self, label: str, work: TaskWork, *, kind: TaskKind) -> str:
        if self._is_closing:
            raise ToolError("The session is being closed: nothing begins in the background any more.")
        if len(self._alive) >= MAX_RUNNING:
            raise ToolError(
                f"{MAX_RUNNING} background tasks run already, which is as many as may. Wait until one ends, or stop"
                f" one with task_stop: {', '.join(self._alive)}."
            )
        task_id = self._table.next_id()
        self._tell(TaskUpdate(task_id=task_id, kind=kind, label=_one_line(label), state="running"), is_last=False)
        self._alive[task_id] = alive = _Alive()
        self._printed[task_id] = Printed(self._spill / f"{task_id}.log")
        self._start(partial(self._run, task_id, work, alive))
        return task_id

    async def output(self, task_id: str, wait_s: float = 0.0) -> TaskReading:
        self._find(task_id)
        alive = self._alive.get(task_id)
        if alive is not None and wait_s > 0:
            with anyio.move_on_after(wait_s):
                await alive.ended.wait()
        task = self._find(task_id)
        printed = self._printed.get(task_id)
        return TaskReading(task.label, task.state, "" if printed is None else printed.take(), task.result)

    async def stop(self, task_id: str) -> TaskState:
        self._find(task_id)
        alive = self._alive.get(task_id)
        if alive is not None:
            alive.scope.cancel()
            with anyio.move_on_after(STOP_S):
                await alive.ended.wait()
            self._tell_if_alive(task_id)
        return self._find(task_id).state

    # --- the session ---

    async def close(self) -> None:
        """Stop all of them, and let nothing begin any more."""
        self._is_closing = True
        running = tuple(self._alive.values())
        for alive in running:
            alive.scope.cancel()
        with anyio.move_on_after(END_S):
            for alive in running:
                await alive.ended.wait()

    def lose(self) -> None:
        """Say the end of what was alive when a process that is no more let go of the session."""
        for task in self._table.running:
            self._end(task.task_id, "lost", LOST)

    def forget(self) -> None:
        """The session is let go of: nobody is told anything any more."""
        self._is_closing = True
        self.listener = None
        for printed in self._printed.values():
            printed.close()

    # --- one task ---

    async def _run(self, task_id: str, work: TaskWork, alive: _Alive) -> None:
        outcome: Outcome | None = None
        with alive.scope:
            outcome = await self._outcome_of(task_id, work)
        # behind a cancel of the whole process nothing of this is reached: the task is left as it is
        if outcome is None:
            self._end(task_id, "stopped", await self._last_words(task_id))
        else:
            for event in outcome.events:
                self._log.say_last(event)
            self._end(task_id, "failed" if outcome.is_error else "completed", await self._checked(task_id, outcome))

    async def _outcome_of(self, task_id: str, work: TaskWork) -> Outcome:
        """The barrier of a task: whatever happens in it, it comes to something."""
        room = TaskRoom(task_id, self._printed[task_id].add, partial(self._remember, task_id))
        try:
            return await work(room)
        except (AgentError, ToolError) as error:  # a full disk, or a session that was taken over, among them
            return Outcome(str(error), is_error=True)
        except Exception:
            log.exception("background task %s of session %s failed", task_id, self._log.session)
            return Outcome("It failed with an internal error; the server's log has the details.", is_error=True)

    async def _checked(self, task_id: str, outcome: Outcome) -> str:
        """What it came to, past the guard. One that fails lets nothing through, and keeps no end from being told."""
        try:
            return (await self._guard.check_outcome(outcome)).output
        except Exception:
            log.exception("the result of background task %s of session %s is withheld", task_id, self._log.session)
            return UNCHECKED

    async def _last_words(self, task_id: str) -> str:
        """What a stopped task printed at last, past the guard; what takes that too long, or fails, is left out."""
        try:
            with anyio.move_on_after(GUARD_GRACE_S):
                printed = await self._guard.check_output(self._printed[task_id].end)
                return "\n".join(piece for piece in (printed, STOPPED) if piece)
        except Exception:
            log.exception("the last words of task %s of session %s are withheld", task_id, self._log.session)
        return STOPPED

    def _tell_if_alive(self, task_id: str) -> None:
        """Say, once, that a task does not end though it was told to."""
        task = self._table.find(task_id)
        if task is not None and task.state == "running":
            self._tell(TaskUpdate(task_id=task_id, kind=task.kind, label=task.label, state="stopping"), is_last=True)

    def _end(self, task_id: str, state: TaskState, result: str) -> None:
        """One step: the end is journaled, and who waits for it or listens is told."""
        task = self._table.find(task_id)
        assert task is not None
        told, _ = cap_output(result)
        update = TaskUpdate(task_id=task_id, kind=task.kind, label=task.label, state=state, result=told)
        self._tell(update, is_last=True)
        if printed := self._printed.get(task_id):
            printed.close()
        if alive := self._alive.pop(task_id, None):
            alive.ended.set()
        self._printed = {name: one for name, one in self._printed.items() if self._table.find(name) is not None}
        if self.listener is not None:
            self.listener(task_id, state)

    def _tell(self, update: TaskUpdate, *, is_last: bool) -> None:
        """Say it; an end also where the journal cannot be written. Raises: StorageUnavailable for a beginning."""
        if is_last:
            self._log.say_last(update)
        else:
            self._log.emit(update)
        self._table.updated(update, round(self._now(), 3))

    def _find(self, task_id: str) -> BackgroundTask:
        task = self._table.find(task_id)
        if task is None:
            known = ", ".join(one.task_id for one in self._table.all[-MAX_RUNNING:])
            told = f"The last ones are {known}." if known else "None was started yet."
            raise ToolError(f"There is no background task {task_id[:20]!r}. {told}")
        return task


def _one_line(label: str) -> str:
    line = " ".join(safe_text(label).split())
    return line if len(line) <= LABEL_CHARS else f"{line[: LABEL_CHARS - 1]}…"
