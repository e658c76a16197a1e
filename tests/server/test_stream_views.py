"""`?kinds=` and `?detail=`: what a stream shows, of the ring, of the journal and of what happens alike."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import anyio
import httpx
import pytest

from agentcore.events import Notice, TextDelta
from agentcore.messages import Text
from agentcore.ports.models import TextPart
from server import reader as readers
from server.live import LiveSession
from server.reader import SessionReader
from server.view import DURABLE, FINAL, View, view_of
from tests.daemon import DISPLAY_ONLY, Daemon, Frame, numbered, parse_frame, running
from tests.fakes import Turn, house

pytestmark = pytest.mark.anyio

RING = 4096  # the promise of the API
STORY = {
    "scenes": [
        {"match": "flood", "turns": [{"text": "word " * (RING + 300)}]},
        {"turns": [{"text": "one two", "tool_calls": [{"name": "ls", "input": {}}]}, {"text": "three"}]},
    ]
}
VIEWS = {
    "?detail=full": set(DURABLE),
    "?detail=final": set(DURABLE) - DISPLAY_ONLY,
    "?kinds=tool_start,tool_end": {"tool_start", "tool_end"},
    "?kinds=text_delta": {"text_delta"},
    "?kinds=text_delta,done&detail=final": {"done"},
    "?kinds=text_delta&detail=full": {"text_delta"},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("served"), "--mode", "accept-edits") as daemon:
        daemon.script("story", STORY)
        yield daemon


@pytest.fixture
async def http(served: Daemon) -> AsyncIterator[httpx.AsyncClient]:
    async with served.client() as client:
        yield client


@pytest.fixture
async def session(http: httpx.AsyncClient) -> str:
    return str((await http.post("/v1/sessions", json={"model": "scripted/story.json"})).json()["id"])


async def play(http: httpx.AsyncClient, session: str, text: str = "go") -> int:
    """Run a prompt to its end; return the last number of the session."""
    await http.post(f"/v1/sessions/{session}/prompt", json={"text": text, "wait": True})
    return int((await http.get(f"/v1/sessions/{session}")).json()["last_seq"])


def shown_of(frames: list[Frame], kinds: set[str]) -> list[bytes]:
    return [frame.raw for frame in numbered(frames) if frame.event in kinds]


@pytest.mark.parametrize("query", VIEWS)
async def test_a_view_shows_the_same_of_what_happens_and_of_its_replay(
    served: Daemon, http: httpx.AsyncClient, session: str, query: str
) -> None:
    async with served.stream(session) as whole, served.stream(session, query=query) as live:
        last = await play(http, session)
        everything = await whole.until_seq(last)
        happened = await live.until_place(str(last)) if VIEWS[query] != set(DURABLE) else await live.until_seq(last)
    async with served.stream(session, query=query, after=0) as replay:
        replayed = await replay.until_place(str(last)) if VIEWS[query] != set(DURABLE) else await replay.until_seq(last)
    expected = shown_of(everything, VIEWS[query])
    assert [frame.raw for frame in numbered(happened)] == expected
    assert [frame.raw for frame in numbered(replayed)] == expected


@pytest.mark.parametrize("query", VIEWS)
async def test_a_view_holds_for_what_comes_from_the_journal(
    served: Daemon, http: httpx.AsyncClient, session: str, query: str
) -> None:
    await play(http, session)
    last = await play(http, session, "flood")
    async with served.stream(session, after=2) as stream:
        everything = await stream.until_seq(last)
    async with served.stream(session, query=query, after=2) as stream:
        frames = await stream.until_place(str(last)) if VIEWS[query] != set(DURABLE) else await stream.until_seq(last)
    assert [frame.raw for frame in numbered(frames)] == shown_of(everything, VIEWS[query])
    has_deltas = bool(VIEWS[query] & DISPLAY_ONLY)
    assert [frame.event for frame in frames].count("gap") == has_deltas  # without deltas nothing is missing


async def test_a_place_that_was_taken_under_one_view_loses_nothing_under_another(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    async with served.stream(session, query="?kinds=done") as stream:
        await stream.until("snapshot")
        last = await play(http, session)
        await stream.until("done")
        place = (await stream.next()).place
    assert place is not None
    end = await play(http, session)
    async with served.stream(session, after=place) as stream:
        frames = await stream.until_seq(end)
    assert [frame.id for frame in numbered(frames)] == list(range(int(place) + 1, end + 1))
    assert int(place) <= last


async def test_every_chunk_that_leaves_something_out_says_how_far_it_comes(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        async with aclosing(SessionReader(home.hub, live, 0, view_of({"notice"}, "full")).chunks()) as chunks:
            start = live.bus.head
            assert (await anext(chunks)).endswith(b"\n\nid: 0\n\n")
            emit(live, "notice", "text_delta")
            assert (await anext(chunks)).endswith(b"\n\nid: %d\n\n" % (start + 2))


def emit(live: LiveSession, *kinds: str) -> None:
    for kind in kinds:
        is_notice = kind == "notice"
        live.agent.log.emit(Notice(level="info", code="test", text="x") if is_notice else TextDelta(text="x"))


async def test_a_quiet_stream_is_kept_alive_and_says_how_far_it_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        async with aclosing(SessionReader(home.hub, live, None, view_of({"done"}, "full")).chunks()) as chunks:
            with anyio.fail_after(5):
                await anext(chunks)
                monkeypatch.setattr(readers, "KEEPALIVE_S", 0.001)
                emit(live, "notice", "text_delta", "notice")
                moved = await anext(chunks)
                assert await anext(chunks) == b": keepalive\n\n"
    assert moved == b": keepalive\n\nid: %d\n\n" % live.bus.head


async def test_a_stream_that_shows_nothing_of_a_busy_session_is_kept_alive_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not shown breaks no silence."""
    monkeypatch.setattr(readers, "KEEPALIVE_S", 0.05)
    async with house(tmp_path) as home:
        live = await home.session()
        async with aclosing(SessionReader(home.hub, live, None, view_of({"done"}, "full")).chunks()) as chunks:
            await anext(chunks)
            async with anyio.create_task_group() as tasks:

                async def talk() -> None:
                    while True:
                        emit(live, "text_delta")
                        await anyio.sleep(0.001)

                tasks.start_soon(talk)
                with anyio.fail_after(5):
                    assert (await anext(chunks)).startswith(b": keepalive\n\nid: ")
                tasks.cancel_scope.cancel()


