"""Calls that are made again, as a client sees them: over HTTP, with a real server and a script that fails at first."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.stories import check_journal, kinds, of_kind
from tests.daemon import Daemon, running

pytestmark = pytest.mark.anyio

FULL = {"kind": "overloaded", "message": "The script is overloaded."}
STORY = {
    "scenes": [
        {"match": "soon", "turns": [{"text": "Now.", "error": FULL, "fail_times": 1}]},
        {"match": "never", "turns": [{"error": {**FULL, "kind": "quota", "retry_after_s": 30}}]},
        {"turns": [{"text": "Now.", "error": {**FULL, "retry_after_s": 300}, "fail_times": 1}]},
    ]
}
WELL = {"turns": [{"text": "Now."}]}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Daemon]:
    Daemon(tmp_path).script("story", STORY)
    with running(tmp_path, "--model", "scripted/story.json") as daemon:
        yield daemon


async def test_a_prompt_that_waits_gets_its_answer_after_all(server: Daemon) -> None:
    async with server.client() as http:
        session = (await http.post("/v1/sessions", json={})).json()["id"]
        done = (await http.post(f"/v1/sessions/{session}/prompt", json={"text": "soon", "wait": True})).json()
    events = check_journal(server.journal(session).read_bytes())
    assert (done["stop_reason"], done["text"]) == ("end_turn", "Now.")
    assert [event["code"] for event in of_kind(events, "notice")] == ["model_retry"]
    assert "waiting" not in kinds(events)


async def test_an_error_says_how_long_to_wait(server: Daemon) -> None:
    async with server.client() as http:
        session = (await http.post("/v1/sessions", json={})).json()["id"]
        done = (await http.post(f"/v1/sessions/{session}/prompt", json={"text": "never", "wait": True})).json()
    assert done["error"] == {
        "code": "quota",
        "text": "The script is overloaded.",
        "retryable": False,
        "retry_after": 30,
    }


async def test_a_stopping_server_does_not_wait_to_ask_again_and_the_run_goes_on_after_the_restart(
    server: Daemon,
) -> None:
    async with server.client() as http:
        session = (await http.post("/v1/sessions", json={"max_turns": 1})).json()["id"]
    async with server.stream(session) as stream:
        async with server.client() as http:
            await http.post(f"/v1/sessions/{session}/prompt", json={"text": "later"})
            await stream.until("waiting")
            listed = (await http.get("/v1/sessions")).json()["sessions"]
        assert [entry["waiting_for"] for entry in listed] == ["retry"]
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        assert [frame.event for frame in await stream.to_end()] == ["turn_end", "server_stopping"]
        assert await server.wait() == 0
        assert time.monotonic() - began < 3.0  # and not the ten seconds that a turn has to reach its border
    server.script("story", WELL)
    server.restart()
    async with server.client() as http:
        state = (await http.post("/v1/sessions", json={"resume": session})).json()
        assert (state["interrupted"], state.get("waiting_for")) == (True, None)
        async with server.stream(session) as stream:
            await stream.until("snapshot")
            assert (await http.post(f"/v1/sessions/{session}/resume", json={})).status_code == 202
            await stream.until_idle()
    events = check_journal(server.journal(session).read_bytes())
    assert [event["turn"] for event in of_kind(events, "turn_start")] == [1, 1]
    assert [(event["stop_reason"], event["turns"]) for event in of_kind(events, "done")] == [("end_turn", 1)]
