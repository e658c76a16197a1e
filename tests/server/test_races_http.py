"""Two clients want the same thing at the same moment, over real sockets: exactly one gets it, the other is told.

All requests of a race are on connections that are open already; nobody waits for an answer before the next is sent.
"""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import anyio
import httpx
import pytest

from tests.crash.stories import check_journal, kinds, of_kind
from tests.daemon import Daemon, running

pytestmark = pytest.mark.anyio

ROUNDS = 50
ASKING = {"turns": [{"tool_calls": [{"name": "bash", "input": {"command": "true"}}]}, {"text": "Done."}]}
SHORT = {"turns": [{"text": "Hello."}]}
STUBBORN = {"turns": [{"tool_calls": [{"name": "bash", "input": {"command": "trap '' TERM; echo on; sleep 61"}}]}]}
LONG = {"turns": [{"text": "Too late.", "ttft_ms": 60_000}]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("races"), "--allow-yolo") as daemon:
        scripts = {"asking": ASKING, "short": SHORT, "long": LONG, "stubborn": STUBBORN}
        for name, script in scripts.items():
            daemon.script(name, script)
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


async def create(http: httpx.AsyncClient, script: str) -> str:
    return str((await http.post("/v1/sessions", json={"model": f"scripted/{script}.json"})).json()["id"])


async def together(*requests: Callable[[], Awaitable[httpx.Response]]) -> list[httpx.Response]:
    """Send all at once; return the answers in the order of the requests."""
    answers: dict[int, httpx.Response] = {}

    async def send(at: int, request: Callable[[], Awaitable[httpx.Response]]) -> None:
        answers[at] = await request()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for at, request in enumerate(requests):
                group.start_soon(send, at, request)
    return [answers[at] for at in range(len(requests))]


def deleting(http: httpx.AsyncClient, path: str) -> Callable[[], Awaitable[httpx.Response]]:
    return lambda: http.delete(path)


def posting(http: httpx.AsyncClient, path: str, body: dict[str, object]) -> Callable[[], Awaitable[httpx.Response]]:
    return lambda: http.post(path, json=body)


def told(answer: httpx.Response) -> tuple[int, str | None]:
    return answer.status_code, answer.json().get("code") if answer.content else None


async def test_of_two_answers_exactly_one_counts(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http, "asking")
    path = f"/v1/sessions/{session}"
    given = []
    async with served.client() as other, served.stream(session) as stream:
        await stream.until("snapshot")
        for _ in range(ROUNDS):
            await http.post(f"{path}/prompt", json={"text": "go"})
            request_id = (await stream.until("permission_request"))[-1].json["request_id"]
            answers = await together(
                posting(http, f"{path}/permissions/{request_id}", {"allow": True}),
                posting(other, f"{path}/permissions/{request_id}", {"allow": False}),
            )
            assert sorted(answer.status_code for answer in answers) == [204, 409]
            [loser] = [answer for answer in answers if answer.status_code == 409]
            resolution = "denied" if loser is answers[0] else "allowed"
            assert loser.json()["code"] == "already_resolved"
            assert loser.json()["details"] == {"resolution": resolution}
            given.append(resolution)
            await stream.until_idle()
    events = check_journal(served.journal(session).read_bytes())
    assert [event["resolution"] for event in of_kind(events, "permission_resolved")] == given
    ran = [event["is_error"] is False for event in of_kind(events, "tool_end")]
    assert ran == [resolution == "allowed" for resolution in given]


async def test_of_twenty_prompts_exactly_one_is_taken(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http, "long")
    path = f"/v1/sessions/{session}"
    answers = await together(*(posting(http, f"{path}/prompt", {"text": f"number {n}"}) for n in range(20)))
    assert Counter(map(told, answers)) == {(202, None): 1, (409, "session_busy"): 19}
    [taken] = [answer.json()["prompt_id"] for answer in answers if answer.status_code == 202]
    assert (await http.post(f"{path}/cancel", json={})).json() == {"cancelled": True}
    async with served.stream(session, after=0) as stream:
        await stream.until("status")
        await stream.until_idle()
    events = check_journal(served.journal(session).read_bytes())
    assert [event["prompt_id"] for event in of_kind(events, "done")] == [taken]


async def test_a_cancel_beside_a_prompt_ends_it_or_comes_before_it(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http, "long")
    path = f"/v1/sessions/{session}"
    async with served.stream(session) as stream:
        await stream.until("snapshot")
        for round in range(ROUNDS):
            requests = [posting(http, f"{path}/prompt", {"text": "go"}), posting(http, f"{path}/cancel", {})]
            answers = await together(*(requests if round % 2 else reversed(requests)))
            prompted, cancelled = answers if round % 2 else reversed(answers)
            assert prompted.status_code == 202
            if not cancelled.json()["cancelled"]:
                assert (await http.post(f"{path}/cancel", json={})).json() == {"cancelled": True}
            await stream.until_idle()
    events = check_journal(served.journal(session).read_bytes())
    assert {event["stop_reason"] for event in of_kind(events, "done")} == {"interrupted"}
    assert len(of_kind(events, "done")) == ROUNDS


async def test_a_cancel_beside_an_answer_resolves_the_request_once(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http, "asking")
    path = f"/v1/sessions/{session}"
    async with served.stream(session) as stream:
        await stream.until("snapshot")
        for round in range(ROUNDS):
            await http.post(f"{path}/prompt", json={"text": "go"})
            request_id = (await stream.until("permission_request"))[-1].json["request_id"]
            requests = [
                posting(http, f"{path}/permissions/{request_id}", {"allow": True}),
                posting(http, f"{path}/cancel", {}),
            ]
            answers = await together(*(requests if round % 2 else reversed(requests)))
            answered, cancelled = answers if round % 2 else reversed(answers)
            assert told(answered) in [(204, None), (409, "already_resolved")]
            if answered.status_code == 409:
                assert answered.json()["details"] == {"resolution": "cancelled"}
                assert cancelled.json() == {"cancelled": True}
            await stream.until_idle()
    events = check_journal(served.journal(session).read_bytes())
    assert len(of_kind(events, "permission_resolved")) == len(of_kind(events, "done")) == ROUNDS


