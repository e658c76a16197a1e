"""The event stream on the wire (contract 1.4): real sockets, exact bytes."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import anyio
import httpx
import pytest

from agentcore.encoding import head_of
from agentcore.events import Notice
from server import reader as readers
from server.bus import CHUNK_BYTES
from server.live import LiveSession
from server.reader import SessionReader
from tests.daemon import DISPLAY_ONLY, Daemon, Frame, numbered, parse_frame, running
from tests.fakes import house

pytestmark = pytest.mark.anyio

RING = 4096  # the promise of the API
ODD = "first\u2028second\u2029third\u0085fourth\r\nfifth\rsixth \U0001f600"
STORY = {
    "scenes": [
        {"match": "odd", "turns": [{"text": ODD}]},
        {"match": "flood", "turns": [{"text": "word " * (RING + 900)}]},
        {
            "match": "edit",
            "turns": [
                {
                    "text": "I write it.",
                    "tool_calls": [
                        {"name": "write", "input": {"file_path": "a.txt", "content": ODD}},
                        {"name": "read", "input": {"file_path": "a.txt"}},
                    ],
                },
                {"text": "It is written."},
            ],
        },
        {"turns": [{"text": "one two three"}]},
    ]
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("served"), "--mode", "accept-edits", "--debug") as daemon:
        daemon.script("story", STORY)
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


@pytest.fixture
async def session(http: httpx.AsyncClient) -> str:
    created = await http.post("/v1/sessions", json={"model": "scripted/story.json"})
    assert created.status_code == 201
    return str(created.json()["id"])


async def play(http: httpx.AsyncClient, session: str, text: str = "go") -> int:
    """Run a prompt to its end; return the last number of the session, the closing `status` included."""
    done = await http.post(f"/v1/sessions/{session}/prompt", json={"text": text, "wait": True})
    assert done.status_code == 200
    return int((await http.get(f"/v1/sessions/{session}")).json()["last_seq"])


def ids(frames: list[Frame]) -> list[int | None]:
    return [frame.id for frame in numbered(frames)]


def durable(frames: list[Frame]) -> list[bytes]:
    return [frame.data for frame in numbered(frames) if frame.event not in DISPLAY_ONLY]


# --- the beginning ---


async def test_the_head_says_that_this_is_a_stream_that_nobody_may_hold_back(served: Daemon, session: str) -> None:
    async with served.stream(session) as stream:
        headers = stream.headers
    assert stream.status == 200
    assert headers["content-type"].partition(";")[0] == "text/event-stream"
    assert headers["cache-control"] == "no-cache, no-transform"
    assert headers["x-accel-buffering"] == "no"


async def test_a_stream_begins_with_a_comment_and_a_snapshot_without_an_id(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    async with served.stream(session) as stream:
        connected, snapshot = await stream.next(), await stream.next()
    state = (await http.get(f"/v1/sessions/{session}")).json()
    assert connected.raw == b": connected"
    assert (snapshot.id, snapshot.event) == (None, "snapshot")
    assert snapshot.json == {
        "type": "snapshot",
        "last_seq": state["last_seq"],
        "session": state,
        "permissions": [],
        "queue": [],
    }


async def test_without_a_cursor_only_new_events_come(served: Daemon, http: httpx.AsyncClient, session: str) -> None:
    last = await play(http, session)
    async with served.stream(session) as stream:
        await stream.until("snapshot")
        end = await play(http, session)
        frames = await stream.until_seq(end)
    assert ids(frames) == list(range(last + 1, end + 1))


async def test_a_cursor_brings_everything_after_it_once_and_in_order(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    last = await play(http, session, "edit")
    async with served.stream(session, after=3) as stream:
        frames = await stream.until_seq(last)
        await play(http, session)
        frames += await stream.until_idle()
    assert ids(frames) == list(range(4, ids(frames)[-1] + 1))


async def test_a_cursor_at_the_head_brings_nothing_old(served: Daemon, http: httpx.AsyncClient, session: str) -> None:
    last = await play(http, session)
    async with served.stream(session, after=last) as stream:
        await play(http, session)
        frames = await stream.until_idle()
    assert ids(frames)[0] == last + 1


async def test_the_header_wins_over_the_query(served: Daemon, http: httpx.AsyncClient, session: str) -> None:
    last = await play(http, session)
    async with served.stream(session, after=last - 1, query="?after=1") as stream:
        assert ids(await stream.until_seq(last)) == [last]
    async with served.stream(session, query=f"?after={last - 2}") as stream:
        assert ids(await stream.until_seq(last)) == [last - 1, last]


MALFORMED = ["abc", "-1", "+1", "1.5", "1e3", "0x10", "1,2", "1 2", "12345678901234567", "perm-1", "null"]


@pytest.mark.parametrize("cursor", MALFORMED)
async def test_a_malformed_cursor_is_refused(http: httpx.AsyncClient, session: str, cursor: str) -> None:
    path = f"/v1/sessions/{session}/events"
    for refused in (
        await http.get(path, headers={"Last-Event-ID": cursor}),
        await http.get(path, params={"after": cursor}),
        await http.get(path, headers={"Last-Event-ID": "1"}, params={"after": cursor}),
    ):
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize("cursor", ["", "%D9%A1", "%00", "1%0A2"])  # the second is a digit, but not of ASCII
async def test_a_malformed_cursor_in_the_query_is_refused(http: httpx.AsyncClient, session: str, cursor: str) -> None:
    refused = await http.get(f"/v1/sessions/{session}/events?after={cursor}")
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


# --- the bytes ---


async def test_the_journal_and_the_stream_have_the_same_bytes(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    await play(http, session, "odd")
    last = await play(http, session, "edit")
    async with served.stream(session, after=0) as stream:
        frames = await stream.until_seq(last)
    assert durable(frames) == served.lines(session)
    assert all(head_of(frame.data) == (frame.event, frame.id) for frame in numbered(frames))


async def test_lines_end_in_lf_alone_and_no_separator_is_left_bare(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    async with served.stream(session, after=0) as stream:
        await play(http, session, "odd")
        last = await play(http, session, "edit")
        frames = await stream.until_seq(last)
    raw = b"\n".join(frame.raw for frame in frames)
    shown = "".join(frame.json["text"] for frame in frames if frame.event == "text_delta")
    assert ODD in shown
    assert re.search("[\r\u2028\u2029\u0085]", raw.decode()) is None
    assert all(re.fullmatch(rb"id: \d+\nevent: \w+\ndata: [^\n]+", frame.raw) for frame in numbered(frames))


# --- gaps ---


def emit(live: LiveSession, count: int) -> None:
    for _ in range(count):
        live.agent.log.emit(Notice(level="info", code="filler", text="0123456789" * 50))


async def test_behind_the_ring_the_journal_goes_on_and_a_gap_says_that_deltas_are_missing(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    await play(http, session, "edit")
    last = await play(http, session, "flood")
    async with served.stream(session, after=2) as stream:
        frames = await stream.until_seq(last)
    oldest = last - RING + 1
    at = [frame.event for frame in frames].index("gap")
    assert [frame.raw for frame in frames[at - 1 : at]] == [b": gap"]
    assert frames[at].id is None
    assert frames[at].json == {
        "type": "gap",
        "reason": "evicted",
        "after": 2,
        "resumed_at": oldest,
        "missing": "deltas",
    }
    seen = ids(frames)
    assert [seq for seq in seen if seq is not None and seq >= oldest] == list(range(oldest, last + 1))
    assert durable(frames) == served.lines(session)[2:]


async def test_a_long_replay_goes_on_piece_by_piece_while_the_ring_goes_on(tmp_path: Path) -> None:
    """The next piece is read when the last was taken; what the ring lets go of meanwhile is a gap of its own."""
    async with house(tmp_path) as home:
        live = await home.session()
        emit(live, RING + 3000)
        seen: list[Frame] = []
        async with aclosing(SessionReader(home.hub, live, 0).chunks()) as chunks:
            with anyio.fail_after(10):
                while not seen or seen[-1].id != live.bus.head:
                    chunk = await anext(chunks)
                    assert len(chunk) < 2 * CHUNK_BYTES
                    seen += [parse_frame(block) for block in chunk.split(b"\n\n")[:-1]]
                    if seen[-1].id == 3000:
                        emit(live, RING)  # everything that the ring held
    assert ids(seen) == list(range(1, live.bus.head + 1))
    gaps = [frame.json for frame in seen if frame.event == "gap"]
    assert [(gap["after"], gap["resumed_at"]) for gap in gaps] == [(0, 3001), (3000, RING + 3001)]


async def test_a_cursor_ahead_of_the_session_gets_a_gap_and_everything_held(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    last = await play(http, session)
    async with served.stream(session, after=last + 1) as stream:
        frames = await stream.until_seq(last)
    [gap] = [frame for frame in frames if frame.event == "gap"]
    assert gap.json == {"type": "gap", "reason": "ahead", "after": last + 1, "resumed_at": 1}
    assert ids(frames) == list(range(1, last + 1))


# --- quiet, and the end ---


async def test_silence_is_broken_by_a_comment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "KEEPALIVE_S", 0.001)
    async with house(tmp_path) as home:
        reader = SessionReader(home.hub, await home.session(), None)
        async with aclosing(reader.chunks()) as chunks:
            with anyio.fail_after(5):
                await anext(chunks)
                quiet = [await anext(chunks), await anext(chunks)]
    assert quiet == [b": keepalive\n\n"] * 2


async def test_head_is_answered_and_the_connection_goes_on(served: Daemon, session: str) -> None:
    stream = await served.open_stream(session, method="HEAD")
    async with stream.socket:
        await stream.read_head()
        await stream.socket.send(b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        received = b""
        with anyio.fail_after(5):
            while b'{"ok":true}' not in received:
                received += await stream.socket.receive()
    assert stream.status == 200
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert received.startswith(b"HTTP/1.1 200")


async def test_delete_tells_every_reader_and_ends_the_streams_properly(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    async with served.stream(session) as first, served.stream(session, after=0) as second:
        await first.until("snapshot")
        await second.until("snapshot")
        assert (await http.delete(f"/v1/sessions/{session}")).status_code == 204
        ends = [await stream.to_end() for stream in (first, second)]
    assert [end[-1].event for end in ends] == ["session_closed", "session_closed"]
    assert first.wire.is_complete
    assert second.wire.is_complete
    assert served.lines(session)[-1] == ends[0][-1].data
    assert (await http.get(f"/v1/sessions/{session}/events")).status_code == 404


# --- tickets ---


async def ticket_for(http: httpx.AsyncClient, session: str | None) -> str:
    made = await http.post("/v1/stream-tickets", json={} if session is None else {"session": session})
    assert made.status_code == 201
    return str(made.json()["ticket"])


async def test_a_ticket_opens_one_stream_once_and_is_never_logged(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    ticket = await ticket_for(http, session)
    async with served.stream(session, query=f"?after=0&ticket={ticket}", Authorization="") as stream:
        first = stream.status
        await stream.until("snapshot")
    async with served.stream(session, query=f"?ticket={ticket}", Authorization="") as stream:
        second = stream.status
    assert (first, second) == (200, 401)
    assert ticket not in served.log()


async def test_a_ticket_fits_only_its_own_session_and_only_the_stream(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    other = (await http.post("/v1/sessions", json={})).json()["id"]
    async with served.stream(other, query=f"?ticket={await ticket_for(http, session)}", Authorization="") as stream:
        assert stream.status == 401
    async with httpx.AsyncClient(base_url=served.url) as stranger:
        ticket = await ticket_for(http, session)
        for path in (f"/v1/sessions/{session}", f"/v1/sessions/{session}/messages", "/v1/sessions"):
            assert (await stranger.get(path, params={"ticket": ticket})).status_code == 401
    async with served.stream(session, query=f"?ticket={ticket}", Authorization="") as stream:
        assert stream.status == 200
