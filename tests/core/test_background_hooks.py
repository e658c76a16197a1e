"""What Stop hooks are told of what goes on in the background, in the form that scripts of other agents read."""

from pathlib import Path

import anyio
import pytest

from agentcore.ports.background import TaskRoom
from agentcore.ports.tools import Outcome
from tests.core.test_background import held, in_background
from tests.core.test_hooks_runs import LOGGER, logged, script, settings
from tests.fakes import call, house, say, use

pytestmark = pytest.mark.anyio


async def goes_on(task: TaskRoom) -> Outcome:
    await anyio.sleep_forever()
    return Outcome("never")


async def test_stop_hooks_hear_of_the_tasks_that_are_alive(tmp_path: Path) -> None:
    settings(tmp_path, Stop=[{"command": script(tmp_path, "log.py", LOGGER)}])
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        live.agent._parts.background.start("general-purpose: Look: around", goes_on, kind="agent")
        home.provider.script(
            use(in_background("true", "b1"), in_background(held(tmp_path), "b2", description="Build it")),
            use(call("task_output", "o1", task_id="bg-2", block=True)),
            say("Both go on."),
        )
        await home.run(live, "go")
    [heard] = [one for one in logged(tmp_path) if one["hook_event_name"] == "Stop"]
    subagent = {"id": "bg-1", "type": "subagent", "agent_type": "general-purpose"}
    assert heard["background_tasks"] == [
        {**subagent, "status": "running", "description": "Look: around"},
        {"id": "bg-3", "type": "shell", "status": "running", "description": "Build it"},
    ]
