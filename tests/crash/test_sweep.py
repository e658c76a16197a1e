"""Killed at random points, with clients that answer and come back: after each start everything still holds.

Forty kills here; `python -m tests.benchmarks kills` makes three hundred.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx
import pytest

from agentcore.encoding import head_of
from tests.crash.stories import check_journal, of_kind
from tests.daemon import DISPLAY_ONLY, Daemon, Frame, running

pytestmark = pytest.mark.anyio

KILLS = 40
KILLS_OF_A_SEED = 5
STORY = {
    "delta_delay_ms": 1,
    "turns": [
        {
            "text": f"This is step {turn} and it says a few words.",
            "tool_calls": [
                {"name": "read", "input": {"file_path": "here.txt"}},
                {"name": "bash", "input": {"command": f"echo {turn} >> ran.txt"}},
                {"name": "ls", "input": {}},
            ],
        }
        for turn in range(3)
    ]
    + [{"text": "All done."}],
}


@contextmanager
def telling(root: Path) -> Iterator[Daemon]:
    """A server whose model tells the story."""
    Daemon(root).script("story", STORY)
    with running(root, "--model", "scripted/story.json", "--allow-yolo") as daemon:
        yield daemon


@dataclass(eq=False)
class Person:
    """Reads a session's stream across all kills, answers what it asks, and remembers what was seen."""

    server: Daemon
    session: str
    cursor: int = 0
    seen: list[Frame] = field(default_factory=list)

    async def follow(self, http: httpx.AsyncClient, started: anyio.Event, frames: int) -> None:
        """Read so many numbered events, or up to the end of a run, and answer meanwhile."""
        async with self.server.stream(self.session, after=self.cursor) as stream:
            snapshot = (await stream.until("snapshot"))[-1]
            started.set()
            while frames > 0:
                frame = await stream.next()
                if frame.id is None:
                    continue
                frames -= 1
                assert frame.id > self.cursor
                self.cursor = frame.id
                self.seen.append(frame)
                if frame.id <= snapshot.json["last_seq"]:
                    continue  # of the life before; `go_on` decides about what it left
                if frame.event == "permission_request":
                    await self.answer(http, frame.json["request_id"])
                if frame.event == "status" and not frame.json["busy"]:
                    return

    async def answer(self, http: httpx.AsyncClient, request_id: str) -> None:
        answered = await http.post(f"/v1/sessions/{self.session}/permissions/{request_id}", json={"allow": True})
        assert answered.status_code == 204


async def go_on(http: httpx.AsyncClient, person: Person, walk: random.Random) -> None:
    """Go on with the session in one of the ways there are; each must be possible in the state it is in."""
    path = f"/v1/sessions/{person.session}"
    state = (await http.get(path)).json()
    waiting = (await http.get(f"{path}/permissions")).json()["permissions"]
    ways = ["prompt"] + (["resume", "cancel"] if state["interrupted"] else []) + (["answer"] if waiting else [])
    way = walk.choice(ways)
    if way == "cancel":
        assert (await http.post(f"{path}/cancel", json={})).json() == {"cancelled": True}
    if way == "resume":
        assert (await http.post(f"{path}/resume", json={})).status_code == 202
    if way in ("cancel", "prompt"):
        assert (await http.post(f"{path}/prompt", json={"text": "go"})).status_code == 202
    else:
        for request in waiting:
            await person.answer(http, request["request_id"])


async def begin_session(http: httpx.AsyncClient, server: Daemon, mode: str) -> Person:
    return Person(server, (await http.post("/v1/sessions", json={"mode": mode})).json()["id"])


async def run_and_watch(http: httpx.AsyncClient, person: Person, walk: random.Random, frames: int) -> None:
    """Start something once the person watches, and leave when so many events were seen."""
    watching = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(go_on_when, watching, http, person, walk)
        await person.follow(http, watching, frames)


async def go_on_when(watching: anyio.Event, http: httpx.AsyncClient, person: Person, walk: random.Random) -> None:
    await watching.wait()
    await go_on(http, person, walk)


async def load_all(http: httpx.AsyncClient, people: list[Person]) -> None:
    for person in people:
        check_journal(person.server.journal(person.session).read_bytes())
        loaded = await http.post("/v1/sessions", json={"resume": person.session})
        assert loaded.status_code == 201
        state = loaded.json()
        assert state["busy"] is False
        assert (state["pending_permissions"] > 0) <= state["interrupted"]


@pytest.mark.parametrize("seed", range(KILLS // KILLS_OF_A_SEED))
async def test_kills_at_random_points_break_nothing(tmp_path: Path, seed: int) -> None:
    print("seed", seed)
    with telling(tmp_path) as server:
        await kill_often(server, seed)


async def kill_often(server: Daemon, seed: int) -> None:
    """Kill it KILLS_OF_A_SEED times, at points of this seed, and check what it left each time and at the end."""
    walk = random.Random(seed)
    (server.cwd / "here.txt").write_text("It is here.\n")
    async with server.client() as http:
        people = [await begin_session(http, server, mode) for mode in ("yolo", "default")]
    for _ in range(KILLS_OF_A_SEED):
        async with server.client() as http:
            with anyio.fail_after(30):
                async with anyio.create_task_group() as group:
                    for person in people:
                        group.start_soon(run_and_watch, http, person, walk, walk.randrange(1, 80))
                server.kill()
        server.start()
        async with server.client() as http:
            await load_all(http, people)
    async with server.client() as http:
        for person in people:
            await prompt_once_more(http, person, walk)
    for person in people:
        events = check_journal(server.journal(person.session).read_bytes())
        assert len(of_kind(events, "done")) == len(of_kind(events, "user_message"))
        assert [frame.data for frame in person.seen if frame.event not in DISPLAY_ONLY] == [
            line for line in server.lines(person.session) if (head_of(line) or ("", 0))[1] <= person.cursor
        ]


async def prompt_once_more(http: httpx.AsyncClient, person: Person, walk: random.Random) -> None:
    await run_and_watch(http, person, walk, 10_000)
    state = (await http.get(f"/v1/sessions/{person.session}")).json()
    assert (state["busy"], state["interrupted"], state["pending_permissions"]) == (False, False, 0)
    assert person.seen[-2].json["stop_reason"] == "end_turn"
