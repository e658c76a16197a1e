"""The running server held against `openapi.yaml`: whatever the file allows, or just does not, is answered as it says.

Schemathesis makes the requests; the sessions they reach exist. A stream never ends, so it is checked by hand.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.openapi import from_path
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.daemon import TOKEN, Daemon, Frame, running

FILE = Path(__file__).resolve().parents[2] / "openapi.yaml"
EVENTS_PATH = "/v1/sessions/{id}/events"
ALL_EVENTS_PATH = "/v1/events"
EXAMPLES = 80  # for each operation; some twenty seconds for all of them
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
LIMITS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
STORY = {"turns": [{"tool_calls": [{"name": "bash", "input": {"command": "true"}}]}, {"text": "Done \u2028 so far."}]}
SETTLED = {"mode": "deny", "unattended": "deny", "model": "scripted/story.json"}
"""Nothing waits for a person, whatever a request before has changed."""
# `/openapi.yaml` is described as text; the tool would hold the parsed document against that.
schema = from_path(str(FILE)).exclude(path=[EVENTS_PATH, ALL_EVENTS_PATH, "/openapi.yaml"])
schema.config.update(headers={"Authorization": f"Bearer {TOKEN}"})


@schemathesis.serializer("application/pdf")
def as_it_is(_context: Any, value: Any) -> bytes:
    """The tool cannot write this kind by itself; whatever it thought of is the file."""
    return value if isinstance(value, bytes) else json.dumps(value, default=str).encode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("fuzz")
    Daemon(root).script("story", STORY)
    with running(root, "--mode", "deny", "--model", "scripted/story.json") as daemon:
        yield daemon
        assert "Traceback" not in daemon.log()


@pytest.fixture(scope="module")
def http(served: Daemon) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20) as client:
        yield client


@pytest.fixture(scope="module")
def session(http: httpx.Client) -> str:
    return str(http.post("/v1/sessions", json={}).json()["id"])


@schema.parametrize()
@LIMITS
def test_every_answer_is_one_that_the_file_promises(
    case: schemathesis.Case, served: Daemon, http: httpx.Client, session: str
) -> None:
    name = case.path_parameters.get("id")
    if isinstance(name, str) and len(name) % 2 == 1:  # every other request reaches a session that exists
        http.post("/v1/sessions", json={"resume": session})
        assert http.patch(f"/v1/sessions/{session}", json=SETTLED).status_code == 200
        case.path_parameters["id"] = session
    case.call_and_validate(base_url=served.url, checks=CHECKS, timeout=20)


@pytest.mark.parametrize("way", ["header", "query"])
def test_no_cursor_and_no_name_makes_a_stream_fail(served: Daemon, http: httpx.Client, session: str, way: str) -> None:
    http.post("/v1/sessions", json={"resume": session})

    @LIMITS
    @given(
        name=st.one_of(st.just(session), st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)),
        cursor=st.one_of(st.integers().map(str), st.text(st.characters(min_codepoint=32, max_codepoint=126))),
    )
    def ask(name: str, cursor: str) -> None:
        headers, params = ({"Last-Event-ID": cursor.strip()}, {}) if way == "header" else ({}, {"after": cursor})
        path = f"/v1/sessions/{quote(name, safe='')}/events"
        check_stream(path, headers, params)

    @LIMITS
    @given(
        names=st.lists(st.one_of(st.just(session), st.text(st.characters(codec="utf-8"), max_size=20)), max_size=3),
        cursor=st.one_of(
            st.integers(0, 10**17).map(lambda seq: f"{session}:{seq}"),
            st.text(st.characters(min_codepoint=32, max_codepoint=126)),
        ),
        shown=st.dictionaries(st.sampled_from(["kinds", "detail"]), st.text(max_size=9) | st.sampled_from(["done"])),
    )
    def ask_for_many(names: list[str], cursor: str, shown: dict[str, str]) -> None:
        headers, params = ({"Last-Event-ID": cursor.strip()}, {}) if way == "header" else ({}, {"after": cursor})
        check_stream(ALL_EVENTS_PATH, headers, {**params, **shown, **({"sessions": ",".join(names)} if names else {})})

    def check_stream(path: str, headers: dict[str, str], params: dict[str, str]) -> None:
        with http.stream("GET", path, headers=headers, params=params) as answer:
            assert answer.status_code in (200, 400, 404, 405, 409)
            if answer.status_code == 200:
                assert next(answer.iter_lines()) == ": connected"

    ask()
    ask_for_many()


@pytest.fixture(scope="module")
def event_schema() -> Any:
    described = schema.raw_schema["components"]["schemas"]
    return jsonschema_rs.validator_for({**described["Event"], "components": {"schemas": described}})


@pytest.mark.anyio
async def test_every_event_of_a_stream_is_as_the_file_describes_it(served: Daemon, event_schema: Any) -> None:
    async with served.client() as client:
        session = (await client.post("/v1/sessions", json={"mode": "default"})).json()["id"]
        async with served.stream(session, after=9_000_000) as stream:
            frames: list[Frame] = await stream.until("snapshot")
            await client.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})
            frames += await stream.until("permission_request")
            async with served.stream(session) as late:
                frames += await late.until("snapshot")
            async with served.stream(None, query=f"?sessions={session}&after={session}:9000000") as many:
                frames += await many.until("permission_request")
            await client.post(f"/v1/sessions/{session}/permissions/perm-1", json={"allow": True, "scope": "session"})
            frames += await stream.until_idle()
            await client.patch(f"/v1/sessions/{session}", json={"title": "Ours", "mode": "plan"})
            await client.post(f"/v1/sessions/{session}/clear", json={})
            await client.delete(f"/v1/sessions/{session}")
            frames += await stream.to_end()
    seen = {frame.event for frame in frames if frame.data}
    assert {"snapshot", "gap", "permission_request", "tool_end", "done", "session_updated", "session_closed"} <= seen
    wrong = [
        (frame.event, error.message)
        for frame in frames
        if frame.data
        for error in event_schema.iter_errors(json.loads(frame.data))
    ]
    assert wrong == []