UNKNOWN = ["", "done,", "Done", "done, status", "gap", "snapshot", "done,nonsense", "done;status"]


@pytest.mark.parametrize("kinds", UNKNOWN)
@pytest.mark.parametrize("path", ["/v1/sessions/{}/events", "/v1/events"])
async def test_an_unknown_kind_is_refused_with_those_that_are_known(
    http: httpx.AsyncClient, session: str, kinds: str, path: str
) -> None:
    refused = await http.get(path.format(session), params={"kinds": kinds})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")
    assert all(kind in refused.json()["error"] for kind in DURABLE)


@pytest.mark.parametrize("query", ["?detail=some", "?detail=", "?kinds=done&kinds=error"])
async def test_what_cannot_be_chosen_is_refused(http: httpx.AsyncClient, session: str, query: str) -> None:
    for path in (f"/v1/sessions/{session}/events", "/v1/events"):
        assert (await http.get(path + query)).status_code == 400


async def test_the_end_of_a_session_is_shown_whatever_was_chosen(
    served: Daemon, http: httpx.AsyncClient, session: str
) -> None:
    async with served.stream(session, query="?kinds=done") as stream:
        await stream.until("snapshot")
        await http.delete(f"/v1/sessions/{session}")
        frames = await stream.to_end()
    assert [frame.event for frame in numbered(frames)] == ["session_closed"]
    assert stream.wire.is_complete


async def test_half_a_message_is_shown_only_where_its_rest_will_be(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live, holds = await home.session(), anyio.Event()
        home.provider.script(Turn([TextPart("half")], [Text(text="half")], holds=holds))
        live.prompt("go")
        await home.provider.streaming.wait()
        partial = {}
        for detail in ("full", "final"):
            async with aclosing(SessionReader(home.hub, live, None, view_of(None, detail)).chunks()) as chunks:  # type: ignore[arg-type]  # of a list of its words
                [snapshot] = [frame for frame in blocks(await anext(chunks)) if frame.event == "snapshot"]
                partial[detail] = snapshot.json.get("partial")
        holds.set()
        await home.until_idle(live)
    assert partial["full"]["message"]["content"] == [{"type": "text", "text": "half"}]
    assert partial["final"] is None


async def test_a_journal_that_is_gone_is_a_gap_of_events_and_the_stream_goes_on(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        emit(live, *["notice"] * (RING + 10))
        [journal] = (tmp_path / "data").rglob("journal.jsonl")
        journal.unlink()
        async with aclosing(SessionReader(home.hub, live, 0).chunks()) as chunks:
            seen: list[Frame] = []
            with anyio.fail_after(10):
                while not seen or seen[-1].id != live.bus.head:
                    seen += blocks(await anext(chunks))
    gaps = [frame.json for frame in seen if frame.event == "gap"]
    assert gaps[-1] == {
        "type": "gap",
        "reason": "evicted",
        "after": 0,
        "resumed_at": live.bus.oldest,
        "missing": "events",
    }
    assert [frame.id for frame in numbered(seen)] == list(range(live.bus.oldest, live.bus.head + 1))


def blocks(chunk: bytes) -> list[Frame]:
    return [parse_frame(block) for block in chunk.split(b"\n\n")[:-1]]


def test_views_that_show_the_same_share_their_chunks() -> None:
    assert view_of(["done", "error"], "full") == view_of(("error", "done", "done"), "full")
    assert len({view_of(None, "final"), view_of(FINAL, "full"), view_of(FINAL, "final")}) == 1
    assert view_of(None, "full") == View()
    assert view_of(None, "full").is_whole
