"""Suspending: a run stops at its next border, says so with its `done`, and the rest of it goes on later as a run of its
own, without paying for a model call again."""

from pathlib import Path

import anyio
import pytest

from agentcore.ports.models import TextPart
from server.live import LiveSession
from server.problems import Problem
from server.schemas import AnswerBody
from tests.core.test_queue import busy, of_kind
from tests.fakes import House, Turn, call, house, kinds, say, use

pytestmark = pytest.mark.anyio


async def suspended_at_border(home: House, **settings: object) -> str:
    """A run of one call that was suspended while the model asked for it: the call ran, the next turn did not begin."""
    live = await home.session(mode="yolo", **settings)
    gate = anyio.Event()
    turn = use(call("bash", "a", command="echo once >> ran.txt"), text="Go.")
    home.provider.script(Turn([TextPart("Go.")], turn.content, "tool_use", holds=gate))
    live.prompt("first")
    await home.provider.streaming.wait()
    assert live.suspend()
    gate.set()
    await home.until_idle(live)
    return live.id


async def test_a_run_stops_at_its_border_and_the_rest_is_a_run_of_its_own(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.reload(await suspended_at_border(home))
        assert (live.state().suspended, live.state().interrupted, live.is_busy) == (True, False, False)
        home.provider.script(say("Done."))
        accepted = live.resume_run()
        await home.until_idle(live)
        dones = of_kind(home.events(live), "done")
        assert [done.stop_reason for done in dones][-1] == "end_turn"
        assert dones[-1].prompt_id == accepted.prompt_id
        assert len(home.provider.requests) == 2
        assert (tmp_path / "work" / "ran.txt").read_text() == "once\n"
        assert (dones[-1].turns, of_kind(home.events(live), "turn_start")[-1].turn) == (1, 2)


@pytest.mark.parametrize("is_reloaded", [False, True])
async def test_a_run_that_somebody_suspended_waits_for_somebody_to_resume_it(tmp_path: Path, is_reloaded: bool) -> None:
    async with house(tmp_path) as home:
        session = await suspended_at_border(home)
        if not is_reloaded:
            check_it_waits(home, await home.reload(session))
    if is_reloaded:
        async with house(tmp_path) as home:
            check_it_waits(home, await home.reload(session))


def check_it_waits(home: House, live: LiveSession) -> None:
    home.hub.tidy()
    assert (live.state().suspended, live.is_busy) == (True, False)


async def test_each_of_the_two_runs_has_its_own_done_and_usage(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await suspended_at_border(home)
        live = home.hub.find(session)
        assert live is not None
        home.provider.script(say("Done."))
        live.resume_run()
        await home.until_idle(live)
        dones = of_kind(home.events(live), "done")
        assert [done.stop_reason for done in dones] == ["suspended", "end_turn"]
        assert len({done.run_id for done in dones}) == 2
        assert len({done.prompt_id for done in dones}) == 1
        assert [(done.turns, done.usage.input) for done in dones] == [(1, 10), (1, 10)]
        assert live.state().usage.input == 20
        starts = [(event.type, event.turn) for event in home.events(live) if event.type in ("turn_start", "turn_end")]
        assert starts == [("turn_start", 1), ("turn_end", 1), ("turn_start", 2), ("turn_end", 2)]


async def test_a_finished_answer_is_not_suspended(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        _, gate = await busy(home, live)
        assert live.suspend()
        gate.set()
        await home.until_idle(live)
        assert home.events(live)[-2].stop_reason == "end_turn"
        assert not live.suspend()
        assert (await home.run(live, "again"))[-2].stop_reason == "end_turn"


async def test_an_open_request_stays_open_and_its_answer_resumes(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(
            use(call("bash", "a", command="echo a"), call("ls", "b"), call("bash", "c", command="echo c")),
            say("Done."),
        )
        live.prompt("first")
        await home.until_asked(live)
        assert live.suspend()
        await home.until_idle(live)
        assert [request.request_id for request in live.requests.open] == ["perm-1", "perm-2"]
        assert [event.call_id for event in of_kind(home.events(live), "tool_end")] == ["b"]
        assert (live.state().suspended, live.state().waiting_for) == (True, "permission")
        live.answer("perm-2", AnswerBody(allow=True))
        assert not live.is_busy
        live.answer("perm-1", AnswerBody(allow=False))
        await home.until_idle(live)
        assert [event.stop_reason for event in of_kind(home.events(live), "done")] == ["suspended", "end_turn"]
        results = [block.call_id for block in home.provider.requests[1].messages[-1].content]
        assert results == ["a", "b", "c"]
        assert kinds(home.events(live)).count("turn_end") == 2


async def test_a_resume_waits_for_the_person_again(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", "a", command="echo a")), say("Done."))
        live.prompt("first")
        await home.until_asked(live)
        live.suspend()
        await home.until_idle(live)
        live.resume_run()
        await anyio.wait_all_tasks_blocked()
        assert (live.is_busy, live.state().waiting_for) == (True, "permission")
        live.answer("perm-1", AnswerBody(allow=True))
        await home.until_idle(live)
        assert home.events(live)[-2].stop_reason == "end_turn"


@pytest.mark.parametrize("is_reloaded", [False, True])
async def test_a_prompt_ends_the_suspended_run_and_begins_its_own(tmp_path: Path, is_reloaded: bool) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", "a", command="echo a")), say("Something else."))
        live.prompt("first")
        await home.until_asked(live)
        live.suspend()
        await home.until_idle(live)
        session = live.id
        if not is_reloaded:
            await home.run(live, "else")
            check_replaced(home, session)
    if is_reloaded:
        async with house(tmp_path) as home:
            live = await home.reload(session)
            assert live.state().suspended
            home.provider.script(say("Something else."))
            await home.run(live, "else")
            check_replaced(home, session)


def check_replaced(home: House, session: str) -> None:
    events = home.heard[session]
    assert [event.resolution for event in of_kind(events, "permission_resolved")] == ["cancelled"]
    assert [event.cancelled for event in of_kind(events, "tool_end")] == [True]
    assert [event.stop_reason for event in of_kind(events, "done")][-2:] == ["interrupted", "end_turn"]
    runs = [event.run_id for event in of_kind(events, "done")]
    assert len(runs) == len(set(runs))


@pytest.mark.parametrize("ending", ["cancel", "delete"])
async def test_a_suspended_run_can_be_ended(tmp_path: Path, ending: str) -> None:
    async with house(tmp_path) as home:
        session = await suspended_at_border(home)
    async with house(tmp_path) as home:
        live = await home.reload(session)
        if ending == "cancel":
            assert live.cancel()
        else:
            await home.hub.close(live, "deleted")
        assert [event.stop_reason for event in of_kind(home.events(live), "done")] == ["interrupted"]
    async with house(tmp_path) as home:
        live = await home.reload(session)
        assert not live.state().suspended
        with pytest.raises(Problem) as refused:
            live.resume_run()
        assert refused.value.code == "nothing_to_resume"


async def test_the_queue_and_the_inbox_wait_for_the_suspended_run(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        gate = anyio.Event()
        turn = use(call("bash", "a", command="true"), text="Go.")
        home.provider.script(Turn([TextPart("Go.")], turn.content, "tool_use", holds=gate))
        live.prompt("first")
        await home.provider.streaming.wait()
        live.prompt("queued", when_busy="queue")
        live.suspend()
        live.prompt("steered", when_busy="steer")
        gate.set()
        await home.until_idle(live)
        assert live.state().suspended
        session = live.id
    async with house(tmp_path) as home:
        live = await home.reload(session)
        assert (live.state().suspended, live.state().queued_prompts) == (True, 1)
        home.provider.script(say("Steered."), say("Queued."))
        live.resume_run()
        await home.until_idle(live)
        assert home.provider.requests[0].messages[-1].text == "steered"
        assert [event.text for event in of_kind(home.events(live), "done")] == ["Steered.", "Queued."]


async def test_a_cancel_in_the_step_of_the_suspension_wins(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", "a", command="echo a")))
        live.prompt("first")
        await home.until_asked(live)
        live.suspend()
        live.cancel()
        await home.until_idle(live)
        assert [event.stop_reason for event in of_kind(home.events(live), "done")] == ["interrupted"]
        assert not live.state().suspended


async def test_a_cancel_at_the_very_border_wins_as_well(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        at_border = {"turn_start": live.suspend, "turn_end": live.cancel}
        live.agent.log.listen(lambda seq, kind, line: at_border.get(kind, bool)())
        home.provider.script(use(call("ls", "a")))
        await home.run(live, "first")
        assert home.events(live)[-2].stop_reason == "interrupted"
        assert not live.state().suspended


async def test_a_pause_of_the_model_is_gone_on_with_after_a_suspension(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        gate = anyio.Event()
        home.provider.script(Turn([TextPart("Still")], say("Still").content, "pause_turn", holds=gate), say("Done."))
        live.prompt("first")
        await home.provider.streaming.wait()
        live.suspend()
        gate.set()
        await home.until_idle(live)
        assert live.state().suspended
        live.resume_run()
        await home.until_idle(live)
        assert [event.text for event in of_kind(home.events(live), "done")] == ["Still", "Done."]


async def test_a_suspended_run_goes_on_with_its_recorded_context(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await suspended_at_border(home, system_append="Remember the milk.")
        before = home.provider.requests[0]
    async with house(tmp_path) as home:
        live = await home.reload(session)
        live.resume_run()
        await home.until_idle(live)
        after = home.provider.requests[0]
    assert (after.system, after.tools) == (before.system, before.tools)


async def test_suspending_does_not_lift_the_bound_of_turns(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        session = await suspended_at_border(home, max_turns=2)
        live = home.hub.find(session)
        assert live is not None
        home.provider.script(use(call("bash", "b", command="true")))
        live.resume_run()
        await home.until_idle(live)
        assert home.events(live)[-2].stop_reason == "max_turns"