async def test_a_delete_beside_a_prompt_leaves_a_session_that_can_be_loaded(
    served: Daemon, http: httpx.AsyncClient
) -> None:
    for round in range(20):
        session = await create(http, "long")
        path = f"/v1/sessions/{session}"
        requests = [posting(http, f"{path}/prompt", {"text": "go"}), deleting(http, path)]
        answers = await together(*(requests if round % 2 else reversed(requests)))
        prompted, deleted = answers if round % 2 else reversed(answers)
        assert told(prompted) in [(202, None), (410, "session_closed"), (404, "not_found")]
        assert deleted.status_code == 204
        events = check_journal(served.journal(session).read_bytes())
        assert kinds(events)[-1] == "session_closed"
        assert len(of_kind(events, "done")) == (1 if prompted.status_code == 202 else 0)
        loaded = await http.post("/v1/sessions", json={"resume": session})
        assert (loaded.status_code, loaded.json()["interrupted"]) == (201, False)


async def test_two_deletes_are_one(served: Daemon, http: httpx.AsyncClient) -> None:
    for _ in range(10):
        session = await create(http, "long")
        await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})
        answers = await together(*[deleting(http, f"/v1/sessions/{session}")] * 3)
        assert {answer.status_code for answer in answers} <= {204, 404}
        assert answers[0].status_code == 204
        assert kinds(served.events(session)).count("session_closed") == 1


async def test_a_load_beside_a_delete_gives_a_session_that_works_or_says_that_it_closes(
    served: Daemon, http: httpx.AsyncClient
) -> None:
    """Whoever is told 200 or 201 can use the session at once."""
    for _ in range(20):
        session = await create(http, "short")
        await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})
        _, loaded = await together(
            deleting(http, f"/v1/sessions/{session}"), posting(http, "/v1/sessions", {"resume": session})
        )
        assert loaded.status_code in (200, 201, 409, 423)
        check_journal(served.journal(session).read_bytes())
        again = await http.post("/v1/sessions", json={"resume": session})
        assert again.status_code in (200, 201)
        done = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go", "wait": True})
        assert (done.status_code, done.json()["text"]) == (200, "Hello.")


async def test_a_session_that_is_being_closed_is_not_handed_out(served: Daemon, http: httpx.AsyncClient) -> None:
    """A command that does not end at once keeps the session closing; whoever loads it then is told to come again."""
    session = await create(http, "stubborn")
    path = f"/v1/sessions/{session}"
    await http.patch(path, json={"mode": "yolo"})
    async with served.stream(session) as stream:
        await http.post(f"{path}/prompt", json={"text": "go"})
        await stream.until("tool_output_delta")
        answers = []

        async def delete() -> None:
            answers.append(await http.delete(path))

        async with anyio.create_task_group() as group:
            group.start_soon(delete)
            with anyio.fail_after(10):
                while told(answer := await http.post(f"{path}/prompt", json={"text": "go"}))[0] != 410:
                    assert told(answer) == (409, "session_busy")
            loaded = await http.post("/v1/sessions", json={"resume": session})
            assert answers == []
            assert told(loaded) == (409, "session_opening")
    assert [answer.status_code for answer in answers] == [204]
    assert (await http.post("/v1/sessions", json={"resume": session})).status_code == 201


async def test_two_loads_at_once_make_one_session(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http, "short")
    for _ in range(20):
        await http.delete(f"/v1/sessions/{session}")
        answers = await together(*[posting(http, "/v1/sessions", {"resume": session})] * 6)
        statuses = Counter(answer.status_code for answer in answers)
        assert statuses[201] == 1
        assert all(told(answer) in [(201, None), (200, None), (409, "session_opening")] for answer in answers)
    check_journal(served.journal(session).read_bytes())


async def test_a_client_that_sees_idle_can_prompt_at_once(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http, "short")
    async with served.stream(session) as stream:
        await stream.until("snapshot")
        for _ in range(ROUNDS):
            accepted = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})
            assert accepted.status_code == 202
            frames = await stream.until_idle()
            numbers = [frame.id for frame in frames if frame.id is not None]
            assert numbers[0] == accepted.json()["after_seq"] + 1
    assert len(of_kind(served.events(session), "done")) == ROUNDS


async def test_a_settled_rule_of_a_raced_answer_is_the_winners(served: Daemon, http: httpx.AsyncClient) -> None:
    """The loser leaves no trace: its `always` is not in force."""
    session = await create(http, "asking")
    path = f"/v1/sessions/{session}"
    async with served.stream(session) as stream:
        await stream.until("snapshot")
        for _ in range(10):
            await http.post(f"{path}/prompt", json={"text": "go"})
            request_id = (await stream.until("permission_request"))[-1].json["request_id"]
            denied, always = await together(
                posting(http, f"{path}/permissions/{request_id}", {"allow": False}),
                posting(http, f"{path}/permissions/{request_id}", {"allow": True, "scope": "session"}),
            )
            await stream.until_idle()
            if always.status_code == 200:
                break
            assert (denied.status_code, always.status_code) == (204, 409)
        journal = served.journal(session).read_bytes()
    assert journal.count(b'{"type":"grant"') == (1 if always.status_code == 200 else 0)
