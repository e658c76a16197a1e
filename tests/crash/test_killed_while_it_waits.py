"""Real processes, stopped with SIGKILL and with SIGTERM while prompts, runs and calls wait: all of it is there after
the next start, and goes on."""

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.crash.stories import check_journal, kinds, of_kind
from tests.daemon import Daemon, running
from tests.server.test_queue_http import state_until

pytestmark = pytest.mark.anyio

STORY = {
    "scenes": [
        {
            "match": "write",
            "turns": [
                {"tool_calls": [{"name": "bash", "input": {"command": "echo once >> ran.txt"}}]},
                {"text": "Written."},
            ],
        },
        {"match": "wait", "turns": [{"tool_calls": [{"name": "bash", "input": {"command": "sleep 61.75"}}]}]},
        {"turns": [{"text": "Hello.", "ttft_ms": 20}]},
    ]
}
ENDS = [signal.SIGKILL, signal.SIGTERM]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Daemon]:
    Daemon(tmp_path).script("story", STORY)
    with running(tmp_path, "--model", "scripted/story.json", "--allow-yolo") as daemon:
        yield daemon


async def create(http: httpx.AsyncClient, **settings: object) -> str:
    return str((await http.post("/v1/sessions", json=settings)).json()["id"])


async def send(http: httpx.AsyncClient, session: str, text: str, when_busy: str = "reject") -> str:
    answer = await http.post(f"/v1/sessions/{session}/prompt", json={"text": text, "when_busy": when_busy})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["prompt_id"])


async def begin_waiting(server: Daemon, http: httpx.AsyncClient, session: str) -> str:
    """Send a prompt whose command runs for a minute; return its id when the command has begun."""
    async with server.stream(session) as stream:
        first = await send(http, session, "wait")
        await stream.until("tool_start")
    return first


async def end(server: Daemon, how: signal.Signals) -> None:
    """End the process and start another one on its folders."""
    if how is signal.SIGTERM:
        server.signal(how)
        assert await server.wait() == 0
    server.restart()


async def load(http: httpx.AsyncClient, session: str) -> dict[str, object]:
    loaded = await http.post("/v1/sessions", json={"resume": session})
    assert loaded.status_code == 201, loaded.text
    return dict(loaded.json())


def said(server: Daemon, session: str) -> list[tuple[str, str]]:
    """Prompt id and source of every user's message, in order; the journal is checked on the way."""
    events = check_journal(server.journal(session).read_bytes())
    return [(event["prompt_id"], event["source"]) for event in of_kind(events, "user_message")]


@pytest.mark.parametrize("how", ENDS)
async def test_the_queue_and_a_message_to_the_run_are_there_again(server: Daemon, how: signal.Signals) -> None:
    async with server.client() as http:
        session = await create(http, mode="yolo")
        first = await begin_waiting(server, http, session)
        queued = [await send(http, session, text, "queue") for text in ("one", "two")]
        await http.patch(f"/v1/sessions/{session}/queue", json={"order": queued[::-1]})
        steered = await send(http, session, "be quick", "steer")
    await end(server, how)
    async with server.client() as http:
        state = await load(http, session)
        assert (state["interrupted"], state["queued_prompts"], state["busy"]) == (True, 2, False)
        await http.post(f"/v1/sessions/{session}/cancel", json={})
        await state_until(http, session, "busy", value=False)
        assert said(server, session) == [
            (first, "prompt"),
            (steered, "prompt"),
            (queued[1], "prompt"),
            (queued[0], "prompt"),
        ]


async def test_a_message_that_was_accepted_is_taken_by_the_resumed_run(server: Daemon) -> None:
    async with server.client() as http:
        session = await create(http, mode="yolo")
        first = await begin_waiting(server, http, session)
        steered = await send(http, session, "be quick", "steer")
    await end(server, signal.SIGKILL)
    async with server.client() as http:
        await load(http, session)
        resumed = await http.post(f"/v1/sessions/{session}/resume", json={})
        assert resumed.json()["prompt_id"] == first
        await state_until(http, session, "busy", value=False)
        assert said(server, session) == [(first, "prompt"), (steered, "steer")]
        assert len(of_kind(server.events(session), "done")) == 1


