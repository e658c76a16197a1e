"""The scripted provider plays the same turn for the same transcript, in any folder and after any restart."""

import os
from pathlib import Path

import anyio
import pytest

from agentcore.compaction import words
from agentcore.errors import ProviderError
from agentcore.messages import Block, Message, Text, Thinking, ToolCall, ToolResult
from agentcore.permissions.workspace import Workspace
from agentcore.ports.models import Finished, ModelRequest, StreamPart, TextPart, ThinkingPart, ToolCallPart
from agentcore.ports.tools import Outcome, ToolError, ToolRoom
from agentcore.providers.scripted.provider import ScriptedProvider, choose_turn
from agentcore.providers.scripted.script import MAX_SCRIPT_BYTES, Scene, Script, ScriptedTurn, load_script, parse_script
from agentcore.tools.catalogue import builtin_tools
from agentcore.usage import Usage
from server.schemas import AnswerBody
from tests.fakes import MemoryBlobs, Turn, house, say, use

pytestmark = pytest.mark.anyio

DEMO = load_script("demo")
WRITTEN = {
    "plan": "Shopping list\n- apples\n- bread\n",
    None: "Shopping list\n- pears\n- bread\nHello from the demo\n",
}
"""What each scene leaves in its file."""
COUNTING = parse_script("turns: [{text: one}, {text: two}, {text: three}]", "counting")


def user(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="user", content=blocks)


def said(id: str, text: str = "said") -> Message:
    return Message(id=id, role="assistant", content=(Text(text=text),))


PROMPT = user("u0", Text(text="go"))
RESULT = user("u1", ToolResult(call_id="c", content="ok"))


async def play(script: Script | None, messages: list[Message], model: str = "demo") -> list[StreamPart]:
    request = ModelRequest(model=model, system="", tools=(), messages=messages)
    with anyio.fail_after(5):
        async with ScriptedProvider(script).stream(request) as parts:
            return [part async for part in parts]


async def test_a_turn_fails_as_often_as_it_says_and_then_plays_whole() -> None:
    script = parse_script("turns: [{text: Now., error: {kind: overloaded, message: Full.}, fail_times: 2}]", "test")
    provider = ScriptedProvider(script)

    async def ask(session: str, *messages: Message) -> str | list[StreamPart]:
        request = ModelRequest(model="demo", system="", tools=(), messages=messages, session=session)
        shown: list[StreamPart] = []
        try:
            async with provider.stream(request) as parts:
                shown.extend([part async for part in parts])
        except ProviderError as error:
            assert shown == []
            return error.kind
        return shown[:1]

    told = [await ask(session, PROMPT) for session in ("one", "one", "two", "one", "two", "two")]
    fails, plays = "overloaded", [TextPart("Now.")]
    assert told == [fails, fails, fails, plays, fails, plays]
    assert await ask("one", user("u9", Text(text="go"))) == fails  # another place in the session


def test_fail_times_needs_an_error() -> None:
    with pytest.raises(ProviderError, match="fail_times needs an error"):
        parse_script("turns: [{text: x, fail_times: 2}]", "test")


