"""A reader of all sessions, whose server is killed: with its old cursor it loses nothing, however it comes back."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.daemon import DISPLAY_ONLY, Daemon, Frame, Stream, running

pytestmark = pytest.mark.anyio

STORY = {
    "delta_delay_ms": 2,
    "turns": [
        {
            "text": "Some words first. " * 5,
            "tool_calls": [{"name": "write", "input": {"file_path": "a", "content": "b"}}],
        },
        {"text": "And some more. " * 700},  # longer than a place may let wait for itself
    ],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Daemon]:
    Daemon(tmp_path).script("story", STORY)
    with running(tmp_path, "--model", "scripted/story.json", "--mode", "accept-edits") as daemon:
        yield daemon


class Reader:
    """Reads one connection after another, and takes each event of a session once, by its number."""

    def __init__(self) -> None:
        self.place: str | None = None
        self.lines: dict[str, list[bytes]] = {}
        self._last: dict[str, int] = {}

    def take(self, frames: list[Frame]) -> None:
        for frame in frames:
            self.place = frame.place or self.place
            event = frame.json if frame.data else {}
            if "seq" in event and event["seq"] > self._last.get(event["session"], 0):
                self._last[event["session"]] = event["seq"]
                if event["type"] not in DISPLAY_ONLY:
                    self.lines.setdefault(event["session"], []).append(frame.data)

    async def read_until(self, stream: Stream, session: str, kind: str) -> None:
        """Up to the place behind the next event of that kind."""
        is_there = False
        while True:
            frame = await stream.next()
            self.take([frame])
            is_there = is_there or (frame.event == kind and frame.json["session"] == session)
            if is_there and frame.place:
                return


async def begin(http: httpx.AsyncClient, session: str) -> None:
    assert (await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})).status_code == 202


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_with_the_cursor_from_before_a_kill_a_reader_of_all_sessions_loses_nothing(
    server: Daemon, order: tuple[int, int]
) -> None:
    reader = Reader()
    async with server.client() as http:
        sessions = [str((await http.post("/v1/sessions", json={})).json()["id"]) for _ in range(2)]
        async with server.stream(None, query="?after=") as stream:
            for session in sessions:
                await begin(http, session)
            await reader.read_until(stream, sessions[0], "tool_end")  # and then it is cut, while the runs go on
        async with server.stream(sessions[1]) as stream:
            await stream.until("text_delta")
    server.restart()
    old = reader.place
    assert old is not None
    async with server.client() as http, server.stream(None, after=old) as stream:
        await stream.next()  # nothing is loaded yet, and the place in what was is not lost
        reader.take([place := await stream.next()])
        assert place.place == old
        for number in order:
            loaded = await http.post("/v1/sessions", json={"resume": sessions[number]})
            assert loaded.json()["interrupted"] is True
            await http.post(f"/v1/sessions/{sessions[number]}/resume", json={})
            await reader.read_until(stream, sessions[number], "done")
        for session in sessions:
            await http.patch(f"/v1/sessions/{session}", json={"title": "the end"})
            await reader.read_until(stream, session, "session_updated")
    assert reader.lines == {session: server.lines(session) for session in sessions}
