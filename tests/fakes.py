"""Stand-ins below the ports: a model that says what it is told, a clock that is set, and a house to live in.

They pass the same contract tests as the real ones (`tests/contract`).
"""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from agentcore.app import App
from agentcore.app_config import AppConfig
from agentcore.errors import ProviderError
from agentcore.events import EVENTS, NumberedEvent, PermissionRequest
from agentcore.guard.scanning import Scanner
from agentcore.messages import Block, Text, ToolCall
from agentcore.ports.clock import Clock
from agentcore.ports.models import Finished, ModelRequest, Provider, StreamPart, TextPart, ThinkingPart, ToolCallPart
from agentcore.providers.registry import Providers
from agentcore.retry import Patience
from agentcore.session import Settings
from agentcore.telemetry.room import Telemetry
from agentcore.usage import Usage
from server.hub import Hub
from server.live import LiveSession
from server.schemas import AnswerBody

SPENT = Usage(input=10, output=5)
HASTE = Patience(chance=lambda: 0.0)
"""Asks again at once."""


@dataclass
class Turn:
    """One model call: what is streamed, what it comes to, and where it waits or breaks."""

    parts: Sequence[StreamPart] = ()
    content: Sequence[Block] = ()
    stop: str = "end_turn"
    usage: Usage | None = SPENT
    """None: the vendor does not tell the tokens."""
    detail: str = ""
    """Why the vendor ended it."""
    opens: anyio.Event | None = None
    """Waited for before there is a stream."""
    closes: anyio.Event | None = None
    """Waited for when the stream is left, come what may."""
    refuses: ProviderError | None = None
    """Raised in the place of a stream."""
    fails: ProviderError | None = None
    """Raised after the parts."""
    breaks: Exception | None = None
    """A bug of an adapter: raised after the parts."""
    holds: anyio.Event | None = None
    """Waited for after the parts."""
    pace_s: float = 0.0
    """Slept before each part: for what only real time can show."""


def say(text: str, stop: str = "end_turn") -> Turn:
    return Turn([TextPart(piece) for piece in text.split(" ")], [Text(text=text)], stop)


def call(name: str, /, call_id: str | None = None, **input: object) -> ToolCall:
    return ToolCall.model_validate({"id": call_id or f"call-{name}", "name": name, "input": input})


def use(*calls: ToolCall, text: str = "") -> Turn:
    parts: list[StreamPart] = [ToolCallPart(one.id, one.name, 0) for one in calls]
    blocks: list[Block] = [*([Text(text=text)] if text else []), *calls]
    return Turn(parts, blocks, "tool_use")


class FakeProvider:
    """Plays turns in order and keeps the requests it got. Satisfies the Provider port."""

    is_local = False

    def __init__(self, name: str = "fake", price_usd: float | None = None) -> None:
        self.name = name
        self.window = 200_000
        """Tokens of its context."""
        self.price_usd = price_usd
        """Of each call, whatever it used."""
        self.turns: list[Turn] = []
        self.requests: list[ModelRequest] = []
        self.streaming = anyio.Event()
        """Set when a turn has shown its parts and holds."""
        self.closing = anyio.Event()
        """Set when a stream was left."""
        self.open_streams = 0
        self.keeps_to_schema = True

    def script(self, *turns: Turn) -> None:
        self.turns.extend(turns)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamPart]]:
        self.requests.append(request)
        turn = self.turns.pop(0) if self.turns else say("Nothing more is scripted.")
        self.open_streams += 1
        try:
            await anyio.lowlevel.checkpoint()
            if turn.opens is not None:
                await turn.opens.wait()
            if turn.refuses is not None:
                raise turn.refuses
            yield self._play(turn)
        finally:
            self.closing.set()
            if turn.closes is not None:
                with anyio.CancelScope(shield=True):
                    await turn.closes.wait()
            self.open_streams -= 1

    async def _play(self, turn: Turn) -> AsyncIterator[StreamPart]:
        for part in turn.parts:
            if turn.pace_s:
                await anyio.sleep(turn.pace_s)
            yield part
        if turn.holds is not None:
            self.streaming.set()
            await turn.holds.wait()
        if turn.fails is not None:
            raise turn.fails
        if turn.breaks is not None:
            raise turn.breaks
        yield Finished(tuple(turn.content), turn.usage, turn.stop, turn.detail)

    def context_window(self, model: str) -> int | None:
        return self.window

    def has_structured_output(self, model: str) -> bool:
        return self.keeps_to_schema

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        return self.price_usd

    async def warm(self) -> None:
        return None

    async def close(self) -> None:
        return None


class FakeProviders(Providers):
    """A registry in which every model of `scripted` is the fake one; `others` go by their own names."""

    def __init__(self, provider: FakeProvider, others: Sequence[FakeProvider] = ()) -> None:
        super().__init__({})
        self.provider = provider
        self.others = {other.name: other for other in others}

    def parse(self, model: str) -> tuple[str, str]:
        name, _, rest = model.partition("/")
        return (name, rest) if name in self.others else super().parse(model)

    def get(self, name: str) -> Provider:
        if name in self.others:
            return self.others[name]
        return self.provider if name == "scripted" else super().get(name)