async def test_a_run_that_a_prompt_interrupts_is_over_whenever_the_process_dies(server: Daemon) -> None:
    async with server.client() as http:
        session = await create(http, mode="yolo")
        first = await begin_waiting(server, http, session)
        instead = await send(http, session, "hello", "interrupt")
    await end(server, signal.SIGKILL)
    async with server.client() as http:
        await load(http, session)  # ends what was interrupted, wherever it stood: only the new prompt is left to run
        ended = [(one["prompt_id"], one["stop_reason"]) for one in of_kind(server.events(session), "done")]
        assert ended[:1] == [(first, "interrupted")]
        await http.post(f"/v1/sessions/{session}/resume", json={})
        await state_until(http, session, "busy", value=False)
        dones = [(one["prompt_id"], one["stop_reason"]) for one in of_kind(server.events(session), "done")]
        assert dones == [(first, "interrupted"), (instead, "end_turn")]


@pytest.mark.parametrize("how", ENDS)
async def test_a_suspended_run_and_what_was_put_off_are_there_again(server: Daemon, how: signal.Signals) -> None:
    async with server.client() as http:
        session = await create(http, unattended="defer")
        first = await send(http, session, "write")
        await state_until(http, session, "suspended", value=True)
        queued = await send(http, session, "hello", "queue")
    await end(server, how)
    async with server.client() as http:
        state = await load(http, session)
        assert (state["suspended"], state["waiting_for"], state["queued_prompts"]) == (True, "permission", 1)
        assert not (server.cwd / "ran.txt").exists()
        [asked] = (await http.get(f"/v1/sessions/{session}/permissions")).json()["permissions"]
        answered = await http.post(f"/v1/sessions/{session}/permissions/{asked['request_id']}", json={"allow": True})
        assert answered.status_code == 204
    await end(server, signal.SIGKILL)  # whatever of the rest has happened by now
    async with server.client() as http:
        state = await load(http, session)
        if state["interrupted"] or state["suspended"] or state["queued_prompts"]:
            await http.post(f"/v1/sessions/{session}/resume", json={})
            await state_until(http, session, "busy", value=False)
        events = check_journal(server.journal(session).read_bytes())
        dones = [(one["prompt_id"], one["stop_reason"]) for one in of_kind(events, "done")]
        assert dones == [(first, "suspended"), (first, "end_turn"), (queued, "end_turn")]
        assert kinds(events).count("permission_request") == 1
        [result] = of_kind(events, "tool_end")
        ran = (server.cwd / "ran.txt").read_text() if (server.cwd / "ran.txt").exists() else ""
        assert ran in ("once\n", "")
        assert ran or result["output"].startswith("outcome unknown")


async def test_a_prompt_behind_one_that_never_began_runs_after_it(server: Daemon) -> None:
    async with server.client() as http:
        session = await create(http)
        await send(http, session, "hello")
        await state_until(http, session, "busy", value=False)
        first = await send(http, session, "hello again")
    lines = server.journal(session).read_bytes().splitlines(keepends=True)
    server.kill()
    at = next(n for n, line in enumerate(lines) if first.encode() in line)
    server.journal(session).write_bytes(b"".join(lines[: at + 1]))  # the prompt is the last thing that was written
    server.start()
    async with server.client() as http:
        assert (await load(http, session))["interrupted"] is True
        second = await send(http, session, "and hello")
        await state_until(http, session, "busy", value=False)
        assert [one for one, _ in said(server, session)][-2:] == [first, second]
        assert [one["prompt_id"] for one in of_kind(server.events(session), "done")][-2:] == [first, second]