async def test_a_turn_shows_its_pieces_and_then_the_whole() -> None:
    script = parse_script(
        """
        turns:
          - thinking: hm well
            text: "I read  it.\\n"
            tool_calls: [{name: read, input: {file_path: a.txt}}, {name: ls, id: mine}]
            usage: {input: 10, output: 2}
        """,
        "test",
    )
    calls = (
        ToolCall(id="call_u0_1", name="read", input={"file_path": "a.txt"}),
        ToolCall(id="mine", name="ls", input={}),
    )
    assert await play(script, [PROMPT]) == [
        *[
            ThinkingPart("hm"),
            ThinkingPart(" well"),
            TextPart("I"),
            TextPart(" read"),
            TextPart("  it."),
            TextPart("\n"),
        ],
        *[ToolCallPart("call_u0_1", "read", 0), ToolCallPart("call_u0_1", "read", 21)],
        *[ToolCallPart("mine", "ls", 0), ToolCallPart("mine", "ls", 2)],
        Finished(
            content=(Thinking(text="hm well", provider="scripted", model="demo"), Text(text="I read  it.\n"), *calls),
            usage=Usage(input=10, output=2),
            stop="tool_use",
        ),
    ]


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([PROMPT], "one"),
        ([PROMPT, said("a0"), RESULT], "two"),
        ([PROMPT, said("a0"), RESULT, said("a1"), RESULT], "three"),
        ([PROMPT, said("a0"), RESULT, said("a1"), user("u", Text(text="again"))], "one"),
        ([PROMPT, said("a0"), user("u", ToolResult(call_id="c", content=""), Text(text="and now this"))], "one"),
        ([PROMPT, said("a0"), user("u", Text(text="<system-note>x</system-note>"), *RESULT.content)], "two"),
        ([PROMPT, said("a0"), user("u", Text(text=" \n<task-notification>x</task-notification>"))], "two"),
        ([PROMPT, said("a0"), RESULT, said("a1"), RESULT, said("a2"), RESULT], "The script has no further turn"),
        ([user("u", Text(text=words.note("s", (), "j")), *PROMPT.content), said("a0"), RESULT], "two"),
        ([user("u", Text(text=words.note("s", (), "j")))], "The conversation was compacted"),
    ],
)
def test_the_turn_is_the_number_of_answers_since_the_last_prompt(messages: list[Message], text: str) -> None:
    assert choose_turn(COUNTING, messages).text.startswith(text)


@pytest.mark.parametrize(
    ("prompt", "text"), [("please FAIL now", "failed"), ("<b> Straße", "road"), ("STRASSE", "road"), ("hello", "hello")]
)
def test_the_first_scene_that_matches_the_prompt_is_played(prompt: str, text: str) -> None:
    scenes = [{"match": "fail", "turns": [{"text": "failed"}]}, {"match": "straße", "turns": [{"text": "road"}]}]
    script = Script.model_validate({"scenes": [*scenes, {"turns": [{"text": "hello"}]}]})
    assert choose_turn(script, [user("u", Text(text=prompt))]).text == text


ASKED = user("u9", *RESULT.content, Text(text=words.request()))


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("turns: [{text: one}]", "<summary>\nThe user asked:\n- go\n\nThe last answer was:\nsaid\n</summary>"),
        ("{turns: [{text: one}], summary: {text: Short.}}", "Short."),
    ],
)
async def test_a_summary_tells_what_was_said_or_what_the_script_says(script: str, text: str) -> None:
    *_, finished = await play(parse_script(script, "test"), [PROMPT, said("a0"), ASKED])
    assert isinstance(finished, Finished)
    assert finished.content == (Text(text=text),)


def test_a_prompt_without_a_scene_says_so() -> None:
    script = Script.model_validate({"scenes": [{"match": "x", "turns": [{"text": "a"}]}]})
    assert choose_turn(script, [PROMPT]).text == "The script has no scene for this prompt."


async def test_a_scripted_error_comes_after_the_text_and_nothing_is_finished() -> None:
    error = {"kind": "overloaded", "message": "Full.", "retry_after_s": 2}
    script = Script.model_validate({"turns": [{"text": "half an", "error": error}]})
    shown: list[StreamPart] = []

    async def read() -> None:
        async with ScriptedProvider(script).stream(ModelRequest("demo", "", (), [PROMPT])) as parts:
            async for part in parts:
                shown.append(part)  # noqa: PERF401 - a comprehension would lose what came before the error

    with pytest.raises(ProviderError) as caught:
        await read()
    assert shown == [TextPart("half"), TextPart(" an")]
    assert (caught.value.kind, str(caught.value), caught.value.retry_after_s) == ("overloaded", "Full.", 2)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("I look for a file of an earlier demo.", ["I look for a file of an", " earlier demo."]),
        ("a\n\n- `b`  c\n", ["a\n\n- `b`  c\n"]),
        ("see " + "x" * 30 + " there", ["see", " " + "x" * 30, " there"]),
        ("x" * 24 + "\n", ["x" * 24, "\n"]),
        ("", []),
    ],
)
async def test_a_script_with_pauses_says_a_few_words_at_a_time(text: str, pieces: list[str]) -> None:
    script = Script.model_validate({"delta_delay_ms": 0.001, "turns": [{"thinking": text, "text": text}]})
    *shown, _ = await play(script, [PROMPT])
    assert shown == [*map(ThinkingPart, pieces), *map(TextPart, pieces)]


