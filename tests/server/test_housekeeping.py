"""What a server does by itself, or at a load, may fail: it is logged, nothing else ends, and nothing stays held."""

import os
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import agentcore.app
from agentcore.agent import Agent
from agentcore.app import App
from agentcore.checkpoints.session import SessionCheckpoints
from agentcore.errors import StorageUnavailable, Unprocessable
from agentcore.events import Done, ToolEnd
from agentcore.factory import AgentFactory
from agentcore.session import Settings
from agentcore.sessions.journal import Journal
from agentcore.sessions.segments import FILE_NAME
from agentcore.sessions.store import SessionStore
from server.asgi import Application, core_config
from server.hub import Hub
from server.live import LiveSession
from server.settings import Folders, ServerSettings
from tests.daemon import WAIT_S, Daemon
from tests.fakes import FakeProvider, FakeProviders, House, call, house, say, use

pytestmark = pytest.mark.anyio


class Broken(Exception):
    """A bug."""


def breaks(*_: object, **__: object) -> None:
    raise Broken


# --- what it does by itself ---


@pytest.mark.parametrize(
    ("where", "name"),
    [
        (agentcore.app, "kill_orphans"),
        (SessionStore, "sweep"),
        (agentcore.app, "prune_all"),
        (App, "warm"),
        (App, "look_nearby"),
        (Hub, "tidy"),
    ],
)
async def test_a_server_outlives_whatever_fails_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: object, name: str
) -> None:
    (tmp_path / "work").mkdir()
    settings = ServerSettings(
        cwd=tmp_path / "work",
        roots=((tmp_path / "work").resolve(),),
        folders=Folders(tmp_path / "config", tmp_path / "data", tmp_path / "state"),
        token="0123456789abcdef",
        model="scripted/fake",
    )
    monkeypatch.setattr("server.hub.STALL_S", 0.0)
    monkeypatch.setattr(where, name, breaks)
    application = Application(settings, App(core_config(settings), providers=FakeProviders(FakeProvider())))
    await application.start()
    with anyio.fail_after(5):
        while "Broken" not in caplog.text:
            await anyio.lowlevel.checkpoint()
    hub: Hub = application._routes.state.hub
    live = await hub.create((tmp_path / "work").resolve(), Settings())
    assert hub.find(live.id) is live
    await application.stop()


async def test_what_fails_at_one_step_of_the_sweep_keeps_no_other_from_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pruned = anyio.Event()
    monkeypatch.setattr(agentcore.app, "kill_orphans", breaks)
    monkeypatch.setattr(SessionStore, "sweep", breaks)
    monkeypatch.setattr(agentcore.app, "prune_all", lambda *_: anyio.from_thread.run_sync(pruned.set))
    async with house(tmp_path) as home, anyio.create_task_group() as tasks:
        settings = ServerSettings(
            cwd=tmp_path / "work",
            roots=((tmp_path / "work").resolve(),),
            folders=Folders(tmp_path / "config", tmp_path / "data", tmp_path / "state"),
            token="0123456789abcdef",
            model="scripted/fake",
        )
        tasks.start_soon(Application(settings, home.app).tidy_up)
        with anyio.fail_after(5):
            await pruned.wait()


async def test_one_session_that_cannot_be_looked_after_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as home:
        first, second = await home.session(), await home.session()
        monkeypatch.setattr(first, "expire", breaks)
        second.used_at = first.used_at = -1e9
        first.agent.claim()
        monkeypatch.setattr(LiveSession, "is_in_use", property(lambda live: live is first))
        home.hub.tidy()
        assert (home.hub.find(first.id), home.hub.find(second.id)) == (first, None)


@pytest.mark.parametrize("how", ["taken over", "deleted", "idle"])
async def test_a_session_that_cannot_be_closed_in_order_is_let_go_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async with house(tmp_path) as home:
        live, other = await home.session(), await home.session()
        monkeypatch.setattr(live._runs, "close", breaks)
        monkeypatch.setattr(live, "unload", breaks)
        [directory] = (tmp_path / "data" / "sessions").glob(f"*/{live.id}")
        journal = Journal.open(directory, takeover=True)[0] if how == "taken over" else None
        if how == "deleted":
            await home.hub.close(live, "deleted")
        elif how == "idle":
            live.used_at = -1e9
        with anyio.fail_after(5):
            while live in home.hub:
                home.hub.tidy()
                await anyio.lowlevel.checkpoint()
        assert (live.bus.is_closed, home.hub.find(other.id)) == (True, other)
        if journal is None:
            Journal.open(directory)[0].close()  # nobody holds it


async def test_a_run_that_cannot_be_ended_ends_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with house(tmp_path) as home:
        live, other = await home.session(), await home.session()
        with monkeypatch.context() as patch:
            patch.setattr(live._runs._waiters, "tell", breaks)
            live.prompt("go")
            await home.until_idle(live)
        assert home.events(live)[-1] == home.events(live)[-1].model_copy(update={"busy": False})
        home.provider.script(say("Fine."))
        assert (await home.run(other, "go"))[-2].type == "done"
        await home.hub.close(live, "deleted")


