"""Many sessions in one stream, streams that show a part, and why a session is not moving, in the Python client."""

from collections.abc import Generator
from contextlib import aclosing, closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from anyio import fail_after

from agentcore.events import Done, Gap, Notice, SessionClosed, TextDelta, ToolStart
from agentcore_client.async_client import AsyncClient
from agentcore_client.client import Client, Session
from agentcore_client.cursor import MAX_PLACES, Cursor, ManyCursor
from agentcore_client.errors import ApiError
from agentcore_client.frames import Snapshot, StreamEvent, UnknownEvent, seq_of
from agentcore_client.values import SessionState
from tests.clients.unruly import SESSION, STATE, Connection, Unruly
from tests.daemon import DISPLAY_ONLY, Daemon, running

PATIENCE_S = 30.0
STORY = {"turns": [{"text": "One two.", "tool_calls": [{"name": "ls", "input": {}}]}, {"text": "Three."}]}
A, B = "20260101-000000-aaaaaa", "20260101-000000-bbbbbb"


@pytest.fixture
def server(tmp_path: Path) -> Generator[Daemon, None, None]:
    Daemon(tmp_path).script("story", STORY)
    with running(tmp_path, "--model", "scripted/story.json") as daemon:
        yield daemon


def read_until_done(stream: Generator[StreamEvent, None, None], *sessions: str) -> list[StreamEvent]:
    """Everything up to the `done` of each of these sessions."""
    events: list[StreamEvent] = []
    left = set(sessions)
    for event in stream:
        events.append(event)
        if isinstance(event, Done):
            left.discard(event.session)
        if not left:
            return events
    raise AssertionError("the stream ended")


def durable(events: list[StreamEvent], session: str) -> list[int]:
    named = [event for event in events if not isinstance(event, Snapshot | UnknownEvent) and event.session == session]
    return [event.seq for event in named if event.seq and event.type not in DISPLAY_ONLY]


def numbers(server: Daemon, session: str) -> list[int]:
    return [event["seq"] for event in server.events(session)]


# --- many sessions ---


def test_all_sessions_are_followed_and_a_cursor_goes_on_after_a_kill(server: Daemon) -> None:
    with Client(server.url, server.token) as client:
        first = client.create_session(server.cwd)
        watch = client.watch()
        with closing(watch.events()) as stream:
            assert isinstance(next(stream), Snapshot)
            second = client.create_session(server.cwd)
            for session in (first, second):
                session.submit("go")
            events = read_until_done(stream, first.id, second.id)
        cursor = watch.cursor
    server.restart()
    with Client(server.url, server.token) as client, closing(client.watch(cursor=cursor).events()) as stream:
        for session in (first, second):
            client.resume_session(session.id).submit("again")
        events += read_until_done(stream, first.id, second.id)
    for session in (first, second):
        came = list(dict.fromkeys(durable(events, session.id)))  # the one at which we broke off was not handled
        assert came == [seq for seq in numbers(server, session.id) if seq <= came[-1]]


def test_a_stream_of_named_sessions_ends_when_they_are_closed(server: Daemon) -> None:
    with Client(server.url, server.token) as client:
        one, other, third = [client.create_session(server.cwd) for _ in range(3)]
        with closing(client.watch(one.id, other.id, kinds=["done"]).events()) as stream:
            assert [type(event) for event in islice(stream, 2)] == [Snapshot, Snapshot]
            third.submit("go")
            one.prompt_and_wait("go")
            one.delete()
            other.delete()
            events = list(stream)
    assert [(type(event), event.session) for event in events if not isinstance(event, Snapshot)] == [
        (Done, one.id),
        (SessionClosed, one.id),
        (SessionClosed, other.id),
    ]


def test_a_named_session_that_is_not_there_is_refused(server: Daemon) -> None:
    with Client(server.url, server.token) as client, pytest.raises(ApiError) as caught:
        next(client.watch(A).events())
    assert caught.value.code == "not_found"


@pytest.mark.anyio
async def test_the_async_client_has_the_same(server: Daemon) -> None:
    async with AsyncClient(server.url, server.token) as client:
        session = await client.create_session(server.cwd)
        watch = client.watch(session.id, detail="final")
        seen: list[StreamEvent] = []
        with fail_after(PATIENCE_S):
            async with aclosing(watch.events()) as stream:
                async for event in stream:
                    seen.append(event)
                    if isinstance(event, Snapshot):
                        await session.submit("go")
                    if isinstance(event, Done):
                        await session.delete()
        why = await (await client.resume_session(session.id)).why()
    assert durable(seen, session.id) == numbers(server, session.id)[: len(seen) - 1]
    assert isinstance(seen[-1], SessionClosed)
    assert not [event for event in seen if event.type in DISPLAY_ONLY]
    assert (why.state, why.waiting_for, why.detail.queued) == ("idle", "nothing", 0)


# --- a part ---


def test_a_stream_shows_the_kinds_that_were_asked_for(server: Daemon) -> None:
    with Client(server.url, server.token) as client:
        session = client.create_session(server.cwd)
        session.prompt_and_wait("go")
        with closing(session.events(after=0, kinds=["tool_start", "done"])) as stream:
            events = list(islice(stream, 3))
        with closing(session.events(after=0, detail="final")) as stream:
            final = list(islice(stream, 4))
        why = session.why()
    assert [type(event) for event in events] == [Snapshot, ToolStart, Done]
    assert [seq_of(event) for event in final] == [0, *numbers(server, session.id)[:3]]
    assert (why.state, why.waiting_for) == ("idle", "nothing")


