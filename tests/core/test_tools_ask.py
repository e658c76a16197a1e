"""`ask_user`: what may be asked, what counts as an answer, and the whole way from the model to a person and back."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentcore.errors import BadRequest, Unprocessable
from agentcore.events import PermissionResolved, ToolEnd, ToolStart
from agentcore.ports.permission import Deny, HookSays
from agentcore.ports.tools import ToolRoom
from agentcore.questions import options_of, with_answer
from agentcore.tools.ask import AskUserTool
from server.problems import Problem
from server.schemas import AnswerBody
from tests.fakes import FakeClock, House, call, house, kinds, say, use

pytestmark = pytest.mark.anyio

COLOR = {"question": "Which color?", "header": "Color", "options": [{"label": "red"}, {"label": "blue"}]}
PARTS = {
    "question": "Which parts?",
    "header": "Parts",
    "options": [{"label": "api", "description": "the server"}, {"label": "web"}, {"label": "docs"}],
    "multiSelect": True,
}
SURE = {"question": "Are you sure?"}
ASKED: dict[str, dict[str, Any]] = {
    "one": {"questions": [COLOR]},
    "several": {"questions": [COLOR, PARTS, SURE]},
    "multi": {"questions": [PARTS]},
    "confirm": {"questions": [SURE]},
    "words": {"input": "What is it called?"},
}


def result(events: list[Any]) -> ToolEnd:
    [end] = [event for event in events if isinstance(event, ToolEnd)]
    return end


# --- what may be asked ---


@pytest.mark.parametrize(
    "input",
    [
        {},
        {"questions": []},
        {"questions": [COLOR], "input": "And?"},
        {"questions": [COLOR, COLOR]},
        {"questions": [{**SURE, "question": str(number)} for number in range(5)]},
        {"questions": [{**COLOR, "options": [{"label": "only"}]}]},
        {"questions": [{**COLOR, "options": [{"label": "a"}, {"label": "a"}]}]},
        {"questions": [{**COLOR, "options": [{"label": str(number)} for number in range(11)]}]},
        {"questions": [{"question": " "}]},
        {"questions": [{"question": "Why?", "surprise": 1}]},
        {"input": " "},
        {"input": "x" * 2001},
    ],
)
def test_what_asks_nothing_sensible_is_refused_before_anybody_is_asked(input: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AskUserTool.spec.input.model_validate(input)


def test_the_model_is_not_told_that_it_could_answer_itself() -> None:
    fields = AskUserTool.spec.definition().input_schema["properties"]
    assert isinstance(fields, dict)
    assert set(fields) == {"questions", "input"}


@pytest.mark.parametrize(
    ("asked", "options"),
    [("one", ("red", "blue")), ("confirm", ("yes", "no")), ("several", None), ("words", None)],
)
def test_the_options_of_a_single_question_are_offered(asked: str, options: tuple[str, ...] | None) -> None:
    assert options_of(ASKED[asked]) == options


# --- what counts as an answer ---

SAID = {"Which color?": "red", "Which parts?": "api, docs", "Are you sure?": "yes"}


@pytest.mark.parametrize(
    ("asked", "answer", "answers"),
    [
        ("one", "red", {"Which color?": "red"}),
        ("one", {"Which color?": "red"}, {"Which color?": "red"}),
        ("one", {"Color": "blue"}, {"Which color?": "blue"}),
        ("multi", ["docs", "api"], {"Which parts?": "api, docs"}),
        ("multi", "web", {"Which parts?": "web"}),
        ("confirm", True, {"Are you sure?": "yes"}),
        ("confirm", False, {"Are you sure?": "no"}),
        ("confirm", "no", {"Are you sure?": "no"}),
        ("words", "Fröbel\0", {"What is it called?": "Fröbel\ufffd"}),
        ("several", ["red", ["api", "docs"], True], SAID),
        ("several", {"Color": "red", "Parts": ["docs", "api"], "Are you sure?": True}, SAID),
    ],
)
def test_an_answer_reaches_the_tool_by_question(asked: str, answer: Any, answers: dict[str, str]) -> None:
    assert with_answer(ASKED[asked], answer) == {**ASKED[asked], "answers": answers}


@pytest.mark.parametrize(
    ("asked", "answer", "words"),
    [
        ("one", "green", "one of 'red', 'blue'"),
        ("one", True, "one of 'red', 'blue'"),
        ("one", 1, "one of 'red', 'blue'"),
        ("one", ["red"], "one of 'red', 'blue'"),
        ("one", {}, "lacks an answer to 'Which color"),
        ("one", {"Color": "red", "Size": "L"}, "not asked: 'Size'"),
        ("multi", [], "a list of 'api'"),
        ("multi", ["api", "api"], "a list of 'api'"),
        ("multi", ["api", "none"], "a list of 'api'"),
        ("multi", [["api"]], "a list of 'api'"),
        ("confirm", "maybe", "one of 'yes', 'no'"),
        ("words", "", "a text"),
        ("words", " \n", "a text"),
        ("words", True, "a text"),
        ("words", "x" * 10_001, "a text"),
        ("several", ["red", ["api"]], "a list with one answer to each"),
        ("several", "red", "a list with one answer to each"),
        ("several", {"Color": "red"}, "lacks an answer to 'Which parts"),
    ],
)
def test_an_answer_that_does_not_fit_is_told_what_would(asked: str, answer: Any, words: str) -> None:
    with pytest.raises(Unprocessable, match=words):
        with_answer(ASKED[asked], answer)


def test_two_questions_under_one_header_are_answered_by_their_texts() -> None:
    input = {"questions": [COLOR, {**SURE, "header": "Color"}]}
    with pytest.raises(Unprocessable, match="lacks an answer"):
        with_answer(input, {"Color": "red", "Are you sure?": True})
    assert with_answer(input, {"Which color?": "red", "Are you sure?": True})["answers"]


async def test_without_an_answer_the_model_is_told_so() -> None:
    tool = AskUserTool()
    outcome = await tool.run(tool.spec.input.model_validate(ASKED["one"]), ToolRoom("c", print))
    assert outcome.is_error


# --- the whole way ---


async def asked(home: House, input: dict[str, Any], **settings: Any) -> Any:
    live = await home.session(**settings)
    home.provider.script(use(call("ask_user", "c1", **input)), say("Thanks."))
    return live


@pytest.mark.parametrize("mode", ["default", "plan", "yolo", "accept-edits"])
async def test_a_person_is_asked_in_every_mode_and_the_answer_is_the_result(tmp_path: Path, mode: str) -> None:
    async with house(tmp_path) as home:
        live = await asked(home, ASKED["one"], mode=mode)
        live.prompt("go")
        request = await home.until_asked(live)
        assert (request.kind, request.options, request.suggested_rules) == ("question", ("red", "blue"), ())
        assert live.state().waiting_for == "question"
        live.answer(request.request_id, AnswerBody(allow=True, answer="blue", digest=request.digest))
        await home.until_idle(live)
        end = result(home.events(live))
        assert (end.output, end.is_error) == ("The user answered:\n- Which color?\n  blue", False)
        [start] = [event for event in home.events(live) if isinstance(event, ToolStart)]
        assert start.input == {**ASKED["one"], "answers": {"Which color?": "blue"}}
        [resolved] = [event for event in home.events(live) if isinstance(event, PermissionResolved)]
        assert (resolved.resolution, resolved.answer) == ("allowed", "blue")


async def test_what_the_model_puts_in_as_an_answer_is_no_answer(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await asked(home, {**ASKED["one"], "answers": {"Which color?": "red"}})
        events = await home.run(live, "go", [AnswerBody(allow=True, answer="blue")])
        assert result(events).output == "The user answered:\n- Which color?\n  blue"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (AnswerBody(allow=True), "bad_request"),
        (AnswerBody(allow=True, answer="green"), "unprocessable"),
        (AnswerBody(allow=False, answer="red"), "bad_request"),
        (AnswerBody(allow=True, answer="red", always=True), "bad_request"),
        (AnswerBody(allow=True, answer="red", updated_input=ASKED["one"]), "bad_request"),
        (AnswerBody(allow=True, answer="red", mode="default"), "bad_request"),
        (AnswerBody(allow=True, updated_input={"questions": []}), "unprocessable"),
    ],
)
async def test_an_answer_that_does_not_fit_leaves_the_question_open(
    tmp_path: Path, body: AnswerBody, code: str
) -> None:
    async with house(tmp_path) as home:
        live = await asked(home, ASKED["one"])
        live.prompt("go")
        request = await home.until_asked(live)
        with pytest.raises((Problem, BadRequest, Unprocessable)) as refused:
            live.answer(request.request_id, body)
        assert refused.value.code == code
        assert live.requests.open == (request,)


async def test_a_client_may_answer_with_the_input_as_hooks_do(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await asked(home, ASKED["one"])
        answered = {**ASKED["one"], "answers": {"Which color?": "red"}}
        events = await home.run(live, "go", [AnswerBody(allow=True, updated_input=answered)])
        assert result(events).output == "The user answered:\n- Which color?\n  red"


@pytest.mark.parametrize(
    ("verdict", "by_model", "by_hook", "is_asked"),
    [
        ("allow", None, {"Which color?": "red"}, False),
        ("allow", {"Which color?": "blue"}, {"Which color?": "red"}, False),
        (None, None, {"Which color?": "red"}, True),
        ("allow", {"Which color?": "red"}, {"Which color?": "red"}, True),
        ("allow", None, {}, True),
    ],
)
async def test_a_hook_may_answer_in_the_persons_place_and_the_model_may_not(
    tmp_path: Path, verdict: Any, by_model: Any, by_hook: Any, is_asked: bool
) -> None:
    async with house(tmp_path) as home:
        live = await home.session(unattended="deny")  # who is asked says no
        tool = AskUserTool()
        made = call("ask_user", "c1", **ASKED["one"], **({} if by_model is None else {"answers": by_model}))
        rewritten = call("ask_user", "c1", **ASKED["one"], answers=by_hook)
        input = tool.spec.input.model_validate(rewritten.input)
        decision = await live.agent._parts.gate.decide(made, rewritten, tool, input, HookSays(verdict))
        assert isinstance(decision, Deny) == is_asked
        assert ("permission_request" in kinds(home.events(live))) == is_asked


@pytest.mark.parametrize(
    ("settings", "body", "words"),
    [
        ({}, AnswerBody(allow=False, reason="ask my boss"), "The user did not answer: ask my boss."),
        ({}, AnswerBody(allow=False), "The user did not answer."),
        ({"unattended": "deny"}, None, "Nobody answered: nobody is there to answer"),
        ({"mode": "deny"}, None, "mode deny never asks"),
    ],
)
async def test_a_question_that_is_not_answered_says_why(
    tmp_path: Path, settings: dict[str, Any], body: AnswerBody | None, words: str
) -> None:
    async with house(tmp_path) as home:
        live = await asked(home, ASKED["one"], **settings)
        events = await home.run(live, "go", [] if body is None else [body])
        end = result(events)
        assert end.is_error
        assert words in end.output
        assert events[-2].type == "done"


async def test_a_question_that_expires_says_that_nobody_refused(tmp_path: Path) -> None:
    clock = FakeClock()
    async with house(tmp_path, clock=clock) as home:
        live = await asked(home, ASKED["one"], expires_after_s=60)
        live.prompt("go")
        await home.until_asked(live)
        clock.time += 61
        live.expire()
        await home.until_idle(live)
        assert "nobody answered in time" in result(home.events(live)).output


async def test_a_question_outlives_the_process_and_its_answer_goes_on(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await asked(home, ASKED["several"])
        live.prompt("go")
        request = await home.until_asked(live)
    async with house(tmp_path) as home:
        home.provider.script(say("Thanks."))
        again = await home.reload(live.id)
        assert again.requests.open == (request,)
        assert again.state().waiting_for == "question"
        again.answer(request.request_id, AnswerBody(allow=True, answer=["red", ["api", "docs"], True]))
        await home.until_idle(again)
        lines = "The user answered:\n- Which color?\n  red\n- Which parts?\n  api, docs\n- Are you sure?\n  yes"
        assert result(home.events(again)).output == lines


async def test_an_answer_that_was_given_before_a_crash_is_not_asked_for_again(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await asked(home, ASKED["words"])
        live.prompt("go")
        request = await home.until_asked(live)
        live.answer(request.request_id, AnswerBody(allow=True, answer="Fröbel"))  # the call has not gone on yet
        assert "tool_start" not in kinds(home.events(live))
    async with house(tmp_path) as home:
        home.provider.script(say("Thanks."))
        again = await home.reload(live.id)
        assert again.requests.open == ()
        again.resume_run()
        await home.until_idle(again)
        assert result(home.events(again)).output == "The user answered: Fröbel"
        assert "permission_request" not in kinds(home.events(again))
