"""The resuming stream against a server that cuts, repeats, and says things nobody has heard of."""

import json
from collections.abc import Generator
from contextlib import closing
from itertools import islice

import pytest
from pydantic import JsonValue

from agentcore.events import Gap, Lagging, Notice, ServerStopping, SessionClosed, TextDelta
from agentcore_client import transport
from agentcore_client.call import STREAM_READ_S
from agentcore_client.client import Client, Session
from agentcore_client.cursor import Cursor
from agentcore_client.errors import ApiError, ConnectionLost
from agentcore_client.frames import Snapshot, StreamEvent, UnknownEvent, seq_of
from agentcore_client.retry import Backoff, RetryPolicy
from agentcore_client.transport import is_over
from agentcore_client.values import SessionState
from tests.clients.unruly import SESSION, STATE, Connection, Ending, Unruly


@pytest.fixture
def session(client: Client) -> Session:
    return client.session(SESSION)


def say(unruly: Unruly, *texts: str) -> None:
    for text in texts:
        unruly.emit(Notice(level="info", code="test", text=text))


def take(session: Session, count: int, after: int | None = None) -> list[StreamEvent]:
    """The first `count` events of a stream, the last of them not yet handled."""
    with closing(session.events(after)) as stream:
        return list(islice(stream, count))


class ReaderFailed(Exception):
    """What a consumer raises in the middle of an event."""


def fail_at(stream: Generator[StreamEvent, None, None], seq: int) -> None:
    with closing(stream):
        for event in stream:
            if seq_of(event) == seq:
                raise ReaderFailed


def numbers(events: list[StreamEvent]) -> list[int]:
    return [seq_of(event) for event in events if seq_of(event)]


def resumed_from(unruly: Unruly) -> list[str | None]:
    return [seen.headers.get("Last-Event-ID") for seen in unruly.streams()]


def test_snapshot_comes_first_and_new_events_after_it(unruly: Unruly, session: Session) -> None:
    say(unruly, "old")
    stream = session.events()
    with closing(stream):
        assert next(stream) == Snapshot(last_seq=1, session=SessionState.model_validate({**STATE, "last_seq": 1}))
        say(unruly, "new")
        event = next(stream)
    assert isinstance(event, Notice)
    assert (event.text, event.seq, event.session, event.ts) == ("new", 2, SESSION, 1.0)


def test_cut_stream_goes_on_after_the_last_handled_event(unruly: Unruly, session: Session) -> None:
    say(unruly, "a", "b")
    unruly.script = [Connection(goodbye=b": cut\n")]
    stream = session.events(after=0)
    with closing(stream):
        assert numbers([next(stream) for _ in range(3)]) == [1, 2]
        assert isinstance(next(stream), Snapshot)
        say(unruly, "c")
        assert numbers([next(stream)]) == [3]
    assert resumed_from(unruly) == ["0", "2"]


@pytest.mark.parametrize("ending", ["eof", "reset", "chunk"])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_cut_at_any_byte_loses_and_repeats_nothing(
    unruly: Unruly, session: Session, ending: Ending, line_end: bytes
) -> None:
    say(unruly, "a\u2028b", "c\u0085d", "ü")
    size = len(b"".join(islice(unruly.body(0, Connection()), 2)).replace(b"\n", line_end))
    for cut_at in range(0, size, 3):
        unruly.script = [Connection(cut_at=cut_at, ending=ending, line_end=line_end, write_size=7)]
        with closing(session.events(after=0)) as stream:
            news = (event for event in stream if seq_of(event))
            assert numbers(list(islice(news, 3))) == [1, 2, 3], f"cut after {cut_at} bytes"


def test_crlf_split_over_two_writes_is_one_line_end(unruly: Unruly, session: Session) -> None:
    say(unruly, "a", "b")
    unruly.script = [Connection(line_end=b"\r\n", write_size=1)]
    assert numbers(take(session, 3, after=0)) == [1, 2]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085"])
