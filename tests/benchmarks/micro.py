"""What happens to every event and every line: publishing beside encoding and a bare append, loading beside JSON."""

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from agentcore.clock import SystemClock
from agentcore.encoding import encode
from agentcore.events import AssistantMessage, Done, Event, Notice, Status, ToolEnd, ToolStart, UserMessage
from agentcore.messages import Message, Text, ToolCall
from agentcore.session import Settings
from agentcore.sessions.journal import FILE_NAME, Journal
from agentcore.sessions.log import JournalLog
from agentcore.sessions.records import Prompt
from agentcore.sessions.store import SessionStore
from agentcore.usage import Usage
from server import frames
from server.bus import Bus
from tests.benchmarks.table import Row, judge, worst
from tests.benchmarks.timing import ROUNDS, cpu_us

EVENT = Notice(level="info", code="benchmark", text="0123456789" * 10)
BURST = 250  # events between two turns of the event loop: what a provider's chunk holds at full speed (measured: 235)
MANY = 500
LINES = 10_000
PUBLISH_LIMIT_US = 25.0
LOAD_LIMIT_S = 0.5


def publish() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        few = anyio.run(_cpu_us_of_emit, Path(folder) / "few", 1)
        many = anyio.run(_cpu_us_of_emit, Path(folder) / "many", MANY)
        bare = _cpu_us_of_encode_and_append(Path(folder) / "bare")
    cost = Row(
        "publish one journaled event",
        f"{few:.1f} us",
        f"{bare:.1f} us encode + write",
        few / bare,
        f"<= {PUBLISH_LIMIT_US:g} us",
        judge(few, PUBLISH_LIMIT_US),
    )
    spread = Row(
        f"publish to {MANY} waiting readers",
        f"{many:.1f} us",
        f"{few:.1f} us with 1",
        many / few,
        "within 20 %",
        judge(many / few, 1.2),
    )
    return [cost, spread]


async def _cpu_us_of_emit(folder: Path, readers: int) -> float:
    """CPU of one `emit` in a burst, `readers` of the bus waiting when it begins."""
    log = JournalLog("20260101-000000-aaaaaa", Journal.create(folder), 0, SystemClock())
    bus = Bus(log.last_seq)
    log.listen(lambda seq, kind, line: bus.publish(seq, frames.frame(seq, kind, line)))
    best = float("inf")

    async def read() -> None:
        cursor = bus.head
        while not bus.is_closed:
            news = anyio.Event()
            bus.sleepers.add(news.set)
            await news.wait()
            _, cursor = bus.take(cursor)

    async with anyio.create_task_group() as tasks:
        for _ in range(readers):
            tasks.start_soon(read)
        for _ in range(ROUNDS * 5):
            await anyio.wait_all_tasks_blocked()
            best = min(best, cpu_us(lambda: log.emit(EVENT), BURST, rounds=1))
        bus.close()
    log.close()
    return best


def _cpu_us_of_encode_and_append(path: Path) -> float:
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        return cpu_us(lambda: os.write(file, encode(EVENT, 1, "20260101-000000-aaaaaa", 0.0)), BURST, ROUNDS * 5)
    finally:
        os.close(file)


def load() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        store = SessionStore(Path(folder), (Path("/"),), SystemClock())
        session, path = _long_session(store)
        lines = path.read_bytes().splitlines()
        wall_s = _best_s(lambda: store.open(session).log.close())
        bare_s = _best_s(lambda: [json.loads(line) for line in lines])
    return [
        Row(
            f"load {len(lines)} journal lines",
            f"{wall_s * 1000:.0f} ms",
            f"{bare_s * 1000:.0f} ms json.loads",
            wall_s / bare_s,
            f"< {LOAD_LIMIT_S:g} s",
            worst(judge(wall_s, LOAD_LIMIT_S)),
        )
    ]


def _best_s(piece: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        piece()
        best = min(best, time.perf_counter() - began)
    return best


def _long_session(store: SessionStore) -> tuple[str, Path]:
    opened = store.create(Path("/work"), Settings())
    log, run = opened.log, 0
    while log.last_seq < LINES:
        run += 1
        log.record(Prompt(prompt_id=f"p{run}", run_id=f"r{run}", text="Read it.", ts=0.0))
        for event in _run(run):
            log.emit(event)
    log.close()
    return opened.id, opened.directory / FILE_NAME


def _run(number: int) -> list[Event]:
    """The events of a run with one tool call, as far as they leave something behind."""
    call = ToolCall(id=f"call-{number}", name="read", input={"file_path": "a.txt"})
    asked = Message(id=f"a{number}", role="assistant", content=(Text(text="I look. " * 10), call))
    answered = Message(id=f"b{number}", role="assistant", content=(Text(text="It says so. " * 20),))
    return [
        Status(busy=True),
        UserMessage(id=f"u{number}", content=(Text(text="Read it."),)),
        AssistantMessage(turn=1, message=asked, final=False),
        ToolStart(turn=1, call_id=call.id, tool_name=call.name, input={"file_path": "a.txt"}, group=0, position=0),
        ToolEnd(turn=1, call_id=call.id, tool_name=call.name, output="line of a file\n" * 40),
        AssistantMessage(turn=2, message=answered, final=True),
        Done(run_id=f"r{number}", stop_reason="end_turn", text=answered.text, usage=Usage(), turns=2),
        Status(busy=False),
    ]
