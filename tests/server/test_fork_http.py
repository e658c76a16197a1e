"""`POST …/fork` over HTTP: both sessions go their own ways, and a prompt that is taken back can be sent again."""

import base64
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from agentcore_client.async_client import AsyncClient
from agentcore_client.client import Client
from tests.daemon import Daemon, running
from tests.pictures import picture

pytestmark = pytest.mark.anyio

STORY = {
    "scenes": [
        {"match": "ask", "turns": [{"tool_calls": [{"name": "bash", "input": {"command": "true"}}]}]},
        {"turns": [{"text": "Hello."}]},
    ]
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("forks")
    Daemon(root).script("story", STORY)
    with running(root, "--model", "scripted/story.json") as daemon:
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


async def talked(http: httpx.AsyncClient, *texts: str, **settings: Any) -> str:
    """A session with one finished run for each text."""
    session = str((await http.post("/v1/sessions", json=settings)).json()["id"])
    for text in texts:
        await http.post(f"/v1/sessions/{session}/prompt", json={"text": text, "wait": True})
    return session


async def messages(http: httpx.AsyncClient, session: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await http.get(f"/v1/sessions/{session}/messages")).json()["messages"]
    return [one | {"seq": 0} for one in found]


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


async def test_a_fork_is_a_session_of_its_own(http: httpx.AsyncClient) -> None:
    session = await talked(http, "one", "two", mode="plan")
    answer = await http.post(f"/v1/sessions/{session}/fork", json={"title": "a try", "mode": "default"})
    state = answer.json()
    assert answer.status_code == 201
    assert [state[name] for name in ("fork_of", "title", "mode", "busy")] == [session, "a try", "default", False]
    assert "prompt" not in state
    assert await messages(http, state["id"]) == await messages(http, session)
    await http.post(f"/v1/sessions/{state['id']}/prompt", json={"text": "three", "wait": True})
    assert len(await messages(http, session)) == 4
    listed = (await http.get("/v1/sessions")).json()["sessions"]
    assert {one["id"]: one.get("fork_of") for one in listed[:2]} == {session: None, state["id"]: session}


async def test_a_rewind_gives_the_prompt_back(http: httpx.AsyncClient) -> None:
    session = await talked(http, "one", "two")
    [*_, prompt, _] = await messages(http, session)
    answer = (await http.post(f"/v1/sessions/{session}/fork", json={"at": prompt["id"]})).json()
    assert (answer["prompt"], answer["attachments"]) == ("two", [])
    assert await messages(http, answer["id"]) == (await messages(http, session))[:2]


async def test_what_went_with_a_prompt_can_be_sent_again(http: httpx.AsyncClient) -> None:
    session = await talked(http)
    path = f"/v1/sessions/{session}"
    blob = (await http.post(f"{path}/blobs", content=picture(), headers={"Content-Type": "image/png"})).json()["blob"]
    notes = {"media_type": "text/markdown", "data": base64.b64encode(b"# Notes").decode()}
    body = {"text": "look", "attachments": [{"blob": blob}, notes], "wait": True}
    await http.post(f"{path}/prompt", json=body)
    fork = (await http.post(f"{path}/fork", json={"at": 0})).json()
    assert fork["prompt"] == "look"
    assert fork["attachments"][0] == {"blob": blob}
    assert base64.b64decode(fork["attachments"][1]["data"]).endswith(b"# Notes")
    again = {"text": fork["prompt"], "attachments": fork["attachments"], "wait": True}
    done = await http.post(f"/v1/sessions/{fork['id']}/prompt", json=again)
    assert done.json()["text"] == "Hello."
    [image, text, _] = (await messages(http, fork["id"]))[0]["content"]
    assert (image["blob"], text["text"].endswith("# Notes")) == (blob, True)


async def test_a_session_that_is_not_loaded_is_forked(http: httpx.AsyncClient) -> None:
    session = await talked(http, "one")
    await http.delete(f"/v1/sessions/{session}")
    answer = await http.post(f"/v1/sessions/{session}/fork", json={})
    assert (answer.status_code, answer.json()["fork_of"]) == (201, session)


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"at": 9}, (400, "bad_request")),
        ({"at": "msg_none"}, (400, "bad_request")),
        ({"at": -1}, (400, "bad_request")),
        ({"at": True}, (400, "bad_request")),
        ({"mode": "yolo"}, (403, "mode_not_allowed")),
        ({"model": "nobody/x"}, (400, "bad_request")),
        ({"cwd": "."}, (400, "bad_request")),
    ],
)
async def test_a_fork_that_cannot_be_is_refused(
    http: httpx.AsyncClient, body: dict[str, object], refusal: tuple[int, str]
) -> None:
    session = await talked(http, "one")
    assert code_of(await http.post(f"/v1/sessions/{session}/fork", json=body)) == refusal


async def test_a_session_that_nobody_knows_is_not_forked(http: httpx.AsyncClient) -> None:
    assert code_of(await http.post("/v1/sessions/20200101-000000-aaaaaa/fork", json={})) == (404, "not_found")


async def test_no_fork_while_a_run_is_going_on(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await talked(http, "one")
    async with served.stream(session) as stream:
        await http.post(f"/v1/sessions/{session}/prompt", json={"text": "ask"})
        await stream.until("permission_request")
        assert code_of(await http.post(f"/v1/sessions/{session}/fork", json={"at": 0})) == (409, "session_busy")
        await http.post(f"/v1/sessions/{session}/cancel", json={})
        await stream.until_idle()
    assert (await http.post(f"/v1/sessions/{session}/fork", json={})).status_code == 201


async def test_the_clients_fork_and_rewind(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await talked(http, "one", "two")
    with Client(served.url, served.token) as client:
        fork, state = client.session(session).fork(2, title="again")
        assert (state.prompt, state.fork_of, state.title) == ("two", session, "again")
        assert (fork.id, fork.cursor, len(fork.messages().messages)) == (state.id, state.last_seq, 2)
    async with AsyncClient(served.url, served.token) as client:
        other, state = await client.session(session).fork()
        assert (state.prompt, len((await other.messages()).messages)) == (None, 4)
