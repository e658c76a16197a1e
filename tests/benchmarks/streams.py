"""What readers of a real server see: replay, a stalled neighbour, and the memory that streaming leaves behind."""

import socket
import threading
import time
from collections.abc import Callable

from server.bus import RING_BYTES, RING_EVENTS
from tests.benchmarks.served import IDLE, Served, read_until, served
from tests.benchmarks.table import Row, judge, worst
from tests.benchmarks.timing import ROUNDS

DELTAS = 20_000
REPLAY_LIMIT_MS = 50.0
MILLION = 1_000_000
PART = 100_000
TURNS = 5


def replay() -> list[Row]:
    with served() as server:
        session = server.session()
        server.run(session, f"deltas {RING_EVENTS + 1000}")
        after = server.state(session)["oldest_seq"] - 1
        size = _replayed(server, session, after)
        ours = _best_ms(lambda: _replayed(server, session, after))
    bare = _best_ms(lambda: _sent_bare(size))
    return [
        Row(
            f"replay of {RING_EVENTS} events, {size / 1e6:.1f} MB",
            f"{ours:.1f} ms",
            f"{bare:.1f} ms bare send",
            ours / bare,
            f"< {REPLAY_LIMIT_MS:g} ms",
            judge(ours, REPLAY_LIMIT_MS),
        )
    ]


def _best_ms(piece: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        piece()
        best = min(best, time.perf_counter() - began)
    return best * 1000


def _replayed(server: Served, session: str, after: int) -> int:
    with server.open(session, after) as stream:
        return read_until(stream, IDLE)


def _sent_bare(size: int) -> int:
    """The same number of bytes over a fresh loopback connection, with nothing behind it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        reader = socket.create_connection(listener.getsockname())
        writer, _ = listener.accept()
        with reader, writer:
            sender = threading.Thread(target=writer.sendall, args=(bytes(size - 1) + b"!",))
            sender.start()
            read = read_until(reader, b"!")
            sender.join()
            return read


def stalled() -> list[Row]:
    """A reader's time for a run, alone and beside one that never reads."""
    with served() as server:
        session = server.session()
        before = server.rss_mb
        alone = min(_run_s(server, session) for _ in range(TURNS))
        neighbour = server.open(session)
        with neighbour:
            beside = min(_run_s(server, session) for _ in range(TURNS))
            grown = server.rss_mb - before
    bound = RING_BYTES / 1e6 + 8
    return [
        Row(
            "a reader beside a stalled one",
            f"{beside * 1000:.0f} ms",
            f"{alone * 1000:.0f} ms alone",
            beside / alone,
            "the same",
            judge(beside / alone, 1.15),
        ),
        Row(
            f"memory while one is stalled, {DELTAS * TURNS * 2:,} deltas",
            f"+{grown:.1f} MB",
            f"{before:.0f} MB before",
            (before + grown) / before,
            f"<= +{bound:.0f} MB",
            judge(grown, bound),
        ),
    ]


def _run_s(server: Served, session: str) -> float:
    with server.open(session) as stream:
        read_until(stream, b"event: snapshot")
        began = time.perf_counter()
        server.prompt(session, f"deltas {DELTAS}")
        read_until(stream, b"event: done")
        return time.perf_counter() - began


def memory() -> list[Row]:
    with served() as server:
        start = server.rss_mb
        began = time.perf_counter()
        for _ in range(MILLION // PART):
            session = server.session()
            server.run(session, f"deltas {PART}")
            server.http.delete(f"/v1/sessions/{session}").raise_for_status()
        per_s = MILLION / (time.perf_counter() - began)
        end = server.rss_mb
    return [
        Row(
            f"memory after {MILLION:,} deltas ({per_s:,.0f}/s)",
            f"{end:.0f} MB",
            f"{start:.0f} MB at the start",
            end / start,
            "within 20 %",
            worst(judge(end / start, 1.2)),
        )
    ]
