"""`Idempotency-Key`: whatever is sent again under it has its effect once, and gets the first answer."""

import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from anyio import fail_after
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentcore_client.client import Client
from server import idempotency
from server.idempotency import Answers, once
from server.problems import Problem, edge
from server.routes.all import ENDPOINTS
from server.routes.table import Endpoint
from tests.crash.stories import check_journal, of_kind
from tests.daemon import Daemon, running
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio

KEY = "Idempotency-Key"
STORY = {
    "scenes": [
        {"match": "ask", "turns": [{"tool_calls": [{"name": "bash", "input": {"command": "echo once >> ran.txt"}}]}]},
        {"match": "slow", "turns": [{"text": "At last.", "ttft_ms": 300}]},
        {"match": "fail", "turns": [{"error": {"kind": "quota", "message": "Nothing left."}}]},
        {"turns": [{"text": "Hello."}]},
    ]
}


def arguments(root: Path) -> tuple[str, ...]:
    Daemon(root).script("story", STORY)
    return ("--model", "scripted/story.json", "--allow-yolo")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("keys")
    with running(root, *arguments(root)) as daemon:
        yield daemon


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Daemon]:
    """A server of this test's own, to be killed."""
    with running(tmp_path, *arguments(tmp_path)) as daemon:
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


async def create(http: httpx.AsyncClient, **settings: Any) -> str:
    return str((await http.post("/v1/sessions", json=settings)).json()["id"])


async def load(http: httpx.AsyncClient, session: str) -> None:
    assert (await http.post("/v1/sessions", json={"resume": session})).status_code == 201


def runs(daemon: Daemon, session: str) -> int:
    return len(of_kind(check_journal(daemon.journal(session).read_bytes()), "user_message"))


def whole(answer: httpx.Response) -> tuple[int, bytes, str | None]:
    return answer.status_code, answer.content, answer.headers.get("content-type")


# --- one process ---


@pytest.mark.parametrize("wait", [False, True])
async def test_of_twenty_sendings_of_one_prompt_one_runs_and_all_get_its_answer(
    served: Daemon, http: httpx.AsyncClient, wait: bool
) -> None:
    session = await create(http)
    answers: list[httpx.Response] = []

    async def send() -> None:
        body = {"text": "slow", "wait": wait}
        answers.append(await http.post(f"/v1/sessions/{session}/prompt", json=body, headers={KEY: "one"}))

    with fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(send)
    assert len(answers) == 20
    assert {whole(answer) for answer in answers} == {whole(answers[0])}
    assert answers[0].status_code == (200 if wait else 202)
    assert runs(served, session) == 1


async def test_every_name_of_a_session_is_the_same_path(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http)
    named = [session, "latest", session[:-1]]
    answers = [
        await http.post(f"/v1/sessions/{name}/prompt", json={"text": "hi"}, headers={KEY: "names"}) for name in named
    ]
    assert len({whole(answer) for answer in answers}) == 1
    assert runs(served, session) == 1


async def test_whatever_is_not_in_a_journal_is_the_same_under_every_name_as_well(http: httpx.AsyncClient) -> None:
    session = await create(http)
    forks = [
        await http.post(f"/v1/sessions/{one}/fork", json={}, headers={KEY: "f"}) for one in (session, session[:-1])
    ]
    assert forks[0].status_code == 201
    assert whole(forks[1]) == whole(forks[0])


async def test_latest_stays_the_session_that_it_was_when_first_sent(served: Daemon, http: httpx.AsyncClient) -> None:
    await create(http)
    first = await http.post("/v1/sessions/latest/prompt", json={"text": "hi"}, headers={KEY: "latest"})
    await create(http)
    again = await http.post("/v1/sessions/latest/prompt", json={"text": "hi"}, headers={KEY: "latest"})
    assert whole(again) == whole(first)


async def test_a_session_is_made_once(served: Daemon, http: httpx.AsyncClient) -> None:
    first, again, other = [
        await http.post("/v1/sessions", json={"title": "t"}, headers={KEY: key}) for key in ("make", "make", "another")
    ]
    assert whole(again) == whole(first)
    assert again.status_code == 201
    assert other.json()["id"] != first.json()["id"]


