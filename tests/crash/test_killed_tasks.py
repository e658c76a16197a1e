"""Real servers, killed and stopped while work goes on in the background: what was alive is lost and told as that, what
had ended is told, each once, and nothing is left running."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest

from tests.crash.stories import check_journal, of_kind
from tests.crash.test_killed_while_it_waits import create, end, load, send
from tests.daemon import Daemon, running
from tests.server.test_queue_http import state_until
from tests.server.test_tasks_http import begins, is_alive, pid_in

pytestmark = pytest.mark.anyio

STORY = {
    "scenes": [
        {
            "match": "sleep",
            "turns": [{"tool_calls": [begins("echo $$ > pid; sleep 60; true", "Sleep")]}, {"text": "Begun."}],
        },
        {
            "match": "unmarked",
            "turns": [{"tool_calls": [begins("echo $$ > pid; exec env -i sleep 60", "Hide")]}, {"text": "Begun."}],
        },
        {
            "match": "child",
            "turns": [
                {"tool_calls": [begins("env -i bash -c 'echo $$ > pid; sleep 60; true' & wait", "Hide")]},
                {"text": "Begun."},
            ],
        },
        {
            "match": "think",
            "turns": [
                {"tool_calls": [begins("echo quick", "Be quick")]},
                {"text": "Thought through.", "ttft_ms": 60_000},
            ],
        },
        {"match": "quick", "turns": [{"tool_calls": [begins("cat gate", "Be quick")]}, {"text": "Begun."}]},
        {"turns": [{"text": "Hello."}]},
    ]
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path)
    daemon.script("story", STORY)
    daemon.configure("[sandbox]\nenabled = false\n")  # in there nothing survives the server, nor knows its number
    with running(tmp_path, "--model", "scripted/story.json", "--allow-yolo") as daemon:
        yield daemon


def told(server: Daemon, session: str) -> list[str]:
    """The tasks that the model was told about, in order."""
    events = check_journal(server.journal(session).read_bytes())
    return [name for event in of_kind(events, "user_message") for name in event.get("task_ids", ())]


def states(server: Daemon, session: str) -> list[str]:
    return [event["state"] for event in of_kind(server.events(session), "task_update")]


@pytest.mark.parametrize(
    ("how", "text"),
    [(signal.SIGKILL, "sleep"), (signal.SIGTERM, "sleep"), (signal.SIGKILL, "unmarked"), (signal.SIGKILL, "child")],
)
async def test_what_was_alive_is_ended_and_told_as_lost_once(server: Daemon, how: signal.Signals, text: str) -> None:
    async with server.client() as http:
        session = await create(http, mode="yolo")
        await send(http, session, text)
        await state_until(http, session, "busy", value=False)
        pid = await pid_in(server)
    await end(server, how)
    async with server.client() as http:
        assert (await load(http, session))["running_tasks"] == 0
        assert not is_running(pid)
        await state_until(http, session, "busy", value=False)
        assert (states(server, session), told(server, session)) == (["running", "lost"], ["bg-1"])
        [message] = [one for one in of_kind(server.events(session), "user_message") if one["source"] == "notification"]
        assert "lost: the server stopped while this ran" in message["content"][0]["text"]
    await end(server, signal.SIGKILL)
    async with server.client() as http:
        assert (await load(http, session))["busy"] is False
        assert told(server, session) == ["bg-1"]


def is_running(pid: int) -> bool:
    """Whether it is alive; one that only waits to be reaped is not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def test_what_ended_before_the_kill_and_was_not_told_is_told_at_the_next_load_once(server: Daemon) -> None:
    """The kill falls between the end of the task and its delivery: in the journal the end is the last line."""
    os.mkfifo(server.cwd / "gate")
    async with server.client() as http:
        session = await create(http, mode="yolo")
        await send(http, session, "quick")
        await state_until(http, session, "busy", value=False)
        os.close(os.open(server.cwd / "gate", os.O_WRONLY))
        await state_until(http, session, "running_tasks", value=0)
        await state_until(http, session, "busy", value=False)
    server.kill()
    lines = server.journal(session).read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"state":"completed"' in line)
    server.journal(session).write_bytes(b"".join(lines[: at + 1]))
    server.start()
    async with server.client() as http:
        await load(http, session)
        await state_until(http, session, "busy", value=False)
        assert (states(server, session), told(server, session)) == (["running", "completed"], ["bg-1"])
    await end(server, signal.SIGKILL)
    async with server.client() as http:
        assert (await load(http, session))["busy"] is False
        assert told(server, session) == ["bg-1"]


@pytest.mark.parametrize(("how", "way"), [(signal.SIGKILL, "resume"), (signal.SIGTERM, "prompt")])
async def test_what_ended_while_the_run_went_on_is_told_when_the_session_goes_on(
    server: Daemon, how: signal.Signals, way: str
) -> None:
    async with server.client() as http:
        session = await create(http, mode="yolo")
        async with server.stream(session) as stream:
            await send(http, session, "think")
            while [one["state"] for one in await tasks(http, session)] != ["completed"]:
                await stream.next()
    if how is signal.SIGTERM:
        server.signal(how)
        server.signal(how)  # at once: the model thinks for a minute
        await server.wait()
    server.restart()
    (server.cwd / "story.json").write_text(json.dumps({"turns": [{"text": "Go on."}] * 3}))
    async with server.client() as http:
        assert (await load(http, session))["interrupted"] is True
        assert told(server, session) == []
        if way == "resume":
            await http.post(f"/v1/sessions/{session}/resume", json={})
        else:
            await send(http, session, "hello")
        await state_until(http, session, "busy", value=False)
        assert told(server, session) == ["bg-1"]


async def tasks(http: httpx.AsyncClient, session: str) -> list[dict[str, str]]:
    return list((await http.get(f"/v1/sessions/{session}/tasks")).json()["tasks"])


async def test_a_server_that_stops_leaves_its_tasks_as_they_were(server: Daemon) -> None:
    """Stopping is not cancelling: nothing in the journal says that they were ended, though they are."""
    async with server.client() as http:
        session = await create(http, mode="yolo")
        await send(http, session, "sleep")
        await state_until(http, session, "busy", value=False)
        pid = await pid_in(server)
    server.signal(signal.SIGTERM)
    with anyio.fail_after(10):
        assert await server.wait() == 0
    assert states(server, session) == ["running"]
    assert not is_alive(pid)
