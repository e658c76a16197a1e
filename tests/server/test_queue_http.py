"""Prompts to a busy session, its queue, suspension and deferral, over real sockets."""

from collections.abc import AsyncIterator, Iterator

import anyio
import httpx
import pytest

from tests.crash.stories import check_journal, of_kind
from tests.daemon import Daemon, running
from tests.server.test_races_http import posting, together

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
WAYS = ("reject", "queue", "steer", "interrupt")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("queue")
    Daemon(root).script("story", STORY)
    with running(root, "--model", "scripted/story.json", "--allow-yolo", "--unattended", "defer") as daemon:
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


async def busy(http: httpx.AsyncClient) -> str:
    """A session whose run goes on for a minute, unless it is cancelled."""
    session = str((await http.post("/v1/sessions", json={"mode": "yolo"})).json()["id"])
    await http.post(f"/v1/sessions/{session}/prompt", json={"text": "wait"})
    return session


async def state_until(http: httpx.AsyncClient, session: str, name: str, value: object) -> dict[str, object]:
    with anyio.fail_after(20):
        while (state := (await http.get(f"/v1/sessions/{session}")).json())[name] != value:
            pass
    return dict(state)


async def test_the_queue_is_listed_edited_reordered_and_emptied(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await busy(http)
    path = f"/v1/sessions/{session}/queue"
    ids = []
    for text in ("one", "two", "three"):
        answer = await http.post(f"/v1/sessions/{session}/prompt", json={"text": text, "when_busy": "queue"})
        assert (answer.status_code, answer.json()["disposition"]) == (202, "queued")
        ids.append(answer.json()["prompt_id"])
    moved = await http.patch(path, json={"order": [ids[2]]})
    assert [one["text"] for one in moved.json()["queue"]] == ["three", "one", "two"]
    edited = await http.patch(f"{path}/{ids[0]}", json={"text": "one, changed"})
    assert (edited.status_code, edited.json()["text"]) == (200, "one, changed")
    assert (await http.get(f"{path}/{ids[0]}")).json() == edited.json()
    assert (await http.delete(f"{path}/{ids[1]}")).status_code == 204
    listed = (await http.get(path)).json()["queue"]
    assert [(one["prompt_id"], one["text"]) for one in listed] == [(ids[2], "three"), (ids[0], "one, changed")]
    async with served.stream(session) as stream:
        assert (await stream.until("snapshot"))[-1].json["queue"] == listed
    for method, where, body in (
        ("DELETE", f"{path}/{ids[1]}", None),
        ("GET", f"{path}/{ids[1]}", None),
        ("PATCH", f"{path}/{ids[1]}", {"text": "x"}),
        ("PATCH", path, {"order": [ids[1]]}),
    ):
        assert (await http.request(method, where, json=body)).json()["code"] == "not_found"
    assert (await http.get(f"/v1/sessions/{session}")).json()["queued_prompts"] == 2
    assert (await http.delete(path)).status_code == 204
    assert (await http.get(path)).json() == {"queue": []}
    queues = [[one["prompt_id"] for one in event["queue"]] for event in of_kind(served.events(session), "queue_update")]
    assert queues[-2:] == [[ids[2], ids[0]], []]


async def test_who_waits_for_a_queued_prompt_is_answered_at_its_own_end(http: httpx.AsyncClient) -> None:
    session = await busy(http)
    path = f"/v1/sessions/{session}"
    answers: dict[str, httpx.Response] = {}

    async def ask(text: str) -> None:
        body = {"text": text, "when_busy": "queue", "wait": True}
        answers[text] = await http.post(f"{path}/prompt", json=body)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for number, text in enumerate(("kept", "removed"), 1):
                group.start_soon(ask, text)
                await state_until(http, session, "queued_prompts", number)
            removed = (await http.get(f"{path}/queue")).json()["queue"][1]["prompt_id"]
            assert (await http.delete(f"{path}/queue/{removed}")).status_code == 204
            await http.post(f"{path}/cancel", json={})
    assert (answers["kept"].json()["text"], answers["kept"].json()["stop_reason"]) == ("Hello.", "end_turn")
    gone = answers["removed"].json()
    assert (gone["prompt_id"], gone["stop_reason"], gone["error"]["code"]) == (removed, "interrupted", "prompt_removed")


async def test_of_twenty_prompts_at_once_none_is_lost_and_none_runs_twice(
    served: Daemon, http: httpx.AsyncClient
) -> None:
    for _ in range(3):
        session = str((await http.post("/v1/sessions", json={})).json()["id"])
        path = f"/v1/sessions/{session}/prompt"
        bodies = [{"text": f"hi {n}", "when_busy": WAYS[n % 4], "wait": True} for n in range(20)]
        answers = await together(*(posting(http, path, dict(body)) for body in bodies))
        assert {answer.status_code for answer in answers} <= {200, 409}
        assert all(answer.json().get("code", "session_busy") == "session_busy" for answer in answers)
        done = [answer.json() for answer in answers if answer.status_code == 200]
        accepted = sorted(one["prompt_id"] for one in done)
        assert len(done) >= 15
        events = check_journal(served.journal(session).read_bytes())
        assert sorted(event["prompt_id"] for event in of_kind(events, "user_message")) == accepted
        own = {event["prompt_id"] for event in of_kind(events, "user_message") if event["source"] == "prompt"}
        assert sorted(own) == sorted(event["prompt_id"] for event in of_kind(events, "done"))
        state = await state_until(http, session, "busy", value=False)
        assert state["queued_prompts"] == 0


async def test_what_nobody_is_there_to_allow_ends_the_run_suspended_and_its_answer_goes_on(
    served: Daemon, http: httpx.AsyncClient
) -> None:
    session = str((await http.post("/v1/sessions", json={})).json()["id"])
    path = f"/v1/sessions/{session}"
    first = await http.post(f"{path}/prompt", json={"text": "write", "wait": True})
    assert first.json()["stop_reason"] == "suspended"
    state = (await http.get(path)).json()
    assert (state["suspended"], state["busy"], state["waiting_for"]) == (True, False, "permission")
    for request in (http.post(f"{path}/prompt", json={"text": "new"}), http.post(f"{path}/resume", json={})):
        refused = await request
        assert (refused.status_code, refused.json()["code"]) == (409, "session_suspended")
    [asked] = (await http.get(f"{path}/permissions")).json()["permissions"]
    answer = await http.post(f"{path}/permissions/{asked['request_id']}", json={"allow": True})
    assert answer.status_code == 204
    await state_until(http, session, "busy", value=False)
    dones = of_kind(served.events(session), "done")
    assert [(done["stop_reason"], done["prompt_id"]) for done in dones] == [
        ("suspended", first.json()["prompt_id"]),
        ("end_turn", first.json()["prompt_id"]),
    ]


async def test_suspending_and_answering_what_is_not_there(http: httpx.AsyncClient) -> None:
    session = str((await http.post("/v1/sessions", json={})).json()["id"])
    path = f"/v1/sessions/{session}"
    assert (await http.post(f"{path}/suspend", json={})).json() == {"suspending": False}
    unknown = await http.post(f"{path}/deferred/nothing", json={"output": "x"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not_found")
    assert (await http.post(f"{path}/deferred/nothing", json={})).status_code == 400
