"""Clients whose connections are cut at random bytes and that come back with `Last-Event-ID`: 1,000 of them.

The journal is the truth: each client has seen every durable event after its first cursor exactly once, in order and
to the byte, whether it came back at once, after the run, or when the ring had long forgotten where it was.
"""

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
import pytest

from agentcore.encoding import head_of
from tests.daemon import DISPLAY_ONLY, WAIT_S, Daemon, Frame, Wire, running

pytestmark = pytest.mark.anyio

SEEDS = 10
CLIENTS = 100  # for each seed
FLOODED = 6  # of them: cut early in a run of more deltas than the ring holds
RING = 4096  # the promise of the API
WORK = {
    "delta_delay_ms": 2,
    "turns": [
        {
            "thinking": "I think about it first.",
            "text": f"Step {turn} of the work, with some words \u2028 and separators.",
            "tool_calls": [
                {"name": "write", "input": {"file_path": f"{turn}.txt", "content": "x\n" * 40}},
                {"name": "read", "input": {"file_path": f"{turn}.txt"}},
                {"name": "bash", "input": {"command": "printf 'a\\nb\\n'"}},
            ],
        }
        for turn in range(2)
    ]
    + [{"text": "The work is done. " * 10}],
}
FLOOD = {"turns": [{"text": "word " * (RING + 600), "tool_calls": [{"name": "ls", "input": {}}]}, {"text": "Done."}]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(tmp_path_factory.mktemp("cuts"), "--allow-yolo", "--mode", "yolo") as daemon:
        daemon.script("work", WORK)
        daemon.script("flood", FLOOD)
        yield daemon


@dataclass(eq=False)
class Client:
    """Reads the stream of one session; is cut after so many bytes and comes back where it was."""

    daemon: Daemon
    session: str
    walk: random.Random
    cursor: int
    """The last number of a whole frame that it has."""
    start: int = 0
    seen: list[Frame] = field(default_factory=list)
    resumed_at: int = 0
    """What a gap on this connection said: below it there may be holes."""
    gaps: int = 0
    cuts: int = 0

    def __post_init__(self) -> None:
        self.start = self.cursor

    @property
    def is_through(self) -> bool:
        """Whether it has seen the last event: the session gets a new title when both runs are over."""
        return bool(self.seen) and self.seen[-1].event == "session_updated"

    async def live(self, cuts: int, reconnect: anyio.Event | None) -> None:
        """Be cut so many times; wait for `reconnect` before coming back for the last time, then read to the end."""
        for number in range(cuts):
            await self._read(self._offset())
            if reconnect is not None and number == cuts - 1:
                await reconnect.wait()
        while not self.is_through:
            await self._read(None)

    def _offset(self) -> int:
        """Bytes until the cut: often within the first frames, sometimes far behind."""
        return self.walk.choice([self.walk.randrange(1, 900), self.walk.randrange(900, 9_000)])

    async def _read(self, limit: int | None) -> None:
        wire, left, self.resumed_at = Wire(), limit, 0
        with anyio.fail_after(WAIT_S), suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            stream = await self.daemon.open_stream(self.session, after=self.cursor)
            async with stream.socket:
                while left is None or left > 0:
                    data = await stream.socket.receive(65536 if left is None else left)
                    left = None if left is None else left - len(data)
                    wire.feed(data)
                    self._take(wire.frames())
                    if self.is_through:
                        return
        self.cuts += limit is not None

    def _take(self, frames: list[Frame]) -> None:
        for frame in frames:
            if frame.event == "gap":
                self.gaps += 1
                reached = max(self.cursor, self.resumed_at - 1)  # by a gap before on the same connection
                assert (frame.json["after"], frame.json["missing"]) == (reached, "deltas")
                self.resumed_at = frame.json["resumed_at"]
            if frame.id is not None:
                assert frame.id > self.cursor, "an event came twice, or out of order"
                assert frame.id <= max(self.cursor + 1, self.resumed_at), "a hole that no gap told of"
                self.cursor = frame.id
                self.seen.append(frame)

    def check(self) -> None:
        """Compare with the journal."""
        expected = [line for line in self.daemon.lines(self.session) if (head_of(line) or ("", 0))[1] > self.start]
        assert [frame.data for frame in self.seen if frame.event not in DISPLAY_ONLY] == expected


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_client_that_is_cut_anywhere_sees_every_durable_event_once(served: Daemon, seed: int) -> None:
    print("seed", seed)
    walk = random.Random(seed)
    first_runs_over = anyio.Event()
    async with served.client() as http:

        async def begin(script: str, number: int) -> tuple[str, list[Client]]:
            state = (await http.post("/v1/sessions", json={"model": f"scripted/{script}.json"})).json()
            made = [Client(served, state["id"], random.Random(walk.random()), state["last_seq"]) for _ in range(number)]
            return state["id"], made

        async def run(session: str) -> None:
            done = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go", "wait": True})
            assert done.json()["stop_reason"] == "end_turn"

        async def run_twice(*sessions: str) -> None:
            for _ in range(2):
                async with anyio.create_task_group() as runs:
                    for session in sessions:
                        runs.start_soon(run, session)
                first_runs_over.set()
            for session in sessions:
                await http.patch(f"/v1/sessions/{session}", json={"title": "the end"})

        (busy, steady), (flooded, late) = await begin("work", CLIENTS - FLOODED), await begin("flood", FLOODED)
        clients = [*steady, *late]
        async with anyio.create_task_group() as group:
            for client in clients:
                is_late = client in late or client.walk.random() < 0.2
                group.start_soon(client.live, client.walk.randrange(1, 5), first_runs_over if is_late else None)
            group.start_soon(run_twice, busy, flooded)
    for client in clients:
        client.check()
    assert all(client.gaps for client in late)
    assert sum(client.cuts for client in clients) >= len(clients)