class MemoryBlobs:
    """Satisfies the Blobs port without a disk."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self.held[name] = data
        return name

    def get(self, blob: str) -> bytes:
        return self.held[blob]


class FakeClock:
    """Time that only moves when it is told to."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class FakePause:
    """Stands in for the wait before a model is asked again: it moves the clock and is over at once, or it `holds`."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.waited: list[float] = []
        """Seconds of each wait, in order."""
        self.holds = False
        self.begun = anyio.Event()

    async def __call__(self, stopping: anyio.Event, delay_s: float) -> bool:
        self.waited.append(delay_s)
        self.begun.set()
        if self.holds:
            await stopping.wait()
            return True
        await anyio.lowlevel.checkpoint()
        self.clock.time += delay_s
        return stopping.is_set()


@dataclass
class House:
    """An App with a fake model, a hub, and folders of its own."""

    root: Path
    provider: FakeProvider
    app: App
    hub: Hub
    heard: dict[str, list[NumberedEvent]] = field(default_factory=dict)

    async def session(self, **settings: object) -> LiveSession:
        live = await self.hub.create(self.root / "work", Settings.model_validate(settings))
        self.listen(live)
        return live

    async def reload(self, session_id: str) -> LiveSession:
        live, _ = await self.hub.load(session_id)
        self.listen(live)
        return live

    def listen(self, live: LiveSession) -> None:
        heard = self.heard.setdefault(live.id, [])
        live.agent.log.listen(lambda seq, kind, line: heard.append(EVENTS.validate_json(line)))

    def events(self, live: LiveSession) -> list[NumberedEvent]:
        return self.heard[live.id]

    async def run(self, live: LiveSession, text: str, answers: Sequence[AnswerBody] = ()) -> list[NumberedEvent]:
        """Send a prompt, answer its requests in order, and return what was emitted until it was idle again."""
        start = len(self.events(live))
        live.prompt(text)
        given = list(answers)
        answered: set[str] = set()
        with anyio.fail_after(5):
            while live.is_busy:
                for request in live.requests.open:
                    if given and request.request_id not in answered:
                        answered.add(request.request_id)
                        live.answer(request.request_id, given.pop(0))
                await anyio.lowlevel.checkpoint()
        return self.events(live)[start:]

    async def until_idle(self, live: LiveSession) -> None:
        with anyio.fail_after(5):
            while live.is_busy:
                await anyio.lowlevel.checkpoint()

    async def until(self, live: LiveSession, kind: type[NumberedEvent]) -> NumberedEvent:
        """Wait for the first event of a kind that was not heard yet when called, or is the last one heard."""
        with anyio.fail_after(5):
            while True:
                for event in reversed(self.events(live)):
                    if isinstance(event, kind):
                        return event
                await anyio.lowlevel.checkpoint()

    async def until_asked(self, live: LiveSession) -> PermissionRequest:
        with anyio.fail_after(5):
            while not live.requests.open:
                await anyio.lowlevel.checkpoint()
        return live.requests.open[0]


@asynccontextmanager
async def house(
    root: Path,
    *,
    allow_yolo: bool = True,
    fallbacks: Sequence[FakeProvider] = (),
    clock: Clock | None = None,
    patience: Patience | None = None,
    scanners: Sequence[Scanner] = (),
    telemetry: Telemetry | None = None,
) -> AsyncIterator[House]:
    """A hub with a fake model over real files below `root`; entering again below the same root is a restart."""
    (root / "work").mkdir(exist_ok=True)
    provider = FakeProvider()
    config = AppConfig(
        roots=((root / "work").resolve(),),
        data_dir=root / "data",
        state_dir=root / "state",
        config_dir=root / "config",
        home=root / "home",
        model="scripted/fake",
        fallbacks=tuple(f"{other.name}/m" for other in fallbacks),
        allow_yolo=allow_yolo,
        environ={"PATH": "/usr/bin:/bin"},
    )
    providers = FakeProviders(provider, fallbacks)
    app = App(
        config,
        clock=clock,
        providers=providers,
        patience=patience or HASTE,
        scanners=scanners,
        telemetry=telemetry,
    )
    tasks: TaskGroup
    async with anyio.create_task_group() as tasks:
        hub = Hub(app, tasks)
        yield House(root, provider, app, hub)
        for live in hub:
            live.finish()  # as a SIGKILL would leave it
        tasks.cancel_scope.cancel()


def kinds(events: Sequence[NumberedEvent]) -> list[str]:
    """The types of the durable events, in order."""
    return [event.type for event in events if event.durable]


def thinking(text: str) -> ThinkingPart:
    return ThinkingPart(text)
