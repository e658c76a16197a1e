"""Stopping is not cancelling (contract 1.4): real signals to a real server with real sessions."""

import signal
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import httpx
import pytest

from tests.crash.stories import check_journal, kinds, of_kind
from tests.daemon import Daemon, Frame, Stream, running

pytestmark = pytest.mark.anyio

STREAMS = 50
STORY = {
    "scenes": [
        {"match": "long command", "turns": [{"tool_calls": [{"name": "bash", "input": {"command": "sleep 61.5"}}]}]},
        {
            "match": "command",
            "turns": [
                {
                    "tool_calls": [
                        {"name": "bash", "input": {"command": "echo on; until [ -e go ]; do sleep 0.02; done"}}
                    ]
                },
                {"text": "Not reached before the restart."},
            ],
        },
        {"match": "think", "turns": [{"text": "Thought through.", "ttft_ms": 1500}]},
        {
            "turns": [
                {"text": "I ask.", "tool_calls": [{"name": "bash", "input": {"command": "echo once >> ran.txt"}}]},
                {"text": "Done."},
            ]
        },
    ]
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Daemon]:
    Daemon(tmp_path).script("story", STORY)
    with running(tmp_path, "--model", "scripted/story.json", "--allow-yolo") as daemon:
        yield daemon


async def create(http: httpx.AsyncClient, **settings: object) -> str:
    return str((await http.post("/v1/sessions", json=settings)).json()["id"])


async def start(server: Daemon, stream: Stream, session: str, text: str, event: str) -> None:
    """Send a prompt and read until the first event of that type."""
    async with server.client() as http:
        assert (await http.post(f"/v1/sessions/{session}/prompt", json={"text": text})).status_code == 202
    await stream.until(event)


async def test_fifty_open_streams_are_told_and_do_not_hold_up_the_exit(server: Daemon) -> None:
    ends: list[list[Frame]] = []

    async def read_to_end(stream: Stream) -> None:
        ends.append(await stream.to_end())

    async with server.client() as http, AsyncExitStack() as opened, anyio.create_task_group() as readers:
        session = await create(http)
        streams = [await opened.enter_async_context(server.stream(session)) for _ in range(STREAMS)]
        for stream in streams:
            await stream.until("snapshot")
            readers.start_soon(read_to_end, stream)
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        code = await server.wait()
        took_s = time.monotonic() - began
    assert code == 0
    assert took_s < 1.0  # the promise: open streams never hold up the shutdown
    assert [[frame.raw for frame in end] for end in ends] == [
        [b'event: server_stopping\ndata: {"type":"server_stopping"}']
    ] * STREAMS
    assert all(stream.wire.is_complete for stream in streams)
    assert server.log().count("Traceback") == 0


async def test_a_request_that_waits_is_left_as_it_is_and_offered_again(server: Daemon) -> None:
    async with server.client() as http:
        session = await create(http)
    async with server.stream(session) as stream:
        await start(server, stream, session, "ask", "permission_request")
        journal = server.journal(session).read_bytes()
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        assert [frame.event for frame in await stream.to_end()] == ["server_stopping"]
        assert await server.wait() == 0
        assert time.monotonic() - began < 2.0
    assert server.journal(session).read_bytes() == journal  # nothing expired, nothing cancelled
    server.restart()
    async with server.client() as http:
        state = (await http.post("/v1/sessions", json={"resume": session})).json()
        assert (state["interrupted"], state["waiting_for"]) == (True, "permission")
        async with server.stream(session) as stream:
            await stream.until("snapshot")
            await http.post(f"/v1/sessions/{session}/permissions/perm-1", json={"allow": True})
            await stream.until_idle()
    events = check_journal(server.journal(session).read_bytes())
    assert [event["resolution"] for event in of_kind(events, "permission_resolved")] == ["allowed"]
    assert (server.cwd / "ran.txt").read_text() == "once\n"


async def test_a_running_command_may_end_and_new_work_is_refused_meanwhile(server: Daemon) -> None:
    async with server.client() as http:
        session, other = await create(http, mode="yolo"), await create(http)
        async with server.stream(session) as stream:
            await start(server, stream, session, "command", "tool_output_delta")
            server.signal(signal.SIGTERM)
            for path, body in (
                (f"/v1/sessions/{other}/prompt", {"text": "go"}),
                (f"/v1/sessions/{session}/prompt", {"text": "go"}),
                (f"/v1/sessions/{other}/resume", {}),
                ("/v1/sessions", {}),
            ):
                refused = await until_draining(http, path, body)
                assert (refused.status_code, refused.json()["code"]) == (503, "draining")
                assert refused.headers["Retry-After"] == "5"
            assert (await http.get("/v1/health")).status_code == 200
            (server.cwd / "go").touch()
            ending = await stream.to_end()
            assert await server.wait() == 0
    assert [frame.event for frame in ending] == ["notice", "tool_end", "turn_end", "server_stopping"]
    events = check_journal(server.journal(session).read_bytes())
    assert kinds(events)[-2:] == ["tool_end", "turn_end"]
    server.restart()
    async with server.client() as http:
        await http.post("/v1/sessions", json={"resume": session})
        async with server.stream(session) as stream:
            await stream.until("snapshot")
            assert (await http.post(f"/v1/sessions/{session}/resume", json={})).status_code == 202
            await stream.until_idle()
    events = check_journal(server.journal(session).read_bytes())
    assert len(of_kind(events, "tool_start")) == 1
    assert of_kind(events, "done")[0]["stop_reason"] == "end_turn"


