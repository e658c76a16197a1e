"""`GET /v1/events`: one stream over many sessions, and its one cursor."""

import re
import signal
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from agentcore.events import Notice
from server.bus import CLOSED_STALL_S, LAG_EVENTS, STALL_S
from server.hub import IDLE_S
from server.live import LiveSession
from server.many import ManyReader
from server.routes.events import EventStream
from server.view import view_of
from tests.daemon import Daemon, Frame, Stream, parse_frame, running
from tests.fakes import FakeClock, House, house
from tests.server.test_why_http import serving

pytestmark = pytest.mark.anyio

RING = 4096  # the promise of the API
MANY = view_of(None, "full", is_of_many=True)
STORY = {"turns": [{"text": "one two", "tool_calls": [{"name": "ls", "input": {}}]}, {"text": "three"}]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("served"), "--mode", "accept-edits") as daemon:
        daemon.script("story", STORY)
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


async def create(http: httpx.AsyncClient) -> str:
    return str((await http.post("/v1/sessions", json={"model": "scripted/story.json"})).json()["id"])


@pytest.fixture
async def two(http: httpx.AsyncClient) -> tuple[str, str]:
    return await create(http), await create(http)


async def play(http: httpx.AsyncClient, session: str) -> int:
    """Run a prompt to its end; return the last number of the session."""
    await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go", "wait": True})
    return int((await http.get(f"/v1/sessions/{session}")).json()["last_seq"])


def events_of(frames: list[Frame], session: str) -> list[dict[str, Any]]:
    """The events that have a number, of one session."""
    found = [frame.json for frame in frames if frame.data and "seq" in frame.json]
    return [event for event in found if event["session"] == session]


def named(*sessions: str) -> str:
    return f"?sessions={','.join(sessions)}"


def places_of(frames: list[Frame]) -> dict[str, int]:
    """What the last block that says so says."""
    last = next((frame.place for frame in reversed(frames) if frame.place), "")
    return {name: int(seq) for name, _, seq in (place.partition(":") for place in last.split(",") if place)}


async def read_to(stream: Stream, **last: int) -> list[Frame]:
    """Everything up to the block that says that these sessions have come so far."""
    frames = [await stream.next()]
    with anyio.fail_after(20):
        while not (frames[-1].place and all(f"{name}:{seq}" in frames[-1].place for name, seq in last.items())):
            frames.append(await stream.next())
    return frames


# --- what is on the wire ---


async def test_frames_keep_their_bytes_without_an_id_and_the_place_comes_behind_them(
    served: Daemon, http: httpx.AsyncClient, two: tuple[str, str]
) -> None:
    one, other = two
    async with AsyncExitStack() as stack:
        alone = await stack.enter_async_context(served.stream(one, after=0))
        stream = await stack.enter_async_context(served.stream(None, query=named(one, other)))
        last = await play(http, one)
        everything = await alone.until_seq(last)
        frames = await read_to(stream, **{one: last})
    theirs = [frame for frame in everything if frame.id is not None]
    ours = [frame for frame in frames if frame.data and frame.json.get("session") == one and frame.event != "gap"]
    assert [frame.raw for frame in ours] == [frame.raw.split(b"\n", 1)[1] for frame in theirs]
    assert all(frame.id is None for frame in frames)
    assert re.fullmatch(rb"id: [^\n]+", frames[-1].raw)
    assert places_of(frames) == {one: last, other: 0}


async def test_each_session_begins_with_its_snapshot(
    served: Daemon, http: httpx.AsyncClient, two: tuple[str, str]
) -> None:
    last = await play(http, two[0])
    async with served.stream(None, query=named(*two)) as stream:
        frames = await read_to(stream, **{two[0]: last})
        headers = stream.headers
    assert frames[0].raw == b": connected"
    states = [(await http.get(f"/v1/sessions/{session}")).json() for session in two]
    snapshots = [frame.json for frame in frames if frame.event == "snapshot"]
    assert [snapshot["session"] for snapshot in snapshots] == states
    assert len(frames) == 4  # without a cursor nothing old comes
    assert headers["content-type"].partition(";")[0] == "text/event-stream"
    assert places_of(frames) == {state["id"]: state["last_seq"] for state in states}


