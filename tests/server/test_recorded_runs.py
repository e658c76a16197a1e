"""Whole runs over HTTP against recorded traffic of the real service, served on its wire path."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.daemon import Daemon, numbered, running
from tests.recordings import needs_recordings, recording, replay_module

pytestmark = [pytest.mark.anyio, needs_recordings]

MODEL = "anthropic/claude-sonnet-4-5"


@pytest.fixture(scope="module")
def replay() -> Iterator[Any]:
    from tests.recordings import FOLDER

    with replay_module().ReplayThread([FOLDER]) as server:
        yield server


@pytest.fixture(scope="module")
def served(replay: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("recorded")
    with running(folder, ANTHROPIC_API_KEY="sk-test-not-a-key", ANTHROPIC_BASE_URL=replay.url) as daemon:
        yield daemon


async def run(daemon: Daemon, replay: Any, *queue: str, text: str = "go") -> tuple[list[dict[str, Any]], Any]:
    """Play the queued answers to one prompt in a new session; return its durable events and the session."""
    replay.push(*queue)
    async with daemon.client() as http:
        created = await http.post("/v1/sessions", json={"model": MODEL})
        session = created.json()["id"]
        async with daemon.stream(session) as stream:
            accepted = await http.post(f"/v1/sessions/{session}/prompt", json={"text": text})
            assert accepted.status_code == 202, accepted.text
            frames = await stream.until_idle()
    return [frame.json for frame in numbered(frames)], session


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


async def test_a_text_comes_whole(served: Daemon, replay: Any) -> None:
    events, _ = await run(served, replay, "anthropic-text")
    expect = recording("anthropic-text")["expect"]
    assert of(events, "done")[0]["text"] == expect["text"]
    assert "".join(event["text"] for event in of(events, "text_delta")) == expect["text"]
    assert of(events, "usage")[0]["spent"]["output"] == expect["usage"]["output_tokens"]


@pytest.mark.parametrize("mode", ["chunk=byte", "chunk=midline", "chunk=utf8", "chunk=random:7"])
async def test_however_the_bytes_are_cut(served: Daemon, replay: Any, mode: str) -> None:
    events, _ = await run(served, replay, f"anthropic-thinking-text,{mode}")
    assert of(events, "done")[0]["text"] == recording("anthropic-thinking-text")["expect"]["text"]


async def test_a_tool_turn_answers_every_call_and_goes_on(served: Daemon, replay: Any) -> None:
    events, _ = await run(served, replay, "anthropic-parallel-tools", "anthropic-text")
    expect = recording("anthropic-parallel-tools")["expect"]["tool_calls"]
    calls = [call["name"] for message in of(events, "assistant_message") for call in called(message)]
    assert calls == [call["name"] for call in expect]
    assert len(of(events, "tool_end")) == len(expect)
    assert of(events, "done")[0]["stop_reason"] == "end_turn"
    sent = replay.requests()[-1]
    assert not sent["warnings"]
    results = [block for block in sent["body"]["messages"][-1]["content"] if block["type"] == "tool_result"]
    assert [block["tool_use_id"] for block in results] == [call["id"] for call in expect]


def called(event: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for block in event["message"]["content"] if block["type"] == "tool_use"]


ERRORS = [
    # what answers, how often it is asked, how the run ends
    ("anthropic-error-401", 1, "auth"),
    ("anthropic-error-529", 4, "overloaded"),
    ("anthropic-error-400-context", 1, "context_window_exceeded"),
    ("anthropic-midstream-overloaded", 4, "overloaded"),  # under status 200, before anything was shown
    ("anthropic-text,cut=-40,how=end", 1, "stream_truncated"),
]


@pytest.mark.parametrize(("queued", "asked", "code"), ERRORS)
async def test_an_error_has_its_code_and_the_session_goes_on(
    served: Daemon, replay: Any, queued: str, asked: int, code: str
) -> None:
    events, session = await run(served, replay, *[queued] * asked)
    assert [event["attempt"] for event in of(events, "model_start")] == list(range(1, asked + 1))
    assert of(events, "error")[0]["code"] == code
    assert of(events, "done")[0]["stop_reason"] == "error"
    assert "sk-test" not in str(events)
    replay.push("anthropic-text")
    async with served.client() as http:
        answer = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "again", "wait": True})
    assert answer.json()["stop_reason"] == "end_turn"


async def test_an_overloaded_service_is_asked_again_and_answers(served: Daemon, replay: Any) -> None:
    events, _ = await run(served, replay, "anthropic-error-529", "anthropic-text")
    assert [event["stop_reason"] for event in of(events, "model_end")] == ["failed", "end_turn"]
    assert [event["code"] for event in of(events, "notice")] == ["model_retry"]
    assert of(events, "done")[0]["text"] == recording("anthropic-text")["expect"]["text"]


async def test_a_service_is_left_alone_for_as_long_as_it_asks_and_a_cancel_does_not_wait_for_that(
    served: Daemon, replay: Any
) -> None:
    replay.push("anthropic-error-429")  # with `retry-after: 7`
    async with served.client() as http:
        session = (await http.post("/v1/sessions", json={"model": MODEL})).json()["id"]
        async with served.stream(session) as stream:
            await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})
            waiting = (await stream.until("waiting"))[-1].json
            state = (await http.get(f"/v1/sessions/{session}")).json()
            assert (await http.post(f"/v1/sessions/{session}/cancel", json={})).json() == {"cancelled": True}
            ending = [frame.event for frame in await stream.until_idle()]
    assert (waiting["waiting_for"], state["waiting_for"]) == ("retry", "retry")
    assert waiting["detail"]["until"] == waiting["since"] + 7
    assert ending == ["turn_end", "done", "status"]


async def test_a_missing_key_names_the_variable(tmp_path: Path) -> None:
    with running(tmp_path, "--model", MODEL) as daemon:
        async with daemon.client() as http:
            session = (await http.post("/v1/sessions", json={})).json()["id"]
            answer = (await http.post(f"/v1/sessions/{session}/prompt", json={"text": "x", "wait": True})).json()
    assert answer["stop_reason"] == "error"
    assert answer["error"]["code"] == "auth"
    assert "ANTHROPIC_API_KEY" in answer["error"]["text"]


async def test_a_cancel_hangs_up_on_the_provider(served: Daemon, replay: Any) -> None:
    replay.push("anthropic-tool-many-deltas,chunk=event,pause=0.2")
    async with served.client() as http:
        session = (await http.post("/v1/sessions", json={"model": MODEL})).json()["id"]
        async with served.stream(session) as stream:
            await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})
            await stream.until("model_start")
            await stream.next()
            assert (await http.post(f"/v1/sessions/{session}/cancel", json={})).json() == {"cancelled": True}
            await stream.until_idle()
    with anyio.fail_after(5):  # the replay server notices when it writes its next piece
        while not replay.requests()[-1]["client_left"]:  # noqa: ASYNC110 - lets workers run
            await anyio.sleep(0.001)
