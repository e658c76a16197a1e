"""What a closed session leaves behind in the process: nothing."""

import gc
import weakref
from pathlib import Path

import anyio
import pytest

from agentcore.session import Settings
from server.many import ManyReader
from server.reader import Reader, SessionReader
from server.view import View
from tests.fakes import house, say

pytestmark = pytest.mark.anyio


async def test_a_closed_session_is_freed_without_the_collector(tmp_path: Path) -> None:
    gc.disable()  # with few new objects it would run long after the ring has been filled many times
    try:
        async with house(tmp_path) as home:
            live = await home.hub.create(tmp_path / "work", Settings())
            home.provider.script(say("Done."))
            await live.outcome_of(live.prompt("Go on.").prompt_id).wait()
            home.provider.requests.clear()
            left = [weakref.ref(part) for part in (live, live.agent, live.bus, live.agent.log)]
            await home.hub.close(live, "deleted")
            del live
            with anyio.fail_after(5):
                while any(part() is not None for part in left):
                    await anyio.lowlevel.checkpoint()
    finally:
        gc.enable()


async def test_nor_does_a_closed_session_wait_for_it_when_it_was_read(tmp_path: Path) -> None:
    gc.disable()
    try:
        async with house(tmp_path) as home:
            live = await home.hub.create(tmp_path / "work", Settings())
            readers = [
                SessionReader(home.hub, live, None),
                ManyReader(home.hub, [live.id], None, View(is_of_many=True)),
                ManyReader(home.hub, None, None, View(is_of_many=True)),  # goes on without it
            ]
            async with anyio.create_task_group() as reading:
                for reader in readers:
                    reading.start_soon(read, reader)
                await anyio.wait_all_tasks_blocked()
                del reader, readers
                left = [weakref.ref(part) for part in (live, live.agent, live.bus, live.agent.log)]
                await home.hub.close(live, "deleted")
                del live
                with anyio.fail_after(5):
                    while any(part() is not None for part in left):
                        await anyio.lowlevel.checkpoint()
                reading.cancel_scope.cancel()
    finally:
        gc.enable()


async def read(reader: Reader) -> None:
    async for _ in reader.chunks():
        pass
