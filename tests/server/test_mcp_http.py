"""MCP servers behind a real daemon: in its settings, in `/v1/info`, in a run, and after a SIGKILL."""

import json
import sys
from pathlib import Path

import anyio
import httpx
import pytest

from tests.core.test_subagents import repository
from tests.daemon import Daemon, running
from tests.mcp.serving import LOCKED, ODD, http_server
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


async def open_requests(http: httpx.AsyncClient, session: str) -> list[str]:
    answer = await http.get(f"/v1/sessions/{session}/permissions")
    return [one["request_id"] for one in answer.json()["permissions"]]


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


async def test_a_file_as_others_write_it_waits_is_approved_and_its_tools_are_called(tmp_path: Path) -> None:
    time_server = str(Path(sys.executable).parent / "mcp-server-time")
    (tmp_path / "work").mkdir()
    daemon = Daemon(tmp_path)
    daemon.configure('[permissions]\nallow = ["mcp__time", "mcp__tickets"]\n')
    convert = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    calls = [
        {"name": "mcp__time__convert_time", "input": convert},
        {"name": "mcp__tickets__seen", "input": {}},
    ]
    model = daemon.script("zones", {"turns": [{"tool_calls": calls}, {"text": "Done."}]})
    with (
        http_server("3600", "token=secret-1", program=LOCKED) as (port, _),
        running(tmp_path, "--model", model, TIME_SERVER=time_server, TICKETS_TOKEN="secret-1") as daemon,
    ):
        servers = {
            "time": {
                "type": "stdio",
                "command": "${TIME_SERVER}",
                "args": ["--local-timezone", "${ZONE:-Europe/Berlin}"],
                "env": {"PYTHONUNBUFFERED": "${UNBUFFERED:-1}"},
                "timeout": 60000,
            },
            "tickets": {
                "type": "http",
                "url": f"http://127.0.0.1:${{TICKETS_PORT:-{port}}}/mcp",
                "headers": {"Authorization": "Bearer ${TICKETS_TOKEN}"},
            },
        }
        (tmp_path / "work" / ".mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=2))
        async with daemon.client() as http:
            session = await create(http, model)
            await prompt(http, session)
            assert await info(http) == []
            waiting = (await http.get("/v1/approvals")).json()["approvals"]
            assert {(one["name"], one["state"], one["source"]) for one in waiting} == {
                ("time", "waiting", ".mcp.json"),
                ("tickets", "waiting", ".mcp.json"),
            }
            assert {one["name"]: json.loads(one["content"]) for one in waiting} == servers
            for one in waiting:
                answer = await http.post(f"/v1/approvals/{one['id']}", json={"allow": True})
                assert answer.status_code < 300, answer.text
            await prompt(http, session)
            states = [(one["name"], one["state"], one["transport"], one["source"]) for one in await info(http)]
        assert states == [("tickets", "ready", "http", ".mcp.json"), ("time", "ready", "stdio", ".mcp.json")]
        ends = [one for one in daemon.events(session) if one["type"] == "tool_end"]
        assert [one["is_error"] for one in ends] == [True, True, False, False]
        assert "21:00" in ends[2]["output"]
        assert json.loads(ends[3]["output"]) == {"refreshed": 0, "denied": 0}
        assert "secret-1" not in daemon.log() + json.dumps(daemon.events(session))


async def test_a_subagent_in_a_worktree_has_a_server_of_its_own_there(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.configure('mode = "accept-edits"\n[permissions]\nallow = ["Agent"]\n' + settings("places"))
    echo = {"tool_calls": [{"name": "mcp__odd__echo", "input": {"text": "x"}}]}
    apart = {"description": "d", "prompt": "Look.", "subagent_type": "general-purpose", "isolation": "worktree"}
    task = {"tool_calls": [{"name": "task", "input": apart}]}
    scenes = [
        {"match": "Look.", "turns": [echo, {"text": "Looked."}]},
        {"turns": [echo, task, {"text": "Done."}]},
    ]
    model = daemon.script("apart", {"scenes": scenes})
    repository(tmp_path / "work")
    with running(tmp_path, "--model", model) as daemon:
        async with daemon.client() as http:
            session = await create(http, model)
            await prompt(http, session)
            assert len(await info(http)) == len(children(daemon)) == 1
        ends = [one for one in daemon.events(session) if one["type"] == "tool_end" and one["tool_name"] != "task"]
        mine, its = (Path(json.loads(one["output"])["cwd"]) for one in ends)
        assert (mine, its.parent) == (tmp_path / "work", tmp_path / "work" / ".claude" / "worktrees")
        assert ends[1]["agent"] == "general-purpose-1"
        assert not its.exists()


@pytest.mark.parametrize("number", [9, 15])
async def test_after_a_stop_nobody_is_asked_what_a_server_wanted_to_know_before(tmp_path: Path, number: int) -> None:
    daemon = Daemon(tmp_path)
    daemon.configure(settings("asks"))
    model = daemon.script("echo", script(name="mcp__odd__echo", input={"text": "hello"}))
    with running(tmp_path, "--model", model) as daemon:
        async with daemon.client() as http:
            session = await create(http, model)
            await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})
            with anyio.fail_after(20):
                while not await open_requests(http, session):  # noqa: ASYNC110 - of another process
                    await anyio.sleep(0.01)
        daemon.signal(number)
        await daemon.wait()
        assert "Traceback" not in daemon.log()
        daemon.kill()
        daemon.start()
        async with daemon.client() as http:
            loaded = (await http.post("/v1/sessions", json={"resume": session})).json()
            assert loaded["interrupted"]
            assert "waiting_for" not in loaded
            answer = await http.post(f"/v1/sessions/{session}/permissions/perm-1", json={"allow": False})
            assert (answer.status_code, answer.json()["code"]) == (410, "permission_expired")
            resumed = await http.post(f"/v1/sessions/{session}/resume")
            assert resumed.status_code < 300, resumed.text
            with anyio.fail_after(20):
                while not (asked := await open_requests(http, session)):  # noqa: ASYNC110 - of another process
                    await anyio.sleep(0.01)
        assert asked == ["perm-2"]  # it only reads, so it is called again


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