def test_unicode_line_separators_in_data_are_not_line_ends(unruly: Unruly, session: Session, separator: str) -> None:
    data = {"type": "text_delta", "seq": 1, "text": f"a{separator}b"}
    unruly.emit_raw("text_delta", json.dumps(data, ensure_ascii=False).encode())
    assert take(session, 2, after=0)[1] == TextDelta(seq=1, text=f"a{separator}b")


@pytest.mark.parametrize("control", ["\x0b", "\x0c", "\x1c", "\x1e"])
def test_control_characters_in_data_are_not_line_ends(unruly: Unruly, session: Session, control: str) -> None:
    unruly.emit_raw("later", f"no{control}json".encode())
    assert take(session, 2, after=0)[1] == UnknownEvent("later", 0, f"no{control}json")


def test_repeated_events_are_dropped(unruly: Unruly, session: Session) -> None:
    say(unruly, "a", "b", "c")
    unruly.script = [Connection(goodbye=b": cut\n"), Connection(overlap=3)]
    stream = session.events(after=0)
    with closing(stream):
        first = [next(stream) for _ in range(5)]
        say(unruly, "d")
        assert numbers([*first, next(stream)]) == [1, 2, 3, 4]


def test_unknown_types_are_handed_out_and_move_the_cursor(unruly: Unruly, session: Session) -> None:
    data: JsonValue = {"type": "hologram", "seq": 1, "colour": ["blue"]}
    unruly.emit_raw("hologram", b'{"type":"hologram","seq":1,"colour":["blue"]}')
    say(unruly, "after")
    assert take(session, 3, after=0)[1] == UnknownEvent("hologram", 1, data)
    assert session.cursor == 1


def test_newer_fields_on_known_types_are_ignored(unruly: Unruly, session: Session) -> None:
    unruly.emit_raw("notice", b'{"type":"notice","seq":1,"level":"info","code":"c","text":"t","newer":{"a":1}}')
    assert take(session, 2, after=0)[1] == Notice(seq=1, level="info", code="c", text="t")


def test_known_type_with_an_unknown_word_is_handed_out_unknown(unruly: Unruly, session: Session) -> None:
    data: JsonValue = {"type": "notice", "seq": 1, "level": "fatal", "code": "c", "text": "t"}
    unruly.emit_raw("notice", b'{"type":"notice","seq":1,"level":"fatal","code":"c","text":"t"}')
    assert take(session, 2, after=0)[1] == UnknownEvent("notice", 1, data)


def test_control_events_are_handed_out_and_the_stream_comes_back(unruly: Unruly, session: Session) -> None:
    say(unruly, "a")
    lagging = b'event: lagging\ndata: {"type":"lagging","behind":1025}\n\n'
    stopping = b'event: server_stopping\ndata: {"type":"server_stopping"}\n\n'
    gap = b'event: gap\ndata: {"type":"gap","reason":"evicted","after":0,"resumed_at":1,"missing":"deltas"}\n\n'
    unruly.script = [Connection(goodbye=gap + lagging), Connection(goodbye=stopping), Connection()]
    events = take(session, 7, after=0)
    assert [type(event) for event in events] == [Snapshot, Notice, Gap, Lagging, Snapshot, ServerStopping, Snapshot]
    assert resumed_from(unruly) == ["0", "1", "1"]


@pytest.mark.parametrize("goodbye", ['{"type":"lagging","behind":1025}', '{"type":"server_stopping"}'])
def test_stream_comes_back_at_once_after_a_goodbye(unruly: Unruly, session: Session, goodbye: str) -> None:
    name = json.loads(goodbye)["type"]
    unruly.script = [Connection(goodbye=f"event: {name}\ndata: {goodbye}\n\n".encode(), lingers=True)]
    assert [event.type for event in take(session, 3)] == ["snapshot", name, "snapshot"]