async def test_folders_that_are_none_do_not_end_a_server_that_starts(daemon: Daemon) -> None:
    async with daemon.client() as http:
        session = (await http.post("/v1/sessions", json={})).json()["id"]
    project = daemon.journal(session).parent.parent
    daemon.kill()
    half_made = project / "20250101-000000-aaaaaa"
    half_made.mkdir()
    os.utime(half_made, (1, 1))
    odd: dict[str, Callable[[Path], object]] = {
        "b": lambda path: path.symlink_to("/nonexistent"),
        "c": lambda path: path.symlink_to(path),
        "d": Path.touch,
        "e": os.mkfifo,
    }
    for name, make in odd.items():
        make(project / f"20250101-000000-{name * 6}")
        make(project.parent / name)
    daemon.start()
    with anyio.fail_after(WAIT_S):
        while half_made.exists():
            await anyio.lowlevel.checkpoint()
    async with daemon.client() as http:
        listed = (await http.get("/v1/sessions")).json()["sessions"]
        assert [one["id"] for one in listed] == [session]
        assert (await http.post("/v1/sessions", json={"continue": True})).status_code == 201


# --- a load ---


async def stopped(home: House) -> str:
    live = await home.session()
    await home.hub.close(live, "deleted")
    return live.id


LATE = [
    (Agent, "end_cut_compaction"),
    (App, "_leave_yolo"),
    (AgentFactory, "make"),
    (LiveSession, "bind"),
    (App, "effective"),
]


@pytest.mark.parametrize(("where", "name"), LATE)
async def test_a_load_that_fails_late_lets_go_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, name: str
) -> None:
    async with house(tmp_path) as home:
        session = await stopped(home)
        with monkeypatch.context() as patch:
            patch.setattr(where, name, breaks)
            with pytest.raises(Broken):
                await home.hub.load(session)
        await home.hub.load(session)


@pytest.mark.parametrize(("where", "name"), [(App, "_leave_yolo"), (AgentFactory, "make"), (LiveSession, "bind")])
@pytest.mark.parametrize("how", ["fork", "create"])
async def test_a_session_that_is_made_and_cannot_be_used_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, name: str, how: str
) -> None:
    if (how, name) == ("create", "_leave_yolo"):
        return  # it has the mode that was asked for
    async with house(tmp_path) as home:
        session = await stopped(home)
        with monkeypatch.context() as patch:
            patch.setattr(where, name, breaks)
            with pytest.raises(Broken):
                await (home.hub.fork(session, None, {}) if how == "fork" else home.session())
        for summary in await home.app.summaries():
            await home.hub.load(summary.id)


async def test_checkpoints_that_cannot_be_pruned_stop_no_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_checkpoints: SessionCheckpoints) -> None:
        raise OSError(5, "Input/output error")

    async with house(tmp_path) as home:
        session = await stopped(home)
        monkeypatch.setattr(SessionCheckpoints, "prune", full)
        home.listen(live := (await home.hub.load(session))[0])
        await home.run(live, "go on")


async def test_a_fork_whose_rules_cannot_be_read_leaves_no_session_behind(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.app._project_file(live.agent.cwd).parent.mkdir(parents=True)
        home.app._project_file(live.agent.cwd).write_text("allow = [\n")
        for _ in range(2):
            with pytest.raises(Unprocessable):
                await home.hub.fork(live.id, None, {})
        assert [summary.id for summary in await home.app.summaries()] == [live.id]


# --- a journal that lost its prompt ---


@pytest.mark.parametrize("what", ["cancel", "resume", "prompt", "taken over"])
async def test_a_run_whose_prompt_is_not_in_the_journal_can_be_ended_and_gone_on_with(
    tmp_path: Path, what: str
) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="default")
        home.provider.script(use(call("bash", command="echo x")))
        live.prompt("go")
        await home.until_asked(live)
    [directory] = (tmp_path / "data" / "sessions").glob(f"*/{live.id}")
    lines = (directory / FILE_NAME).read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(b'{"type":"user_message"')]
    assert len(kept) == len(lines) - 1
    (directory / FILE_NAME).write_bytes(b"".join(kept))
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("On."), say("And on."))
        match what:
            case "cancel":
                assert live.cancel()
            case "resume":
                live.resume_run()
            case "prompt":
                live.prompt("another")
            case _:
                other = Journal.open(directory, takeover=True)[0]
                with anyio.fail_after(5):
                    while live in home.hub:
                        home.hub.tidy()
                        await anyio.lowlevel.checkpoint()
                other.close()
                return
        await home.until_idle(live)
        ends = [event.stop_reason for event in home.events(live) if isinstance(event, Done)]
        assert ends == {"cancel": ["interrupted"], "resume": ["end_turn"], "prompt": ["end_turn", "end_turn"]}[what]
        assert live.requests.open == ()
        assert not any(isinstance(event, ToolEnd) and not event.is_error for event in home.events(live))
        assert (await home.run(live, "more"))[-2].stop_reason == "end_turn"


# --- a full disk ---


async def test_a_cancel_that_took_place_is_no_failure_though_the_next_prompt_cannot_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="echo a")))
        live.prompt("first")
        await home.until_asked(live)
        live.prompt("second", when_busy="queue")
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        monkeypatch.setattr(os, "write", lambda file, data: 1)
        assert live.cancel()
        assert not live.cancel()
        monkeypatch.undo()
        assert live.agent.open_run is None
        with pytest.raises(StorageUnavailable):
            live.prompt("more")
