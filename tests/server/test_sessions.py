"""Sessions over HTTP: what is asked when one is created, loaded, changed and listed, and what comes of it."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.daemon import Daemon, running

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("sessions"), "--model", "scripted/demo") as daemon:
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


async def create(http: httpx.AsyncClient, **settings: Any) -> str:
    return str((await http.post("/v1/sessions", json=settings)).json()["id"])


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


# --- loading with settings ---


@pytest.mark.parametrize("how", ["resume", "continue"])
@pytest.mark.parametrize("is_loaded", [True, False])
async def test_settings_given_with_a_load_are_applied(
    served: Daemon, http: httpx.AsyncClient, how: str, is_loaded: bool
) -> None:
    session = await create(http, title="first")
    if not is_loaded:
        await http.delete(f"/v1/sessions/{session}")
    named = {"resume": session} if how == "resume" else {"continue": True}
    answer = await http.post("/v1/sessions", json={**named, "mode": "plan", "effort": "low"})
    state = answer.json()
    assert answer.status_code == (200 if is_loaded else 201)
    assert [state[name] for name in ("id", "title", "mode", "effort")] == [session, "first", "plan", "low"]
    changes = [event for event in served.events(session) if event["type"] == "session_updated"]
    assert [(change["mode"], change["effort"], "title" in change) for change in changes] == [("plan", "low", False)]


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"mode": "yolo"}, (403, "mode_not_allowed")),
        ({"model": "nobody/x"}, (400, "bad_request")),
        ({"max_turns": 0}, (400, "bad_request")),
    ],
)
async def test_a_wrong_setting_given_with_a_load_changes_nothing(
    http: httpx.AsyncClient, wrong: dict[str, Any], refusal: tuple[int, str]
) -> None:
    session = await create(http)
    before = (await http.get(f"/v1/sessions/{session}")).json()
    assert code_of(await http.post("/v1/sessions", json={"resume": session, "effort": "low", **wrong})) == refusal
    assert (await http.get(f"/v1/sessions/{session}")).json() == before


# --- changing ---


@pytest.mark.parametrize("field", ["effort", "max_turns", "max_tokens", "temperature", "expires_after_s", "title"])
async def test_a_setting_cannot_be_null(http: httpx.AsyncClient, field: str) -> None:
    session = await create(http, effort="low")
    answer = await http.patch(f"/v1/sessions/{session}", json={"mode": "plan", field: None})
    assert code_of(answer) == (400, "bad_request")
    assert f"{field} cannot be null" in answer.json()["error"]
    state = (await http.get(f"/v1/sessions/{session}")).json()
    assert (state["mode"], state["effort"]) == ("default", "low")


async def test_a_limit_that_is_left_out_keeps_its_value_and_null_lifts_it(http: httpx.AsyncClient) -> None:
    session = await create(http, budget={"usd": 5, "tokens": 100})
    changes = [
        ({"usd": 7.5}, {"usd": 7.5, "tokens": 100}),
        ({"usd": None, "tool_calls": 3}, {"tokens": 100, "tool_calls": 3}),
    ]
    for change, limits in changes:
        answer = await http.patch(f"/v1/sessions/{session}", json={"budget": change})
        assert (answer.status_code, answer.json()["budget"]["limits"]) == (200, limits)
    assert answer.json()["budget"]["used"] == {"usd": 0, "tokens": 0, "time_s": 0, "tool_calls": 0}


@pytest.mark.parametrize("budget", [{"usd": 0}, {"usd": 1e10}, {"tokens": 1.5}, {"tool_calls": 0}, {"dollars": 1}, 5])
async def test_a_limit_that_is_none_is_refused(http: httpx.AsyncClient, budget: Any) -> None:
    session = await create(http)
    assert code_of(await http.patch(f"/v1/sessions/{session}", json={"budget": budget})) == (400, "bad_request")


# --- listing ---


async def test_a_listing_goes_on_after_its_cursor(http: httpx.AsyncClient) -> None:
    made = [await create(http) for _ in range(3)]
    found: list[str] = []
    page: dict[str, Any] = {"next_cursor": None}
    while "next_cursor" in page:
        cursor = {} if page["next_cursor"] is None else {"cursor": page["next_cursor"]}
        page = (await http.get("/v1/sessions", params={"limit": 2, **cursor})).json()
        found += [entry["id"] for entry in page["sessions"]]
    assert set(made) <= set(found)
    assert len(found) == len(set(found))


async def test_a_cursor_whose_session_has_changed_still_has_its_place(http: httpx.AsyncClient) -> None:
    await create(http)
    assert (await http.get("/v1/sessions", params={"cursor": "1.000:gone"})).json() == {
        "sessions": [],
        "unreadable": [],
    }
    assert (await http.get("/v1/sessions", params={"cursor": "99999999999.000:gone"})).json()["sessions"]


@pytest.mark.parametrize(
    "cursor", ["", "x", "nan:x", "inf:x", "-inf:x", "1:x", "1.000:", "1e3:x", " 1.000:x", "-1.000:x"]
)
async def test_a_cursor_that_no_listing_gave_is_refused(http: httpx.AsyncClient, cursor: str) -> None:
    assert code_of(await http.get("/v1/sessions", params={"cursor": cursor})) == (400, "bad_request")


# --- paths ---


@pytest.mark.parametrize("path", ["/v1/sessions/", "/v1/info/", "/v1/sessions//events"])
async def test_a_path_with_a_slash_too_many_is_not_found(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert code_of(answer) == (404, "not_found")


# --- what stays closed ---


async def test_the_token_file_is_closed_to_the_tools(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("token")
    daemon = Daemon(root, ("--token-file", "link"))
    daemon.script(
        "reads",
        {
            "turns": [
                {
                    "tool_calls": [
                        {"name": "read", "input": {"file_path": "token"}},
                        {"name": "read", "input": {"file_path": "link"}},
                        {"name": "grep", "input": {"pattern": "daemon-under-test"}},
                    ]
                },
                {"text": "Done."},
            ]
        },
    )
    file = daemon.cwd / "token"
    file.write_text(daemon.token)
    file.chmod(0o600)
    (daemon.cwd / "link").symlink_to(file)
    try:
        daemon.start()
        async with daemon.client() as http:
            session = await create(http, model="scripted/reads.json")
            await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go", "wait": True})
        ends = [event for event in daemon.events(session) if event["type"] == "tool_end"]
    finally:
        daemon.kill()
    assert [end["is_error"] for end in ends] == [True, True, False]
    assert not any(daemon.token in end["output"] for end in ends)
