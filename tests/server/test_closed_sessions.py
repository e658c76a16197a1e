"""What a closed session leaves behind in the process: nothing."""

import gc
import weakref
from pathlib import Path

import anyio
import pytest

from agentcore.session import Settings
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
