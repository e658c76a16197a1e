"""`GET …/why` and `waiting_for`: what a session waits for, since when, and what can be done about it. Over HTTP, with a
model that does what it is told and a clock that is set."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from pydantic import BaseModel

from agentcore.app import App
from agentcore.encoding import encode, type_of
from agentcore.errors import ProviderError
from agentcore.events import Event, ModelStart, TextDelta, ToolStart
from agentcore.hearing import Hearing
from agentcore.opening import Opening
from agentcore.ports.models import TextPart
from agentcore.ports.tools import Deferred, Outcome, ToolRoom, ToolSpec
from agentcore.retry import Patience
from agentcore.usage import Budget
from server.activity import Activity
from server.asgi import Application, core_config
from server.hub import Hub
from server.settings import Folders, ServerSettings
from tests.fakes import FakeClock, FakePause, FakeProvider, FakeProviders, Turn, call, say, use

pytestmark = pytest.mark.anyio

TOKEN = "token-for-tests"
BEGIN = 1_700_000_000.0  # before any file is made here: a sweep takes none for one that was left behind long ago
MODEL = "fake/fake"
"""What the stand-in calls itself."""
CHOOSE = {"questions": [{"question": "Which?", "header": "H", "options": [{"label": "a"}, {"label": "b"}]}]}


class Nothing(BaseModel):
    pass


@dataclass
class Holding:
    """A tool that is done when it is told to."""

    ends: anyio.Event = field(default_factory=anyio.Event)
    spec = ToolSpec(name="hold", description="Hold.", input=Nothing, read_only=True)

    async def run(self, input: BaseModel, room: ToolRoom) -> Outcome:
        await self.ends.wait()
        return Outcome("Held.")

    def preview(self, input: BaseModel) -> str | None:
        return None


class Deferring:
    """A tool whose result comes from outside."""

    spec = ToolSpec(name="hand_over", description="Hand over.", input=Nothing, read_only=True)

    async def run(self, input: BaseModel, room: ToolRoom) -> Deferred:
        return Deferred("t-1")

    def preview(self, input: BaseModel) -> str | None:
        return None


@dataclass
class Served:
    http: httpx.AsyncClient
    hub: Hub
    provider: FakeProvider
    clock: FakeClock
    pause: FakePause
    hold: Holding

    async def create(self, **settings: object) -> str:
        created = await self.http.post("/v1/sessions", json={"mode": "yolo", **settings})
        assert created.status_code == 201, created.text
        return str(created.json()["id"])

    async def prompt(self, session: str, **body: object) -> None:
        answer = await self.http.post(f"/v1/sessions/{session}/prompt", json={"text": "go", **body})
        assert answer.status_code == 202

    async def why(self, session: str) -> dict[str, Any]:
        """The answer without its sentence; the state says the same."""
        why: dict[str, Any] = (await self.http.get(f"/v1/sessions/{session}/why")).json()
        state = (await self.http.get(f"/v1/sessions/{session}")).json()
        assert state.get("waiting_for", "nothing") == why["waiting_for"]
        assert why["detail"].pop("text")
        return why

    async def until(self, session: str, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        with anyio.fail_after(5):
            # asked without a pause, a worker thread that loads something would never have its turn
            while not is_so(why := await self.why(session)):  # noqa: ASYNC110 - what is asked about is no event
                await anyio.sleep(0.001)
        return why

    async def until_waiting(self, session: str, waiting_for: str) -> dict[str, Any]:
        return await self.until(session, lambda why: bool(why["waiting_for"] == waiting_for))

    async def until_idle(self, session: str) -> dict[str, Any]:
        return await self.until(session, lambda why: bool(why["state"] != "running"))

    def kill(self) -> None:
        """As a SIGKILL would leave them."""
        for live in self.hub:
            live.finish()


@asynccontextmanager
async def serving(root: Path, hanging: tuple[str, ...] = ()) -> AsyncIterator[Served]:
    """Entering again below the same root is a restart. `hanging`: names of MCP servers that never answer."""
    (root / "config").mkdir(exist_ok=True)
    servers = "".join(f'[mcp_servers.{name}]\ncommand = "sleep"\nargs = ["3600"]\n' for name in hanging)
    (root / "config" / "settings.toml").write_text(servers)
    work = root / "work"
    work.mkdir(exist_ok=True)
    settings = ServerSettings(
        cwd=work,
        roots=(work.resolve(),),
        folders=Folders(root / "config", root / "data", root / "state"),
        token=TOKEN,
        model="scripted/fake",
        allow_yolo=True,
    )
    clock, provider, hold = FakeClock(BEGIN), FakeProvider(), Holding()
    pause = FakePause(clock)
    patience = Patience(chance=lambda: 1.0, wait=pause)
    providers = FakeProviders(provider)
    core = App(core_config(settings), clock=clock, providers=providers, patience=patience, tools=[hold, Deferring()])
    application = Application(settings, core)
    await application.start()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(application.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:80", headers=headers) as http:
        served = Served(http, application._routes.state.hub, provider, clock, pause, hold)
        yield served
        served.kill()
    await application.stop()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as served:
        yield served


def answer(state: str, waiting_for: str, since: float, **detail: object) -> dict[str, Any]:
    lists: dict[str, object] = {"calls": [], "requests": [], "servers": [], "queued": 0, "subagents": []}
    return {"state": state, "waiting_for": waiting_for, "since": since, "detail": {**lists, **detail}}


# --- a run ---


async def test_a_model_that_is_silent_is_named_with_the_time_since_it_was_last_heard(served: Served) -> None:
    opens, holds = anyio.Event(), anyio.Event()
    turn = say("Well then")
    served.provider.script(Turn(turn.parts, turn.content, opens=opens, holds=holds))
    session = await served.create()
    await served.prompt(session)
    assert await served.until_waiting(session, "model") == answer("running", "model", BEGIN, model=MODEL)
    served.clock.time += 40
    assert (await served.why(session))["since"] == BEGIN
    opens.set()
    await served.provider.streaming.wait()
    served.clock.time += 50
    assert await served.why(session) == answer("running", "model", BEGIN + 40, model=MODEL)
    holds.set()
    assert (await served.until_idle(session))["since"] == BEGIN + 90


def test_what_a_subagent_says_is_no_word_of_a_silent_model() -> None:
    clock = FakeClock()
    activity = Activity(clock, clock.now())

    def take(event: Event) -> None:
        activity.take(1, type_of(event), encode(event, 1, "s", clock.now()))

    asked = clock.now()
    take(ModelStart(turn=1, model=MODEL, attempt=1))
    clock.time += 8
    take(ModelStart(turn=1, model="a/b", attempt=1, agent="explore-1"))
    take(TextDelta(turn=1, text="I look.", agent="explore-1"))
    take(ToolStart(call_id="c", tool_name="x", input={"b": 1, "agent": "y"}, group=0, position=0))
    main, subagent = activity.main, activity.subagents["explore-1"]
    assert main.model is not None
    assert (main.model.model, main.model.heard_at, list(main.tools)) == (MODEL, asked, ["c"])
    clock.time += 8
    take(TextDelta(turn=1, text='"agent":"x"'))
    assert main.model.heard_at == asked + 16
    assert subagent.model is not None
    assert (subagent.model.model, subagent.model.heard_at, list(subagent.tools)) == ("a/b", asked + 8, [])


async def test_a_tool_that_runs_is_named_with_its_call(served: Served) -> None:
    served.provider.script(use(call("hold", "c1")), Turn(opens=anyio.Event()))
    session = await served.create()
    served.clock.time += 1
    await served.prompt(session)
    why = await served.until_waiting(session, "tool")
    served.clock.time += 100
    running = {"call_id": "c1", "tool_name": "hold", "since": BEGIN + 1}
    assert why == await served.why(session) == answer("running", "tool", BEGIN + 1, calls=[running])
    served.hold.ends.set()
    assert await served.until_waiting(session, "model") == answer("running", "model", BEGIN + 101, model=MODEL)


async def test_a_call_that_was_handed_over_holds_up_no_run_that_goes_on_beside_it(served: Served) -> None:
    served.provider.script(use(call("hand_over", "c1"), call("hold", "c2")))
    session = await served.create()
    await served.prompt(session)
    why = await served.until_waiting(session, "tool")
    assert [one["call_id"] for one in why["detail"]["calls"]] in (["c1"], ["c2"])  # the first one is just being made
    why = await served.until(session, lambda why: [one["call_id"] for one in why["detail"]["calls"]] == ["c2"])
    assert (why["state"], why["waiting_for"]) == ("running", "tool")


async def test_a_model_that_has_answered_is_not_waited_for_any_more(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = anyio.Event()

    async def hear(*_: object) -> None:
        ends.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(Hearing, "end", hear)
    served.provider.script(say("Done."))
    session = await served.create()
    await served.prompt(session)
    with anyio.fail_after(5):
        await ends.wait()
    assert await served.why(session) == answer("running", "nothing", BEGIN)


@pytest.mark.parametrize(
    ("mode", "asked", "waiting_for", "kind"),
    [
        ("default", call("bash", "c1", command="make all"), "permission", "tool"),
        ("default", call("ask_user", "c1", **CHOOSE), "question", "question"),
    ],
)
async def test_a_person_who_is_needed_is_told_which_request_to_answer(
    served: Served, mode: str, asked: Any, waiting_for: str, kind: str
) -> None:
    served.provider.script(use(asked), say("Done."))
    session = await served.create(mode=mode)
    await served.prompt(session)
    why = await served.until_waiting(session, waiting_for)
    served.clock.time += 100
    request = {"request_id": "perm-1", "kind": kind, "tool_name": asked.name, "since": BEGIN}
    assert why == await served.why(session) == answer("running", waiting_for, BEGIN, requests=[request])


async def test_a_question_about_the_budget_is_a_request_like_any_other(served: Served) -> None:
    served.provider.script(use(call("bash", "c1", command="true")), say("Done."))
    session = await served.create(budget=Budget(tokens=1).model_dump(exclude_none=True))
    await served.prompt(session)
    [request] = (await served.until_waiting(session, "permission"))["detail"]["requests"]
    assert (request["request_id"], request["kind"]) == ("perm-1", "budget")


async def test_a_retry_says_when(served: Served) -> None:
    served.pause.holds = True
    served.provider.script(Turn(fails=ProviderError("overloaded", "Too much.", retry_after_s=25)), say("Now."))
    session = await served.create()
    await served.prompt(session)
    why = await served.until_waiting(session, "retry")
    assert why == answer("running", "retry", BEGIN, model=MODEL, until=BEGIN + 25)
    await served.http.post(f"/v1/sessions/{session}/cancel", json={})
    assert await served.until_idle(session) == answer("idle", "nothing", BEGIN)


async def test_a_model_that_is_asked_again_is_no_retry_any_more(served: Served) -> None:
    opens = anyio.Event()
    served.provider.script(Turn(fails=ProviderError("overloaded", "Too much.", retry_after_s=25)), Turn(opens=opens))
    session = await served.create()
    await served.prompt(session)
    why = await served.until(session, lambda why: bool(why["since"] == BEGIN + 25))
    assert why == answer("running", "model", BEGIN + 25, model=MODEL)


async def test_a_run_that_waits_for_servers_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentcore.run.SERVERS_START_S", 3_600)
    async with serving(tmp_path, ("web", "files")) as served:
        session = await served.create()
        await served.prompt(session)
        why = await served.until_waiting(session, "mcp")
        assert why == answer("running", "mcp", BEGIN, servers=["files", "web"])
        assert (await served.why(await served.create()))["waiting_for"] == "nothing"  # it runs nothing
        await served.http.post(f"/v1/sessions/{session}/cancel")
        assert await served.until_idle(session) == answer("idle", "nothing", BEGIN)


@pytest.mark.parametrize("hanging", [(), ("files",)])
async def test_a_run_that_has_not_begun_and_waits_for_no_server_any_more_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hanging: tuple[str, ...]
) -> None:
    began = anyio.Event()

    async def look_for_ever(opening: Opening, candidates: object) -> None:
        began.set()
        await anyio.sleep_forever()

    monkeypatch.setattr(Opening, "look_around", look_for_ever)
    monkeypatch.setattr("agentcore.run.SERVERS_START_S", 0.01)
    async with serving(tmp_path, hanging) as served:
        session = await served.create()
        await served.prompt(session)
        with anyio.fail_after(5):
            await began.wait()
        assert await served.why(session) == answer("running", "nothing", BEGIN)


async def test_servers_that_are_not_connected_hold_up_no_run_that_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentcore.run.SERVERS_START_S", 0.01)
    async with serving(tmp_path, ("files",)) as served:
        served.provider.script(Turn(opens=anyio.Event()))
        session = await served.create()
        await served.prompt(session)
        await served.until_waiting(session, "model")


# --- between runs ---


async def test_an_idle_session_waits_for_nothing_since_it_was_busy(served: Served) -> None:
    session = await served.create()
    served.clock.time += 5
    assert await served.why(session) == answer("idle", "nothing", BEGIN)
    served.provider.script(say("Done."))
    await served.prompt(session, wait=False)
    await served.until_idle(session)
    served.clock.time += 5
    await served.http.patch(f"/v1/sessions/{session}", json={"title": "New"})
    assert await served.why(session) == answer("idle", "nothing", BEGIN + 5)


async def test_prompts_that_wait_behind_a_run_are_counted(served: Served) -> None:
    served.provider.script(use(call("hold", "c1")))
    session = await served.create()
    await served.prompt(session)
    await served.until_waiting(session, "tool")
    await served.prompt(session, when_busy="queue")
    assert (await served.why(session))["detail"]["queued"] == 1


async def test_a_queue_that_a_restart_left_waits_for_somebody_to_begin_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        closes = anyio.Event()
        served.provider.script(Turn(opens=anyio.Event(), closes=closes))
        session = await served.create()
        await served.prompt(session)
        await served.until_waiting(session, "model")
        served.clock.time += 7
        await served.prompt(session, when_busy="interrupt")
        served.kill()
        closes.set()
    async with serving(tmp_path) as served:
        assert (await served.http.post("/v1/sessions", json={"resume": session})).status_code == 201
        served.clock.time += 100
        assert await served.why(session) == answer("idle", "queue", BEGIN + 7, queued=1)


async def test_an_interrupted_run_waits_for_somebody_to_go_on_with_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        served.provider.script(Turn([TextPart("Half")], holds=anyio.Event()))
        session = await served.create()
        served.clock.time += 3
        await served.prompt(session)
        await served.provider.streaming.wait()
        served.kill()
    async with serving(tmp_path) as served:
        served.clock.time += 100
        await served.http.post("/v1/sessions", json={"resume": session})
        assert await served.why(session) == answer("interrupted", "nothing", BEGIN + 3)


async def test_an_interrupted_run_waits_for_the_answer_that_it_waited_for(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        served.provider.script(use(call("bash", "c1", command="make all")))
        session = await served.create(mode="default")
        await served.prompt(session)
        await served.until_waiting(session, "permission")
        served.kill()
    async with serving(tmp_path) as served:
        served.clock.time += 100
        await served.http.post("/v1/sessions", json={"resume": session})
        request = {"request_id": "perm-1", "kind": "tool", "tool_name": "bash", "since": BEGIN}
        assert await served.why(session) == answer("interrupted", "permission", BEGIN, requests=[request])


async def test_a_suspended_run_waits_for_somebody_to_go_on_with_it(served: Served) -> None:
    served.provider.script(use(call("hold", "c1")), say("Done."))
    session = await served.create()
    await served.prompt(session)
    await served.until_waiting(session, "tool")
    await served.http.post(f"/v1/sessions/{session}/suspend", json={})
    served.clock.time += 4
    served.hold.ends.set()
    assert await served.until_idle(session) == answer("suspended", "nothing", BEGIN + 4)


async def test_a_result_that_comes_from_outside_is_waited_for_under_its_token(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        served.provider.script(use(call("hand_over", "c1")), say("Done."))
        session = await served.create()
        await served.prompt(session)
        why = await served.until(session, lambda why: bool(why["state"] == "suspended"))
        outside = {"call_id": "c1", "tool_name": "hand_over", "since": BEGIN, "token": "t-1"}
        assert why == answer("suspended", "tool", BEGIN, calls=[outside])
    async with serving(tmp_path) as served:
        served.clock.time += 100
        await served.http.post("/v1/sessions", json={"resume": session})
        del outside["since"]  # that is not in the journal's memory
        assert await served.why(session) == answer("suspended", "tool", BEGIN, calls=[outside])
        await served.http.post(f"/v1/sessions/{session}/deferred/t-1", json={"output": "Here."})
        assert (await served.until_idle(session))["waiting_for"] == "nothing"


async def test_a_session_that_is_not_loaded_cannot_say_and_the_answer_says_how_to_load_it(served: Served) -> None:
    session = await served.create()
    await served.http.delete(f"/v1/sessions/{session}")
    refused = await served.http.get(f"/v1/sessions/{session}/why")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert "resume" in refused.json()["error"]
