"""A session in a process that can be killed, and everything around it that can be told to go on by one step.

Hub, session, agent, journal and stream are the real ones, above the stand-ins. Nothing takes time, and one list of
moves gives one story.
"""

import asyncio
import gc
import itertools
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import anyio

from agentcore.app import App
from agentcore.app_config import AppConfig
from agentcore.session import Settings
from server.hub import Hub
from server.live import LiveSession
from tests.fakes import HASTE, FakeClock, FakeProviders
from tests.property.reader import Person
from tests.property.stand_ins import Model, RunningTool, stand_ins
from tests.property.told import Told, has_number

T = TypeVar("T")
TICKS = 2_000  # steps of the event loop; an operation takes some ten


@dataclass
class Process:
    """One life of the server: what dies with a kill."""

    data: Path
    app: App
    model: Model
    hub: Hub = field(init=False)
    live: LiveSession = field(init=False)
    journal: BinaryIO = field(init=False)
    """Where the test has read to."""
    tools: list[RunningTool] = field(default_factory=list)
    tasks: list[RunningTool] = field(default_factory=list)
    """Those in the background that are no subagents."""
    over: anyio.Event = field(default_factory=anyio.Event)

    async def exist(self) -> None:
        async with anyio.create_task_group() as tasks:
            self.hub = Hub(self.app, tasks)
            await self.over.wait()
            tasks.cancel_scope.cancel()


class World:
    """A session with a person who reads it, across all lives of its server."""

    def __init__(self, root: Path) -> None:
        gc.disable()  # what it finds comes to its end at a moment of its own
        self.root = root
        (root / "work").mkdir()
        self.clock = FakeClock()
        self.loop = asyncio.new_event_loop()
        self.person = Person()
        self.reading: asyncio.Task[None] | None = None
        self.told = Told()
        self.lines: list[bytes] = []
        """Of the journal."""
        self.events: list[bytes] = []
        """Those of them that are durable events."""
        self.heard = -1
        """The last number that was given out, deltas included."""
        self._lives = itertools.count(2)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stack = ExitStack()
        self._stack.enter_context(stand_ins(lambda: self.process.tools, lambda: self.process.tasks))
        self.process = self._start(root / "life-1")

    def begin(self, **settings: Any) -> None:
        async def begin() -> LiveSession:
            return await self.process.hub.create(self.root / "work", Settings(**settings))

        self._bind(self.finish(begin()))

    @property
    def live(self) -> LiveSession:
        return self.process.live

    # --- time ---

    def tick(self) -> None:
        """Let everything that is ready go on by one step."""
        self.loop.stop()
        self.loop.run_forever()

    def settle(self) -> None:
        """Let everything go on until it waits for somebody."""
        for _ in range(TICKS):
            if not self.loop._ready:  # type: ignore[attr-defined] - the loop has no public way to say so
                return
            self.tick()
        raise AssertionError("it never comes to wait")

    def act(self, act: Callable[[], T]) -> T:
        """Do something as a request's handler would, in one step, with what the journal says at that moment known."""

        async def acting() -> T:
            self.look()
            return act()

        return self.finish(acting())

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something that takes several steps."""
        task = self.loop.create_task(work)
        for _ in range(TICKS):
            self.tick()
            if task.done():
                return task.result()
        raise AssertionError("it never ends")

    # --- what the journal says ---

    def look(self) -> None:
        """Read what the journal says since the last look."""
        file = self.process.journal
        new = file.read().split(b"\n")[:-1]
        self.lines += new
        self.told.read(new)
        self.events += [line for line in new if has_number(line)]

    # --- the person who reads ---

    def connect(self) -> None:
        self.reading = self.loop.create_task(self.person.read(self.process.hub, self.live))

    def disconnect(self) -> None:
        if self.reading is not None:
            self.reading.cancel()
            self.settle_one(self.reading)
        self.reading = None

    def settle_one(self, task: asyncio.Task[Any]) -> None:
        for _ in range(TICKS):
            if task.done():
                break
            self.tick()
        if not task.cancelled():
            task.result()

    # --- lives ---

    def _start(self, data: Path) -> Process:
        config = AppConfig(
            roots=((self.root / "work").resolve(),),
            data_dir=data,
            state_dir=self.root / "state",
            config_dir=self.root / "config",
            model="scripted/fake",
            environ={"PATH": "/usr/bin:/bin"},
        )
        model = Model()
        app = App(config, clock=self.clock, providers=FakeProviders(model), patience=HASTE)
        self.process = process = Process(data, app, model)
        self._tasks.add(self.loop.create_task(process.exist()))
        self.tick()
        return process

    def _bind(self, live: LiveSession) -> None:
        process, at = self.process, sum(len(line) + 1 for line in self.lines)
        if hasattr(process, "journal"):
            process.journal.close()
        process.live = live
        [path] = process.data.glob(f"sessions/*/{live.id}/journal.jsonl")
        process.journal = path.open("rb", buffering=0)
        process.journal.seek(at)
        live.agent.log.listen(self._hear)

    def _hear(self, seq: int, kind: str, line: bytes) -> None:
        assert seq > self.heard, "a number that was given out before"
        self.heard = seq

    def kill(self, cut: int = 0, torn: bytes = b"") -> None:
        """End the process as SIGKILL does, the last lines unwritten, and load what it left in a new one.

        It leaves its files as they are at this moment; what its tasks still write goes to files that nobody reads.
        """
        old, session = self.process, self.live.id
        lines = self.lines[: len(self.lines) - cut]
        left = self.root / f"life-{next(self._lives)}"
        [journal] = old.data.glob(f"sessions/*/{session}/journal.jsonl")
        copy = left / journal.relative_to(old.data)
        copy.parent.mkdir(parents=True)
        copy.write_bytes(b"".join(line + b"\n" for line in lines) + torn)
        self._abandon(old)
        self.told, self.events, self.lines = Told(), [], []
        self._start(left)
        self._load(session)
        assert self.lines[: len(lines)] == lines, "what a process left was changed"

    def stop(self) -> None:
        """Stop the process in good order, and start it again."""
        old, session = self.process, self.live.id
        self.live.pause()
        self.settle()
        self.live.finish()
        self.settle()
        self._end_reading()
        self.look()
        self._abandon(old)
        self._start(old.data)
        self._load(session)

    def delete(self) -> None:
        """Close the session, as DELETE does, and load it again."""
        self.finish(self.process.hub.close(self.live, "deleted"))
        self.come_back()

    def come_back(self) -> None:
        """Load the session again, which was closed or unloaded."""
        self.settle()
        self._end_reading()
        self.look()
        self._load(self.live.id)

    def _abandon(self, process: Process) -> None:
        self.disconnect()
        process.live.agent.log._listeners.clear()  # what it still says reaches nobody
        process.journal.close()
        process.over.set()
        self.settle()
        process.live.agent.log.close()  # as the operating system does for a dead process

    def _end_reading(self) -> None:
        """The stream has ended with the session."""
        if self.reading is not None:
            self.settle_one(self.reading)
            self.reading = None

    def _load(self, session: str) -> None:
        async def load() -> LiveSession:
            return (await self.process.hub.load(session))[0]

        self._bind(self.finish(load()))
        self.look()

    def close(self) -> None:
        try:
            self._abandon(self.process)
        finally:
            self._stack.close()
            self.loop.close()
            gc.enable()
