"""What stands below the ports of a session that goes on by one step: model, tools, workers and disk."""

import asyncio
import os
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from unittest.mock import patch

import anyio
import anyio.to_thread
from pydantic import BaseModel

from agentcore.errors import ProviderError
from agentcore.messages import ToolResult
from agentcore.ports.background import Background, TaskRoom
from agentcore.ports.models import Finished, ModelRequest, StreamPart
from agentcore.ports.tools import Deferred, Outcome, Tool, ToolError, ToolRoom, ToolSpec
from agentcore.tools.catalogue import builtin_tools
from server.bus import Bus
from tests.core.test_transcript import check
from tests.fakes import FakeProvider

T = TypeVar("T")
RING = 8  # events: a reader that is away for a moment comes back behind it


class Model(FakeProvider):
    """Says what it is told, when it is told; checks what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[ModelCall] = []
        """Those that are going on."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamPart]]:
        check(request.messages)
        results = Counter(
            block.call_id for one in request.messages for block in one.content if isinstance(block, ToolResult)
        )
        assert all(count == 1 for count in results.values()), "a call with two results"
        call = ModelCall(is_main="-general-purpose-" not in request.session)
        self.calls.append(call)
        try:
            yield call.parts()
        finally:
            self.calls.remove(call)


class ModelCall:
    """One call of the model that waits to be told what to say."""

    def __init__(self, *, is_main: bool) -> None:
        self.is_main = is_main
        """Of the main agent; else of a subagent."""
        self._told: deque[StreamPart | ProviderError] = deque()
        self._moved = anyio.Event()

    def tell(self, *what: StreamPart | ProviderError) -> None:
        self._told += what
        self._moved.set()

    async def parts(self) -> AsyncIterator[StreamPart]:
        while True:
            while not self._told:
                self._moved = anyio.Event()
                await self._moved.wait()
            part = self._told.popleft()
            if isinstance(part, ProviderError):
                raise part
            yield part
            if isinstance(part, Finished):
                return


class Number(BaseModel):
    number: int


@dataclass(eq=False)
class RunningTool:
    name: str
    end: asyncio.Future[Outcome]


@dataclass
class SteppedTool:
    """Runs until it is told how it ends; `hand_over` hands its work to others at once."""

    spec: ToolSpec
    running: list[RunningTool]

    async def run(self, input: Number, room: ToolRoom) -> Outcome | Deferred:
        if self.spec.name == "hand_over":
            await anyio.lowlevel.checkpoint()
            return Deferred(f"token-{input.number}")
        one = RunningTool(self.spec.name, asyncio.get_running_loop().create_future())
        self.running.append(one)
        try:
            return await one.end
        finally:
            self.running.remove(one)

    def preview(self, input: Number) -> str | None:
        return None


@dataclass
class BeginTool:
    """Begins a background task that runs until it is told how it ends."""

    spec: ToolSpec
    running: list[RunningTool]
    background: Background | None

    async def run(self, input: Number, room: ToolRoom) -> Outcome:
        if self.background is None:
            raise ToolError("Nothing can run in the background here.")
        return Outcome(self.background.start(f"task {input.number}", self.work, kind="bash"))

    async def work(self, task: TaskRoom) -> Outcome:
        one = RunningTool(self.spec.name, asyncio.get_running_loop().create_future())
        self.running.append(one)
        task.take(b"It prints.")
        try:
            return await one.end
        finally:
            self.running.remove(one)

    def preview(self, input: Number) -> str | None:
        return None


LOOK = ToolSpec(name="look", description="Look.", input=Number, read_only=True, parallel_safe=True)
CHANGE = ToolSpec(name="change", description="Change.", input=Number, read_only=False)
HAND_OVER = replace(LOOK, name="hand_over", parallel_safe=False)
BEGIN = ToolSpec(name="begin", description="Begin.", input=Number, gated_inside=True)
SPECS = (LOOK, CHANGE, HAND_OVER)


def ended(outcome: str) -> Outcome | ToolError:
    """How a tool ends."""
    return ToolError("It failed.") if outcome == "failed" else Outcome("It is done.")


async def in_line(function: Callable[..., T], *args: Any, abandon_on_cancel: bool = False, **options: Any) -> T:
    """Stands in for a worker thread: its work is one step, and its result comes with another one."""
    await anyio.lowlevel.checkpoint()
    result = function(*args)
    with anyio.CancelScope(shield=not abandon_on_cancel):
        await anyio.lowlevel.checkpoint()
    return result


@contextmanager
def stand_ins(tools_of: Callable[[], list[RunningTool]], tasks_of: Callable[[], list[RunningTool]]) -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(patch.object(anyio.to_thread, "run_sync", in_line))
        stack.enter_context(patch.object(os, "fsync", lambda file: None))
        stack.enter_context(patch.object(os, "fdatasync", lambda file: None))
        stack.enter_context(patch("server.live.Bus", lambda head: Bus(head, RING)))

        def made(*parts: Any, **named: Any) -> list[Tool]:
            running = tools_of()
            real = [
                tool for tool in builtin_tools(*parts, **named) if tool.spec.name in ("bash", "read")
            ]  # never called
            begin = BeginTool(BEGIN, tasks_of(), named["background"])
            return [*real, begin, *(SteppedTool(spec, running) for spec in SPECS)]

        stack.enter_context(patch("agentcore.makers.builtin_tools", made))
        yield
