"""The server is killed while it compacts, and right after: the conversation is as it was, or as it was made."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.crash.stories import check_journal, kinds, of_kind
from tests.daemon import Daemon, numbered, running

pytestmark = pytest.mark.anyio

USED = {"input": 120_000}
SLOW = {"text": "Late.", "ttft_ms": 60_000}
AGAIN: dict[str, Any] = {"turns": [{"text": "Hello yourself.", "usage": USED}]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path)
    daemon.script("story", AGAIN)
    with running(tmp_path, "--model", "scripted/story.json") as started:
        yield started


async def talk(server: Daemon) -> str:
    """A session with two answers, whose next turn is compacted."""
    async with server.client() as http:
        session = str((await http.post("/v1/sessions", json={})).json()["id"])
        for text in ("first", "second"):
            await http.post(f"/v1/sessions/{session}/prompt", json={"text": text, "wait": True})
    return session


async def kill_at(server: Daemon, session: str, event: str, path: str, body: dict[str, Any]) -> None:
    """Send a request that compacts, and kill the server when the event was sent."""

    async def ask(http: httpx.AsyncClient) -> None:
        try:
            await http.post(f"/v1/sessions/{session}/{path}", json=body)
        except httpx.TransportError:
            return  # killed

    async with server.stream(session) as stream, server.client() as http, anyio.create_task_group() as tasks:
        await stream.until("snapshot")
        tasks.start_soon(ask, http)
        await stream.until(event)
        server.kill()


async def load(server: Daemon, session: str) -> dict[str, Any]:
    async with server.client() as http:
        return dict((await http.post("/v1/sessions", json={"resume": session})).json())


@pytest.mark.parametrize(("path", "body"), [("compact", {}), ("prompt", {"text": "third"})])
async def test_a_server_killed_while_it_compacts_has_changed_nothing(
    server: Daemon, path: str, body: dict[str, str]
) -> None:
    server.script("story", {**AGAIN, "summary": SLOW})
    session = await talk(server)
    await kill_at(server, session, "model_start", path, body)
    server.script("story", AGAIN)
    server.start()
    state = await load(server, session)
    assert (state["busy"], state["interrupted"]) == (False, path == "prompt")
    events = check_journal(server.journal(session).read_bytes())
    assert kinds(events)[-3:] == ["model_end", "compacted", "status"]
    assert not of_kind(events, "compacted")[-1]["ok"]
    async with server.stream(session) as stream, server.client() as http:
        if path == "prompt":
            await http.post(f"/v1/sessions/{session}/resume", json={})
            await stream.until_idle()
            [done] = [event for event in server.events(session)[-2:] if event["type"] == "done"]
            assert (done["stop_reason"], done["turns"]) == ("end_turn", 1)
        else:
            answer = await http.post(f"/v1/sessions/{session}/compact", json={})
            assert "- first\n- second" in answer.json()["summary"]
    assert of_kind(server.events(session), "compacted")[-1]["ok"]


async def test_a_server_killed_after_it_has_compacted_goes_on_from_the_summary(server: Daemon) -> None:
    session = await talk(server)
    server.script("story", {"turns": [SLOW], "summary": {"text": "Short."}})
    await kill_at(server, session, "compacted", "prompt", {"text": "third"})
    server.script("story", AGAIN)
    server.start()
    assert (await load(server, session))["interrupted"]
    async with server.stream(session) as stream, server.client() as http:
        await http.post(f"/v1/sessions/{session}/resume", json={})
        events = [frame.json for frame in numbered(await stream.until_idle())]
        shown = (await http.get(f"/v1/sessions/{session}/messages")).json()["messages"]
    assert "compaction_start" not in kinds(events)
    assert of_kind(events, "done")[0]["text"] == "Hello yourself."
    assert [message["content"][-1]["text"] for message in shown if message["role"] == "user"] == [
        "first",
        "second",
        "third",
    ]
