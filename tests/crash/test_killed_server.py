"""The server is killed with SIGKILL and started again on its folders: what waited waits again, what ran is told."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import httpx
import pytest

from agentcore.encoding import head_of
from tests.crash.stories import STRIDE, check_journal, kinds, of_kind
from tests.daemon import WAIT_S, Daemon, numbered, running

pytestmark = pytest.mark.anyio

STORY = {
    "scenes": [
        {"match": "sleep", "turns": [{"tool_calls": [{"name": "bash", "input": {"command": "echo $$; sleep 61.25"}}]}]},
        {"match": "wait", "turns": [{"text": "It took a while.", "ttft_ms": 400}]},
        {"match": "hello", "turns": [{"text": "Hello."}]},
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
    daemon = Daemon(tmp_path, ("--model", "scripted/story.json", "--allow-yolo"))
    daemon.script("story", STORY)
    with running(tmp_path, *daemon.arguments) as started:
        yield started


async def create(server: Daemon, **settings: object) -> str:
    async with server.client() as http:
        return str((await http.post("/v1/sessions", json=settings)).json()["id"])


async def prompt_until(server: Daemon, session: str, text: str, event: str) -> int:
    """Send a prompt and return the number of the first event of that type."""
    async with server.stream(session) as stream, server.client() as http:
        await stream.until("snapshot")
        assert (await http.post(f"/v1/sessions/{session}/prompt", json={"text": text})).status_code == 202
        return (await stream.until(event))[-1].id or 0


async def load(http: httpx.AsyncClient, session: str) -> dict[str, object]:
    loaded = await http.post("/v1/sessions", json={"resume": session})
    assert loaded.status_code == 201
    return dict(loaded.json())


@pytest.fixture
async def waiting(server: Daemon) -> AsyncIterator[tuple[str, int]]:
    """A session whose permission request waited when the server was killed, and the cursor of a client there."""
    session = await create(server)
    cursor = await prompt_until(server, session, "ask", "permission_request")
    server.restart()
    yield session, cursor
    check_journal(server.journal(session).read_bytes())


async def test_a_waiting_request_is_offered_again_and_its_answer_starts_the_rest_of_the_run(
    server: Daemon, waiting: tuple[str, int]
) -> None:
    session, cursor = waiting
    before = server.lines(session)
    [asked] = of_kind(server.events(session), "permission_request")
    async with server.client() as http:
        assert (await http.get(f"/v1/sessions/{session}")).status_code == 404
        state = await load(http, session)
        assert (state["busy"], state["waiting_for"], state["interrupted"]) == (False, "permission", True)
        assert state["last_seq"] == STRIDE + 1  # the `status` of the killed process was taken back
        assert (await http.get(f"/v1/sessions/{session}/permissions")).json() == {"permissions": [asked]}
        async with server.stream(session, after=cursor - 2) as stream:
            snapshot = (await stream.until("snapshot"))[-1]
            assert snapshot.json["permissions"] == [asked]
            answer = {"allow": True, "digest": asked["digest"]}
            answered = await http.post(f"/v1/sessions/{session}/permissions/{asked['request_id']}", json=answer)
            assert answered.status_code == 204
            frames = numbered(await stream.until_idle() + await stream.until_idle())
    after = server.events(session)[len(before) :]
    assert [frame.data for frame in frames if frame.event != "text_delta"] == [
        line for line in server.lines(session) if (head_of(line) or ("", 0))[1] > cursor - 2
    ]
    assert [event["turn"] for event in of_kind(after, "model_start")] == [2]  # the first turn is not paid for again
    assert kinds(after)[:6] == ["status", "permission_resolved", "status", "tool_start", "notice", "tool_end"]
    assert kinds(after)[-2:] == ["done", "status"]
    assert of_kind(after, "done")[0]["stop_reason"] == "end_turn"
    assert min(event["seq"] for event in after) == STRIDE + 1
    assert (server.cwd / "ran.txt").read_text() == "once\n"


async def test_a_denial_after_the_restart_is_told_to_the_model(server: Daemon, waiting: tuple[str, int]) -> None:
    session, _ = waiting
    async with server.client() as http:
        await load(http, session)
        async with server.stream(session) as stream:
            await stream.until("snapshot")
            answer = {"allow": False, "reason": "not on a Monday"}
            await http.post(f"/v1/sessions/{session}/permissions/perm-1", json=answer)
            await stream.until_idle()
    [end] = of_kind(server.events(session), "tool_end")
    assert "not on a Monday" in end["output"]
    assert not (server.cwd / "ran.txt").exists()


async def test_a_request_survives_kill_after_kill(server: Daemon, waiting: tuple[str, int]) -> None:
    session, _ = waiting
    bases = []
    for _ in range(2):
        async with server.client() as http:
            bases.append((await load(http, session))["last_seq"])
            permissions = (await http.get(f"/v1/sessions/{session}/permissions")).json()["permissions"]
            assert [request["request_id"] for request in permissions] == ["perm-1"]
        server.restart()
    assert bases == [STRIDE + 1, 2 * STRIDE]  # the `status` of the killed process was taken back once


async def test_resume_waits_for_the_same_request(server: Daemon, waiting: tuple[str, int]) -> None:
    session, _ = waiting
    async with server.client() as http:
        await load(http, session)
        async with server.stream(session) as stream:
            await stream.until("snapshot")
            assert (await http.post(f"/v1/sessions/{session}/resume", json={})).status_code == 202
            await stream.until("status")
            assert (await http.post(f"/v1/sessions/{session}/resume", json={})).json()["code"] == "session_busy"
            await http.post(f"/v1/sessions/{session}/permissions/perm-1", json={"allow": True})
            await stream.until_idle()
        assert (await http.post(f"/v1/sessions/{session}/resume", json={})).json()["code"] == "nothing_to_resume"
    events = server.events(session)
    assert len(of_kind(events, "permission_request")) == 1
    assert of_kind(events, "done")[0]["stop_reason"] == "end_turn"


async def test_a_new_prompt_cancels_what_waited_pairs_the_calls_and_runs(
    server: Daemon, waiting: tuple[str, int]
) -> None:
    session, _ = waiting
    async with server.client() as http:
        await load(http, session)
        done = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "say hello", "wait": True})
        assert (done.json()["text"], done.json()["stop_reason"]) == ("Hello.", "end_turn")
        late = await http.post(f"/v1/sessions/{session}/permissions/perm-1", json={"allow": True})
        assert (late.status_code, late.json()["code"]) == (409, "already_resolved")
        assert late.json()["details"] == {"resolution": "cancelled"}
    events = server.events(session)
    assert [event["resolution"] for event in of_kind(events, "permission_resolved")] == ["cancelled"]
    assert [event["cancelled"] for event in of_kind(events, "tool_end")] == [True]
    assert [event["stop_reason"] for event in of_kind(events, "done")] == ["interrupted", "end_turn"]
    assert not (server.cwd / "ran.txt").exists()


async def test_a_cancel_ends_the_interrupted_run(server: Daemon, waiting: tuple[str, int]) -> None:
    session, _ = waiting
    async with server.client() as http:
        await load(http, session)
        for cancelled in (True, False):
            answer = await http.post(f"/v1/sessions/{session}/cancel", json={})
            assert (answer.status_code, answer.json()) == (200, {"cancelled": cancelled})
        state = (await http.get(f"/v1/sessions/{session}")).json()
        assert (state["busy"], state["interrupted"], state["pending_permissions"]) == (False, False, 0)
        assert (await http.post(f"/v1/sessions/{session}/resume", json={})).json()["code"] == "nothing_to_resume"
    events = server.events(session)
    assert [event["stop_reason"] for event in of_kind(events, "done")] == ["interrupted"]


async def test_a_prompt_that_was_accepted_runs_on_resume(server: Daemon) -> None:
    session = await create(server)
    async with server.client() as http:
        accepted = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "wait"})
    server.kill()
    assert accepted.status_code == 202
    assert of_kind(server.events(session), "done") == []
    server.start()
    async with server.client() as http:
        assert (await load(http, session))["interrupted"] is True
        async with server.stream(session) as stream:
            await stream.until("snapshot")
            resumed = await http.post(f"/v1/sessions/{session}/resume", json={})
            assert resumed.json()["prompt_id"] == accepted.json()["prompt_id"]
            await stream.until_idle()
    events = check_journal(server.journal(session).read_bytes())
    [message] = of_kind(events, "user_message")
    [done] = of_kind(events, "done")
    assert message["content"] == [{"type": "text", "text": "wait"}]
    assert (done["prompt_id"], done["text"]) == (accepted.json()["prompt_id"], "It took a while.")


@pytest.fixture
async def sleeping(server: Daemon) -> AsyncIterator[tuple[str, int]]:
    """A session whose command was running when the server was killed, and the id of the command's process group."""
    session = await create(server, mode="yolo")
    async with server.stream(session) as stream, server.client() as http:
        await http.post(f"/v1/sessions/{session}/prompt", json={"text": "sleep"})
        group = int((await stream.until("tool_output_delta"))[-1].json["text"])
    server.restart()
    yield session, group
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


