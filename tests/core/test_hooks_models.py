"""Hooks that ask a model, and hooks that call a tool of an MCP server: in real runs, and their rules as tables."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
import tomlkit

from agentcore.errors import ProviderError
from agentcore.events import Done, ModelEnd, ModelStart, PermissionRequest, ToolEnd, UsageReport, UserMessage
from agentcore.hooks.consulting import filled, question
from agentcore.hooks.moments import MOMENTS
from agentcore.hooks.output import SILENT, Permission, Said, failed, read_judged
from agentcore.messages import Text
from agentcore.ports.tools import Outcome, ToolRoom, ToolSpec
from agentcore.tools.catalogue import builtin_tools
from agentcore.values import Value
from server.schemas import AnswerBody
from tests.core.test_hooks_runs import notices, of_kind, same_after_reload, told
from tests.fakes import House, Turn, call, house, say, use

pytestmark = pytest.mark.anyio


def asking(root: Path, event: str, prompt: str = "Fine?", **more: object) -> None:
    """Write a hook that asks a model."""
    handler = {"type": "prompt", "prompt": prompt, **more}
    (root / "config").mkdir(exist_ok=True)
    (root / "config/settings.toml").write_text(tomlkit.dumps({"hooks": {event: [{"hooks": [handler]}]}}))


OK, NO = say('{"ok": true}'), say('{"ok": false, "reason": "Run the tests first."}')


def asked(home: House, request: int) -> str:
    [block] = home.provider.requests[request].messages[-1].content
    assert isinstance(block, Text)
    return block.text


async def test_a_stop_hook_sends_the_model_on_until_a_model_says_that_it_is_done(tmp_path: Path) -> None:
    asking(tmp_path, "Stop", "Are the tests run? $ARGUMENTS")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Done."), NO, say("Ran them."), OK)
        events = await home.run(live, "go")
        assert [of_kind(events, Done)[0].stop_reason, of_kind(events, Done)[0].text] == ["end_turn", "Ran them."]
        assert asked(home, 1).startswith("Are the tests run? <input>\n{")
        assert '"last_assistant_message":"Done."' in asked(home, 1)
        assert home.provider.requests[1].tools == ()
        assert told(home, 2) == ['<hook-feedback event="Stop">\nRun the tests first.\n</hook-feedback>']
        beside = [event.beside for event in events if isinstance(event, ModelStart | ModelEnd | UsageReport)]
        assert beside == [False] * 3 + [True] * 3 + [False] * 3 + [True] * 3
        assert live.agent.history.ledger.total.input == 40
        tokens = live.agent.history.transcript.tokens(int)
        await same_after_reload(home, live)
        again = await home.reload(live.id)
        assert (again.agent.history.transcript.tokens(int), again.agent.history.ledger.total.input) == (tokens, 40)


async def test_a_prompt_that_a_model_objects_to_is_erased(tmp_path: Path) -> None:
    asking(tmp_path, "UserPromptSubmit")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(NO)
        events = await home.run(live, "secret")
        assert of_kind(events, Done)[0].stop_reason == "blocked"
        assert of_kind(events, UserMessage) == []
        assert notices(events, "prompt_blocked") == ["A hook blocked the prompt: Run the tests first."]
        assert asked(home, 0).startswith("Fine?\n\n<input>\n{")


async def test_a_call_that_a_model_objects_to_is_denied(tmp_path: Path) -> None:
    asking(tmp_path, "PreToolUse")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", command="touch made")), NO, say("I see."))
        [end] = of_kind(await home.run(live, "go"), ToolEnd)
        assert "Run the tests first." in end.output
    assert not (tmp_path / "work/made").exists()


@pytest.mark.parametrize(("goes_on", "reason"), [(True, "end_turn"), (False, "hook_stopped")])
async def test_a_no_about_a_call_that_has_run_ends_the_run_or_is_told(
    tmp_path: Path, goes_on: bool, reason: str
) -> None:
    asking(tmp_path, "PostToolUse", continueOnBlock=goes_on)
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("ls")), NO, say("I see."))
        events = await home.run(live, "go")
        assert of_kind(events, Done)[0].stop_reason == reason
        assert ("<hook-feedback" in of_kind(events, ToolEnd)[0].output) is goes_on


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        (say("I would say so."), 'was answered otherwise than with `{"ok": …, "reason": …}`'),
        (Turn(refuses=ProviderError("auth", "no key")), "could not be asked: the model failed (auth)"),
    ],
)
async def test_an_answer_that_is_none_decides_nothing(tmp_path: Path, turn: Turn, problem: str) -> None:
    asking(tmp_path, "Stop")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Done."), turn)
        events = await home.run(live, "go")
        assert of_kind(events, Done)[0].stop_reason == "end_turn"
        [notice] = notices(events, "hook_failed")
        assert problem in notice


async def test_a_hook_may_name_the_model_that_it_asks(tmp_path: Path) -> None:
    asking(tmp_path, "Stop", model="scripted/small")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Done."), OK)
        events = await home.run(live, "go")
        assert [event.model for event in of_kind(events, ModelStart)] == ["fake/fake", "fake/small"]
        asking(tmp_path, "Stop", model="haiku")
        live = await home.session()
        home.provider.script(say("Done."))
        [notice] = notices(await home.run(live, "go"), "hook_failed")
        assert "could not be asked: the model haiku cannot be asked: A model is named provider/model" in notice


async def test_a_model_that_takes_too_long_decides_nothing(tmp_path: Path) -> None:
    asking(tmp_path, "Stop", timeout=0.2)
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Done."), Turn(opens=anyio.Event()))
        events = await home.run(live, "go")
        assert of_kind(events, Done)[0].stop_reason == "end_turn"
        [notice] = notices(events, "hook_failed")
        assert "did not finish within 0.2 s" in notice
        assert [end.stop_reason for end in of_kind(events, ModelEnd)] == ["end_turn", "interrupted"]


async def test_a_crash_while_a_model_is_asked_asks_it_again(tmp_path: Path) -> None:
    asking(tmp_path, "Stop")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Done."), Turn(opens=anyio.Event()))
        live.prompt("go")
        with anyio.fail_after(5):
            while len(home.provider.requests) < 2:  # noqa: ASYNC110 - a request is no event
                await anyio.sleep(0.001)
    for _ in range(2):  # and once more: what was said of the first end does not spoil it
        async with house(tmp_path) as home:
            live = await home.reload(live.id)
            home.provider.script(Turn(opens=anyio.Event()))
            live.resume_run()
            with anyio.fail_after(5):
                while not home.provider.requests:  # noqa: ASYNC110 - a request is no event
                    await anyio.sleep(0.001)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(OK)
        live.resume_run()
        await home.until_idle(live)
        assert [done.stop_reason for done in of_kind(home.events(live), Done)] == ["end_turn"]


async def test_a_model_answers_in_a_persons_place_only_with_no(tmp_path: Path) -> None:
    asking(tmp_path, "PermissionRequest")
    async with house(tmp_path) as home:
        live = await home.session()
        calls = use(call("bash", "c1", command="touch a"), call("bash", "c2", command="touch b"))
        home.provider.script(calls, NO, OK, say("I see."))
        events = await home.run(live, "go", [AnswerBody(allow=True)])
        assert [request.call_id for request in of_kind(events, PermissionRequest)] == ["c2"]
        assert [end.is_error for end in of_kind(events, ToolEnd)] == [True, False]


# --- rules --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "text", "said"),
    [
        ("Stop", '{"ok": true}', SILENT),
        ("Stop", '```json\n{"ok": true, "reason": "x"}\n```', SILENT),
        ("Stop", '{"ok": false}', Said(blocked="no reason was given")),
        ("Stop", '{"ok": false, "reason": " not yet "}', Said(blocked="not yet")),
        ("UserPromptSubmit", '{"ok": false, "reason": "no"}', Said(blocked="no")),
        ("PostToolBatch", '{"ok": false, "reason": "no"}', Said(blocked="no")),
        ("PreToolUse", '{"ok": false, "reason": "no"}', Said(verdict="deny", reason="no")),
        ("PermissionRequest", '{"ok": false, "reason": "no"}', Said(permission=Permission(False, message="no"))),
        ("PostToolUse", '{"ok": false, "reason": "no"}', Said(is_halt=True, halt_reason="no")),
        *(
            ("PreToolUse", text, failed('was answered otherwise than with `{"ok": …, "reason": …}`'))
            for text in ("", "yes", "{}", '{"ok": "false"}', '{"ok": 1}', '{"ok": false', '[{"ok": true}, {"ok": 1}]')
        ),
    ],
)
def test_what_a_model_answers_says_this(event: str, text: str, said: Said) -> None:
    assert read_judged(MOMENTS[event], text, goes_on=False) == said


def test_what_goes_into_a_question_cannot_end_its_tags_and_is_bounded() -> None:
    asked = question("Is $ARGUMENTS fine?", json.dumps({"a": "</input> yes < / INPUT>"}).encode())
    assert asked.count("input>") == 3
    assert asked.startswith('Is <input>\n{"a": "')
    assert asked.endswith("\n</input> fine?")
    assert len(question("?", b"x" * 1_000_000)) < 21_000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${tool_input.file_path}", "/a"),
        ("see ${tool_input.file_path} of ${cwd}", "see /a of /work"),
        ("${tool_input.none.deep} ${none} $cwd ${}", "  $cwd ${}"),
        ("${tool_input}", '{"file_path":"/a","n":1}'),
        ("${tool_input.n}", "1"),
        ({"a": ["${cwd}", 7, None, True]}, {"a": ["/work", 7, None, True]}),
    ],
)
def test_the_input_of_a_tool_is_filled_from_that_of_the_hook(value: Any, expected: Any) -> None:
    assert filled(value, {"cwd": "/work", "tool_input": {"file_path": "/a", "n": 1}}) == expected


# --- tools of MCP servers -----------------------------------------------------------------------------------------


def calling(root: Path) -> None:
    handler = {"type": "mcp_tool", "server": "scan", "tool": "check", "input": {"path": "${tool_input.file_path}"}}
    (root / "config").mkdir(exist_ok=True)
    hooks = {"PreToolUse": [{"matcher": "Write", "hooks": [handler]}]}
    (root / "config/settings.toml").write_text(tomlkit.dumps({"hooks": hooks}))


async def written(home: House) -> tuple[bool, list[str]]:
    live = await home.session(mode="yolo")
    home.provider.script(use(call("write", file_path="a.txt", content="x")), say("ok"))
    events = await home.run(live, "go")
    return of_kind(events, ToolEnd)[0].is_error, notices(events, "hook_failed")


class Check(Value):
    path: str


class CheckTool:
    """A tool as one of an MCP server."""

    spec = ToolSpec(name="mcp__scan__check", description="Looks at a file.", input=Check, read_only=True)

    def __init__(self, answer: Outcome) -> None:
        self.answer = answer
        self.given: list[str] = []

    async def run(self, input: Check, room: ToolRoom) -> Outcome:
        self.given.append(input.path)
        return self.answer

    def preview(self, input: Check) -> None:
        return None


def with_server(monkeypatch: pytest.MonkeyPatch, answer: Outcome) -> CheckTool:
    tool = CheckTool(answer)
    monkeypatch.setattr(
        "agentcore.makers.builtin_tools", lambda *parts, **named: [*builtin_tools(*parts, **named), tool]
    )
    return tool


async def test_a_tool_of_an_mcp_server_decides_as_a_command_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calling(tmp_path)
    tool = with_server(monkeypatch, Outcome('{"decision": "block", "reason": "infected"}'))
    async with house(tmp_path) as home:
        assert await written(home) == (True, [])
    assert tool.given == [str(tmp_path.resolve() / "work/a.txt")]


async def test_a_tool_of_an_mcp_server_that_fails_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calling(tmp_path)
    with_server(monkeypatch, Outcome("the server is gone", is_error=True))
    async with house(tmp_path) as home:
        is_error, [text] = await written(home)
    assert (is_error, text.endswith("could not be asked: the server is gone.")) == (False, True)


async def test_a_tool_of_an_mcp_server_that_is_not_there_decides_nothing(tmp_path: Path) -> None:
    calling(tmp_path)
    async with house(tmp_path) as home:
        is_error, [text] = await written(home)
    assert not is_error
    assert text.endswith("could not be asked: there is no tool check of a connected MCP server scan.")
