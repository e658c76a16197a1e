"""Background tasks over real sockets: real processes that go on, end by themselves, and are ended."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from tests.daemon import Daemon, numbered, running
from tests.server.test_queue_http import state_until

pytestmark = pytest.mark.anyio


def begins(command: str, label: str) -> dict[str, object]:
    return {"name": "bash", "input": {"command": command, "description": label, "run_in_background": True}}


STORY = {
    "scenes": [
        {
            "match": "build",
            "turns": [
                {"tool_calls": [begins("cat gate; echo built", "Build it")]},
                {"text": "It builds."},
                {"text": "It is built."},
            ],
        },
        {
            "match": "sleep",
            "turns": [{"tool_calls": [begins("echo $$ > pid; sleep 60; true", "Sleep")]}, {"text": "Begun."}],
        },
        {"turns": [{"text": "Hello."}]},
    ]
}
CALLED = ["turn_start", "model_start", "model_end", "usage", "assistant_message", "turn_end"]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path)
    daemon.script("story", STORY)
    daemon.configure("[sandbox]\nenabled = false\n")  # in there a process does not know its number
    with running(tmp_path, "--model", "scripted/story.json", "--allow-yolo") as daemon:
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


async def create(http: httpx.AsyncClient) -> str:
    return str((await http.post("/v1/sessions", json={"mode": "yolo"})).json()["id"])


async def send(http: httpx.AsyncClient, session: str, text: str) -> None:
    answer = await http.post(f"/v1/sessions/{session}/prompt", json={"text": text, "wait": True})
    assert answer.status_code == 200, answer.text


async def pid_in(served: Daemon) -> int:
    """The number of the command that has begun."""
    with anyio.fail_after(10):
        while not (served.cwd / "pid").exists() or not (text := (served.cwd / "pid").read_text()):
            await anyio.lowlevel.checkpoint()
    return int(text)


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_task_is_listed_while_it_runs_and_a_run_that_begins_by_itself_tells_its_end(
    served: Daemon, http: httpx.AsyncClient
) -> None:
    os.mkfifo(served.cwd / "gate")
    session = await create(http)
    await send(http, session, "build")
    state = await state_until(http, session, "busy", value=False)
    assert state["running_tasks"] == 1
    [task] = (await http.get(f"/v1/sessions/{session}/tasks")).json()["tasks"]
    assert {**task, "started": 0} == {
        "task_id": "bg-1",
        "kind": "bash",
        "label": "Build it",
        "state": "running",
        "started": 0,
    }
    async with served.stream(session) as stream:
        await stream.until("snapshot")
        os.close(os.open(served.cwd / "gate", os.O_WRONLY))
        frames = numbered(await stream.until_idle())
    shown = [frame.event for frame in frames if frame.event != "text_delta"]
    assert shown == ["task_update", "status", "user_message", *CALLED, "done", "status"]
    update, _, message = (frame.json for frame in frames[:3])
    assert (update["state"], update["result"]) == ("completed", "built\n[exit code 0]")
    assert (message["source"], message["task_ids"]) == ("notification", ["bg-1"])
    assert message["prompt_id"] == frames[-2].json["prompt_id"]
    assert frames[-2].json["text"] == "It is built."
    messages = (await http.get(f"/v1/sessions/{session}/messages")).json()["messages"]
    assert [one["source"] for one in messages if one["role"] == "user" and one.get("source")] == [
        "prompt",
        "notification",
    ]
    [task] = (await http.get(f"/v1/sessions/{session}/tasks")).json()["tasks"]
    assert (task["state"], task["result"], task["ended"] >= task["started"]) == ("completed", update["result"], True)


async def test_a_person_ends_a_task_and_all_that_it_started(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http)
    await send(http, session, "sleep")
    pid = await pid_in(served)
    assert is_alive(pid)
    assert (await http.delete(f"/v1/sessions/{session}/tasks/bg-1")).status_code == 204
    assert not is_alive(pid)
    assert (await http.delete(f"/v1/sessions/{session}/tasks/bg-1")).status_code == 204
    state = (await http.get(f"/v1/sessions/{session}")).json()
    assert (state["running_tasks"], state["busy"]) == (0, False)
    [task] = (await http.get(f"/v1/sessions/{session}/tasks")).json()["tasks"]
    assert task["state"] == "stopped"


async def test_an_unknown_task_is_not_found(http: httpx.AsyncClient) -> None:
    session = await create(http)
    answer = await http.delete(f"/v1/sessions/{session}/tasks/bg-1")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


async def test_closing_a_session_ends_what_goes_on_in_it(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http)
    await send(http, session, "sleep")
    pid = await pid_in(served)
    async with served.stream(session) as stream:
        await stream.until("snapshot")
        assert (await http.delete(f"/v1/sessions/{session}")).status_code == 204
        frames = numbered(await stream.to_end())
    shown = [frame.event for frame in frames if frame.event != "text_delta"]
    assert shown == ["task_update", "session_closed"]
    assert not is_alive(pid)
