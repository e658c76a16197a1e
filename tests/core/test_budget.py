"""Budgets: what counts, what is told in time, and who is asked before a session goes beyond its limits."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from agentcore.budget import Ledger
from agentcore.events import NumberedEvent, PermissionRequest, SessionUpdated
from agentcore.limits import is_enough, limits_from, nearly_reached, raised, shortfall
from agentcore.messages import ToolCall
from agentcore.ports.permission import Answer, Ask
from agentcore.sessions.log import JournalLog
from agentcore.usage import MAX_AMOUNT, MAX_COUNT, Budget, Used
from server.answers import BudgetState
from server.live import LiveSession
from server.problems import Problem
from server.schemas import AnswerBody
from tests.core.test_queue import of_kind
from tests.fakes import FakeClock, House, call, house, kinds, say, use

pytestmark = pytest.mark.anyio

ALLOW, DENY = AnswerBody(allow=True), AnswerBody(allow=False)
LOOK = call("bash", command="ls")
"""Runs without a question."""


def codes(events: list[NumberedEvent]) -> list[str]:
    return [event.code for event in of_kind(events, "notice") if event.code.startswith("budget")]


def reasons(events: list[NumberedEvent]) -> list[str]:
    return [event.stop_reason for event in events if event.type == "done"]


def budgets(events: list[NumberedEvent]) -> list[tuple[Budget | None, str | None]]:
    return [(event.budget, event.by) for event in of_kind(events, "session_updated") if event.budget is not None]


def looks(*names: str) -> tuple[ToolCall, ...]:
    return tuple(call("bash", name, command="ls") for name in names)


# --- the rules ---

SHORT: list[tuple[Budget, Used, int, tuple[str, float] | None]] = [
    (Budget(), Used(usd=9, tokens=9, time_s=9, tool_calls=9), 9, None),
    (Budget(usd=5), Used(usd=4.999), 0, None),
    (Budget(usd=5), Used(usd=5), 0, ("usd", 10)),
    (Budget(usd=5), Used(usd=14), 0, ("usd", 15)),
    (Budget(usd=5), Used(usd=15), 0, ("usd", 20)),
    (Budget(tokens=100), Used(tokens=99), 0, None),
    (Budget(tokens=100), Used(tokens=100), 0, ("tokens", 200)),
    (Budget(time_s=1.5), Used(time_s=1.5), 3, ("time_s", 3)),
    (Budget(tool_calls=3), Used(tool_calls=2), 0, None),
    (Budget(tool_calls=3), Used(tool_calls=2), 1, None),
    (Budget(tool_calls=3), Used(tool_calls=2), 2, ("tool_calls", 6)),
    (Budget(tool_calls=3), Used(tool_calls=3), 0, None),
    (Budget(tool_calls=3), Used(tool_calls=3), 1, ("tool_calls", 6)),
    (Budget(tool_calls=3), Used(), 7, ("tool_calls", 9)),
    (Budget(usd=5, tokens=10), Used(usd=5, tokens=10), 0, ("usd", 10)),
    (Budget(usd=MAX_AMOUNT), Used(usd=MAX_AMOUNT), 0, ("usd", MAX_AMOUNT)),
    (Budget(tokens=MAX_COUNT), Used(tokens=MAX_COUNT), 0, ("tokens", MAX_COUNT)),
]


@pytest.mark.parametrize(("budget", "used", "waiting", "expected"), SHORT)
def test_the_first_limit_that_is_used_up_is_raised_by_what_it_was_at_first(
    budget: Budget, used: Used, waiting: int, expected: tuple[str, float] | None
) -> None:
    short = shortfall(budget, budget, used, waiting)
    assert (None if short is None else (short.limit, short.raises_to)) == expected


def test_a_limit_that_was_raised_grows_by_its_first_height_again() -> None:
    short = shortfall(Budget(usd=10), Budget(usd=5), Used(usd=10), 0)
    assert short is not None
    assert short.raises_to == 15


RAISED = [
    (Budget(usd=5, tokens=7), Budget(usd=10, tokens=7)),
    (Budget(usd=10), Budget(usd=10)),
    (Budget(usd=12), Budget(usd=12)),
    (Budget(), Budget()),
]


@pytest.mark.parametrize(("budget", "expected"), RAISED)
def test_an_allow_raises_the_limit_once_and_lowers_none(budget: Budget, expected: Budget) -> None:
    assert raised(budget, {"limit": "usd", "amount": 5, "used": 5, "calls": 0, "raises_to": 10}) == expected


ENOUGH = [(Budget(tool_calls=4), False), (Budget(tool_calls=5), True), (Budget(), True), (Budget(usd=1), True)]


@pytest.mark.parametrize(("budget", "expected"), ENOUGH)
def test_a_limit_is_enough_when_what_waits_fits_in(budget: Budget, expected: bool) -> None:
    assert is_enough(budget, {"limit": "tool_calls", "amount": 3, "used": 3, "calls": 2}) is expected


NEAR = [(0.79, ()), (0.8, ("usd",)), (1.2, ("usd",))]


@pytest.mark.parametrize(("usd", "expected"), NEAR)
def test_a_limit_is_near_from_the_part_on_that_the_settings_say(usd: float, expected: tuple[str, ...]) -> None:
    assert nearly_reached(Budget(usd=1, tokens=9), Used(usd=usd), 0.8) == expected


def test_limits_of_the_settings_are_bounded_and_none_is_no_budget() -> None:
    assert limits_from(None, None, None, None) is None
    assert limits_from(1e12, 10**18, None, 3) == Budget(usd=MAX_AMOUNT, tokens=MAX_COUNT, tool_calls=3)


@pytest.mark.parametrize("amount", [1e-9, 4e-10, 1e-10, 5e-324])
def test_an_amount_below_all_that_is_counted_is_the_smallest_one(amount: float) -> None:
    assert limits_from(amount, None, amount, None) == Budget(usd=1e-9, time_s=1e-9)


@pytest.mark.parametrize("amount", [1e-9, 5e-10, 1e-10, 5e-324])
@pytest.mark.parametrize("used", [0.0, 1e-9, 0.5, 403313000.2331617, MAX_AMOUNT])
def test_the_smallest_budgets_can_be_raised_above_what_was_used(amount: float, used: float) -> None:
    budget = Budget(usd=amount)
    short = shortfall(budget, budget, Used(usd=used), 0)
    if short is not None:
        Budget(usd=short.raises_to)
        assert short.raises_to > used or short.raises_to == MAX_AMOUNT


def test_a_budget_given_over_another_replaces_what_it_names_and_null_lifts_it() -> None:
    given = Budget.model_validate({"usd": 9, "tokens": None})
    assert given.over(Budget(usd=5, tokens=7, tool_calls=3)) == Budget(usd=9, tool_calls=3)


# --- what counts ---

Steps = list[tuple[str, int]]
BUSY: list[tuple[Steps, int]] = [
    ([("model", 7)], 7),
    ([("begin", 0), ("end", 5), ("begin", 1), ("end", 4)], 9),
    ([("begin", 0), ("begin", 0), ("end", 5), ("end", 9)], 9),
    ([("begin", 0), ("begin", 0), ("end", 9), ("end", 5)], 9),
    ([("begin", 0), ("end", 5), ("model", 1), ("begin", 0), ("end", 4)], 10),
    ([("begin", 0), ("end", 5), ("end", 0)], 5),
]
"""What happens, with the group of a call or the time that it took; and what that comes to."""


@pytest.mark.parametrize(("steps", "expected"), BUSY)
def test_calls_of_a_group_count_as_long_as_the_longest(steps: Steps, expected: int) -> None:
    ledger = Ledger()
    ways = {"model": ledger.asked_model, "begin": ledger.began_call, "end": ledger.ended_call}
    for what, number in steps:
        ways[what](number)
    assert ledger.busy_ms == expected


class Tired(FakeClock):
    """Moves on by a second whenever it is asked how late it is."""

    def monotonic(self) -> float:
        self.time += 1
        return self.time


async def used_everything(home: House) -> LiveSession:
    live = await home.session(budget=Budget(usd=100))
    home.provider.price_usd = 0.25
    home.provider.script(use(*looks("a", "b")), say("Both."))
    await home.run(live, "look")
    return live


async def test_state_tells_limits_and_what_was_used(tmp_path: Path) -> None:
    async with house(tmp_path, clock=FakeClock()) as home:
        live = await used_everything(home)
        used = Used(usd=0.5, tokens=30, tool_calls=2)
        assert live.state().budget == BudgetState(limits=Budget(usd=100), used=used)


async def test_what_was_used_comes_back_after_a_kill(tmp_path: Path) -> None:
    async with house(tmp_path, clock=Tired()) as home:
        live = await used_everything(home)
        before = live.state().budget
        assert before.used.time_s > 2
    async with house(tmp_path) as home:
        assert (await home.reload(live.id)).state().budget == before


async def test_time_is_that_of_models_and_tools_and_calls_side_by_side_count_once(tmp_path: Path) -> None:
    reads = [call("read", f"r{number}", file_path="a.txt") for number in range(3)]
    async with house(tmp_path, clock=Tired()) as home:
        (tmp_path / "work" / "a.txt").write_text("a")
        live = await home.session()
        home.provider.script(use(*reads), say("Read."))
        events = await home.run(live, "read")
        models = sum(event.request_ms for event in events if event.type == "model_end")
        tools = [event.duration_ms for event in events if event.type == "tool_end"]
        assert len(tools) == 3
        assert live.state().budget.used.time_s * 1000 == models + max(tools)


async def test_a_fork_has_the_limits_and_has_used_nothing_but_what_it_uses_itself(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await used_everything(home)
        fork, _message = await home.hub.fork(live.id, None, {})
        home.listen(fork)
        assert fork.state().budget == BudgetState(limits=Budget(usd=100), used=Used())
        home.provider.script(use(*looks("a")), say("One."))
        await home.run(fork, "look")
        before = fork.state().budget
        assert (before.used.tool_calls, before.used.tokens) == (1, 30)
    async with house(tmp_path) as home:
        assert (await home.reload(fork.id)).state().budget == before


async def test_a_fork_is_given_other_limits(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(usd=100, tokens=5))
        fork, _message = await home.hub.fork(live.id, None, {"budget": Budget.model_validate({"usd": 1})})
        assert fork.state().budget.limits == Budget(usd=1, tokens=5)


# --- telling in time ---


async def test_a_limit_that_is_nearly_reached_is_told_once_for_each_height_also_after_a_kill(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tokens=50))
        home.provider.script(use(*looks("a")), use(*looks("b")), use(*looks("c")), say("Three."))
        assert codes(await home.run(live, "look")) == ["budget_warning"]
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert codes(await home.run(live, "again", [DENY])) == []
        live.update(SessionUpdated(budget=Budget(tokens=70), by="client"))
        assert codes(await home.run(live, "again")) == ["budget_warning"]


async def test_what_has_no_known_price_is_told_once_and_the_other_limits_hold(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(usd=1, tokens=29))
        home.provider.script(use(*looks("a")), use(*looks("b")), say("Never."))
        events = await home.run(live, "look", [DENY])
        assert codes(events) == ["budget_unpriced", "budget_warning"]
        assert reasons(events) == ["budget"]
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert "budget_unpriced" not in codes(await home.run(live, "again", [DENY]))


# --- asking ---


async def test_a_used_up_limit_asks_and_each_allow_raises_it_by_its_first_height(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tokens=20))
        home.provider.script(*(use(one) for one in looks("a", "b", "c", "d")))
        live.prompt("look")
        request = await home.until_asked(live)
        assert (request.kind, request.call_id, request.tool_name) == ("budget", "", "budget")
        assert request.input == {"limit": "tokens", "amount": 20, "used": 30, "calls": 1, "raises_to": 40}
        assert (request.options, request.suggested_rules) == (None, ())
        assert "30 of 20 tokens" in request.display
        assert live.state().waiting_for == "permission"
        assert len(home.provider.requests) == 2
        live.answer(request.request_id, ALLOW)
        assert live.state().budget.limits == Budget(tokens=40)
        with anyio.fail_after(5):
            second = await asked_again(live, "perm-2")
        assert second.input["raises_to"] == 60  # by 20 again, not by 40
        live.answer(second.request_id, ALLOW)
        with anyio.fail_after(5):
            third = await asked_again(live, "perm-3")
        assert third.input["raises_to"] == 80
        live.answer(third.request_id, DENY)
        await home.until_idle(live)
        events = home.events(live)
        assert budgets(events) == [(Budget(tokens=40), "perm-1"), (Budget(tokens=60), "perm-2")]
        assert reasons(events) == ["budget"]


async def test_a_limit_that_was_set_anew_grows_by_its_new_height(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tokens=15))
        home.provider.script(use(LOOK), say("Done."))
        await home.run(live, "look", [ALLOW])
        fork, _message = await home.hub.fork(live.id, 0, {"budget": Budget(tokens=7)})
        assert (fork.agent.settings.budget, fork.agent.settings.budget_step) == (Budget(tokens=7), None)
        live.update(SessionUpdated(budget=Budget(tokens=25), by="client"))
        live.prompt("again")
        assert (await home.until_asked(live)).input["raises_to"] == 50


async def test_what_the_model_said_is_durable_before_a_person_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    sync = JournalLog.sync

    async def noted(log: JournalLog) -> None:
        order.append("sync")
        await sync(log)

    monkeypatch.setattr(JournalLog, "sync", noted)
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1))
        live.agent.log.listen(lambda seq, kind, line: order.append(kind))
        home.provider.script(use(*looks("a", "b")))
        live.prompt("go")
        await home.until_asked(live)
    said = order[order.index("assistant_message") :]
    assert [one for one in said if one != "notice"] == ["assistant_message", "sync", "permission_request"]


async def test_who_suspends_after_the_answer_has_no_further_turn(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tokens=15))
        home.provider.script(say("First."))
        await home.run(live, "first")
        live.prompt("second")
        live.answer((await home.until_asked(live)).request_id, ALLOW)
        live.suspend()
        await home.until_idle(live)
        assert len(home.provider.requests) == 1
        assert reasons(home.events(live)) == ["end_turn", "suspended"]


async def test_a_budget_that_ends_the_run_cancels_what_its_calls_asked(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="echo hi")))
        live.prompt("go")
        await home.until_asked(live)
        live.suspend()
        await home.until_idle(live)
        live.update(SessionUpdated(budget=Budget(tokens=1), by="client"))
        live.resume_run()
        with anyio.fail_after(5):
            while len(live.requests.open) < 2:
                await anyio.lowlevel.checkpoint()
        live.answer("perm-2", DENY)
        await home.until_idle(live)
        resolved = {one.request_id: one.resolution for one in of_kind(home.events(live), "permission_resolved")}
        assert resolved == {"perm-1": "cancelled", "perm-2": "denied"}
        assert reasons(home.events(live)) == ["suspended", "budget"]


async def test_a_limit_that_somebody_raised_asks_again_when_it_is_reached(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1))
        home.provider.script(use(*looks("a", "b")))
        live.prompt("go")
        await home.until_asked(live)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(use(*looks("c", "d")))
        live.update(SessionUpdated(budget=Budget(tool_calls=3), by="client"))
        with anyio.fail_after(5):
            again = await asked_again(live, "perm-2")
        assert again.input == {"limit": "tool_calls", "amount": 3, "used": 2, "calls": 2, "raises_to": 6}


async def asked_again(live: LiveSession, request_id: str) -> PermissionRequest:
    while not [one for one in live.requests.open if one.request_id == request_id]:
        await anyio.lowlevel.checkpoint()
    return live.requests.open[0]


async def test_calls_that_are_not_run_have_their_results_before_the_run_ends(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1))
        home.provider.script(use(*looks("a", "b")))
        events = await home.run(live, "look", [DENY])
    ends = [event for event in events if event.type == "tool_end"]
    assert [(end.call_id, end.cancelled, end.output.partition(":")[0]) for end in ends] == [
        ("a", True, "budget_exhausted"),
        ("b", True, "budget_exhausted"),
    ]
    assert kinds(events)[-6:] == ["permission_resolved", "tool_end", "tool_end", "turn_end", "done", "status"]
    assert reasons(events) == ["budget"]


async def test_a_finished_answer_is_never_held_back(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tokens=1))
        home.provider.script(say("All of it."))
        events = await home.run(live, "go")
        assert reasons(events) == ["end_turn"]
        assert reasons(await home.run(live, "go on", [DENY])) == ["budget"]  # and no further call is made
        assert len(home.provider.requests) == 1


async def test_an_unattended_session_ends_its_run(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tokens=1), unattended="deny")
        home.provider.script(use(LOOK))
        events = await home.run(live, "go")
        resolved = next(event for event in events if event.type == "permission_resolved")
        assert (resolved.resolution, resolved.answered_by) == ("denied", "unattended")
        assert reasons(events) == ["budget"]


async def test_a_session_that_nobody_can_be_asked_about_ends_its_run(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        settings = (await home.session(budget=Budget(tokens=1))).agent.settings
        agent = await home.app.create(tmp_path / "work", settings, asker=None)
        home.provider.script(use(LOOK))
        agent.accept("go")
        agent.claim()
        result = await agent.run()
        assert result is not None
        assert result.stop_reason == "budget"
        agent.close()


class SaysYes:
    """An asker that knows nothing of budgets."""

    def was_asked(self, call_id: str, digest: str | None = None) -> bool:
        return False

    async def ask(self, question: Ask) -> Answer:
        return Answer(allow=True)


async def test_an_asker_that_only_says_yes_has_the_limit_raised(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        settings = (await home.session(budget=Budget(tokens=20))).agent.settings
        agent = await home.app.create(tmp_path / "work", settings, asker=SaysYes())
        home.provider.script(*(use(one) for one in looks("a", "b", "c")), say("Done."))
        agent.accept("go")
        agent.claim()
        result = await agent.run()
        assert result is not None
        assert (result.stop_reason, agent.settings.budget) == ("end_turn", Budget(tokens=60))
        agent.close()


@pytest.mark.parametrize("answer", [ALLOW, DENY])
async def test_a_run_whose_answer_is_deferred_goes_on_with_it(tmp_path: Path, answer: AnswerBody) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1), unattended="defer")
        home.provider.script(use(*looks("a", "b")), say("Done."))
        assert reasons(await home.run(live, "go")) == ["suspended"]
        assert live.state().suspended
        [request] = live.requests.open
        live.answer(request.request_id, answer)
        await home.until_idle(live)
        events = home.events(live)
        assert reasons(events) == ["suspended", "end_turn" if answer.allow else "budget"]
        assert kinds(events).count("permission_request") == 1


@pytest.mark.parametrize("where", ["batch", "border"])
@pytest.mark.parametrize("answer", [ALLOW, DENY])
async def test_after_a_kill_the_same_request_is_open_and_its_answer_starts_the_rest(
    tmp_path: Path, where: str, answer: AnswerBody
) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1) if where == "batch" else Budget(tokens=15))
        if where == "border":
            home.provider.script(say("First."))
            await home.run(live, "first")
        home.provider.script(use(*looks("a", "b")))
        live.prompt("go")
        before = await home.until_asked(live)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        state = live.state()
        assert live.requests.open == (before,)
        assert (state.interrupted, state.waiting_for) == (True, "permission")
        home.provider.script(say("Done."))
        live.answer(before.request_id, answer)
        await home.until_idle(live)
        events = home.events(live)
        assert reasons(events) == ["end_turn" if answer.allow else "budget"]
        assert "permission_request" not in kinds(events)
        assert kinds(events).count("tool_end") == (2 if where == "batch" else 0)


async def test_an_answer_that_a_kill_cut_off_counts_and_counts_once(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1))
        home.provider.script(use(*looks("a", "b")))
        live.prompt("go")
        request = await home.until_asked(live)
        live.answer(request.request_id, ALLOW)
    path = next((tmp_path / "data").rglob("journal.jsonl"))
    lines = path.read_bytes().splitlines(keepends=True)
    cut = next(place for place, line in enumerate(lines) if b'"type":"permission_resolved"' in line)
    path.write_bytes(b"".join(lines[: cut + 1]))  # killed before `session_updated`
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert live.state().budget.limits == Budget(tool_calls=2)
        home.provider.script(use(*looks("c")))
        live.resume_run()
        second = await home.until_asked(live)
        assert second.input == {"limit": "tool_calls", "amount": 2, "used": 2, "calls": 1, "raises_to": 3}


async def test_a_denial_is_for_one_run(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tokens=1))
        home.provider.script(use(LOOK))
        await home.run(live, "go", [DENY])
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        live.prompt("go on")
        assert (await home.until_asked(live)).kind == "budget"


@pytest.mark.parametrize("is_killed", [False, True])
async def test_raising_the_limit_answers_the_request(tmp_path: Path, is_killed: bool) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1))
        home.provider.script(use(*looks("a", "b")), say("Done."))
        live.prompt("go")
        request = await home.until_asked(live)
        if not is_killed:
            await raise_and_end(home, live, request)
    if is_killed:
        async with house(tmp_path) as home:
            live = await home.reload(live.id)
            home.provider.script(say("Done."))
            await raise_and_end(home, live, request)


async def raise_and_end(home: House, live: LiveSession, request: PermissionRequest) -> None:
    live.update(SessionUpdated(budget=Budget(tool_calls=1, usd=3), by="client"))
    assert live.requests.open == (request,)  # not by this
    live.update(SessionUpdated(budget=Budget(tool_calls=7), by="client"))
    assert live.requests.open == ()
    with pytest.raises(Problem) as late:
        live.answer(request.request_id, ALLOW)
    assert late.value.code == "already_resolved"
    await home.until_idle(live)
    assert live.state().budget.limits == Budget(tool_calls=7)
    assert reasons(home.events(live)) == ["end_turn"]


async def test_what_the_user_says_meanwhile_does_not_answer_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1))
        home.provider.script(use(*looks("a", "b")), say("Done."))
        live.prompt("go")
        request = await home.until_asked(live)
        live.prompt("by the way", when_busy="steer")
        assert live.requests.open == (request,)
        live.answer(request.request_id, ALLOW)
        await home.until_idle(live)
        ends = [event.output for event in home.events(live) if event.type == "tool_end"]
        assert ends == ["skipped: the user sent another message"] * 2


async def test_a_run_that_waits_for_its_budget_is_cancelled_whole(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1))
        home.provider.script(use(*looks("a", "b")))
        live.prompt("go")
        await home.until_asked(live)
        live.cancel()
        await home.until_idle(live)
        events = home.events(live)
        assert kinds(events)[-6:] == ["permission_resolved", "tool_end", "tool_end", "turn_end", "done", "status"]
        assert reasons(events) == ["interrupted"]


async def test_a_run_that_waits_for_its_budget_is_suspended_and_resumed(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1))
        home.provider.script(use(*looks("a", "b")), say("Done."))
        live.prompt("go")
        request = await home.until_asked(live)
        live.suspend()
        await home.until_idle(live)
        assert live.requests.open == (request,)
        live.resume_run()
        live.answer(request.request_id, ALLOW)
        await home.until_idle(live)
        assert reasons(home.events(live)) == ["suspended", "end_turn"]


BAD_ANSWERS = [
    AnswerBody(allow=True, always=True),
    AnswerBody(allow=True, scope="session"),
    AnswerBody(allow=True, updated_input={"raises_to": 1000}),
    AnswerBody(allow=True, answer="yes"),
    AnswerBody(allow=True, mode="default"),
]


@pytest.mark.parametrize("body", BAD_ANSWERS)
async def test_a_budget_is_allowed_once_and_as_asked(tmp_path: Path, body: AnswerBody) -> None:
    async with house(tmp_path) as home:
        live = await home.session(budget=Budget(tool_calls=1))
        home.provider.script(use(*looks("a", "b")))
        live.prompt("go")
        request = await home.until_asked(live)
        with pytest.raises(Problem) as refused:
            live.answer(request.request_id, body)
        assert refused.value.code == "bad_request"
        assert live.requests.open == (request,)


async def test_limits_come_from_the_settings_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text(
        "[budget]\nsession_usd = 2.5\nsession_tool_calls = 4\nwarn_at = 0.5\n"
    )
    async with house(tmp_path) as home:
        settings = await home.app.defaults(tmp_path / "work")
        assert settings.budget == Budget(usd=2.5, tool_calls=4)
        live = await home.session(budget=settings.budget)
        home.provider.price_usd = 0.01
        home.provider.script(use(*looks("a")), use(*looks("b")), say("Two."))
        assert codes(await home.run(live, "go")) == ["budget_warning"]
