"""What comes and goes: a thousand readers one after the other, and the stop of a server that fifty still read."""

import signal
import socket
import threading
import time
from contextlib import ExitStack

from tests.benchmarks.served import Served, read_until, served
from tests.benchmarks.table import Row, Verdict, judge, worst

CYCLES = 1_000
READERS = 50
GROWTH_LIMIT_MB = 3.0
"""What an allocator may keep after a thousand connections; a leak of a reader's tasks would be 37 MB."""
STOP_LIMIT_S = 1.0


def cycles() -> list[Row]:
    with served() as server:
        session = server.session()
        _connect_and_leave(server, session, CYCLES // 10)  # what is made once is made now
        files, before = server.descriptors, server.rss_mb
        _connect_and_leave(server, session, CYCLES)
        _wait_for_descriptors(server, files)
        grown_files, after = server.descriptors - files, server.rss_mb
    verdict = worst(judge(after - before, GROWTH_LIMIT_MB), Verdict.MISSED if grown_files > 0 else Verdict.HELD)
    return [
        Row(
            f"{CYCLES} connect/disconnect cycles",
            f"{grown_files:+d} files, {after - before:+.1f} MB",
            f"{files} files, {before:.0f} MB",
            after / before,
            "no growth",
            verdict,
        )
    ]


def _connect_and_leave(server: Served, session: str, times: int) -> None:
    for _ in range(times):
        with server.open(session) as stream:
            read_until(stream, b"event: snapshot")


def _wait_for_descriptors(server: Served, wanted: int) -> None:
    """The server notices the last ones that left a moment later."""
    deadline = time.monotonic() + 5
    while server.descriptors > wanted and time.monotonic() < deadline:
        time.sleep(0.01)


def stop() -> list[Row]:
    bare_s, _ = _stop_s(0)
    full_s, told = _stop_s(READERS)
    verdict = worst(judge(full_s, STOP_LIMIT_S), Verdict.HELD if told == READERS else Verdict.MISSED)
    return [
        Row(
            f"clean stop with {READERS} open streams",
            f"{full_s * 1000:.0f} ms, {told} told",
            f"{bare_s * 1000:.0f} ms with none",
            full_s / bare_s,
            f"< {STOP_LIMIT_S:g} s, all told",
            verdict,
        )
    ]


def _stop_s(readers: int) -> tuple[float, int]:
    """Seconds from SIGTERM to the end of the process, and how many readers were told."""
    told: list[bool] = []
    with served() as server, ExitStack() as open_streams:
        session = server.session()
        streams = [open_streams.enter_context(server.open(session)) for _ in range(readers)]
        for stream in streams:
            read_until(stream, b"event: snapshot")
        threads = [threading.Thread(target=lambda one=stream: told.append(_is_told(one))) for stream in streams]
        for thread in threads:
            thread.start()
        process = server.daemon.process
        assert process is not None
        began = time.perf_counter()
        server.daemon.signal(signal.SIGTERM)
        assert process.wait(30) == 0
        took = time.perf_counter() - began
        for thread in threads:
            thread.join()
    return took, sum(told)


def _is_told(stream: socket.socket) -> bool:
    try:
        read_until(stream, b"event: server_stopping")
    except OSError:
        return False
    return True
