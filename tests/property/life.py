"""One session's life, from its beginning through kills to its rest: what may be done to it, and what must come of that.

Each move is what people, the model, tools or the operating system do. It says what must come of it by what the journal
said before; after each one the live session must agree with its journal, and the reader with both. A move that has no
place at the moment is passed over.
"""

from collections.abc import Callable
from typing import Any

from agentcore.errors import ProviderError
from agentcore.events import SessionUpdated
from agentcore.messages import Text, ToolCall
from agentcore.ports.models import Finished, StreamPart, TextPart, ToolCallPart
from agentcore.session import Submission
from server.schemas import AnswerBody
from tests.fakes import SPENT
from tests.property.checks import EXPIRES_S, Checked, refusal_of
from tests.property.stand_ins import ModelCall, RunningTool, ended
from tests.property.told import has_number

TORN = b'{"type":"text_delta","seq":1,"sess'
KEPT_S = 600.0  # the promise of the API: a key is remembered for ten minutes
PATIENCE = 200  # rounds of answers until a session must have come to its rest


class Life(Checked):
    """One session: what may happen to it."""

    # --- the parts of a move ---

    def act(self, act: Callable[[], Any]) -> str:
        """Do it in one step; the code of the refusal, empty for none."""

        def acting() -> str:
            self.last_act = len(self.world.lines)
            return refusal_of(act)

        return self.world.act(acting)

    def go_on(self, then: str) -> None:
        match then:
            case "all":
                self.world.settle()
            case "some":
                self.world.tick()
            case "kill":
                self.kill(0, False)

    def number(self) -> int:
        self.numbers += 1
        return self.numbers

    # --- time ---

    def time_goes_on(self, steps: int) -> None:
        for _ in range(steps):
            self.world.tick()

    def a_minute_passes(self) -> None:
        def tidy() -> None:
            self.world.clock.time += EXPIRES_S + 1
            self.world.process.hub.tidy()

        self.act(tidy)
        if self.world.live.is_closing:  # nobody has used it for long
            self.world.come_back()
            self.check_loaded()

    # --- prompts ---

    def prompt(self, when_busy: Any, then: str) -> None:
        name = f"prompt {self.number()}"
        submission, refusal = Submission(key=name, body_sha256=""), ""

        def prompt() -> None:
            nonlocal refusal
            told = self.world.told
            if told.is_busy and when_busy == "reject":
                refusal = "session_busy"
            elif self.waits_for_deferred() and when_busy in ("reject", "steer"):
                refusal = "session_suspended"
            accepted = self.world.live.prompt(name, submission=submission, when_busy=when_busy)
            self.accepted[accepted.prompt_id] = submission
            self.accepted_at[accepted.prompt_id] = self.world.clock.time
            assert (accepted.disposition == "started") <= (not told.is_busy or when_busy == "interrupt")
            self.world.look()
            assert self.world.told.prompts[accepted.prompt_id] == name
            is_skipped = accepted.disposition == "steering"
            assert not (is_skipped and told.requests_of_main), "what waits for a person is skipped"
            self.is_untouched = False

        assert self.act(prompt) == refusal
        self.go_on(then)

    def send_a_prompt_again(self, which: int) -> None:
        if not self.accepted:
            return
        prompt_id, submission = [*self.accepted.items()][which % len(self.accepted)]

        def again() -> None:
            count = len(self.world.told.prompts)
            earlier = self.world.live.again(submission)
            assert earlier is not None or self.world.clock.time > self.accepted_at[prompt_id] + KEPT_S
            if earlier is not None:
                assert earlier[0].prompt_id == prompt_id
                is_over = prompt_id in self.world.told.ended | self.world.told.removed
                result = earlier[1]
                assert (result is None) <= (not is_over)
                assert result is None or is_over or result.stop_reason == "suspended"
            self.world.look()
            assert len(self.world.told.prompts) == count

        assert self.act(again) == ""

    def change_the_queue(self, which: int, how: str) -> None:
        def change() -> None:
            told, queue = self.world.told, self.world.live.queue
            if not told.waiting:
                return
            name = told.waiting[which % len(told.waiting)]
            others = [one for one in told.waiting if one != name]
            match how:
                case "edit":
                    queue.edit(name, f"changed {self.number()}")
                case "reorder":
                    queue.reorder([name])
                case _:
                    self.taken_back.add(name)
                    queue.remove(name)
            self.world.look()
            wanted = {"edit": told.waiting, "reorder": [name, *others], "remove": others}[how]
            assert self.world.told.waiting == wanted

        assert self.act(change) == ""

    # --- the run ---

    def cancel(self, then: str) -> None:
        def cancel() -> None:
            told = self.world.told
            run = told.run
            has_run, tasks = told.is_busy or run is not None, told.tasks.alive
            assert self.world.live.cancel() == has_run
            self.world.look()
            assert not (has_run and told.requests_of_run), "a cancel resolves them in the same step"
            assert told.tasks.alive == tasks, "a cancel ended what goes on in the background"
            told.is_cancelled = told.run is not None and told.run == run
            self.is_untouched &= not has_run

        assert self.act(cancel) == ""
        self.go_on(then)

    def suspend(self, then: str) -> None:
        def suspend() -> None:
            told = self.world.told
            assert self.world.live.suspend() == (told.is_busy and told.run is not None)

        assert self.act(suspend) == ""
        self.go_on(then)

    def resume(self, then: str) -> None:
        refusal = ""

        def resume() -> None:
            nonlocal refusal
            told = self.world.told
            if told.is_busy:
                refusal = "session_busy"
            elif told.is_suspended and self.waits_for_deferred():
                refusal = "session_suspended"
            elif told.run is None and not told.waiting:
                refusal = "nothing_to_resume"
            self.world.live.resume_run()
            self.is_untouched = False

        assert self.act(resume) == refusal
        self.go_on(then)

    def clear(self) -> None:
        is_busy = False

        def clear() -> None:
            nonlocal is_busy
            is_busy = self.world.told.is_busy
            self.world.live.clear()
            self.is_untouched = False

        assert self.act(clear) == ("session_busy" if is_busy else "")

    def compact(self) -> None:
        is_refused = False

        def compact() -> None:
            nonlocal is_refused
            told = self.world.told
            is_refused = told.is_busy or told.run is not None
            self.world.live.compact()
            self.is_untouched = False

        assert self.act(compact) == ("session_busy" if is_refused else "")

    def change_who_is_there(self, unattended: Any) -> None:
        self.act(lambda: self.world.live.update(SessionUpdated(unattended=unattended)))

    # --- answers ---

    def answer(self, which: int, allow: bool, for_session: bool, then: str) -> None:
        body = AnswerBody(allow=allow, scope="session" if allow and for_session else None)

        def answer() -> None:
            live, waiting = self.world.live, self.world.told.open_requests
            if not waiting:
                return
            name = waiting[which % len(waiting)]
            refusal = refusal_of(lambda: live.answer(name, body))
            assert refusal in ("", "permission_expired")
            if not refusal:
                self.answers[name] = "allowed" if allow else "denied"
                refusal = refusal_of(lambda: live.answer(name, body))
                assert refusal == "already_resolved", "a second answer counted"

        assert self.act(answer) == ""
        self.go_on(then)

    def answer_from_outside(self, which: int, is_error: bool, then: str) -> None:
        def answer() -> None:
            tokens = list(self.world.told.deferred)
            if not tokens:
                return
            token = tokens[which % len(tokens)]
            live = self.world.live
            refusals = [refusal_of(lambda: live.answer_deferred(token, "Here.", is_error=is_error)) for _ in range(2)]
            assert refusals in (["", "already_resolved"], ["already_resolved"] * 2), "a second answer counted"
            self.world.look()
            assert token not in self.world.told.deferred

        assert self.act(answer) == ""
        self.go_on(then)

    # --- the model and the tools ---

    def tell_model(self, then: str, *what: StreamPart | ProviderError) -> None:
        if self.world.told.is_busy and not self.calls_of_main:
            self.world.settle()
        for call in self.calls_of_main:
            call.tell(*what)
        self.go_on(then)

    @property
    def calls_of_main(self) -> list[ModelCall]:
        return [call for call in self.world.process.model.calls if call.is_main]

    def tell_subagent(self, which: int, then: str, *what: StreamPart | ProviderError) -> None:
        calls = [call for call in self.world.process.model.calls if not call.is_main]
        if calls:
            calls[which % len(calls)].tell(*what)
        self.go_on(then)

    def model_answers(self, then: str) -> None:
        self.tell_model(then, *self.an_answer())

    def subagent_answers(self, which: int, then: str) -> None:
        self.tell_subagent(which, then, *self.an_answer())

    def an_answer(self) -> list[StreamPart]:
        text = f"answer {self.number()}"
        return [TextPart(text), Finished((Text(text=text),), SPENT, "end_turn")]

    def model_calls_tools(self, names: list[str], then: str) -> None:
        self.tell_model(then, *self.a_batch(names))

    def subagent_calls_tools(self, which: int, names: list[str], then: str) -> None:
        self.tell_subagent(which, then, *self.a_batch(names))

    def a_batch(self, names: list[str]) -> list[StreamPart]:
        # the same ids each time, as some backends give them
        calls = [self.a_call(f"call-{n}", name) for n, name in enumerate(names)]
        parts = [ToolCallPart(call.id, call.name, 0) for call in calls]
        return [*parts, Finished((Text(text="So."), *calls), SPENT, "tool_use")]

    def a_call(self, call_id: str, name: str) -> ToolCall:
        number = self.number()
        if name not in ("delegate", "delegate_behind"):
            return ToolCall(id=call_id, name=name, input={"number": number})
        given = {"description": f"piece {number}", "prompt": f"Do piece {number}.", "subagent_type": "general-purpose"}
        return ToolCall(id=call_id, name="task", input={**given, "run_in_background": name == "delegate_behind"})

    def model_shows_a_word(self, then: str) -> None:
        self.tell_model(then, TextPart("word "))

    def model_fails(self, kind: Any, then: str) -> None:
        self.tell_model(then, ProviderError(kind, "It failed."))

    def subagent_fails(self, which: int, kind: Any, then: str) -> None:
        self.tell_subagent(which, then, ProviderError(kind, "It failed."))

    def a_tool_ends(self, which: int, outcome: str, then: str) -> None:
        self.end_one(self.world.process.tools, which, outcome)
        self.go_on(then)

    def a_task_ends(self, which: int, outcome: str, then: str) -> None:
        self.end_one(self.world.process.tasks, which, outcome)
        self.go_on(then)

    def end_one(self, running: list[RunningTool], which: int, outcome: str) -> None:
        tools = [tool for tool in running if not tool.end.done()]
        if tools:
            end, what = tools[which % len(tools)].end, ended(outcome)
            end.set_exception(what) if isinstance(what, Exception) else end.set_result(what)

    def stop_a_task(self, which: int) -> None:
        alive = self.world.told.tasks.alive
        if not alive:
            return
        name = alive[which % len(alive)]
        self.world.finish(self.world.live.stop_task(name))
        self.world.look()
        assert name not in self.world.told.tasks.alive, "it was stopped, and goes on"

    # --- the reader ---

    def come_or_go(self) -> None:
        if self.world.reading is None:
            self.world.connect()
        else:
            self.world.disconnect()

    # --- lives ---

    def kill(self, cut: int, is_torn: bool) -> None:
        """Kill the server; where nothing went on since the last act, perhaps in the middle of that."""
        world = self.world
        before = len(world.lines)
        world.look()
        seen = sum(number <= world.person.cursor for number in world.told.numbers)
        is_done = len(world.lines) > before or seen > sum(map(has_number, world.lines[: self.last_act]))
        cut = 0 if is_done else min(cut, len(world.lines) - self.last_act)
        if cut == 0:
            self.check_fold()
        world.kill(cut, TORN if is_torn else b"")
        if cut:
            self.forget_what_was_cut()
        self.check_loaded()

    def stop_and_start(self) -> None:
        self.world.stop()
        self.check_loaded()

    def delete_and_load(self) -> None:
        self.world.delete()
        self.check_loaded()

    # --- the end ---

    def come_to_rest(self) -> None:
        """Let everybody answer until nothing is left: everything that was accepted has come to its end by then."""
        world = self.world
        if world.reading is None:
            world.connect()
        for _ in range(PATIENCE):
            world.settle()
            self.check()
            if world.told.is_at_rest:
                break
            self.help_on()
        told = world.told
        assert told.is_at_rest, "it never comes to its end"
        assert told.ended | told.removed == set(told.prompts)
        assert told.turns == 0
        assert not told.tasks.has_news
        assert all(subagent.is_over for subagent in told.subagents.values())
        assert not self.world.live.agent.subagents
        assert not told.is_compacting
        assert world.person.cursor >= max(told.numbers, default=0), "the reader waits behind the last event"
        self.check_fold()

    def help_on(self) -> None:
        told, process = self.world.told, self.world.process
        if self.calls_of_main:
            self.model_answers("all")
        elif process.model.calls:
            self.subagent_answers(0, "all")
        elif process.tasks:
            self.a_task_ends(0, "done", "all")
        elif process.tools:
            self.a_tool_ends(0, "done", "all")
        elif told.open_requests:
            self.answer(0, True, False, "all")
        elif told.deferred:
            self.answer_from_outside(0, False, "all")
        else:
            self.resume("all")