def test_cursor_of_another_life_starts_over(unruly: Unruly, session: Session) -> None:
    ahead = b'event: gap\ndata: {"type":"gap","reason":"ahead","after":99,"resumed_at":1}\n\n'
    unruly.script = [Connection(goodbye=ahead)]
    say(unruly, "a")
    events = take(session, 4, after=99)
    assert numbers(events) == [1]
    assert resumed_from(unruly) == ["99", "0"]


def test_cursor_moves_only_when_the_next_event_is_asked_for(unruly: Unruly, session: Session) -> None:
    say(unruly, "a", "b", "c")
    with pytest.raises(ReaderFailed):
        fail_at(session.events(after=0), 2)
    assert session.cursor == 1
    assert numbers(take(session, 3)) == [2, 3]


def test_session_closed_ends_the_stream(unruly: Unruly, session: Session) -> None:
    stream = session.events(after=0)
    with closing(stream):
        next(stream)
        unruly.emit(SessionClosed(reason="deleted"))
        assert list(stream) == [SessionClosed(reason="deleted", seq=1, session=SESSION, ts=1.0)]
    assert len(unruly.streams()) == 1


def test_session_closed_in_the_replay_is_history(unruly: Unruly, session: Session) -> None:
    unruly.emit(SessionClosed(reason="idle"))
    say(unruly, "loaded again")
    assert numbers(take(session, 3, after=0)) == [1, 2]


@pytest.mark.parametrize("status", [429, 500, 502, 504])
def test_passing_trouble_is_waited_out(unruly: Unruly, session: Session, status: int) -> None:
    say(unruly, "a")
    unruly.script = [Connection(status=status)]
    assert numbers(take(session, 2, after=0)) == [1]


@pytest.mark.parametrize(("status", "code"), [(401, "unauthorized"), (404, "not_found"), (410, "session_closed")])
def test_refusal_ends_the_stream_at_once(unruly: Unruly, session: Session, status: int, code: str) -> None:
    unruly.replies[f"GET /v1/sessions/{SESSION}/events"] = (status, {"error": "no", "code": code, "details": {"a": 1}})
    with pytest.raises(ApiError) as caught:
        take(session, 1)
    assert (caught.value.status, caught.value.code, caught.value.details) == (status, code, {"a": 1})
    assert len(unruly.streams()) == 1


def test_answer_that_is_no_stream_is_refused_at_once(unruly: Unruly, session: Session) -> None:
    unruly.script = [Connection(media_type="text/html", goodbye=b"<html>")]
    with pytest.raises(ApiError) as caught:
        take(session, 1)
    assert caught.value.code == "not_an_event_stream"


def test_connection_is_lost_only_after_the_whole_budget(unruly: Unruly, session: Session) -> None:
    unruly.script = [Connection(status=500)] * 9
    with pytest.raises(ConnectionLost):
        take(session, 1)
    assert len(unruly.streams()) == 4


def test_answered_connections_never_use_up_the_budget(unruly: Unruly, session: Session) -> None:
    refused, cut = Connection(status=500), Connection(goodbye=b": cut\n")
    unruly.script = [refused, refused, cut] * 4
    assert [type(event) for event in take(session, 5)] == [Snapshot] * 5
    assert len(unruly.streams()) == 13


def test_only_news_shortens_the_next_pause() -> None:
    backoff = Backoff(RetryPolicy(first_s=1.0), jitter=lambda: 1.0)
    cursor = Cursor(0)
    snapshot = Snapshot(last_seq=0, session=SessionState.model_validate(STATE))
    assert backoff.lost(None) == 1.0
    is_over(snapshot, cursor, backoff)
    assert backoff.lost(None) == 2.0
    is_over(Notice(seq=1, level="info", code="c", text="t"), cursor, backoff)
    assert backoff.lost(None) == 1.0


def test_silent_connection_is_taken_for_dead(unruly: Unruly, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    assert STREAM_READ_S == 45.0  # three keep-alives of the server
    monkeypatch.setattr(transport, "STREAM_READ_S", 0.05)
    assert [type(event) for event in take(session, 2)] == [Snapshot, Snapshot]