async def test_a_file_under_its_key_is_told_from_another(served: Daemon, http: httpx.AsyncClient) -> None:
    path = f"/v1/sessions/{await create(http)}/blobs"
    kinds = [("a", "text/x", b"x"), ("a", "text/x", b"x"), ("a", "text/x", b"y"), ("a", "text/y", b"x")]
    answers = [
        await http.post(path, content=data, headers={KEY: key, "Content-Type": kind}) for key, kind, data in kinds
    ]
    assert [answer.status_code for answer in answers] == [201, 201, 422, 422]
    assert whole(answers[1]) == whole(answers[0])


async def test_the_same_key_elsewhere_is_another_key(served: Daemon, http: httpx.AsyncClient) -> None:
    sessions = [await create(http) for _ in range(2)]
    prompts = [
        (await http.post(f"/v1/sessions/{one}/prompt", json={"text": "hi"}, headers={KEY: "same"})).json()
        for one in sessions
    ]
    assert [prompt["session"] for prompt in prompts] == sessions


async def test_another_body_under_a_key_is_refused(served: Daemon, http: httpx.AsyncClient) -> None:
    path = f"/v1/sessions/{await create(http)}/prompt"
    answers = [await http.post(path, json={"text": text}, headers={KEY: "body"}) for text in ("slow", "other", "slow")]
    assert [answer.status_code for answer in answers] == [202, 422, 202]
    assert answers[1].json()["code"] == "unprocessable"


async def test_after_a_refusal_the_key_is_free(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http)
    path = f"/v1/sessions/{session}/prompt"
    await http.post(path, json={"text": "ask"})
    refused = await http.post(path, json={"text": "hi"}, headers={KEY: "free"})
    await http.post(f"/v1/sessions/{session}/cancel", json={})
    async with served.stream(session, after=0) as stream:
        await stream.until("done")
        await stream.until_idle()
    taken = await http.post(path, json={"text": "and another body"}, headers={KEY: "free"})
    assert [refused.status_code, taken.status_code] == [409, 202]


@pytest.mark.parametrize("key", ["", "x" * 201, "caf\u00e9", "a\tb"])
async def test_a_key_that_is_none_is_refused(http: httpx.AsyncClient, key: str) -> None:
    answer = await http.post("/v1/sessions", json={}, headers=[(KEY, key.encode("latin-1"))])  # type: ignore[list-item]  # httpx takes bytes
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


