"""`GET …/export`: a session as a file, with no secret in it that is known as one."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from agentcore_client.async_client import AsyncClient
from agentcore_client.client import Client
from tests.daemon import TOKEN, Daemon, running
from tests.pictures import picture

pytestmark = pytest.mark.anyio

KEY = "sk-ant-api03-AbCd1234EfGh5678IjKl"
OWN = 'a key that looks like none \u00e9"\\'
LONG = "x" * 9_000
SHOWN = f"leak {KEY} and {TOKEN}\nand `code` and ```fences```"
COMMAND = f"# {OWN}\ncat <<'X'\n{SHOWN}\nX"
STORY = {
    "scenes": [
        {"match": "long", "turns": [{"text": LONG}]},
        {"match": "wait", "turns": [{"tool_calls": [{"name": "bash", "input": {"command": "true"}}]}]},
        {
            "turns": [
                {"text": "I write.", "tool_calls": [{"name": "bash", "input": {"command": COMMAND}}]},
                {"text": "Done."},
            ]
        },
    ]
}
FORMATS = ["jsonl", "json", "markdown"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("export")
    Daemon(root).script("story", STORY)
    with running(root, "--model", "scripted/story.json", "--allow-yolo", ANTHROPIC_API_KEY=OWN) as daemon:
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


async def told(http: httpx.AsyncClient) -> str:
    """A session with secrets in a prompt, in a call and in its result, and a picture."""
    session = str((await http.post("/v1/sessions", json={"mode": "yolo", "title": "my `try`"})).json()["id"])
    path = f"/v1/sessions/{session}"
    blob = (await http.post(f"{path}/blobs", content=picture(), headers={"Content-Type": "image/png"})).json()["blob"]
    body = {"text": f"use {KEY}, {OWN} or {OWN}!", "attachments": [{"blob": blob}], "wait": True}
    assert (await http.post(f"{path}/prompt", json=body)).json()["text"] == "Done."
    return session


async def export(http: httpx.AsyncClient, session: str, form: str) -> str:
    answer = await http.get(f"/v1/sessions/{session}/export", params={"format": form})
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize("is_loaded", [True, False])
@pytest.mark.parametrize("form", FORMATS)
async def test_no_known_secret_leaves(http: httpx.AsyncClient, form: str, is_loaded: bool) -> None:
    session = await told(http)
    if not is_loaded:
        await http.delete(f"/v1/sessions/{session}")
    text = await export(http, session, form)
    assert "use [redacted], [redacted] or [redacted]!" in text
    assert not [secret for secret in (KEY, TOKEN, OWN, json.dumps(OWN)[1:-1]) if secret in text]


async def test_the_lines_are_the_durable_events_of_the_journal(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await told(http)
    lines = (await export(http, session, "jsonl")).encode().splitlines()
    original = served.lines(session)
    assert [json.loads(line)["seq"] for line in lines] == [json.loads(line)["seq"] for line in original]
    changed = [json.loads(line)["type"] for line, other in zip(lines, original, strict=True) if line != other]
    assert changed == ["user_message", "assistant_message", "tool_start", "tool_end"]


async def test_the_messages_are_those_of_the_history(http: httpx.AsyncClient) -> None:
    session = await told(http)
    exported = json.loads(await export(http, session, "json"))
    history = (await http.get(f"/v1/sessions/{session}/messages")).json()["messages"]
    assert [exported["session"][name] for name in ("id", "title")] == [session, "my `try`"]
    assert [one["id"] for one in exported["messages"]] == [one["id"] for one in history]
    assert exported["messages"][3] == history[3]


async def test_the_transcript_can_be_read(http: httpx.AsyncClient) -> None:
    session = await told(http)
    [_, user, assistant, last] = (await export(http, session, "markdown")).split("\n## ")
    assert user.startswith("User\n\n*Image 8 x 6, blob `")
    assert 'I write.\n\n**Tool call: bash**\n\n````json\n{\n  "command": "# [redacted]\\ncat' in assistant
    assert "**Result**\n\n````\nleak [redacted] and [redacted]\nand `code` and ```fences```\n" in assistant
    assert last == "Assistant\n\nDone.\n"


async def test_an_empty_session_is_exported(http: httpx.AsyncClient) -> None:
    session = (await http.post("/v1/sessions", json={})).json()["id"]
    assert await export(http, session, "jsonl") == ""
    assert json.loads(await export(http, session, "json"))["messages"] == []
    assert (await export(http, session, "markdown")).startswith("# Session\n")


async def test_a_run_that_is_going_on_is_exported_as_far_as_it_is(served: Daemon, http: httpx.AsyncClient) -> None:
    session = (await http.post("/v1/sessions", json={})).json()["id"]
    async with served.stream(session) as stream:
        await http.post(f"/v1/sessions/{session}/prompt", json={"text": "wait"})
        await stream.until("permission_request")
        lines = (await export(http, session, "jsonl")).splitlines()
    assert json.loads(lines[-1])["type"] == "permission_request"


@pytest.mark.parametrize(("form", "ending"), [("jsonl", "jsonl"), ("json", "json"), ("markdown", "md")])
async def test_a_browser_saves_it_under_a_name_of_its_own(http: httpx.AsyncClient, form: str, ending: str) -> None:
    session = (await http.post("/v1/sessions", json={"title": '"; filename="x'})).json()["id"]
    headers = (await http.get(f"/v1/sessions/latest/export?format={form}")).headers
    assert headers["content-disposition"] == f'attachment; filename="agentcore-{session}.{ending}"'
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("latest/export?format=pdf", (400, "bad_request")),
        ("20200101-000000-aaaaaa/export", (404, "not_found")),
    ],
)
async def test_what_cannot_be_exported_is_refused(http: httpx.AsyncClient, path: str, refusal: tuple[int, str]) -> None:
    await told(http)
    answer = await http.get(f"/v1/sessions/{path}")
    assert (answer.status_code, answer.json()["code"]) == refusal


async def test_the_clients_export(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await told(http)
    with Client(served.url, served.token) as client:
        assert client.session(session).export("markdown").decode() == await export(http, session, "markdown")
    async with AsyncClient(served.url, served.token) as other:
        assert (await other.session(session).export()).decode() == await export(http, session, "jsonl")


async def test_a_damaged_journal_is_refused_before_anything_is_sent(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await told(http)
    await http.delete(f"/v1/sessions/{session}")
    path = served.journal(session)
    lines: list[Any] = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"{", *lines[2:]]))
    answer = await http.get(f"/v1/sessions/{session}/export")
    assert (answer.status_code, answer.json()["code"]) == (500, "journal_damaged")
