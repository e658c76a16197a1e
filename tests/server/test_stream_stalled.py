"""A reader that stops reading: its connection is ended, nobody else waits for it, and it gets the rest later."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from server.bus import LAG_EVENTS, STALL_S
from server.reader import SessionReader
from server.routes.events import EventStream
from tests.daemon import DISPLAY_ONLY, Daemon, Frame, Stream, numbered, parse_frame, running
from tests.fakes import house, say

pytestmark = pytest.mark.anyio

WORDS = 1500
RUNS = 10  # together more bytes than all socket buffers of a connection hold
FLOOD = {"turns": [{"text": ("w" * 600 + " ") * WORDS}]}
PAUSE = {"turns": [{"text": "That was long enough.", "ttft_ms": 1000 * STALL_S * 1.6}]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("stalled")
    Daemon(folder).configure("auto_compact = false\n")  # the flood is more than any window holds
    with running(folder) as daemon:
        daemon.script("flood", FLOOD)
        daemon.script("pause", PAUSE)
        yield daemon


async def follow(stream: Stream, frames: list[Frame], last: str) -> None:
    frames += await stream.until(last)


async def test_a_stalled_reader_is_ended_alone_and_gets_the_rest_by_its_cursor(served: Daemon) -> None:
    async with served.client() as http:
        session = (await http.post("/v1/sessions", json={"model": "scripted/flood.json"})).json()["id"]
        pause = (await http.post("/v1/sessions", json={"model": "scripted/pause.json"})).json()["id"]
        async with served.stream(session, after=0) as stalled, served.stream(session, after=0) as steady:
            everything: list[Frame] = []
            async with anyio.create_task_group() as group:
                group.start_soon(follow, steady, everything, "session_updated")
                for _ in range(RUNS):
                    done = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go", "wait": True})
                    assert done.json()["stop_reason"] == "end_turn"
                # long enough for the watchdog; the server goes on answering meanwhile
                await http.post(f"/v1/sessions/{pause}/prompt", json={"text": "go", "wait": True})
                await http.patch(f"/v1/sessions/{session}", json={"title": "the end"})
            partial = await stalled.to_end()
        ids = [frame.id for frame in numbered(everything)]
        assert ids == list(range(1, len(ids) + 1))
        seen = numbered(partial)
        assert [frame.id for frame in seen] == list(range(1, len(seen) + 1))
        assert len(seen) < len(ids) - LAG_EVENTS
        assert {frame.event for frame in partial if frame.id is None and frame.event} <= {"snapshot", "lagging"}
        async with served.stream(session, after=seen[-1].id) as stream:
            await follow(stream, seen, "session_updated")
    durable = [frame.data for frame in numbered(seen) if frame.event not in DISPLAY_ONLY]
    assert durable == served.lines(session)
    assert "ERROR" not in served.log()


class Socket:
    """The server's side of a connection: takes chunks while it is open, and can be stalled."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.is_writing = anyio.Event()
        self.takes = anyio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        if len(self.sent) == 2 and not self.takes.is_set():  # the head and the snapshot went through
            self.is_writing.set()
            await self.takes.wait()
        self.sent.append(message)

    async def receive(self) -> dict[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError

    @property
    def frames(self) -> list[Frame]:
        body = b"".join(message.get("body", b"") for message in self.sent)
        return [parse_frame(block) for block in body.split(b"\n\n")[:-1]]


@pytest.mark.parametrize(("behind", "seconds", "ends"), [(1, 1.0, True), (1, 0.9, False), (0, 9.0, False)])
async def test_only_a_reader_that_is_far_behind_for_two_seconds_is_ended(
    tmp_path: Path, behind: int, seconds: float, ends: bool
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        reader, socket = SessionReader(home.hub, live, None), Socket()
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(EventStream(reader), {"type": "http", "method": "GET"}, socket.receive, socket.send)
                while len(socket.sent) < 2:
                    await anyio.lowlevel.checkpoint()
                live.agent.notice("info", "first", "It is being written when the socket stalls.")
                await socket.is_writing.wait()
                for number in range(LAG_EVENTS + behind):
                    live.agent.notice("info", "more", str(number))
                assert reader.writer.writing_since is not None
                live.bus.drop_stalled(reader.writer.writing_since + STALL_S * seconds)
                socket.takes.set()
                if ends:
                    while socket.sent[-1].get("more_body", True):
                        await anyio.lowlevel.checkpoint()
                    assert socket.frames[-1].json == {"type": "lagging", "behind": LAG_EVENTS + behind}
                    assert live.bus.cursors == set()
                else:
                    while socket.frames[-1].id != live.bus.head:
                        await anyio.lowlevel.checkpoint()
                group.cancel_scope.cancel()


async def test_a_burst_alone_ends_nobody(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        reader = SessionReader(home.hub, live, None)
        live.bus.cursors.add(reader.cursor)
        home.provider.script(say("word " * (LAG_EVENTS * 3)))
        await home.run(live, "go")
        live.bus.drop_stalled(anyio.current_time() + 100)
    assert reader.writer.dropped_at is None