async def test_a_cursor_goes_on_in_every_session(served: Daemon, http: httpx.AsyncClient, two: tuple[str, str]) -> None:
    one, other = two
    async with served.stream(None, query=named(*two)) as stream:
        await stream.until("snapshot")
        first = await play(http, one)
        place = (await read_to(stream, **{one: first}))[-1].place
    ends = {one: await play(http, one), other: await play(http, other)}
    for way in ({"after": place}, {"query": f"{named(*two)}&after={place}"}):
        async with served.stream(None, **{"query": named(*two), **way}) as stream:
            frames = await read_to(stream, **ends)
        assert [event["seq"] for event in events_of(frames, one)] == list(range(first + 1, ends[one] + 1))
        assert [event["seq"] for event in events_of(frames, other)] == list(range(1, ends[other] + 1))


async def test_a_session_that_comes_later_is_there_from_its_beginning(served: Daemon, http: httpx.AsyncClient) -> None:
    async with served.stream(None) as stream:
        await stream.next()
        session = await create(http)
        last = await play(http, session)
        frames = await read_to(stream, **{session: last})
    events = events_of(frames, session)
    assert [event["seq"] for event in events] == list(range(1, last + 1))
    assert "snapshot" in [frame.event for frame in frames]


async def test_a_session_that_came_while_nobody_listened_is_there_from_its_beginning(
    served: Daemon, http: httpx.AsyncClient, two: tuple[str, str]
) -> None:
    async with served.stream(None) as stream:
        place = (await read_to(stream, **dict.fromkeys(two, 0)))[-1].place
    session = await create(http)
    last = await play(http, session)
    async with served.stream(None, after=place) as stream:
        frames = await read_to(stream, **{session: last})
    assert [event["seq"] for event in events_of(frames, session)] == list(range(1, last + 1))


async def test_only_the_sessions_that_are_named_come(
    served: Daemon, http: httpx.AsyncClient, two: tuple[str, str]
) -> None:
    async with served.stream(None, query=named(two[0])) as stream:
        await stream.until("snapshot")
        await play(http, two[1])
        await create(http)
        last = await play(http, two[0])
        frames = await read_to(stream, **{two[0]: last})
    assert {frame.json["session"] for frame in frames if frame.data} == {two[0]}
    assert places_of(frames) == {two[0]: last}


async def test_a_view_holds_for_all_of_them(served: Daemon, http: httpx.AsyncClient, two: tuple[str, str]) -> None:
    async with served.stream(None, query=f"{named(*two)}&kinds=text_delta,done&detail=final") as stream:
        await stream.until("snapshot")
        ends = {session: await play(http, session) for session in two}
        live = [await stream.until("done") for _ in two]
    async with served.stream(None, query=f"{named(*two)}&kinds=text_delta,done&detail=final&after=") as stream:
        replayed = await read_to(stream, **ends)
    for frames in ([frame for part in live for frame in part], replayed):
        assert [[event["type"] for event in events_of(frames, session)] for session in two] == [["done"], ["done"]]


# --- the ends ---


async def test_a_session_that_is_closed_ends_only_its_part(
    served: Daemon, http: httpx.AsyncClient, two: tuple[str, str]
) -> None:
    async with served.stream(None, query=named(*two)) as stream:
        await stream.until("snapshot")
        await http.delete(f"/v1/sessions/{two[0]}")
        assert (await stream.until("session_closed"))[-1].json["session"] == two[0]
        last = await play(http, two[1])
        assert events_of(await read_to(stream, **{two[1]: last}), two[1])
        await http.delete(f"/v1/sessions/{two[1]}")
        end = await stream.to_end()
    assert [frame.event for frame in end if frame.data] == ["session_closed"]
    assert stream.wire.is_complete  # all that were named are closed


