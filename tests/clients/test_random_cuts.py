"""Random walks: whatever happens to the connections, each event is handed out exactly once and in order."""

import random
from contextlib import aclosing, closing, suppress
from typing import get_args

import pytest
from anyio import fail_after

from agentcore.events import Notice, TextDelta
from agentcore_client.async_client import AsyncClient
from agentcore_client.client import Client
from agentcore_client.frames import StreamEvent, seq_of
from tests.clients.unruly import SESSION, Connection, Ending, Unruly

WALKS = 12
EVENTS = 120


class ReaderFailed(Exception):
    """What a consumer raises in the middle of an event."""


def random_connection(walk: random.Random) -> Connection:
    if walk.random() < 0.15:
        return Connection(status=walk.choice([500, 502]))
    return Connection(
        cut_at=walk.randrange(12_000),
        ending=walk.choice(get_args(Ending)),
        overlap=walk.choice([0, 0, 1, 30]),
        line_end=walk.choice([b"\n", b"\r\n"]),
        write_size=walk.choice([1, 13, 4096]),
    )


def prepare(unruly: Unruly, walk: random.Random) -> None:
    """Fill the session and script the trouble; never so many refusals in a row that the budget ends."""
    unruly.script = [random_connection(walk) for _ in range(20)]
    for place in range(2, len(unruly.script), 3):
        unruly.script[place] = Connection(cut_at=walk.randrange(200, 3000))
    for number in range(1, EVENTS + 2):  # one more, at which the reader stops
        text = walk.choice(["", "\u2028", "ü", "\r\n", "x" * 300]) + str(number)
        if number % 7 == 0:
            unruly.emit_raw("later", b'{"type":"later","seq":%d,"session":"%s"}' % (number, SESSION.encode()))
        else:
            unruly.emit(TextDelta(text=text) if number % 2 else Notice(level="info", code="walk", text=text))


class Reader:
    """Handles events and fails now and then; remembers what it handled."""

    def __init__(self, walk: random.Random) -> None:
        self._walk = walk
        self.handled: list[int] = []

    @property
    def is_through(self) -> bool:
        return EVENTS in self.handled

    def take(self, event: StreamEvent) -> None:
        """Handle an event, or fail before it is handled."""
        if self.is_through or self._walk.random() < 0.02:
            raise ReaderFailed
        if seq_of(event):
            self.handled.append(seq_of(event))


@pytest.mark.parametrize("seed", range(WALKS))
def test_each_event_is_handled_exactly_once(unruly: Unruly, client: Client, seed: int) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    prepare(unruly, walk)
    session = client.session(SESSION, cursor=0)
    reader = Reader(walk)
    while not reader.is_through:
        with suppress(ReaderFailed), closing(session.events()) as stream:
            for event in stream:
                reader.take(event)
    assert reader.handled == list(range(1, EVENTS + 1))


@pytest.mark.parametrize("seed", range(200, 200 + WALKS))
def test_each_event_of_many_sessions_is_handled_exactly_once(unruly: Unruly, client: Client, seed: int) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    prepare(unruly, walk)
    watch = client.watch(cursor="")
    reader = Reader(walk)
    while not reader.is_through:
        with suppress(ReaderFailed), closing(watch.events()) as stream:
            for event in stream:
                reader.take(event)
    assert reader.handled == list(range(1, EVENTS + 1))


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(300, 300 + WALKS))
async def test_each_event_of_many_sessions_is_handled_exactly_once_async(
    unruly: Unruly, async_client: AsyncClient, seed: int
) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    prepare(unruly, walk)
    watch = async_client.watch(cursor="")
    reader = Reader(walk)
    with fail_after(60):
        while not reader.is_through:
            with suppress(ReaderFailed):
                async with aclosing(watch.events()) as stream:
                    async for event in stream:
                        reader.take(event)
    assert reader.handled == list(range(1, EVENTS + 1))


@pytest.mark.anyio
@pytest.mark.parametrize("seed", range(100, 100 + WALKS))
async def test_each_event_is_handled_exactly_once_async(unruly: Unruly, async_client: AsyncClient, seed: int) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    prepare(unruly, walk)
    session = async_client.session(SESSION, cursor=0)
    reader = Reader(walk)
    with fail_after(60):
        while not reader.is_through:
            with suppress(ReaderFailed):
                async with aclosing(session.events()) as stream:
                    async for event in stream:
                        reader.take(event)
    assert reader.handled == list(range(1, EVENTS + 1))
