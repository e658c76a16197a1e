"""The tool calls of one assistant message, each brought to its result.

Authorisation is strictly one after another, in the order of the calls. Consecutive calls that are parallel-safe
and wait for nobody run side by side; everything else is a barrier. Results keep the order of the calls, a failed
call cancels no sibling, and a cancelled batch closes every call that has no result yet. A message of the user closes
those that have not started. What is answered later stays open behind its batch. A hook that ends the run lets what
runs beside it finish, and nothing else begin.
"""

from collections import deque
from collections.abc import Iterator, Sequence, Sized
from contextlib import nullcontext
from itertools import count

import anyio

from agentcore.call import Calls, Ready, Refused
from agentcore.errors import AgentError, RunFailed
from agentcore.messages import ToolCall
from agentcore.ports.hooks import Halted
from agentcore.ports.permission import Later
from agentcore.walk import Paused

PARALLEL_LIMIT = 8  # the contract's bound on calls side by side
NOT_STARTED = "interrupted by user"
SKIPPED = "skipped: the user sent another message"
HALTED = "not run: a hook of the user ended the run"
UNUSABLE_HOOK = "not run: a hook put something in the place of a call that cannot be run, and the run ends"


_Placed = tuple[int, Ready]
"""A call that may run, and its place in the batch."""


async def run_batch(calls: Calls, turn: int, messages: Sized) -> None:
    """Run the open calls of the transcript, as long as no messages of the user wait.

    Raises: StorageUnavailable; Halted and RunFailed when a hook ends the run: then no call is open any more.

    Calls that are still open then are answered later: by a person, or by whom a tool deferred to.
    """
    waiting, numbers = deque(calls.undispatched), count()
    try:
        while waiting and not messages:
            await _run_group(calls, await _next_group(calls, waiting), turn, numbers)
            await anyio.lowlevel.checkpoint()  # thousands of refusals in a row must not hold up other sessions
    except anyio.get_cancelled_exc_class():
        close_batch(calls, turn, NOT_STARTED)
        raise
    except Halted:
        close_batch(calls, turn, HALTED)
        raise
    except RunFailed:
        close_batch(calls, turn, UNUSABLE_HOOK)
        raise
    if messages:
        skip_undispatched(calls, turn)


def skip_undispatched(calls: Calls, turn: int) -> None:
    """Close what has not started, because the user has said something else."""
    for call in calls.undispatched:
        calls.refuse(Refused(call, SKIPPED), turn)


def close_batch(calls: Calls, turn: int, text: str) -> None:
    """Give every open call a result without running it."""
    for call in calls.open_calls:
        calls.refuse(Refused(call, text), turn)


async def _next_group(calls: Calls, waiting: deque[ToolCall]) -> list[ToolCall]:
    """Take the next calls that may run side by side, or the next one alone.

    Chosen as late as can be: what earlier groups did may change what a later call needs.
    """
    group: list[ToolCall] = []
    while waiting and await calls.can_run_beside_others(waiting[0]):
        group.append(waiting.popleft())
    return group or [waiting.popleft()]


async def _run_group(calls: Calls, group: Sequence[ToolCall], turn: int, numbers: Iterator[int]) -> None:
    ready: list[_Placed] = []
    for call in group:
        position = calls.position_of(call)
        authorised = await calls.authorise(call)
        if isinstance(authorised, Refused):
            calls.refuse(authorised, turn)
        elif not isinstance(authorised, Later):
            ready.append((position, authorised))
    first = next(numbers)
    for place, together in enumerate(_parted(ready)):
        number = next(numbers) if place else first
        if len(together) == 1:
            [(position, only)] = together
            await calls.execute(only, turn, number, position)
        else:
            await _run_side_by_side(calls, together, turn, number)


def _parted(ready: Sequence[_Placed]) -> list[list[_Placed]]:
    """What may run side by side: all of a group, unless a hook put another tool in the place of one of its calls."""
    parts: list[list[_Placed]] = []
    for one in ready:
        if parts and _is_parallel_safe(one) and _is_parallel_safe(parts[-1][-1]):
            parts[-1].append(one)
        else:
            parts.append([one])
    return parts


def _is_parallel_safe(placed: _Placed) -> bool:
    return placed[1].tool.spec.parallel_safe


async def _run_side_by_side(calls: Calls, ready: Sequence[_Placed], turn: int, number: int) -> None:
    limiter = anyio.Semaphore(PARALLEL_LIMIT)
    failures: list[AgentError | Halted | Paused] = []

    async def run_one(position: int, one: Ready) -> None:
        async with nullcontext() if one.tool.spec.gated_inside else limiter:
            try:
                await calls.execute(one, turn, number, position)
            except (AgentError, Halted, Paused) as failure:
                failures.append(failure)  # carried out of the group below, the first one as it is

    async with anyio.create_task_group() as group:
        for position, one in ready:
            group.start_soon(run_one, position, one)
    if failures:
        raise failures[0]