async def test_a_call_that_ran_is_closed_as_outcome_unknown(server: Daemon, sleeping: tuple[str, int]) -> None:
    session, _ = sleeping
    async with server.client() as http:
        state = await load(http, session)
        assert (state["busy"], state["interrupted"], state.get("waiting_for")) == (False, True, None)
        async with server.stream(session) as stream:
            await stream.until("snapshot")
            await http.post(f"/v1/sessions/{session}/resume", json={})
            await stream.until_idle()
    events = check_journal(server.journal(session).read_bytes())
    [end] = of_kind(events, "tool_end")
    assert end["output"].startswith("outcome unknown: the server stopped while this ran")
    assert (end["is_error"], end["cancelled"]) == (True, False)
    assert len(of_kind(events, "tool_start")) == 1
    assert of_kind(events, "done")[0]["stop_reason"] == "end_turn"


async def test_what_a_killed_server_left_running_is_ended_at_the_next_start(sleeping: tuple[str, int]) -> None:
    _, group = sleeping
    with anyio.fail_after(WAIT_S):
        while is_running(group):
            await anyio.lowlevel.checkpoint()


def is_running(group: int) -> bool:
    """Whether a process of the group is more than a zombie that nobody has reaped yet."""
    states = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            states.setdefault(int(fields[2]), set()).add(fields[0])
    return bool(states.get(group, set()) - {"Z", "X"})


async def test_the_stale_discovery_file_of_a_killed_server_is_swept(server: Daemon) -> None:
    [left] = (server.state_dir / "servers").glob("*.json")
    server.restart()
    assert not left.exists()
    server.signal(signal.SIGTERM)
    assert await server.wait() == 0
    assert list((server.state_dir / "servers").iterdir()) == []


async def test_a_killed_server_can_be_loaded_by_another_at_once(server: Daemon, tmp_path: Path) -> None:
    """The kernel lets go of the lease; nobody has to clean up by hand."""
    session = await create(server)
    with running(tmp_path, *server.arguments) as other:
        async with other.client() as http:
            held = await http.post("/v1/sessions", json={"resume": session})
            assert (held.status_code, held.json()["code"]) == (423, "session_locked")
            server.kill()
            with anyio.fail_after(5):
                await load(http, session)
