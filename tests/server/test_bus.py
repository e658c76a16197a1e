"""The bus against a ten-line model: random walks with a seed, and the arithmetic of the ring."""

import random
from collections.abc import Sequence
from functools import partial

import pytest

from server.bus import LAG_EVENTS, STALL_S, Bus, Cursor, Evicted, Writer

pytestmark = pytest.mark.anyio


def frame(seq: int, length: int = 8) -> bytes:
    return b"%d:" % seq + b"x" * length + b"\n"


@pytest.mark.parametrize("seed", range(60))
async def test_a_reader_sees_every_frame_in_order_or_is_told_that_it_cannot(seed: int) -> None:
    walk = random.Random(seed)
    base = walk.choice([0, 999_990, 1_000_000])
    bus = Bus(base, size=walk.choice([1, 2, 7, 64]), max_bytes=walk.choice([200, 2_000, 10**9]))
    published: dict[int, bytes] = {}
    cursors = [base, base, max(0, base - 3)]
    for _ in range(400):
        if walk.random() < 0.6:
            seq = bus.head + 1
            published[seq] = frame(seq, walk.randrange(60))
            bus.publish(seq, published[seq])
            continue
        reader = walk.randrange(3)
        held = range(bus.oldest, bus.head + 1)
        assert len(held) <= 64
        if cursors[reader] + 1 < bus.oldest:
            with pytest.raises(Evicted):
                bus.take(cursors[reader])
            cursors[reader] = bus.oldest - 1
        chunk, cursors[reader] = bus.take(before := cursors[reader])
        assert chunk == b"".join(published[seq] for seq in range(before + 1, bus.head + 1))
        assert cursors[reader] == bus.head


async def test_the_ring_is_bounded_in_bytes_and_the_newest_frame_always_stays() -> None:
    bus = Bus(0, size=16, max_bytes=100)
    for seq in range(1, 9):
        bus.publish(seq, b"x" * 40)
    assert (bus.oldest, bus.head) == (7, 8)
    bus.publish(9, b"y" * 1_000)
    assert bus.take(8) == (b"y" * 1_000, 9)


async def test_a_chunk_is_bounded_but_never_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.bus.CHUNK_BYTES", 100)
    bus = Bus(0, size=16)
    for seq in range(1, 6):
        bus.publish(seq, b"x" * 60)
    bus.publish(6, b"y" * 500)
    taken, cursor = [], 0
    while cursor < bus.head:
        chunk, cursor = bus.take(cursor)
        taken.append(len(chunk))
    assert sum(taken) == 800
    assert 500 in taken


def test_those_who_wait_are_woken_once_and_again_only_when_they_wait_again() -> None:
    bus, woken = Bus(0), list[int]()
    wakes = [partial(woken.append, number) for number in range(3)]
    for wake in wakes:
        bus.sleepers.add(wake)
    bus.sleepers.discard(wakes[1])
    bus.publish(1, b"x")
    assert woken == [0, 2]
    bus.publish(2, b"x")
    bus.sleepers.add(wakes[0])
    bus.close(b"bye")
    assert woken == [0, 2, 0]
    assert len(bus.sleepers) == 0


def test_readers_side_by_side_share_a_chunk_as_far_as_they_join_alike() -> None:
    bus, joined = Bus(0), list[str]()

    def join(name: str, frames: Sequence[bytes]) -> bytes:
        joined.append(name)
        return name.encode() + b"".join(frames)

    a, b = partial(join, "a"), partial(join, "b")
    bus.publish(1, b"x")
    assert [bus.take(0, how) for how in (a, b, a, b)] == [(b"ax", 1), (b"bx", 1)] * 2
    bus.publish(2, b"y")
    assert bus.take(0, a) == (b"axy", 2)
    assert joined == ["a", "b", "a"]


STALLS = [
    # behind, seconds in one write, dropped
    (LAG_EVENTS, STALL_S, False),
    (LAG_EVENTS + 1, STALL_S, True),
    (LAG_EVENTS + 1, STALL_S - 0.1, False),
    (4000, None, False),
]


@pytest.mark.parametrize(("behind", "writing_s", "is_dropped"), STALLS)
async def test_only_a_socket_that_takes_nothing_while_far_behind_is_dropped(
    behind: int, writing_s: float | None, is_dropped: bool
) -> None:
    bus, dropped = Bus(0), []
    for seq in range(1, behind + 1):
        bus.publish(seq, b"x")
    now = 100.0
    writer = Writer(None if writing_s is None else now - writing_s, drop=lambda: dropped.append(1))
    bus.cursors.add(Cursor(0, writer))
    bus.drop_stalled(now)
    assert (writer.dropped_at, bool(dropped)) == (behind if is_dropped else None, is_dropped)
