"""Random readers against all that was said: any cursor, any view, cut at any byte, of one session and over many.

Sessions talk, are closed, come back and are new meanwhile; rings are so short that the journal is needed all the time.
A reader gets every durable event that its view shows, once, in order and to the byte; of the others it misses only
those that a gap told of. With the place that it was told last it loses nothing, under whatever view it comes back.
"""

import random
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from agentcore.app import App
from agentcore.encoding import head_of
from agentcore.events import Event, Notice, TextDelta, Todo, ToolOutputDelta
from agentcore.session import Settings
from server.bus import Bus
from server.live import LiveSession
from server.many import ManyReader
from server.reader import Reader, SessionReader
from server.view import View, view_of
from tests.daemon import DISPLAY_ONLY, Frame, parse_frame
from tests.fakes import House, house

pytestmark = pytest.mark.anyio

SEEDS = 40
CONNECTIONS = 8  # of each reader
RING = 12
KINDS = ("notice", "todo", "text_delta", "tool_output_delta")
Line = tuple[int, str, bytes]
"""Number, kind and data of an event."""


@dataclass
class World:
    home: House
    walk: random.Random
    shown: dict[str, list[Line]] = field(default_factory=dict)
    """What was for display alone, by session."""
    origins: dict[str, list[int]] = field(default_factory=dict)
    """Where its loads began."""

    async def begin(self) -> None:
        if len(self.origins) < 4:
            self._listen(await self.home.hub.create(self.home.root / "work", Settings()))

    async def load_one(self, session: str | None = None) -> None:
        session = session or self.walk.choice(list(self.origins))
        if self.home.hub.find(session) is None:
            live, _ = await self.home.hub.load(session)
            self._listen(live)

    async def close_one(self) -> None:
        for live in self.walk.sample(list(self.home.hub), k=min(1, len(list(self.home.hub)))):
            await self.home.hub.close(live, "test")

    async def act(self) -> None:
        """Something happens; mostly events."""
        for live in self.home.hub:
            for _ in range(self.walk.choice([0, 1, 3, 3, RING, 3 * RING])):
                live.agent.log.emit(self._event())
        await self.walk.choice([*[anyio.lowlevel.checkpoint] * 5, self.close_one, *[self.load_one] * 2, self.begin])()
        for _ in range(self.walk.randrange(6)):
            await anyio.lowlevel.checkpoint()

    def view(self, *, is_of_many: bool) -> View:
        kinds = self.walk.choice([None, None, KINDS[:1], KINDS[1:], KINDS[2:]])
        return view_of(kinds, "final" if self.walk.random() < 0.3 else "full", is_of_many=is_of_many)

    def durable(self, session: str) -> list[Line]:
        [journal] = (self.home.root / "data").rglob(f"{session}/journal.jsonl")
        lines = [(head_of(line), line) for line in journal.read_bytes().split(b"\n")]
        return [(head[1], head[0], line) for head, line in lines if head is not None]

    def last(self, live: LiveSession) -> int:
        """The last durable number of a session, up to the end of this load."""
        return max((seq for seq, _, _ in self.durable(live.id) if seq <= live.bus.head), default=0)

    def _event(self) -> Event:
        text = self.walk.choice(["x", "\u2028", "y" * 300])
        events = (
            Notice(level="info", code="test", text=text),
            Todo(items=()),
            TextDelta(text=text),
            ToolOutputDelta(call_id="c", text=text),
        )
        return self.walk.choice(events)

    def _listen(self, live: LiveSession) -> None:
        self.origins.setdefault(live.id, []).append(live.bus.origin)
        shown = self.shown.setdefault(live.id, [])

        def hear(seq: int, kind: str, line: bytes) -> None:
            if kind in DISPLAY_ONLY:
                shown.append((seq, kind, line))

        live.agent.log.listen(hear)


@dataclass
class Connection:
    """What came over one connection before it was cut."""

    view: View
    frames: list[Frame]

    def of(self, session: str) -> list[Line]:
        events = [frame for frame in self.frames if frame.data and "seq" in frame.json]
        return [(one.json["seq"], one.event, one.data) for one in events if one.json["session"] == session]

    def gaps(self, session: str) -> list[dict[str, int]]:
        return [
            frame.json
            for frame in self.frames
            if frame.event == "gap" and frame.json.get("session", session) == session
        ]

    def head_at_first(self, session: str) -> int | None:
        """What the first snapshot of a session said."""
        snapshots = [frame.json for frame in self.frames if frame.event == "snapshot"]
        return next((one["last_seq"] for one in snapshots if one["session"]["id"] == session), None)

    @property
    def place(self) -> str | None:
        """What an `EventSource` would come back with."""
        said = [frame.place or frame.id for frame in self.frames if frame.place or frame.id is not None]
        return str(said[-1]) if said else None

    def check(self, world: World, session: str, start: int, end: int | None) -> None:
        """`end`: what the reader was told to have."""
        gaps = self.gaps(session)
        if gaps and "ahead" in gaps[0].values():
            start = gaps[0]["resumed_at"] - 1
        came = self.of(session)
        expected = [line for line in world.durable(session) if line[0] > start and self.view.shows(line[1])]
        got = [line for line in came if line[1] not in DISPLAY_ONLY]
        assert got == expected[: len(got)]
        assert len(got) >= len([line for line in expected if end is not None and line[0] <= end])
        assert came == sorted(came)
        deltas = [line for line in world.shown[session] if line[0] > start and self.view.shows(line[1])]
        last = max([start, *(line[0] for line in came)])
        missed = [line[0] for line in deltas if line[0] <= last and line not in came]
        assert all(any(gap["after"] < seq < gap["resumed_at"] for gap in gaps) for seq in missed)
        assert set(came) <= {*expected, *deltas}