async def until_draining(http: httpx.AsyncClient, path: str, body: dict[str, object]) -> httpx.Response:
    """Send a request again while the signal is still on its way; a session may be taken until then."""
    with anyio.fail_after(10):
        while (answer := await http.post(path, json=body)).status_code in (201, 202, 409):
            await anyio.lowlevel.checkpoint()
    return answer


async def test_a_model_turn_may_end_and_the_run_pauses_or_is_done(server: Daemon) -> None:
    async with server.client() as http:
        session = await create(http)
    async with server.stream(session) as stream:
        await start(server, stream, session, "think", "model_start")
        server.signal(signal.SIGTERM)
        ending = [frame.event for frame in await stream.to_end()]
        assert await server.wait() == 0
    assert ending[-3:] == ["done", "status", "server_stopping"]
    check_journal(server.journal(session).read_bytes())


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_exits_at_once_and_leaves_the_journal_as_a_kill_would(
    server: Daemon, second: signal.Signals
) -> None:
    async with server.client() as http:
        session, other = await create(http, mode="yolo"), await create(http)
        async with server.stream(session) as stream:
            await start(server, stream, session, "command", "tool_output_delta")
            server.signal(signal.SIGTERM)
            await until_draining(http, f"/v1/sessions/{other}/prompt", {"text": "go"})
            began = time.monotonic()
            server.signal(second)
            assert await server.wait() == 128 + second
            assert time.monotonic() - began < 3.0  # at once, and not after the ten seconds for a border
    (server.cwd / "go").touch()  # lets the orphaned command end
    events = check_journal(server.journal(session).read_bytes())
    assert kinds(events)[-1] == "tool_start"
    server.restart()
    async with server.client() as http:
        state = (await http.post("/v1/sessions", json={"resume": session})).json()
    assert state["interrupted"] is True


async def test_a_command_that_does_not_end_is_left_as_a_kill_would_after_ten_seconds(server: Daemon) -> None:
    async with server.client() as http:
        session = await create(http, mode="yolo")
    async with server.stream(session) as stream:
        await start(server, stream, session, "long command", "tool_start")
        journal = server.journal(session).read_bytes()
        server.signal(signal.SIGTERM)
        assert [frame.event for frame in await stream.to_end()] == ["server_stopping"]
        assert await server.wait() == 0
    assert server.journal(session).read_bytes() == journal


# --- side by side ---


async def test_two_servers_on_folders_of_their_own_do_not_meet(server: Daemon, tmp_path: Path) -> None:
    with running(tmp_path / "other", "--model", "scripted/demo") as neighbour:
        async with server.client() as http, neighbour.client() as next_door:
            session = await create(http)
            assert (await next_door.get(f"/v1/sessions/{session}")).status_code == 404
            assert (await next_door.get("/v1/sessions")).json() == {"sessions": [], "unreadable": []}
            neighbour.signal(signal.SIGTERM)
            assert await neighbour.wait() == 0
            assert (await http.get(f"/v1/sessions/{session}")).status_code == 200


async def test_two_servers_on_the_same_folders_share_the_list_but_no_session(server: Daemon, tmp_path: Path) -> None:
    with running(tmp_path, *server.arguments) as twin:
        assert len(list((server.state_dir / "servers").glob("*.json"))) == 2
        async with server.client() as http, twin.client() as other:
            mine, theirs = await create(http), await create(other)
            listed = {entry["id"]: entry["loaded"] for entry in (await http.get("/v1/sessions")).json()["sessions"]}
            assert listed == {mine: True, theirs: False}
            held = await other.post("/v1/sessions", json={"resume": mine})
            assert (held.status_code, held.json()["code"]) == (423, "session_locked")
            done = await http.post(f"/v1/sessions/{mine}/prompt", json={"text": "think", "wait": True})
            assert done.json()["text"] == "Thought through."
            read = (await other.get(f"/v1/sessions/{mine}/messages")).json()
            assert read == (await http.get(f"/v1/sessions/{mine}/messages")).json() | {"last_seq": read["last_seq"]}
            await http.delete(f"/v1/sessions/{mine}")
            handed = await other.post("/v1/sessions", json={"resume": mine})
            assert handed.status_code == 201
            assert (await http.post("/v1/sessions", json={"resume": mine})).status_code == 423
        twin.signal(signal.SIGTERM)
        assert await twin.wait() == 0
        async with server.client() as http:
            assert (await http.post("/v1/sessions", json={"resume": mine})).status_code == 201
        check_journal(server.journal(mine).read_bytes())
        assert len(list((server.state_dir / "servers").glob("*.json"))) == 1
