"""The disk as a barrier: what is acknowledged or takes effect was durable before; a disk that fails stops it.

The disk is the real one behind a gate: it holds a sync back until it is told to go on, or fails it, or fails a write.
"""

import errno
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx
import pytest

from agentcore.app import App
from agentcore.messages import Text
from server.asgi import Application, core_config
from server.hub import Hub
from server.live import LiveSession
from server.settings import Folders, ServerSettings
from tests.core.test_deferral import FakeDeferringTool, hand_over
from tests.crash.stories import check_journal, kinds, of_kind
from tests.daemon import DISPLAY_ONLY, Frame, parse_frame
from tests.fakes import FakeProvider, FakeProviders, Turn, call, say, use

pytestmark = pytest.mark.anyio
__all__ = ["hand_over"]

TOKEN = "barrier-token"
JOURNAL = "journal.jsonl"
HOLD_S = 10.0
ANY = "*"
EFFECT = call("bash", command="echo once >> ran.txt")


@dataclass
class Disk:
    """Stands between the journal and the system calls; other files are none of its business."""

    holds_at: str = ""
    """Hold back the sync of a journal that ends with a line of this type, or every one (ANY)."""
    fails_at: str = ""
    fails_write: int | None = None
    """Fail this write to a journal, counted from 1, and all after it."""
    leaves_half: bool = False
    """A failing write leaves half of its line behind."""
    held: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    writes: int = 0

    def sync(self, file: int) -> None:
        last = last_line(file)
        if self.fails_at in (last, ANY):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.holds_at in (last, ANY):
            self.held.set()
            assert self.released.wait(HOLD_S)

    def write(self, file: int, data: bytes) -> int:
        if path_of(file).name != JOURNAL:
            return REAL_WRITE(file, data)
        self.writes += 1
        if self.fails_write is not None and self.writes >= self.fails_write:
            if self.leaves_half and self.writes == self.fails_write:
                return REAL_WRITE(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return REAL_WRITE(file, data)

    async def wait_held(self) -> None:
        with anyio.fail_after(5):
            await anyio.to_thread.run_sync(self.held.wait, HOLD_S, abandon_on_cancel=True)
        assert self.held.is_set()


REAL_WRITE = os.write


def path_of(file: int) -> Path:
    return Path(f"/proc/self/fd/{file}").readlink()


def last_line(file: int) -> str:
    """The type of the last line of a journal."""
    line = path_of(file).read_bytes().split(b"\n")[-2]
    return line.split(b'"', 4)[3].decode()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(os, "fdatasync", disk.sync)
    monkeypatch.setattr(os, "write", disk.write)
    yield disk
    disk.released.set()


@dataclass
class Served:
    """The whole application in process, with a model that says what it is told."""

    root: Path
    http: httpx.AsyncClient
    hub: Hub
    provider: FakeProvider

    async def session(self, **settings: object) -> LiveSession:
        created = await self.http.post("/v1/sessions", json=settings)
        return await self.hub.get(created.json()["id"])

    async def prompt(self, live: LiveSession) -> httpx.Response:
        return await self.http.post(f"/v1/sessions/{live.id}/prompt", json={"text": "go"})

    async def answer(self, live: LiveSession) -> httpx.Response:
        return await self.http.post(f"/v1/sessions/{live.id}/permissions/perm-1", json={"allow": True})

    async def answer_deferred(self, live: LiveSession) -> httpx.Response:
        return await self.http.post(f"/v1/sessions/{live.id}/deferred/t-a", json={"output": "Here."})

    def journal(self, live: LiveSession) -> bytes:
        [path] = (self.root / "data" / "sessions").glob(f"*/{live.id}/{JOURNAL}")
        return path.read_bytes()

    @property
    def has_effect(self) -> bool:
        return (self.root / "work" / "ran.txt").exists()


@asynccontextmanager
async def serving(root: Path) -> AsyncIterator[Served]:
    (root / "work").mkdir(exist_ok=True)
    settings = ServerSettings(
        cwd=root / "work",
        roots=((root / "work").resolve(),),
        folders=Folders(root / "config", root / "data", root / "state"),
        token=TOKEN,
        model="scripted/fake",
        allow_yolo=True,
    )
    provider = FakeProvider()
    application = Application(settings, App(core_config(settings), providers=FakeProviders(provider)))
    await application.start()
    transport = httpx.ASGITransport(application.app)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:80", headers=headers) as http:
        yield Served(root, http, application._routes.state.hub, provider)
    await application.stop()


async def until_idle(live: LiveSession) -> None:
    with anyio.fail_after(5):
        while live.is_busy:
            await anyio.lowlevel.checkpoint()


async def until_asked(live: LiveSession) -> None:
    with anyio.fail_after(5):
        while not live.requests.open:
            await anyio.lowlevel.checkpoint()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as served:
        yield served


@asynccontextmanager
async def holding(disk: Disk, send: Callable[[], Awaitable[httpx.Response]]) -> AsyncIterator[list[httpx.Response]]:
    """Send a request and yield its answers, none yet, while the disk holds it back; then let the disk go on."""
    answers: list[httpx.Response] = []

    async def sending() -> None:
        answers.append(await send())

    async with anyio.create_task_group() as group:
        group.start_soon(sending)
        await disk.wait_held()
        yield answers
        disk.released.set()


async def test_a_prompt_is_acknowledged_only_when_it_is_durable(served: Served, disk: Disk) -> None:
    live, hold = await served.session(), anyio.Event()
    served.provider.script(Turn(content=[Text(text="Hello.")], holds=hold))  # its own barrier comes later
    disk.holds_at = ANY
    async with holding(disk, lambda: served.prompt(live)) as answers:
        assert live.is_busy  # it is shown already
        assert answers == []
    assert [answer.status_code for answer in answers] == [202]
    hold.set()
    await until_idle(live)


async def test_an_answer_is_acknowledged_only_when_it_is_durable(served: Served, disk: Disk) -> None:
    live = await served.session()
    served.provider.script(use(EFFECT), say("Done."))
    await served.prompt(live)
    await until_asked(live)
    disk.holds_at = ANY
    async with holding(disk, lambda: served.answer(live)) as answers:
        assert live.requests.open == ()  # it is taken already
        assert answers == []
        assert not served.has_effect
    assert [answer.status_code for answer in answers] == [204]
    await until_idle(live)
    assert served.has_effect


@pytest.mark.parametrize("change", ["edit", "reorder", "remove", "remove all"])
async def test_a_change_of_the_queue_is_acknowledged_only_when_it_is_durable(
    served: Served, disk: Disk, change: str
) -> None:
    live = await served.session()
    served.provider.script(use(EFFECT))
    await served.prompt(live)
    await until_asked(live)
    one, two = (live.prompt(text, when_busy="queue").prompt_id for text in ("one", "two"))
    await live.agent.log.sync()
    path = f"/v1/sessions/{live.id}/queue"
    method, where, body, left = {
        "edit": ("PATCH", f"{path}/{one}", {"text": "changed"}, ["changed", "two"]),
        "reorder": ("PATCH", path, {"order": [two]}, ["two", "one"]),
        "remove": ("DELETE", f"{path}/{one}", None, ["two"]),
        "remove all": ("DELETE", path, None, []),
    }[change]
    disk.holds_at = ANY
    async with holding(disk, lambda: served.http.request(method, where, json=body)) as answers:
        assert [prompt.text for prompt in live.queue.shown()] == left  # it is shown already
        assert answers == []
    assert [answer.status_code for answer in answers] == [204 if method == "DELETE" else 200]


async def test_a_fresh_context_is_acknowledged_only_when_it_is_durable(served: Served, disk: Disk) -> None:
    live = await served.session()
    disk.holds_at = "cleared"
    clear = f"/v1/sessions/{live.id}/clear"
    async with holding(disk, lambda: served.http.post(clear, json={})) as answers:
        assert kinds(check_journal(served.journal(live)))[-1] == "cleared"
        assert answers == []
    assert [answer.status_code for answer in answers] == [204]


async def test_an_undo_is_announced_durably_before_its_run_is_forgotten(served: Served, disk: Disk) -> None:
    live = await served.session(mode="yolo")
    served.provider.script(use(call("write", file_path="a.txt", content="a")), say("Done."))
    await served.prompt(live)
    await until_idle(live)
    [manifest] = (served.root / "data").rglob("checkpoints/run-*.json")
    disk.holds_at = "note"
    undo = f"/v1/sessions/{live.id}/undo"
    async with holding(disk, lambda: served.http.post(undo, json={})) as answers:
        assert kinds(check_journal(served.journal(live)))[-1] == "undone"
        assert manifest.exists()
        assert answers == []
    assert [answer.status_code for answer in answers] == [200]
    assert not manifest.exists()


async def test_a_tool_takes_effect_only_when_what_led_to_it_is_durable(served: Served, disk: Disk) -> None:
    live = await served.session(mode="yolo")
    served.provider.script(use(EFFECT), say("Done."))
    disk.holds_at = "tool_start"
    async with holding(disk, lambda: served.prompt(live)):
        assert kinds(check_journal(served.journal(live)))[-2:] == ["assistant_message", "tool_start"]
        assert not served.has_effect
    await until_idle(live)
    assert served.has_effect


async def test_a_call_that_waits_for_a_person_is_durable_before_it_waits(served: Served, disk: Disk) -> None:
    """The model's answer is paid for; that a person takes days must not put it at risk."""
    live = await served.session()
    served.provider.script(use(EFFECT), say("Done."))
    disk.holds_at = "assistant_message"
    async with holding(disk, lambda: served.prompt(live)):
        assert live.requests.open == ()
    await until_asked(live)


async def deferring(served: Served, disk: Disk) -> LiveSession:
    """A run whose call was handed over, and whose disk holds that back."""
    live = await served.session()
    served.provider.script(use(call("hand_over", "a", token="t-a")), say("Done."))
    await served.prompt(live)
    await disk.wait_held()
    return live


async def test_nobody_is_told_that_a_call_waits_before_that_is_durable(
    served: Served, disk: Disk, hand_over: FakeDeferringTool
) -> None:
    """Its run would be called suspended, and after a power cut the call was run again by a server that knew nothing."""
    disk.holds_at = "deferred"
    live = await deferring(served, disk)
    assert hand_over.runs == ["t-a"]
    assert served.journal(live).splitlines()[-1].startswith(b'{"type":"deferred"')
    assert kinds([frame.json for frame in frames_of(live)])[-1] == "tool_start"
    assert live.is_busy
    disk.released.set()
    await until_idle(live)
    assert kinds([frame.json for frame in frames_of(live)])[-2:] == ["done", "status"]
    assert live.state().suspended


async def test_the_answer_of_a_deferred_call_is_acknowledged_only_when_the_deferral_is_durable(
    served: Served, disk: Disk
) -> None:
    disk.holds_at = "deferred"
    live = await deferring(served, disk)
    disk.holds_at = ANY
    disk.held.clear()
    async with holding(disk, lambda: served.answer_deferred(live)) as answers:
        assert len(live.agent.history.deferrals) == 0  # it is taken already
        assert answers == []
    assert [answer.status_code for answer in answers] == [204]
    await until_idle(live)
    assert kinds(check_journal(served.journal(live)))[-2:] == ["done", "status"]


async def test_a_disk_that_cannot_sync_ends_the_run_before_any_effect(
    served: Served, disk: Disk, tmp_path: Path
) -> None:
    live = await served.session(mode="yolo")
    served.provider.script(use(EFFECT), say("Done."))
    disk.fails_at = "tool_start"
    assert (await served.prompt(live)).status_code in (202, 507)  # its own sync may come to the same disk
    await until_idle(live)
    assert not served.has_effect
    check_last_words(live, "error")
    assert (await served.prompt(live)).json()["code"] == "storage_unavailable"
    live.finish()
    await goes_on_after_a_restart(tmp_path, live, disk)


@pytest.mark.parametrize("leaves_half", [False, True])
async def test_a_disk_that_is_full_at_any_line_ends_the_run_and_what_was_written_stays(
    tmp_path: Path, disk: Disk, leaves_half: bool
) -> None:
    disk.leaves_half = leaves_half
    for number in range(1, 30):
        root = tmp_path / str(number)
        root.mkdir()
        disk.fails_write = None
        async with serving(root) as served:
            live = await served.session(mode="yolo")
            served.provider.script(use(EFFECT), say("Done."))
            disk.writes, disk.fails_write = 0, number
            answered = await served.prompt(live)
            await until_idle(live)
            is_through = disk.writes < number
            if answered.status_code == 202:
                was_over = kinds(check_journal(served.journal(live))).count("turn_end") == 2
                check_last_words(live, "end_turn" if was_over else "error")
            assert shown_before_the_end(live) <= set(served.journal(live).splitlines())
            started = len(of_kind(check_journal(served.journal(live)), "tool_start"))
            assert served.has_effect == (started == 1)
        assert served.journal(live).endswith(b"\n")
        await goes_on_after_a_restart(root, live, disk)
        if is_through:
            return
    raise AssertionError("the run never came to its end")


async def test_a_sync_that_is_going_on_does_not_mind_the_end_of_the_session(served: Served, disk: Disk) -> None:
    """The descriptor was closed below the sync, which then spoke of a full disk, or of another session's file."""
    live, hold = await served.session(), anyio.Event()
    served.provider.script(Turn(holds=hold))
    disk.holds_at = ANY
    async with holding(disk, lambda: served.prompt(live)) as answers:
        deleted = await served.http.delete(f"/v1/sessions/{live.id}")
        assert deleted.status_code == 204
        assert answers == []
    assert [answer.status_code for answer in answers] == [202]


def frames_of(live: LiveSession) -> list[Frame]:
    return [parse_frame(block) for block in live.bus.take(live.bus.oldest - 1)[0].split(b"\n\n")[:-1]]


def shown_before_the_end(live: LiveSession) -> set[bytes]:
    """The durable events that readers were shown, without the closing words, which need no journal."""
    last_words = ("error", "done", "status")
    return {frame.data for frame in frames_of(live) if frame.event not in (*last_words, *DISPLAY_ONLY)}


def check_last_words(live: LiveSession, reason: str) -> None:
    """The stream is told how the run ended, though the journal takes nothing more."""
    events = [frame.json for frame in frames_of(live)]
    assert kinds(events)[-2:] == ["done", "status"]
    assert [event["code"] for event in of_kind(events, "error")] == ["storage_unavailable"] * (reason == "error")
    assert events[-2]["stop_reason"] == reason
    assert events[-1]["busy"] is False


async def goes_on_after_a_restart(root: Path, live: LiveSession, disk: Disk) -> None:
    disk.fails_at, disk.fails_write = "", None
    async with serving(root) as served:
        loaded = await served.http.post("/v1/sessions", json={"resume": live.id})
        assert loaded.status_code == 201
        again = await served.hub.get(live.id)
        served.provider.script(say("It goes on."))
        assert (await served.prompt(again)).status_code == 202
        await until_idle(again)
        assert kinds(check_journal(served.journal(live)))[-2:] == ["done", "status"]
