"""The cursor of `GET /v1/events`: how often it is told, how long it may be, and that a reader comes back with it."""

import re
from contextlib import aclosing
from pathlib import Path

import anyio
import pytest

from server.live import LiveSession
from server.many import ManyReader
from server.places import CURSOR, MAX_PLACES, Places
from tests.daemon import Frame, running
from tests.fakes import house
from tests.server.test_many_streams import MANY, A, blocks, events_of, fill, places_of

pytestmark = pytest.mark.anyio

# --- how often ---


async def test_while_chunks_follow_fast_the_place_is_told_once_and_once_more_behind_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.many.PLACE_EVERY_S", 1.0)  # the chunks below come within it, however slow the machine
    async with house(tmp_path) as home:
        live, _ = await home.session(), await home.session()
        async with aclosing(ManyReader(home.hub, None, None, MANY).chunks()) as chunks:
            first = blocks(await anext(chunks))
            later = []
            for _ in range(20):
                fill(live, 1)
                later.append(blocks(await anext(chunks)))
            assert places_of(first) == dict.fromkeys(places_of(first), 0)
            assert not [frame for chunk in later for frame in chunk if frame.place]
            with anyio.fail_after(10):
                last = blocks(await anext(chunks))
    assert [places_of(last)[live.id], len(last)] == [20, 1]


