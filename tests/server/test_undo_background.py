"""Undo over HTTP where subagents work beside the main agent: what both did is taken back, and stays taken back."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemon import Daemon, running
from tests.server.test_queue_http import state_until
from tests.server.test_subagents_http import story, task
from tests.server.test_tasks_http import create, send

pytestmark = pytest.mark.anyio


def write(path: str) -> dict[str, Any]:
    return {"name": "write", "input": {"file_path": path, "content": "new\n"}}


def bash(command: str) -> dict[str, Any]:
    return {"name": "bash", "input": {"command": command}}


CHILD = [
    {"tool_calls": [write("first.txt")]},
    {"tool_calls": [bash("echo waits > waits; read line < gate; echo changed > both.txt")]},
    {"tool_calls": [write("second.txt")]},
    {"text": "All of it is written."},
]
STORY = story(
    {"match": "in front", "turns": [{"tool_calls": [write("child.txt")]}, {"text": "Written."}]},
    {"match": "behind", "turns": CHILD},
    {"match": "both", "turns": [{"tool_calls": [write("parent.txt"), task("in front")]}, {"text": "Done."}]},
    {
        "match": "go on",
        "turns": [
            {"tool_calls": [write("parent.txt"), write("both.txt"), task("behind", run_in_background=True)]},
            {"text": "It goes on."},
            {"text": "I see."},
        ],
    },
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path)
    daemon.script("story", STORY)
    daemon.configure("[sandbox]\nenabled = false\n")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "first")):
        subprocess.run(["git", *who, *arguments], cwd=daemon.cwd, check=True, capture_output=True)
    os.mkfifo(daemon.cwd / "gate")
    with running(tmp_path, "--model", "scripted/story.json", "--allow-yolo") as daemon:
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


def files(served: Daemon) -> set[str]:
    return {path.name for path in served.cwd.glob("*.txt")}


async def undo(http: httpx.AsyncClient, session: str) -> dict[str, Any]:
    answer = await http.post(f"/v1/sessions/{session}/undo", json={})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_one_undo_takes_back_what_the_parent_and_its_child_did(served: Daemon, http: httpx.AsyncClient) -> None:
    session = await create(http)
    await send(http, session, "both")
    assert files(served) == {"parent.txt", "child.txt"}
    assert (await undo(http, session))["deleted"] == ["parent.txt", "child.txt"]
    assert files(served) == set()


async def test_what_was_undone_while_a_subagent_works_in_the_background_does_not_come_back(
    served: Daemon, http: httpx.AsyncClient
) -> None:
    session = await create(http)
    await send(http, session, "go on")
    gate = os.open(served.cwd / "gate", os.O_WRONLY)  # opens when its command does
    assert files(served) == {"parent.txt", "both.txt", "first.txt"}
    assert set((await undo(http, session))["deleted"]) == {"parent.txt", "both.txt", "first.txt"}
    os.close(gate)
    await state_until(http, session, "running_tasks", value=0)
    await state_until(http, session, "busy", value=False)
    assert files(served) == {"both.txt", "second.txt"}
    later = await undo(http, session)
    assert (set(later["deleted"]), later["restored"]) == ({"second.txt", "waits"}, [])
    assert later["skipped"] == [
        {"path": "both.txt", "why": "it was undone while the command ran, which changed it again"}
    ]
    assert files(served) == {"both.txt"}
