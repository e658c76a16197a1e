"""Servers that are run as commands and are to be confined: what they reach, and what becomes of them."""

import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import anyio
import pytest
from anyio import to_thread
from anyio._backends._asyncio import WorkerThread

from agentcore.events import Notice, ToolEnd
from agentcore.mcp.states import State
from agentcore.mcp.targets import Confinement
from agentcore.ports.sandbox import Sandbox, SandboxProfile
from agentcore.sandbox import choosing
from agentcore.sandbox.choosing import NoSandbox, for_this_system
from tests.core.test_subagents import repository
from tests.fakes import call, say, use
from tests.mcp.housed import configured, run, served
from tests.mcp.serving import ODD, odd, pool, ready
from tests.mcp.test_servers import is_alive
from tests.mcp.test_servers import say as tell

pytestmark = pytest.mark.anyio
PYTHON = str(Path(sys.executable).resolve())
"""Not that of an environment, which may lie where a sandbox has a folder of its own."""


def argv(project: Path, *habits: str) -> tuple[str, ...]:
    """Of a server that lies in the project."""
    project.mkdir(exist_ok=True)
    return (PYTHON, "-I", shutil.copy(ODD, project), *habits)


@contextmanager
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


INSIDE = {"inside", "further"}
CASES = [
    # the entry, [sandbox], what it reaches
    ({}, "", {*INSIDE, "outside", "key", "network"}),
    ({"is_confined": True}, "", INSIDE),
    ({"is_confined": True}, "enabled = false", INSIDE),  # for commands
    ({"is_confined": True}, "network = true", {*INSIDE, "network"}),
    ({"is_confined": True, "has_network": True}, "", {*INSIDE, "network"}),
    ({"is_confined": True, "has_network": False}, "network = true", INSIDE),
]


@pytest.mark.parametrize(("entry", "sandbox", "expected"), CASES)
async def test_a_confined_server_reaches_the_project_and_what_it_is_given(
    tmp_path, monkeypatch, entry, sandbox, expected
) -> None:
    key = tmp_path / "home" / ".ssh" / "id"
    key.parent.mkdir(parents=True)
    key.write_text("SECRET")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text(
        f'[sandbox]\n{sandbox}\n[permissions]\nadditional_directories = ["{tmp_path / "home"}"]\n'
    )
    await possible(for_this_system())
    server = replace(configured("odd", argv(tmp_path / "work", "reaches")), **entry)
    with listening() as port:
        places: dict[str, tuple[str, Any]] = {
            "inside": ("write", str(tmp_path / "work" / "made")),
            "further": ("write", str(tmp_path / "home" / "made")),
            "outside": ("write", str(tmp_path / "made")),
            "key": ("read", str(key)),
            "network": ("connect", port),
        }
        async with served(tmp_path, monkeypatch, server) as here:
            live = await here.house.session()
            here.house.provider.script(use(call("mcp__odd__echo", text=json.dumps(places))), say("Done."))
            [end] = [event for event in await run(here, live, "go") if isinstance(event, ToolEnd)]
    reached = json.loads(end.output)
    for name in ("inside", "further", "outside"):  # what is written into a private /tmp is written nowhere
        reached[name] = Path(places[name][1]).exists()
    assert {name for name in places if reached[name]} == expected


async def test_in_a_worktree_a_confined_server_writes_there_and_not_in_the_project(tmp_path, monkeypatch) -> None:
    work = tmp_path / "work"
    python, isolated, program, habit = argv(work, "reaches")
    repository(work)
    await possible(for_this_system())
    server = replace(configured("odd", (python, isolated, Path(program).name, habit)), is_confined=True)
    async with served(tmp_path, monkeypatch, server) as here:
        live = await here.house.session(mode="yolo")
        there = work / ".claude" / "worktrees" / f"{live.id}-general-purpose-1"
        places = {"there": ("write", str(there / "made")), "project": ("write", str(work / "made"))}
        task = call("task", "t1", description="d", prompt="p", subagent_type="general-purpose", isolation="worktree")
        echo = use(call("mcp__odd__echo", text=json.dumps(places)))
        here.house.provider.script(use(task), echo, say("Written."), say("Done."))
        events = await run(here, live, "go")
        [end] = [event for event in events if isinstance(event, ToolEnd) and event.agent]
        assert not end.is_error, end.output
        assert json.loads(end.output)["there"]
        assert (there / "made").exists()
        assert not (work / "made").exists()


async def test_one_that_is_to_be_confined_does_not_run_where_that_cannot_be(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(choosing, "for_this_system", lambda: NoSandbox("There is none here."))
    mark = tmp_path / "ran"
    server = replace(configured("odd", ("touch", str(mark))), is_confined=True)
    async with served(tmp_path, monkeypatch, server) as here:
        live = await here.house.session()
        events = await run(here, live, "go")
        why = "It cannot be started: it is to run in the sandbox, which does not work here (There is none here)."
        assert [one.error for one in here.pool.describe()] == [why]
        assert [event.code for event in events if isinstance(event, Notice)] == ["mcp_unavailable"]
    assert not mark.exists()


async def test_sessions_share_a_confined_server(tmp_path, monkeypatch) -> None:
    server = replace(configured("odd", argv(tmp_path / "work")), is_confined=True)
    async with served(tmp_path, monkeypatch, server) as here:
        await possible(here.house.app.sandbox)
        for _ in range(2):
            await run(here, await here.house.session(), "go")
        assert [one.state for one in here.pool.describe()] == ["ready"]


@pytest.mark.parametrize("habits", [(), ("stays",), ("forks",)])
async def test_nothing_is_left_of_a_confined_server(tmp_path: Path, habits: tuple[str, ...]) -> None:
    confined = await confinement(tmp_path)
    async with pool() as servers:
        server = await ready(servers, replace(odd(folder=tmp_path), argv=argv(tmp_path, *habits), confined=confined))
        pid = (await server.connection(1)).process_id
        assert pid is not None
        processes = [pid, *below(pid)]
        assert len(processes) == 3 + ("forks" in habits)  # the sandbox, the first process inside of it, the server
    assert not any(is_alive(one) for one in processes)


async def test_a_confined_server_lives_on_when_the_thread_that_started_it_leaves(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(WorkerThread, "MAX_IDLE_TIME", 0)
    confined = await confinement(tmp_path)
    async with pool() as servers:
        server = await ready(servers, replace(odd(folder=tmp_path), argv=argv(tmp_path), confined=confined))
        connection = await server.connection(1)
        first = [thread.native_id for thread in threading.enumerate() if isinstance(thread, WorkerThread)]
        with anyio.fail_after(10):
            # several become idle, and the next look for one sends all the others away
            while any(Path(f"/proc/self/task/{one}").exists() for one in first):
                together = Barrier(3)
                async with anyio.create_task_group() as group:
                    for _ in range(3):
                        group.start_soon(to_thread.run_sync, together.wait)
                await to_thread.run_sync(os.getpid)
        for _ in range(50):  # the end of a process takes a moment
            assert await tell(connection, "echo", text="x") == "x"
        assert server.state is State.READY


async def confinement(root: Path) -> Confinement:
    sandbox = for_this_system()
    await possible(sandbox)
    return Confinement(sandbox, SandboxProfile(writable=(root.resolve(),)))


async def possible(sandbox: Sandbox) -> None:
    await sandbox.probe()
    if not sandbox.is_available:
        pytest.skip(f"the sandbox cannot run here: {sandbox.why_not}")


def below(pid: int) -> list[int]:
    """All that a process has started, and what that has."""
    children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [*children, *(deeper for child in children for deeper in below(child))]