async def test_a_session_that_is_loaded_again_goes_on_where_it_ended(
    served: Daemon, http: httpx.AsyncClient, two: tuple[str, str]
) -> None:
    async with served.stream(None) as stream:
        await stream.until("snapshot")
        await play(http, two[0])
        await http.delete(f"/v1/sessions/{two[0]}")
        await stream.until("session_closed")
        assert (await http.post("/v1/sessions", json={"resume": two[0]})).status_code == 201
        last = await play(http, two[0])
        frames = await read_to(stream, **{two[0]: last})
    assert [event["seq"] for event in events_of(frames, two[0])] == list(range(1_000_001, last + 1))


async def test_a_session_that_is_loaded_again_before_its_end_was_taken_is_not_forgotten(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        async with aclosing(ManyReader(home.hub, None, None, MANY).chunks()) as chunks:
            await anext(chunks)
            fill(live, 2)
            await home.hub.close(live, "test")
            again = await home.reload(live.id)
            fill(again, 2)
            seen: list[Frame] = []
            with anyio.fail_after(5):
                while not seen or places_of(seen) != {live.id: again.bus.head}:
                    seen += blocks(await anext(chunks))
    numbers = [event["seq"] for event in events_of(seen, live.id) if event["type"] != "gap"]
    assert numbers == [*range(1, live.bus.head + 1), *range(1_000_001, again.bus.head + 1)]


@pytest.mark.parametrize("sessions", [0, 2])
async def test_the_end_of_the_server_is_said_once_and_ends_the_stream_properly(tmp_path: Path, sessions: int) -> None:
    with running(tmp_path) as daemon:
        async with daemon.client() as http:
            for _ in range(sessions):
                await http.post("/v1/sessions", json={})
            async with daemon.stream(None) as stream:
                await stream.next()
                daemon.signal(signal.SIGTERM)
                end = await stream.to_end()
            assert await daemon.wait() == 0
    assert [frame.event for frame in end if frame.data][sessions:] == ["server_stopping"]
    assert stream.wire.is_complete


# --- what is refused ---

A = "20260101-000000-abcdef"
MALFORMED = [
    "5",
    "٢" * 8 + "-000000-abcdef:1",
    "a:12",
    f"{A}",
    f"{A}:",
    f"{A}:x",
    f"{A}:-1",
    f"{A}:1,",
    f",{A}:1",
    f"{A}:1;{A}:2",
    f"{A}:1 ,{A}:2",
]


@pytest.mark.parametrize("cursor", MALFORMED)
async def test_a_malformed_cursor_is_refused(http: httpx.AsyncClient, cursor: str) -> None:
    for refused in (
        await http.get("/v1/events", headers={"Last-Event-ID": cursor.encode()}),
        await http.get("/v1/events", params={"after": cursor}),
    ):
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


async def test_the_header_wins_over_the_query(served: Daemon, http: httpx.AsyncClient, two: tuple[str, str]) -> None:
    last = await play(http, two[0])
    query = f"{named(two[0])}&after={two[0]}:0"
    async with served.stream(None, query=query, after=f"{two[0]}:{last - 1}") as stream:
        frames = await read_to(stream, **{two[0]: last})
    assert [event["seq"] for event in events_of(frames, two[0])] == [last]
    async with served.stream(None, query=query, after="x") as stream:
        assert stream.status == 400


async def test_kinds_that_there_are_not_are_refused_with_those_that_there_are(http: httpx.AsyncClient) -> None:
    refused = await http.get("/v1/events?kinds=done,nope")
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
    assert "nope" in refused.json()["error"]
    assert "text_delta" in refused.json()["error"]


async def test_a_named_session_has_to_be_loaded(served: Daemon, http: httpx.AsyncClient, two: tuple[str, str]) -> None:
    await http.delete(f"/v1/sessions/{two[1]}")
    unloaded = await http.get("/v1/events" + named(*two))
    unknown = await http.get("/v1/events" + named(two[0], A))
    assert [(one.status_code, one.json()["code"]) for one in (unloaded, unknown)] == [(404, "not_found")] * 2
    assert f'{{"resume": "{two[1]}"}}' in unloaded.json()["error"]
    assert A in unknown.json()["error"]
    assert (await http.get("/v1/events?sessions=")).status_code == 400


async def test_a_ticket_does_not_open_it(served: Daemon, http: httpx.AsyncClient) -> None:
    ticket = (await http.post("/v1/stream-tickets", json={})).json()["ticket"]
    async with served.stream(None, query=f"?ticket={ticket}", Authorization="") as stream:
        assert stream.status == 401


async def test_a_server_that_has_ended_its_streams_begins_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path) as stopping:
        await stopping.create()
        stopping.hub.farewell = b"bye"
        stopping.hub._is_draining = True
        refused = await stopping.http.get("/v1/events")
    assert (refused.status_code, refused.json()["code"]) == (503, "draining")