async def connect(world: World, reader: Reader, view: View, *, to_the_end: bool = False) -> Connection:
    """Read while things happen, until the connection is cut somewhere."""
    received: list[bytes] = []

    async def read() -> None:
        async for chunk in reader.chunks():
            received.append(chunk)  # noqa: PERF401 - a comprehension would lose them when it is cancelled

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await anyio.lowlevel.checkpoint()
        for _ in range(world.walk.randrange(8)):
            await world.act()
        with anyio.fail_after(10):
            while to_the_end and _has_more(reader):
                await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    data = b"".join(received)
    cut = len(data) if to_the_end else world.walk.choice([len(data), world.walk.randrange(len(data) + 1)])
    return Connection(view, [parse_frame(block) for block in data[:cut].split(b"\n\n")[:-1]])


def _has_more(reader: Reader) -> bool:
    if isinstance(reader, ManyReader) and reader._must_look:
        return True
    return bool(reader._due) or reader._owes_place or any(strand.has_more for strand in reader._strands.values())


def make(monkeypatch: pytest.MonkeyPatch, home: House, seed: int) -> World:
    print("seed", seed)
    walk = random.Random(seed)
    monkeypatch.setattr("server.live.Bus", lambda head: Bus(head, RING))
    monkeypatch.setattr("server.many.PLACE_EVERY_S", walk.choice([0.0, 0.01]))

    async def in_pieces(app: App, session: str, seq: int, before: int) -> list[bytes]:
        await anyio.lowlevel.checkpoint()
        return app._store.lines_after(session, seq, before)[: walk.choice([1, 5, 1000])]

    monkeypatch.setattr(App, "lines_after", in_pieces)
    return World(home, walk)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_reader_of_one_session_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    async with house(tmp_path) as home:
        world = make(monkeypatch, home, seed)
        await world.begin()
        [session] = world.origins
        cursor = world.walk.choice([None, 0, 5])
        for number in range(CONNECTIONS):
            await world.act()
            await world.load_one(session)
            live = home.hub.find(session)
            assert live is not None
            is_last = number == CONNECTIONS - 1
            view = View() if is_last else world.view(is_of_many=False)
            made = SessionReader(home.hub, live, cursor, view)
            connection = await connect(world, made, view, to_the_end=is_last)
            head = connection.head_at_first(session)
            if head is None:
                continue
            start = head if cursor is None else cursor
            end = None if connection.place is None else int(connection.place)
            connection.check(world, session, start, end)
            cursor = start if end is None else end
            if is_last:
                assert cursor >= world.last(live)
            if world.walk.random() < 0.2:
                cursor = world.walk.choice([0, live.bus.head // 2, live.bus.head + 9])


def read_places(cursor: str | None) -> dict[str, int]:
    pairs = [place.split(":") for place in (cursor or "").split(",") if place]
    return {session: int(seq) for session, seq in pairs}


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_reader_of_many_sessions_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    async with house(tmp_path) as home:
        world = make(monkeypatch, home, seed)
        await world.begin()
        await world.begin()
        cursor: str | None = world.walk.choice([None, ""])
        for number in range(CONNECTIONS):
            await world.act()
            is_last = number == CONNECTIONS - 1
            view = View(is_of_many=True) if is_last else world.view(is_of_many=True)
            there = {live.id for live in home.hub}
            made = ManyReader(home.hub, None, cursor, view)
            connection = await connect(world, made, view, to_the_end=is_last)
            starts = starts_of(world, connection, cursor, there)
            ends = read_places(connection.place)
            for session, start in starts.items():
                connection.check(world, session, start, ends.get(session))
            assert ends.keys() <= starts.keys() | read_places(cursor).keys()
            cursor = connection.place or cursor
            if is_last:
                assert all(ends[live.id] >= world.last(live) for live in home.hub)
            if world.walk.random() < 0.2:
                cursor = ",".join(f"{one}:{world.walk.choice([0, 3, 2_000_009])}" for one in read_places(cursor))


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_cursor_that_names_one_of_many_sessions_loses_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("server.places.MAX_PLACES", 1)
    async with house(tmp_path) as home:
        world = make(monkeypatch, home, seed)
        for _ in range(3):
            await world.begin()
        came: dict[str, set[Line]] = defaultdict(set)
        cursor = ""
        for number in range(CONNECTIONS):
            if number == CONNECTIONS - 1:
                for session in list(world.origins):
                    await world.load_one(session)
            view = View(is_of_many=True)
            to_the_end = number in (0, CONNECTIONS - 1)
            connection = await connect(world, ManyReader(home.hub, None, cursor, view), view, to_the_end=to_the_end)
            for session in world.origins:
                came[session].update(connection.of(session))
            cursor = connection.place or cursor
            assert cursor.startswith("@:")
            if number < CONNECTIONS - 1:
                await world.act()
        for session in world.origins:
            assert set(world.durable(session)) <= came[session]


def starts_of(world: World, connection: Connection, cursor: str | None, there: set[str]) -> Mapping[str, int]:
    """Where each session that came has to begin."""
    given, starts = read_places(cursor), dict[str, int]()
    for session, origins in world.origins.items():
        head = connection.head_at_first(session)
        if head is None:
            assert not connection.of(session)
        elif session in given:
            starts[session] = given[session]
        elif cursor is None and session in there:
            starts[session] = head
        else:  # it is new: from the beginning of its load
            starts[session] = max(origin for origin in origins if origin <= head)
    return starts