async def test_a_stop_reason_can_be_written() -> None:
    script = Script.model_validate({"turns": [{"stop": "max_tokens"}]})
    assert await play(script, [PROMPT]) == [Finished(content=(), usage=Usage(), stop="max_tokens")]


async def test_the_input_of_a_call_is_a_copy() -> None:
    script = Script.model_validate({"turns": [{"tool_calls": [{"name": "x", "input": {"list": [1]}}]}]})
    last = (await play(script, [PROMPT]))[-1]
    assert isinstance(last, Finished)
    call = last.content[0]
    assert isinstance(call, ToolCall)
    assert call.input
    call.input["list"] = []
    assert script.turns[0].tool_calls[0].input == {"list": [1]}


@pytest.mark.parametrize(
    ("name", "text"), [("s.yaml", "turns: [{text: hi}]"), ("s.json", '{"turns": [{"text": "hi"}]}')]
)
async def test_a_script_is_read_from_the_file_that_the_model_names(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert (await play(None, [PROMPT], str(tmp_path / name)))[0] == TextPart("hi")
    (tmp_path / name).write_text(text.replace("hi", "changed"), "utf-8")
    assert (await play(None, [PROMPT], str(tmp_path / name)))[0] == TextPart("changed")


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("password: hunter2", "password"),
        ("hunter2", "the top"),
        ("turns: [{text: [hunter2]}]", "turns.0.text"),
        ("turns: []", "either turns or scenes"),
        ("turns: [{text: a}]\nscenes: [{turns: []}]", "either turns or scenes"),
        ("turns: [{error: {kind: hunter2, message: x}}]", "turns.0.error.kind"),
        ("a: [\nhunter2: {", "line 2"),
        ("\x00hunter2", "its YAML"),
    ],
)
async def test_a_wrong_script_says_where_and_never_what(tmp_path: Path, text: str, where: str) -> None:
    (tmp_path / "s.yaml").write_text(text, "utf-8")
    with pytest.raises(ProviderError) as caught:
        await play(None, [PROMPT], str(tmp_path / "s.yaml"))
    assert (caught.value.kind, where in str(caught.value)) == ("invalid_request", True)
    assert "hunter2" not in str(caught.value)
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"turns": [{"text": "\\ud83d\\ude00"}]}', "\N{GRINNING FACE}"),
        ('{"turns": [{"text": "a\u2028b\u0085c"}]}', "a\u2028b\u0085c"),
        ('turns: [{text: "\N{GRINNING FACE}"}]', "\N{GRINNING FACE}"),
    ],
)
def test_a_script_in_json_says_what_json_says(text: str, said: str) -> None:
    assert parse_script(text, "s.json").turns[0].text == said


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('{"turns": [{"text": "\\ud83d"}]}', "surrogate"),
        ('{"turns": [{"tool_calls": [{"name": "x", "input": {"a": "\\ude00"}}]}]}', "turns.0.tool_calls.0.input"),
        ("turns: [{tool_calls: [{name: x, input: {a: .nan}}]}]", "turns.0.tool_calls.0.input"),
        ("turns: [{tool_calls: [{name: x, input: {a: " + "[" * 64 + "]" * 64 + "}}]}]", "turns.0.tool_calls.0.input"),
        ("turns: " + "[" * 5000, "its YAML"),
        ("turns: [{text: 2024-13-45}]", "its YAML"),
        ("turns: [{text: " + "9" * 5000 + "}]", "its YAML"),
    ],
)
def test_what_no_event_can_carry_is_refused(text: str, where: str) -> None:
    with pytest.raises(ProviderError) as caught:
        parse_script(text, "s")
    assert (caught.value.kind, where in str(caught.value)) == ("invalid_request", True)


async def test_a_script_that_cannot_be_read_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")  # a file's mode does not stop root

    (tmp_path / "s.yaml").touch()
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ProviderError, match=r"s\.yaml cannot be read: Permission denied"):
        await play(None, [PROMPT], str(tmp_path / "s.yaml"))


