"""Compaction on request: the session is busy meanwhile, the answer is the summary, the history keeps everything."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import httpx
import pytest

from tests.crash.stories import check_journal, kinds, of_kind
from tests.daemon import Daemon, numbered, running

pytestmark = pytest.mark.anyio

TURNS: list[dict[str, Any]] = [{"text": "Hello yourself."}]
STORIES: dict[str, dict[str, Any]] = {
    "plain": {"turns": TURNS},
    "slow": {"turns": TURNS, "summary": {"text": "Late.", "ttft_ms": 60_000}},
    "late": {"turns": TURNS, "summary": {"text": "Late.", "ttft_ms": 300}},
    "failing": {"turns": TURNS, "summary": {"error": {"kind": "quota", "message": "No credit left."}}},
    "empty": {"turns": TURNS, "summary": {"text": "<summary></summary>"}},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("compaction")
    for name, story in STORIES.items():
        Daemon(root).script(name, story)
    with running(root, "--model", "scripted/plain.json") as daemon:
        yield daemon
        assert "Traceback" not in daemon.log()


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


async def talk(http: httpx.AsyncClient, story: str) -> str:
    """A session in which one thing was said and answered."""
    created = await http.post("/v1/sessions", json={"model": f"scripted/{story}.json"})
    session = str(created.json()["id"])
    await say(http, session, "Hello there.")
    return session


async def say(http: httpx.AsyncClient, session: str, text: str) -> dict[str, Any]:
    done = await http.post(f"/v1/sessions/{session}/prompt", json={"text": text, "wait": True})
    assert done.status_code == 200, done.text
    return dict(done.json())


async def compact(http: httpx.AsyncClient, session: str) -> httpx.Response:
    return await http.post(f"/v1/sessions/{session}/compact", json={})


async def refused(http: httpx.AsyncClient, session: str) -> tuple[int, str]:
    answer = await compact(http, session)
    return answer.status_code, answer.json()["code"]


async def test_the_answer_is_the_summary_and_the_stream_tells_it(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await talk(http, "plain")
    async with served.stream(session) as stream:
        await stream.until("snapshot")
        answer = await compact(http, session)
        events = [frame.json for frame in numbered(await stream.until_idle())]
    assert answer.status_code == 200
    assert answer.json() == {"summary": "The user asked:\n- Hello there.\n\nThe last answer was:\nHello yourself."}
    told = ["status", "compaction_start", "model_start", "model_end", "usage", "compacted", "status"]
    assert kinds(events) == told
    assert [events[0]["busy"], events[1]["trigger"], events[5]["ok"]] == [True, "request", True]
    shown = (await http.get(f"/v1/sessions/{session}/messages")).json()["messages"]
    assert [message["content"][0]["text"] for message in shown] == ["Hello there.", "Hello yourself."]
    assert (await say(http, session, "And now?"))["text"] == "Hello yourself."
    check_journal(served.journal(session).read_bytes())


async def test_without_anything_to_compact_it_is_refused(http: httpx.AsyncClient) -> None:
    created = await http.post("/v1/sessions", json={})
    session = created.json()["id"]
    assert await refused(http, session) == (422, "unprocessable")
    await say(http, session, "Hello there.")
    assert (await compact(http, session)).status_code == 200
    assert await refused(http, session) == (422, "unprocessable")  # nothing was said since


@pytest.mark.parametrize("story", ["failing", "empty"])
async def test_without_a_summary_the_answer_says_so_and_nothing_has_changed(
    served: Daemon, http: httpx.AsyncClient, story: str
) -> None:
    session = await talk(http, story)
    assert await refused(http, session) == (502, "provider")
    [compacted] = of_kind(served.events(session), "compacted")
    assert (compacted["ok"], "message" in compacted) == (False, False)
    assert (await say(http, session, "And now?"))["text"] == "Hello yourself."


async def test_a_session_that_compacts_is_busy_and_a_cancel_ends_it(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await talk(http, "slow")
    answers: list[tuple[int, str]] = []

    async def ask() -> None:
        answers.append(await refused(http, session))

    async with served.stream(session) as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await stream.until("model_start")
        state = (await http.get(f"/v1/sessions/{session}")).json()
        prompt = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "now"})
        again = await refused(http, session)
        cancelled = (await http.post(f"/v1/sessions/{session}/cancel", json={})).json()
        await stream.until_idle()
    assert state["busy"]
    assert (prompt.status_code, prompt.json()["code"]) == (409, "session_busy")
    assert again == (409, "session_busy")
    assert cancelled == {"cancelled": True}
    assert answers == [(422, "unprocessable")]
    assert kinds(served.events(session))[-3:] == ["model_end", "compacted", "status"]
    assert (await say(http, session, "And now?"))["text"] == "Hello yourself."


async def test_a_prompt_that_was_queued_meanwhile_runs_afterwards(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await talk(http, "slow")
    async with served.stream(session) as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(compact, http, session)
        await stream.until("model_start")
        queued = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "next", "when_busy": "queue"})
        await http.post(f"/v1/sessions/{session}/cancel", json={})
        events = [frame.json for frame in numbered(await stream.until_idle())]
    assert (queued.status_code, queued.json()["disposition"]) == (202, "queued")
    assert kinds(events).count("status") == 1  # busy all the time
    assert [event["text"] for event in of_kind(events, "done")] == ["Hello yourself."]


async def test_it_goes_on_though_the_client_hangs_up(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await talk(http, "late")
    waiting = anyio.CancelScope()

    async def ask() -> None:
        with waiting:
            await compact(http, session)

    async with served.stream(session) as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await stream.until("model_start")
        waiting.cancel()
        events = [frame.json for frame in numbered(await stream.until_idle())]
    assert of_kind(events, "compacted")[0]["summary"] == "Late."
