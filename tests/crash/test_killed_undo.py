"""The server is killed with SIGKILL while a run changes files, and started again: what the run did is taken back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.crash.stories import check_journal, of_kind
from tests.daemon import Daemon, running

pytestmark = pytest.mark.anyio


def turn(name: str, **input: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "input": input}]}


SLEEP = turn("bash", command="echo late > late.txt; sleep 61.25")
STORY = {
    "turns": [
        turn("write", file_path="folder/new.txt", content="new"),
        turn("read", file_path="old.txt"),
        turn("edit", file_path="old.txt", old_string="old", new_string="changed"),
        SLEEP,
        {"text": "Never said."},
    ]
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path, ("--model", "scripted/story.json", "--allow-yolo"))
    daemon.script("story", STORY)
    (daemon.cwd / "old.txt").write_text("old")
    with running(tmp_path, *daemon.arguments) as started:
        yield started


async def killed(server: Daemon) -> str:
    """A session whose server was killed while a command ran, after it had changed two files; loaded again."""
    async with server.client() as http:
        session = str((await http.post("/v1/sessions", json={"mode": "yolo"})).json()["id"])
        async with server.stream(session) as stream:
            await stream.until("snapshot")
            assert (await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})).status_code == 202
            for _ in range(4):
                await stream.until("tool_start")
    assert files(server) == {"folder/new.txt": "new", "old.txt": "changed"}
    server.restart()
    async with server.client() as http:
        assert (await http.post("/v1/sessions", json={"resume": session})).status_code == 201
    return session


def files(server: Daemon) -> dict[str, str]:
    """What the story is about; what the killed command did is not known to anybody."""
    found = {str(path.relative_to(server.cwd)): path for path in server.cwd.rglob("*") if path.is_file()}
    return {name: path.read_text() for name, path in found.items() if name not in ("story.json", "late.txt")}


async def undo(http: httpx.AsyncClient, session: str, **body: bool) -> httpx.Response:
    return await http.post(f"/v1/sessions/{session}/undo", json=body)


async def test_what_a_killed_run_did_is_taken_back(server: Daemon) -> None:
    session = await killed(server)
    expected = {"restored": ["old.txt"], "deleted": ["folder/new.txt"], "skipped": []}
    async with server.client() as http:
        assert (await undo(http, session, dry_run=True)).json() == expected
        assert (await undo(http, session)).json()["code"] == "session_busy"  # the run is unfinished
        assert (await http.post(f"/v1/sessions/{session}/cancel", json={})).json() == {"cancelled": True}
        assert (await undo(http, session)).json() == expected
        assert files(server) == {"old.txt": "old"}
        assert not (server.cwd / "folder").exists()
        assert (await undo(http, session)).json()["code"] == "nothing_to_undo"
    [undone] = of_kind(check_journal(server.journal(session).read_bytes()), "undone")
    assert {name: undone[name] for name in expected} == expected


async def test_what_a_person_did_meanwhile_stays(server: Daemon) -> None:
    session = await killed(server)
    (server.cwd / "old.txt").write_text("mine")
    async with server.client() as http:
        await http.post(f"/v1/sessions/{session}/cancel", json={})
        done = (await undo(http, session)).json()
    assert (done["restored"], done["deleted"]) == ([], ["folder/new.txt"])
    assert [one["path"] for one in done["skipped"]] == ["old.txt"]
    assert files(server) == {"old.txt": "mine"}


async def test_the_note_about_an_undo_survives_a_kill_and_is_told_once(server: Daemon) -> None:
    session = await killed(server)
    async with server.client() as http:
        await http.post(f"/v1/sessions/{session}/cancel", json={})
        assert (await undo(http, session)).status_code == 200
    server.restart()
    async with server.client() as http:
        await http.post("/v1/sessions", json={"resume": session, "model": "scripted/short.json"})
        for text in ("first", "second"):
            server.script("short", {"turns": [{"text": "Yes."}]})
            body = {"text": text, "wait": True}
            assert (await http.post(f"/v1/sessions/{session}/prompt", json=body)).status_code == 200
    told = [
        [block["text"] for block in event["content"]] for event in of_kind(server.events(session), "user_message")[1:]
    ]
    assert [texts[-1] for texts in told] == ["first", "second"]
    assert [len(texts) for texts in told] == [2, 1]
    assert told[0][0].startswith("<system-note>\nThe user took back the file changes")
    assert "folder/new.txt" in told[0][0]