def test_a_place_without_an_event_moves_the_cursor(unruly: Unruly, client: Client) -> None:
    unruly.emit(Notice(level="info", code="test", text="a"))
    unruly.script = [Connection(goodbye=b"id: 7\n\n: keepalive\n\n")]
    session = client.session(SESSION, cursor=0)
    with closing(session.events()) as stream:
        assert [seq_of(next(stream)) for _ in range(3)] == [0, 1, 0]
    assert [seen.headers.get("Last-Event-ID") for seen in unruly.streams()] == ["0", "7"]


# --- the cursor ---


def snapshot(session: str, last_seq: int) -> Snapshot:
    return Snapshot(last_seq=last_seq, session=SessionState.model_validate({**STATE, "id": session}))


def text(session: str, seq: int) -> TextDelta:
    return TextDelta(seq=seq, session=session, text="x")


def test_each_session_has_its_own_number_and_what_was_handled_is_dropped() -> None:
    cursor = ManyCursor(f"{A}:5", is_named=False)
    cursor.connected()
    assert [cursor.arrived(text(A, 5)), cursor.arrived(text(A, 6)), cursor.arrived(text(B, 1))] == [False, True, True]
    cursor.handled(text(B, 1))
    assert cursor.text == f"{A}:5,{B}:1"
    assert cursor.headers() == {"Last-Event-ID": f"{A}:5,{B}:1"}


def test_a_place_that_is_repeated_moves_nothing_back() -> None:
    cursor = ManyCursor(None, is_named=False)
    assert (cursor.text, cursor.headers()) == (None, {})
    cursor.connected()
    assert cursor.headers() == {"Last-Event-ID": ""}
    cursor.passed(f"{A}:5")
    cursor.handled(text(A, 6))
    cursor.passed(f"{A}:5")
    assert cursor.text == f"{A}:6"
    cursor.passed(f"{A}:9,{B}:0")
    assert cursor.text == f"{A}:9,{B}:0"


def test_a_snapshot_of_a_session_that_has_come_since_hides_none_of_its_events() -> None:
    cursor = ManyCursor("", is_named=False)
    cursor.connected()
    cursor.handled(snapshot(A, 3))
    assert cursor.arrived(text(A, 1))


def test_a_cursor_of_another_life_starts_over_in_its_session_alone() -> None:
    cursor = ManyCursor(f"{A}:99,{B}:7", is_named=False)
    cursor.connected()
    cursor.handled(Gap(session=A, reason="ahead", after=99, resumed_at=4))
    assert cursor.text == f"{A}:3,{B}:7"


def test_what_the_cursor_leaves_out_is_still_known_and_dropped() -> None:
    cursor = ManyCursor("", is_named=False)
    cursor.connected()
    cursor.handled(text(A, 5))
    cursor.passed(f"{B}:7")
    assert cursor.text == f"{B}:7"
    assert [cursor.arrived(text(A, 5)), cursor.arrived(text(A, 6))] == [False, True]


def test_a_cursor_with_a_time_is_sent_back_as_it_is() -> None:
    cursor = ManyCursor(None, is_named=False)
    cursor.connected()
    cursor.passed(f"@:1760000000000000,{A}:5")
    cursor.handled(text(A, 6))
    assert cursor.text == f"@:1760000000000000,{A}:6"


def test_the_cursor_stays_within_what_a_request_may_hold() -> None:
    told = ",".join(f"20260101-{number:06}-abcdef:{number}" for number in range(MAX_PLACES))
    cursor = ManyCursor(told, is_named=False)
    cursor.connected()
    for session in (A, "20260101-000007-abcdef"):
        cursor.handled(text(session, 1_000_000))
    assert cursor.text == told.replace("abcdef:7,", "abcdef:1000000,")


CLOSINGS: list[tuple[bool, list[Any], bool]] = [
    (True, [snapshot(A, 3), SessionClosed(session=A, seq=4, reason="x")], True),
    (True, [snapshot(A, 3), snapshot(B, 3), SessionClosed(session=A, seq=4, reason="x")], False),
    (True, [snapshot(A, 3), SessionClosed(session=A, seq=2, reason="x")], False),  # history
    (True, [], False),
    (False, [snapshot(A, 3), SessionClosed(session=A, seq=4, reason="x")], False),
]


@pytest.mark.parametrize(("is_named", "events", "is_closed"), CLOSINGS)
def test_it_is_over_when_all_that_were_named_are_closed(is_named: bool, events: list[Any], is_closed: bool) -> None:
    cursor = ManyCursor("", is_named=is_named)
    cursor.connected()
    for event in events:
        cursor.arrived(event)
        cursor.handled(event)
    assert cursor.is_closed == is_closed


def test_a_number_that_is_none_moves_no_cursor() -> None:
    cursor = Cursor(5)
    for place in ("", "x", "4", f"{A}:9"):
        cursor.passed(place)
    assert cursor.seq == 5


def test_a_handle_asks_nobody(unruly: Unruly, client: Client) -> None:
    watch, session = client.watch(), client.session(SESSION)
    assert (watch.cursor, isinstance(session, Session)) == (None, True)
    assert unruly.seen == []
