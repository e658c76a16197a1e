"""What must hold of a session after each move: it agrees with its journal, its reader and what people were told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentcore.errors import AgentError
from agentcore.messages import Text
from agentcore.session import Submission
from agentcore.sessions.fold import History, fold
from server.problems import Problem
from tests.property.world import World

EXPIRES_S = 60.0


class Checked:
    """A session, and what those who use it know of it."""

    def __init__(self, root: Path, *, unattended: str, expires: bool, reads: bool) -> None:
        self.world = World(root)
        self.taken_back: set[str] = set()
        """Prompts that a person removed from the queue."""
        self.accepted: dict[str, Submission] = {}
        """Prompts that were acknowledged, and the keys that they came under."""
        self.accepted_at: dict[str, float] = {}
        self.answers: dict[str, str] = {}
        """Resolutions that were acknowledged."""
        self.is_untouched = False
        """Nothing was asked of the session since it was loaded: a queue waits."""
        self.numbers = 0
        self.world.begin(unattended=unattended, expires_after_s=EXPIRES_S if expires else None)
        self.world.look()
        self.last_act = len(self.world.lines)
        """Lines of the journal before the last act, which a kill may have cut short."""
        if reads:
            self.world.connect()

    def waits_for_deferred(self) -> bool:
        told, live = self.world.told, self.world.live
        is_put_off = told.is_suspended and live.agent.settings.unattended == "defer" and bool(told.requests_of_run)
        return not told.is_busy and told.run is not None and (bool(told.deferred) or is_put_off)

    def forget_what_was_cut(self) -> None:
        """Nothing of an act that was cut short was acknowledged."""
        told = self.world.told
        self.accepted = {name: one for name, one in self.accepted.items() if name in told.prompts}
        self.answers = {name: one for name, one in self.answers.items() if told.requests.get(name) == one}

    def check_loaded(self) -> None:
        self.last_act = len(self.world.lines)
        self.is_untouched = True
        told = self.world.told
        assert not told.is_busy or told.run in told.wakes, "a load began what nobody asked for"
        assert not told.tasks.alive, "it was alive in a process that is no more"
        assert not fold(self.world.lines).subagents.unfinished
        self.check_fold()

    def check_fold(self) -> None:
        """The live session knows what its journal says."""
        live, told = self.world.live.agent.history, self.world.told
        read = fold(self.world.lines)
        assert facts(read) == facts(live)
        assert turns(live) in (turns(read), turns(read, but=int(read.is_unanswered and read.open_turn is None)))
        assert texts(read) == [one for one in texts(live) if not (isinstance(one, str) and one in told.unheard)]

    # --- what always holds ---

    def check(self) -> None:
        world = self.world
        world.look()
        live, told = world.live, world.told
        run = live.agent.open_run
        assert live.is_busy == told.is_busy, "busy, and the last status says otherwise"
        assert (run and run.prompt.prompt_id) == told.run
        assert (run is not None and run.is_suspended) == told.is_suspended
        assert [one.prompt_id for one in live.queue.shown()] == told.waiting
        assert [one.prompt_id for one in live.agent.history.inbox.waiting] == told.inbox
        assert [one.request_id for one in live.requests.open] == told.open_requests
        assert [one.token for one in live.state().deferred] == list(told.deferred)
        assert [one.id for one in live.agent.history.transcript.open_calls] == told.calls
        assert [task.task_id for task in live.agent.history.tasks.running] == told.tasks.alive
        assert [task.task_id for task in live.agent.history.tasks.untold] == told.tasks.untold
        self.check_beside()
        self.check_acceptance()
        self.check_what_was_acknowledged()
        world.person.check(told.numbers, world.events)
        if world.reading is not None:
            assert not world.reading.done()

    def check_beside(self) -> None:
        """What goes on in the background, and what came of it."""
        told = self.world.told
        assert all(told.task_of.get(name) in (None, *told.tasks.alive) for name in told.open_requests)
        if not told.is_busy and told.run is None and not told.waiting:
            assert not told.tasks.has_news, "an idle session has something undelivered"
        open_ones = {label for label, one in told.subagents.items() if not one.is_over}
        assert open_ones <= set(self.world.live.agent.subagents), "something of a subagent is open, and it is gone"

    def check_acceptance(self) -> None:
        """A session that is not busy takes a prompt, and one that is does not."""
        code = refusal_of(self.world.live.check_prompt)
        busy = "session_busy" if self.world.told.is_busy else ""
        assert code == ("session_suspended" if self.waits_for_deferred() else busy)

    def check_what_was_acknowledged(self) -> None:
        told = self.world.told
        assert set(self.accepted) <= set(told.prompts), "a prompt is lost"
        assert told.removed <= self.taken_back, "a prompt left the queue by itself"
        assert all(told.requests[name] == answer for name, answer in self.answers.items()), "an answer is lost"
        if told.waiting and not told.is_busy and told.run is None:
            assert self.is_untouched, "a queue waits and nobody begins with it"


def refusal_of(act: Callable[[], object]) -> str:
    """Do it; the code that it was refused with, empty for none."""
    try:
        act()
    except Problem as problem:
        return problem.code
    except AgentError as error:
        return error.code
    return ""


def facts(history: History) -> tuple[Any, ...]:
    """What a session knows, however it came to know it."""
    return (
        history.queue.prompts,
        history.inbox.waiting,
        history.deferrals.open,
        history.run,
        history.resolved,
        history.settings,
        history.context if history.run is not None else None,  # a load without a run begins a fresh one
        history.notes,
        history.ledger.total,
        history.tasks.all,
        history.tasks.untold,
    )


def turns(history: History, but: int = 0) -> tuple[int, int]:
    """Model calls of the prompt and of its last run. `but`: for a turn that a kill has cut, and that begins again."""
    return history.ledger.turns - but, history.ledger.run_turns - but


def texts(history: History) -> list[Any]:
    """The blocks of the conversation."""
    return [
        block.text if isinstance(block, Text) else block
        for message in history.transcript.messages
        for block in message.content
    ]
