"""MCP servers behind a real daemon: in its settings, in `/v1/info`, in a run, and after a SIGKILL."""

import json
import sys
from pathlib import Path

import anyio
import httpx
import pytest

from tests.daemon import Daemon, running
from tests.mcp.serving import ODD
from tests.mcp.test_servers import is_alive

pytestmark = pytest.mark.anyio


def settings(*habits: str) -> str:
    args = ", ".join(f'"{one}"' for one in ("-I", str(ODD), *habits))
    return f'[mcp_servers.odd]\ncommand = "{sys.executable}"\nargs = [{args}]\n'


def script(**call: object) -> dict:
    return {"turns": [{"tool_calls": [call]}, {"text": "Done."}]}


async def create(http: httpx.AsyncClient, model: str) -> str:
    answer = await http.post("/v1/sessions", json={"model": model})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def prompt(http: httpx.AsyncClient, session: str) -> dict:
    answer = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go", "wait": True}, timeout=60)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def info(http: httpx.AsyncClient) -> list[dict]:
    return list((await http.get("/v1/info")).json()["mcp"])


def children(daemon: Daemon) -> set[int]:
    assert daemon.process is not None
    pid = daemon.process.pid
    return {
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
        if str(ODD) in Path(f"/proc/{child}/cmdline").read_text()
    }


async def test_a_daemon_uses_a_server_of_the_users_settings_and_says_so(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.configure(settings())
    model = daemon.script("echo", script(name="mcp__odd__echo", input={"text": "hello"}))
    with running(tmp_path, "--model", model) as daemon:
        async with daemon.client() as http:
            assert await info(http) == []
            session = await create(http, model)
            await prompt(http, session)
            [end] = [event for event in daemon.events(session) if event["type"] == "tool_end"]
            assert (end["tool_name"], end["output"], end["is_error"]) == ("mcp__odd__echo", "hello", False)
            assert await info(http) == [
                {
                    "name": "odd",
                    "state": "ready",
                    "tools": 1,
                    "transport": "stdio",
                    "source": "settings.toml",
                }
            ]
            assert len(children(daemon)) == 1
            assert "no effect in this version" not in daemon.log()


async def test_ten_sessions_share_one_process_and_a_stop_ends_it(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.configure(settings())
    model = daemon.script("echo", script(name="mcp__odd__echo", input={"text": "hello"}))
    with running(tmp_path, "--model", model) as daemon:
        async with daemon.client() as http:
            for _ in range(10):
                await prompt(http, await create(http, model))
            [pid] = children(daemon)
        daemon.signal(15)
        assert await daemon.wait() == 0
        assert not is_alive(pid)


async def test_what_a_killed_daemon_left_running_is_ended_by_the_next(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.configure(settings("stays"))
    model = daemon.script("echo", script(name="mcp__odd__echo", input={"text": "hello"}))
    with running(tmp_path, "--model", model) as daemon:
        async with daemon.client() as http:
            await prompt(http, await create(http, model))
        [pid] = children(daemon)
        daemon.kill()
        assert is_alive(pid)
        daemon.start()
        with anyio.fail_after(20):
            while is_alive(pid):  # noqa: ASYNC110 - a process that is no child of ours
                await anyio.sleep(0.01)


async def test_a_start_and_a_session_do_not_wait_for_a_server_that_hangs(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.configure(settings("hangs"))
    with running(tmp_path, "--model", "scripted/demo") as daemon:
        async with daemon.client() as http:
            with anyio.fail_after(4):  # a run waits five seconds; nothing else waits at all
                await create(http, "scripted/demo")
                assert [one["state"] for one in await info(http)] == ["connecting"]


async def test_nothing_of_a_repository_runs_before_it_is_approved(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    mark = tmp_path / "ran"
    servers = {"repo": {"command": "touch", "args": [str(mark)]}}
    (tmp_path / "work" / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    model = Daemon(tmp_path).script("done", {"turns": [{"text": "Done."}]})
    with running(tmp_path, "--model", model) as daemon:
        async with daemon.client() as http:
            await prompt(http, await create(http, model))
            assert await info(http) == []
        assert not mark.exists()


async def test_nothing_is_left_of_a_hundred_sessions(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.configure(settings())
    model = daemon.script("echo", script(name="mcp__odd__echo", input={"text": "hello"}))
    with running(tmp_path, "--model", model) as daemon:
        async with daemon.client() as http:
            await prompt(http, await create(http, model))
            counts = []
            for number in range(100):
                session = await create(http, model)
                await http.delete(f"/v1/sessions/{session}")
                if number in (9, 99):
                    counts.append(held(daemon))
            assert counts[1] <= counts[0] + 2  # a connection of this client may come or go
            assert len(children(daemon)) == 1


def held(daemon: Daemon) -> int:
    assert daemon.process is not None
    return len([*Path(f"/proc/{daemon.process.pid}/fd").iterdir()])
