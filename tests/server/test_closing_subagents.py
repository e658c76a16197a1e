"""Closing a session over HTTP ends everything in it: subagents in front and behind, their commands and what is left."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from tests.crash.stories import check_journal, of_kind
from tests.crash.test_killed_subagents import check_ends
from tests.crash.test_killed_tasks import is_running
from tests.daemon import Daemon, running
from tests.server.test_subagents_http import asks, begin, journal, prompt, story, task, until_asked
from tests.server.test_tasks_http import begins
from tests.server.test_undo_background import bash

pytestmark = pytest.mark.anyio

NAMES = ("front", "behind", "command")


def holds(name: str) -> str:
    """A command that goes on, with a child that leaves its group."""
    return f"echo $$ > {name}.pid; setsid sleep 60 & echo $! > {name}.child; sleep 60; true"


STORY = story(
    {"match": "held front", "turns": [{"tool_calls": [bash(holds("front"))]}, {"text": "Never."}]},
    {"match": "held behind", "turns": [{"tool_calls": [bash(holds("behind"))]}, {"text": "Never."}]},
    {
        "match": "go",
        "turns": [
            {
                "tool_calls": [
                    begins(holds("command"), "Hold"),
                    task("held behind", run_in_background=True),
                    task("held front"),
                ]
            },
            {"text": "Never."},
        ],
    },
    {
        "match": "ask",
        "turns": [{"tool_calls": [task("piece", run_in_background=True), task("piece")]}, {"text": "No."}],
    },
    asks("piece"),
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path)
    daemon.script("story", STORY)
    daemon.configure("[sandbox]\nenabled = false\n")  # in there a process does not know its number
    with running(tmp_path, "--model", "scripted/story.json", "--allow-yolo") as daemon:
        yield daemon


async def all_begun(served: Daemon) -> list[int]:
    files = [served.cwd / f"{name}.{kind}" for name in NAMES for kind in ("pid", "child")]
    with anyio.fail_after(10):
        while not all(file.exists() and file.read_text().endswith("\n") for file in files):
            await anyio.lowlevel.checkpoint()
    return [int(file.read_text()) for file in files]


async def test_nothing_that_runs_in_a_session_outlives_it(served: Daemon) -> None:
    async with served.client() as http:
        session = await begin(http, "go", mode="yolo")
        processes = await all_begun(served)
        assert all(map(is_running, processes))
        assert (await http.delete(f"/v1/sessions/{session}")).status_code == 204
        assert [process for process in processes if is_running(process)] == []
        events = journal(served, session)
        check_ends(events)
        assert events[-1]["type"] == "session_closed"
        states = {event["task_id"]: event["state"] for event in of_kind(events, "task_update")}
        assert states == {"bg-1": "stopped", "bg-2": "stopped"}
        state = (await http.post("/v1/sessions", json={"resume": session})).json()
        assert (state["busy"], state["running_tasks"], state["interrupted"]) == (False, 0, False)
        assert len(check_journal(served.journal(session).read_bytes())) == len(events)  # the load had nothing to mend


async def test_what_subagents_ask_ends_with_the_session(served: Daemon) -> None:
    async with served.client() as http:
        session = await begin(http, "ask")
        asked = await until_asked(http, session, 2)
        assert (await http.delete(f"/v1/sessions/{session}")).status_code == 204
        events = journal(served, session)
        check_ends(events)
        resolved = {event["request_id"]: event["resolution"] for event in of_kind(events, "permission_resolved")}
        assert resolved == {request["request_id"]: "cancelled" for request in asked}
        await http.post("/v1/sessions", json={"resume": session})
        await prompt(http, session, "piece")
        assert await until_asked(http, session, 1)