async def test_what_is_no_file_or_too_long_is_refused(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_bytes(b"#" * (MAX_SCRIPT_BYTES + 1))
    for path, kind in [
        (tmp_path / "none.yaml", "not_found"),
        (tmp_path, "not_found"),
        (tmp_path / "long.yaml", "invalid_request"),
    ]:
        with pytest.raises(ProviderError) as caught:
            await play(None, [PROMPT], str(path))
        assert caught.value.kind == kind


@pytest.mark.parametrize("scene", [scene for scene in DEMO.scenes if scene.match in WRITTEN], ids=["plan", "whole"])
async def test_the_demo_runs_with_the_real_tools_and_once_more_in_the_same_folder(tmp_path: Path, scene: Scene) -> None:
    for run, missing in enumerate([["read"], []]):
        environ = {"PATH": os.defpath}
        made = builtin_tools(Workspace(tmp_path, (tmp_path,)), environ, MemoryBlobs())
        tools = {tool.spec.name: tool for tool in made}
        failed: list[str] = []
        for turn in scene.turns:
            for call in turn.tool_calls:
                tool = tools[call.name]
                try:
                    outcome = await tool.run(tool.spec.input.model_validate(call.input), ToolRoom("c", lambda _: None))
                except ToolError as error:
                    outcome = Outcome(str(error), is_error=True)
                failed += [call.name] if outcome.is_error else []
        assert failed == missing, run
        text = (tmp_path / "agentcore-demo.txt").read_text("utf-8")
        assert text == WRITTEN[scene.match]
    assert scene.turns[-1].tool_calls == ()


@pytest.mark.parametrize(
    ("prompt", "match"),
    [
        ("Plan a shopping list.", "plan"),
        ("A structured list.", "structured"),
        ("A question!", "question"),
        ("Show me what you can do.", None),
    ],
)
def test_the_demo_plays_what_it_is_asked_for(prompt: str, match: str | None) -> None:
    scene = DEMO.scene_for(prompt)
    assert scene is not None
    assert scene.match == match


@pytest.mark.parametrize(
    ("answers", "requests", "mode", "is_written"),
    [
        ([AnswerBody(allow=True), AnswerBody(allow=True)], ["plan", "tool"], "default", True),
        ([AnswerBody(allow=True, mode="accept-edits")], ["plan"], "accept-edits", True),
        ([AnswerBody(allow=False)], ["plan"], "plan", False),
    ],
)
async def test_the_planned_demo_writes_only_what_was_approved(
    tmp_path: Path, answers: list[AnswerBody], requests: list[str], mode: str, is_written: bool
) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="plan")
        home.provider.script(*map(at_once, DEMO.scenes[0].turns))
        events = await home.run(live, "plan", answers)
    assert [event.kind for event in events if event.type == "permission_request"] == requests
    assert [event.stop_reason for event in events if event.type == "done"] == ["end_turn"]
    assert live.state().mode == mode
    assert (tmp_path / "work" / "agentcore-demo.txt").exists() == is_written


def at_once(turn: ScriptedTurn) -> Turn:
    """A turn of the demo without its pauses."""
    calls = [ToolCall(id=f"call-{call.name}", name=call.name, input=call.input) for call in turn.tool_calls]
    return use(*calls, text=turn.text) if calls else say(turn.text)


@pytest.mark.parametrize("prompt", ["plan", "go"])
async def test_the_demo_can_be_read_along_and_is_soon_over(prompt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept_s: list[float] = []

    async def sleep(delay_s: float) -> None:
        slept_s.append(delay_s)

    monkeypatch.setattr(anyio, "sleep", sleep)
    messages = [user("u", Text(text=prompt))]
    scene = DEMO.scene_for(prompt)
    assert scene is not None
    for turn in scene.turns:
        parts = await play(DEMO, messages)
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        assert "".join(texts) == turn.text
        assert len(texts) <= len(turn.text) / 12 + 1
        messages += [said("a"), RESULT]
    assert 2 < sum(slept_s) < 8