# --- gaps ---


def fill(live: LiveSession, count: int) -> None:
    for _ in range(count):
        live.agent.log.emit(Notice(level="info", code="filler", text="x" * 100))


def blocks(chunk: bytes) -> list[Frame]:
    return [parse_frame(block) for block in chunk.split(b"\n\n")[:-1]]


async def read_until_at_rest(home: House, reader: ManyReader) -> list[Frame]:
    """Everything up to the place where all that are loaded have come to their heads."""
    seen: list[Frame] = []
    heads = {live.id: live.bus.head for live in home.hub}
    with anyio.fail_after(20):
        async with aclosing(reader.chunks()) as chunks:
            while not seen or places_of(seen) != heads:
                seen += blocks(await anext(chunks))
    return seen


async def test_a_gap_says_whose_it_is_and_the_others_have_none(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        old, ahead, well = [await home.session() for _ in range(3)]
        for live in (old, ahead, well):
            fill(live, RING + 10 if live is old else 5)
        cursor = f"{old.id}:2,{ahead.id}:{ahead.bus.head + 7},{well.id}:2"
        seen = await read_until_at_rest(home, ManyReader(home.hub, None, cursor, MANY))
    gaps = {frame.json["session"]: frame.json for frame in seen if frame.event == "gap"}
    assert gaps == {
        old.id: {
            "type": "gap",
            "session": old.id,
            "reason": "evicted",
            "after": 2,
            "resumed_at": old.bus.oldest,
            "missing": "deltas",
        },
        ahead.id: {
            "type": "gap",
            "session": ahead.id,
            "reason": "ahead",
            "after": ahead.bus.head + 7,
            "resumed_at": ahead.bus.oldest,
        },
    }
    for live, first in ((old, 3), (ahead, ahead.bus.oldest), (well, 3)):
        assert [event["seq"] for event in events_of(seen, live.id)] == list(range(first, live.bus.head + 1))


async def test_a_long_replay_of_one_session_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        long, short = await home.session(), await home.session()
        fill(long, RING * 4)
        fill(short, 1)
        seen = await read_until_at_rest(home, ManyReader(home.hub, None, f"{long.id}:0,{short.id}:0", MANY))
    order = [frame.json["session"] for frame in seen if frame.data and "seq" in frame.json]
    assert order.index(short.id) < RING


# --- what it costs ---


async def test_many_sessions_that_have_news_are_one_wake_and_one_chunk(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        lives = [await home.session() for _ in range(20)]
        async with aclosing(ManyReader(home.hub, None, None, MANY).chunks()) as chunks:
            await anext(chunks)
            woken = anyio.Event()
            received: list[bytes] = []

            async def read() -> None:
                received.append(await anext(chunks))
                woken.set()

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                await anyio.wait_all_tasks_blocked()
                assert [len(live.bus.sleepers) for live in lives] == [1] * 20
                for live in lives:
                    fill(live, 3)
                    assert len(live.bus.sleepers) == 0  # what comes before it looks wakes nobody
                with anyio.fail_after(5):
                    await woken.wait()
    assert len(events_of(blocks(received[0]), lives[0].id)) == 3
    assert len([frame for frame in blocks(received[0]) if frame.data]) == 60


async def test_a_reader_that_begins_with_many_sessions_lets_others_have_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.reader.TURN_S", 0.0)
    async with house(tmp_path) as home:
        lives = [await home.session() for _ in range(20)]
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                await anyio.lowlevel.checkpoint()
                turns += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_turns)
            seen = await read_until_at_rest(home, ManyReader(home.hub, None, None, MANY))
            tasks.cancel_scope.cancel()
    assert len([frame for frame in seen if frame.event == "snapshot"]) == len(lives)
    assert turns >= len(lives) - 1


async def test_a_reader_that_is_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        lives = [await home.session() for _ in range(3)]
        for _ in range(1000):
            async with aclosing(ManyReader(home.hub, None, None, MANY).chunks()) as chunks:
                await anext(chunks)
        assert [(len(live.bus.sleepers), len(live.bus.cursors)) for live in lives] == [(0, 0)] * 3
        assert len(home.hub.arrivals) == 0


@pytest.mark.parametrize(("is_named", "stays"), [(True, True), (False, False)])
async def test_reading_all_sessions_keeps_none_loaded_and_reading_one_by_name_does(
    tmp_path: Path, is_named: bool, stays: bool
) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await home.session()
        reader = ManyReader(home.hub, [live.id] if is_named else None, None, MANY)
        async with aclosing(reader.chunks()) as chunks:
            await anext(chunks)
            clock.time += IDLE_S + 1
            home.hub.tidy()
            assert (home.hub.find(live.id) is live) == stays


class Socket:
    """The server's side of a connection; takes the head and the first chunk, then stalls."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.is_writing = anyio.Event()
        self.takes = anyio.Event()

    async def send(self, message: Any) -> None:
        if len(self.sent) == 2 and not self.takes.is_set():
            self.is_writing.set()
            await self.takes.wait()
        self.sent.append(message)

    async def receive(self) -> dict[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError


@asynccontextmanager
async def stalled(home: House, live: LiveSession) -> AsyncIterator[tuple[ManyReader, Socket]]:
    """A reader of all sessions whose socket takes nothing any more since one of them had news."""
    reader, socket = ManyReader(home.hub, None, None, MANY), Socket()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(EventStream(reader), {"type": "http", "method": "GET"}, socket.receive, socket.send)
            while len(socket.sent) < 2:
                await anyio.lowlevel.checkpoint()
            fill(live, 1)
            await socket.is_writing.wait()
            yield reader, socket
            group.cancel_scope.cancel()


def stalled_since(reader: ManyReader) -> float:
    assert reader.writer.writing_since is not None
    return reader.writer.writing_since


async def until_ended(socket: Socket) -> Frame:
    """What a socket that takes again is told at last."""
    socket.takes.set()
    while socket.sent[-1].get("more_body", True):
        await anyio.lowlevel.checkpoint()
    return blocks(socket.sent[-1]["body"])[-1]


async def test_a_reader_that_stalls_is_ended_by_any_of_its_sessions(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        busy, quiet = await home.session(), await home.session()
        async with stalled(home, busy) as (reader, socket):
            fill(busy, LAG_EVENTS + 1)
            quiet.bus.drop_stalled(stalled_since(reader) + STALL_S)
            assert reader.writer.dropped_at is None
            home.hub.drop_stalled(stalled_since(reader) + STALL_S)
            last = await until_ended(socket)
        assert last.json == {"type": "lagging", "behind": LAG_EVENTS + 1}
        assert not busy.bus.cursors | quiet.bus.cursors


async def test_a_reader_that_stalls_does_not_keep_sessions_that_were_closed(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        closed, other = await home.session(), await home.session()
        async with stalled(home, other) as (reader, socket):
            fill(closed, 3)
            bus = weakref.ref(closed.bus)
            await home.hub.close(closed, "test")
            home.heard.clear()
            del closed
            home.hub.drop_stalled(stalled_since(reader) + CLOSED_STALL_S - 0.1)
            assert reader.writer.dropped_at is None
            home.hub.drop_stalled(stalled_since(reader) + CLOSED_STALL_S)
            assert (await until_ended(socket)).event == "lagging"
        assert bus() is None
        assert not other.bus.cursors


async def test_a_reader_that_stalls_costs_the_others_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        async with stalled(home, live), aclosing(ManyReader(home.hub, None, None, MANY).chunks()) as chunks:
            await anext(chunks)
            fill(live, 3)
            assert len(events_of(blocks(await anext(chunks)), live.id)) == 3