async def test_the_last_place_comes_before_the_end_of_the_stream(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        async with aclosing(ManyReader(home.hub, [live.id], None, MANY).chunks()) as chunks:
            await anext(chunks)
            fill(live, 3)
            await home.hub.close(live, "test")
            rest = [frame async for chunk in chunks for frame in blocks(chunk)]
    assert places_of(rest) == {live.id: live.bus.head}


# --- how long ---


def test_sessions_at_the_beginning_of_their_load_are_left_out_first_then_those_that_ended_then_the_cheapest() -> None:
    places = Places(None)
    for number in range(MAX_PLACES + 4):
        places.put(f"s{number}", number)
    places.ended("s7")
    replays = {f"s{number}": 10_000 for number in range(MAX_PLACES + 4) if number != 7}
    orders = [
        ({"s3": 0, "s4": 0, "s5": 1, "s6": 2}, {"s3", "s4", "s7", "s5"}),
        ({"s3": -5, "s4": 3, "s5": 2, "s6": 1, "s8": 4}, {"s7", "s6", "s5", "s4"}),
    ]
    for changed, left_out in orders:
        told = Places(places.told(replays | changed, 1.0))
        assert len(list(told)) == MAX_PLACES
        assert set(places) - set(told) == left_out
    assert places.get("s3") == 3  # it is not forgotten


def test_a_place_in_an_earlier_load_is_left_out_only_where_it_was_not_given_and_then_with_the_time_that_was() -> None:
    given = [f"s{number}" for number in range(3)]
    places = Places(f"@:5,{','.join(f'{session}:1' for session in given)}")
    for number in range(3, MAX_PLACES + 4):
        places.put(f"s{number}", 1)
    behind = dict.fromkeys(places, -1)
    told = places.told(behind, 1.0)
    assert told.startswith("@:5,")
    assert [len(list(Places(told))), set(given) - set(Places(told))] == [MAX_PLACES, set()]
    assert places.told(dict.fromkeys(places, 1), 1.0).startswith("@:1000000,")
    unmarked = Places(",".join(f"s{number}:1" for number in range(MAX_PLACES + 4)))
    assert len(list(Places(unmarked.told(behind, 1.0)))) == MAX_PLACES + 4


def test_once_something_was_left_out_the_time_stays_in_front() -> None:
    assert Places(f"{A}:1").told({}, 1.0) == f"{A}:1"
    places = Places(f"@:5,{A}:1")
    assert places.told({A: 1}, 1.0) == f"@:1000000,{A}:1"
    assert [places.may_lack(0.000_005), places.may_lack(0.000_006), Places("").may_lack(1.0)] == [False, True, False]


def test_of_sessions_that_are_not_loaded_the_one_that_ended_longest_ago_is_forgotten() -> None:
    places = Places(None)
    for number in range(MAX_PLACES + 3):
        places.put(f"s{number}", number)
    places.ended("s0")
    places.forget({"s1"})
    assert [places.get(f"s{number}") for number in range(4)] == [0, 1, None, None]
    assert len(list(places)) == MAX_PLACES + 1
    assert Places(text := places.told({}, 1.0)).told({}, 1.0) == text


async def test_with_a_bounded_cursor_a_reader_comes_back_and_misses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.places.MAX_PLACES", 2)
    async with house(tmp_path) as home:
        untouched, quiet, busy, busier = lives = [await home.session() for _ in range(4)]
        for count, live in enumerate((quiet, busy, busier), 3):
            fill(live, count)
        before = await read_to_heads(ManyReader(home.hub, None, "", MANY), quiet, busy, busier)
        place = place_in(before)
        assert place.startswith("@:")
        assert place.partition(",")[2] == f"{busy.id}:4,{busier.id}:5"
        for live in lives:
            fill(live, 1)
        after = await read_to_heads(ManyReader(home.hub, None, place, MANY), *lives)
    came = {live.id: [event["seq"] for event in events_of(after, live.id)] for live in lives}
    assert came == {untouched.id: [1], quiet.id: [1, 2, 3, 4], busy.id: [5], busier.id: [6]}


async def test_a_session_that_was_left_out_and_loaded_again_comes_from_its_very_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.places.MAX_PLACES", 2)
    async with house(tmp_path) as home:
        left_out, *_ = lives = [await home.session() for _ in range(3)]
        for count, live in enumerate(lives, 3):
            fill(live, count)
        place = place_in(await read_to_heads(ManyReader(home.hub, None, "", MANY), *lives))
        assert left_out.id not in place
        fill(left_out, 1)  # while nobody reads
        await home.hub.close(left_out, "test")
        again = await home.reload(left_out.id)
        fill(again, 2)
        for _ in range(2):  # the same cursor is good for the same
            seen = await read_to_heads(ManyReader(home.hub, None, place, MANY), again)
            came = [event["seq"] for event in events_of(seen, again.id) if event["type"] != "gap"]
            assert came[:5] == [1, 2, 3, 4, 5]  # the last one is its end
            assert came[5:] == list(range(1_000_001, again.bus.head + 1))
        place = place_in(seen)
        fill(again, 1)
        seen = await read_to_heads(ManyReader(home.hub, None, place, MANY), again)
    assert events_of(seen, again.id)[0]["seq"] > 1_000_000


def place_in(frames: list[Frame]) -> str:
    return next(frame.place for frame in reversed(frames) if frame.place)


async def read_to_heads(reader: ManyReader, *lives: LiveSession) -> list[Frame]:
    """Everything up to the place behind the last events of these sessions."""
    seen: list[Frame] = []
    heads = {live.id: live.bus.head for live in lives}

    def last() -> dict[str, int]:
        numbered = [frame.json for frame in seen if frame.data and "seq" in frame.json]
        return {event["session"]: event["seq"] for event in numbered}

    with anyio.fail_after(10):
        async with aclosing(reader.chunks()) as chunks:
            while not (heads.items() <= last().items() and seen[-1].place):
                seen += blocks(await anext(chunks))
    return seen


async def test_the_longest_cursor_that_is_told_is_taken_back_over_http(tmp_path: Path) -> None:
    given = ",".join(f"20260101-{number:06}-abcdef:{1_000_000 + number}" for number in range(1_900))
    with running(tmp_path) as daemon:
        told = given
        for _ in range(2):
            async with daemon.stream(None, after=told) as stream:
                assert stream.status == 200
                places = [await stream.next() for _ in range(2)]
                told = places[-1].place or ""
    assert told.partition(",")[2] == ",".join(given.split(",")[-MAX_PLACES:])
    assert len(told) <= 32 * 1024


async def test_a_place_in_a_session_that_is_not_loaded_is_kept(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        reader = ManyReader(home.hub, None, f"{A}:12", MANY)
        async with aclosing(reader.chunks()) as chunks:
            assert await anext(chunks) == b": connected\n\nid: %s:12\n\n" % A.encode()


def test_what_is_left_out_of_an_earlier_load_comes_from_its_beginning_where_no_time_was_given() -> None:
    places = Places("")
    names = [f"20261130-{number:06}-aaaaaa" for number in range(MAX_PLACES + 1)]
    for name in names:
        places.put(name, 5)
    cursor = places.told(dict.fromkeys(names, -1), 1e9)
    assert cursor.startswith("@:0,")
    assert re.fullmatch(CURSOR, cursor)
    [left_out] = set(names) - set(Places(cursor))
    assert Places(cursor).may_lack(1.0)
    assert Places(cursor).get(left_out) is None