async def test_two_keys_are_refused(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/sessions", json={}, headers=[(KEY, "a"), (KEY, "b")])
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


async def test_every_ticket_is_another(http: httpx.AsyncClient) -> None:
    tickets = [(await http.post("/v1/stream-tickets", json={}, headers={KEY: "t"})).json()["ticket"] for _ in range(2)]
    assert tickets[0] != tickets[1]


def test_every_post_takes_a_key_but_the_one_for_tickets() -> None:
    unkeyed = [one.path for one in ENDPOINTS if one.method == "POST" and not one.takes_key]
    assert unkeyed == ["/v1/stream-tickets"]


async def test_who_hangs_up_loses_neither_the_prompt_nor_its_answer(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http)
    path, body = f"/v1/sessions/{session}/prompt", json.dumps({"text": "slow", "wait": True}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.token}\r\n{KEY}: gone\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    async with served.stream(session) as stream:
        await stream.until("snapshot")
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(head.encode() + body)
            await stream.until("user_message")
        answer = await http.post(path, content=body, headers={KEY: "gone", "Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["text"]) == (200, "At last.")
    assert runs(served, session) == 1


async def test_the_client_sends_a_prompt_again_whose_answer_was_lost(served: Daemon) -> None:
    with Client(served.url, served.token) as client:
        session = client.create_session(served.cwd)
        http, lost = client._transport._http, [httpx.ReadError("cut")]
        send = http.send

        def cut_once(request: httpx.Request) -> httpx.Response:
            answer = send(request)
            if request.method == "POST" and lost:
                raise lost.pop()
            return answer

        http.send = cut_once  # type: ignore[method-assign, assignment]  # the server has answered, nobody heard it
        assert session.prompt_and_wait("hi").text == "Hello."
    assert lost == []
    assert runs(served, session.id) == 1


# --- a killed process ---


async def test_a_prompt_that_was_accepted_before_the_server_was_killed_runs_once(mortal: Daemon) -> None:
    async with mortal.client() as http:
        session = await create(http)
        path = f"/v1/sessions/{session}/prompt"
        async with mortal.stream(session) as stream:
            first = await http.post(path, json={"text": "ask"}, headers={KEY: "k"})
            await stream.until("permission_request")
    mortal.restart()
    async with mortal.client() as http:
        await load(http, session)
        other = await http.post(path, json={"text": "another"}, headers={KEY: "k"})
        again = await http.post(path, json={"text": "ask"}, headers={KEY: "k"})
        async with mortal.stream(session, after=0) as stream:
            await stream.until("permission_request")
            await http.post(f"/v1/sessions/{session}/permissions/perm-1", json={"allow": True})
            await stream.until("done")
    assert whole(again) == whole(first)
    assert (other.status_code, other.json()["code"]) == (422, "unprocessable")
    assert (mortal.cwd / "ran.txt").read_text() == "once\n"
    assert runs(mortal, session) == 1


async def test_who_waits_gets_the_own_end_of_the_prompt_after_the_server_was_killed(mortal: Daemon) -> None:
    """Both of one that had ended, successfully or not, and of one that had not; a later prompt changes nothing."""
    bodies = {text: {"text": text, "wait": True} for text in ("hello", "fail", "slow")}
    async with mortal.client() as http:
        session = await create(http)
        path = f"/v1/sessions/{session}/prompt"
        before = {key: await http.post(path, json=bodies[key], headers={KEY: key}) for key in ("hello", "fail")}
        async with mortal.stream(session) as stream, anyio.create_task_group() as group:
            await stream.until("snapshot")

            async def send_and_lose() -> None:
                with pytest.raises(httpx.TransportError):
                    await http.post(path, json=bodies["slow"], headers={KEY: "slow"})

            group.start_soon(send_and_lose)
            await stream.until("model_start")
            mortal.kill()
    mortal.start()
    async with mortal.client() as http:
        await load(http, session)
        again = {key: await http.post(path, json=body, headers={KEY: key}) for key, body in bodies.items()}
    assert {key: whole(again[key]) for key in before} == {key: whole(answer) for key, answer in before.items()}
    assert before["fail"].json()["error"]["code"] == "quota"
    assert (again["slow"].status_code, again["slow"].json()["text"]) == (200, "At last.")
    events = check_journal(mortal.journal(session).read_bytes())
    assert Counter(event["prompt_id"] for event in of_kind(events, "done")) == Counter(
        answer.json()["prompt_id"] for answer in again.values()
    )


async def test_prompts_that_waited_when_the_server_was_killed_are_told_the_same(mortal: Daemon) -> None:
    """One for its run, one for the run to take it; and one that will never run."""
    bodies = {
        "queued": {"text": "hello", "when_busy": "queue"},
        "steering": {"text": "listen", "when_busy": "steer"},
        "removed": {"text": "never", "when_busy": "queue"},
    }
    async with mortal.client() as http:
        session = await create(http)
        path = f"/v1/sessions/{session}/prompt"
        async with mortal.stream(session) as stream:
            await http.post(path, json={"text": "slow"})
            await stream.until("model_start")
            before = {key: await http.post(path, json=body, headers={KEY: key}) for key, body in bodies.items()}
            removed = before["removed"].json()["prompt_id"]
            assert (await http.delete(f"/v1/sessions/{session}/queue/{removed}")).status_code == 204
            mortal.kill()
    mortal.start()
    async with mortal.client() as http:
        await load(http, session)
        again = {key: await http.post(path, json=body, headers={KEY: key}) for key, body in bodies.items()}
    assert {key: whole(answer) for key, answer in again.items()} == {key: whole(one) for key, one in before.items()}
    assert [answer.json()["disposition"] for answer in again.values()] == ["queued", "steering", "queued"]


async def test_who_waits_for_a_prompt_that_was_taken_out_of_the_queue_is_told_so(mortal: Daemon) -> None:
    body = {"text": "never", "when_busy": "queue", "wait": True}
    async with mortal.client() as http, anyio.create_task_group() as group:
        session = await create(http)
        path = f"/v1/sessions/{session}"
        told: list[bytes] = []

        async def send() -> None:
            told.append((await http.post(f"{path}/prompt", json=body, headers={KEY: "k"})).content)

        async with mortal.stream(session) as stream:
            await http.post(f"{path}/prompt", json={"text": "ask"})
            await stream.until("permission_request")
            group.start_soon(send)
            [waiting] = (await stream.until("queue_update"))[-1].json["queue"]
        assert (await http.delete(f"{path}/queue/{waiting['prompt_id']}")).status_code == 204
    mortal.restart()
    async with mortal.client() as http:
        await load(http, session)
        told.append((await http.post(f"{path}/prompt", json=body, headers={KEY: "k"})).content)
    assert json.loads(told[0])["error"]["code"] == "prompt_removed"
    assert told[1] == told[0]


# --- what is kept ---


class Bench:
    """One endpoint that counts, behind `once`, with a clock that is set."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self.clock = FakeClock()
        self.effects = 0
        self.size_bytes = 0
        self.holds: anyio.Event | None = None
        self.ids: list[str] = []
        endpoint = Endpoint("POST", "/{id}/count", self.count, "", {200: None})
        app = Starlette(routes=[Route(endpoint.path, edge(once(endpoint)), methods=["POST"])])
        app.state.hub = self
        app.state.answers = self.answers = Answers(self.clock, group)
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")

    async def resolve(self, name: str) -> str:
        return f"{name}-in-whole"

    async def count(self, request: Request) -> Response:
        self.ids.append(request.path_params["id"])
        self.effects += 1
        effects = self.effects
        if self.holds is not None:
            await self.holds.wait()
        if await request.body() == b"refuse":
            raise Problem("session_busy", "Not now.")
        return Response(str(effects).rjust(self.size_bytes))

    async def post(self, key: str, body: bytes = b"") -> str:
        return (await self.http.post("/one/count", content=body, headers={KEY: key})).text.strip()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with anyio.create_task_group() as group:
        yield Bench(group)
        group.cancel_scope.cancel()


async def test_the_handler_works_on_the_session_that_the_key_was_kept_for(bench: Bench) -> None:
    await bench.post("k")
    assert bench.ids == ["one-in-whole"]


async def test_an_answer_is_kept_for_ten_minutes_after_it_was_given(bench: Bench) -> None:
    said = [await bench.post("k")]
    for step_s in (599.0, 1.0):
        bench.clock.time += step_s
        said.append(await bench.post("k"))
    assert said == ["1", "1", "2"]


@pytest.mark.parametrize(("limit", "size_bytes"), [("KEPT", 0), ("KEPT_BYTES", 1)])
async def test_the_oldest_answer_goes_first_where_there_are_too_many(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, limit: str, size_bytes: int
) -> None:
    monkeypatch.setattr(idempotency, limit, 2)
    bench.size_bytes = size_bytes
    assert [await bench.post(key) for key in ("a", "b", "c")] == ["1", "2", "3"]
    assert [await bench.post(key) for key in ("b", "c", "a")] == ["2", "3", "4"]


async def test_who_waits_for_a_request_that_is_refused_is_told_the_same(bench: Bench) -> None:
    bench.holds = anyio.Event()
    said: list[str] = []

    async def send() -> None:
        said.append(json.loads(await bench.post("k", b"refuse"))["code"])

    with fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(send)
            group.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            bench.holds.set()
    assert (said, bench.effects) == (["session_busy"] * 2, 1)
    assert await bench.post("k", b"other") == "2"


async def test_a_request_goes_on_though_its_client_has_gone(bench: Bench) -> None:
    bench.holds = anyio.Event()
    with fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(bench.post, "k")
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
        bench.holds.set()
        assert await bench.post("k") == "1"


async def test_who_waits_when_the_server_stops_is_told_so() -> None:
    with fail_after(5):
        async with anyio.create_task_group() as outer:
            async with anyio.create_task_group() as group:
                bench = Bench(group)
                bench.holds = anyio.Event()
                said: list[str] = []

                async def send() -> None:
                    said.append(json.loads(await bench.post("k"))["code"])

                outer.start_soon(send)
                await anyio.wait_all_tasks_blocked()
                bench.answers.close()
                group.cancel_scope.cancel()
            assert json.loads(await bench.post("late"))["code"] == "draining"
    assert said == ["draining"]
