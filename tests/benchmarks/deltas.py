"""The rate of deltas without pause: one session, one client, through the anthropic adapter, numbered and replayable."""

import socket
import time

from tests.benchmarks.model import model
from tests.benchmarks.relay import END, relay
from tests.benchmarks.served import Served, read_until, served
from tests.benchmarks.table import Row, judge, worst

DELTAS = 20_000
ROUNDS = 5
TARGET_PER_S = 20_000
TARGET_CPU_US = 50.0


def deltas() -> list[Row]:
    with served() as server:
        session = server.session()
        cpu_before = server.cpu_s
        ours = min(_ours_s(server, session) for _ in range(ROUNDS))
        cpu_us = (server.cpu_s - cpu_before) / (DELTAS * ROUNDS) * 1e6
    with model() as url, relay(url) as port:
        bare = min(_bare_s(port) for _ in range(ROUNDS))
    return [
        Row(
            f"{DELTAS:,} deltas without pause, one client",
            f"{DELTAS / ours:,.0f}/s, {cpu_us:.0f} us CPU each",
            f"{DELTAS / bare:,.0f}/s bare relay of ready bytes",
            bare / ours,
            f">= {TARGET_PER_S:,}/s, <= {TARGET_CPU_US:g} us",
            worst(judge(TARGET_PER_S, DELTAS / ours), judge(cpu_us, TARGET_CPU_US)),
        )
    ]


def _ours_s(server: Served, session: str) -> float:
    with server.open(session) as stream:
        read_until(stream, b"event: snapshot")
        began = time.perf_counter()
        server.prompt(session, f"deltas {DELTAS}")
        read_until(stream, b"event: done")
        return time.perf_counter() - began


def _bare_s(port: int) -> float:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as stream:
        began = time.perf_counter()
        stream.sendall(f"GET /?deltas+{DELTAS} HTTP/1.1\r\n\r\n".encode())
        read_until(stream, END)
        return time.perf_counter() - began
