"""Command tools of the user's settings, and tools from outside: what runs, what an argument may be, whose name wins."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field, ValidationError

from agentcore.app import App
from agentcore.errors import Unprocessable
from agentcore.events import Notice, ToolEnd
from agentcore.origin import Origin
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.schema_input import schema_input
from agentcore.settings.command_tools import CommandTool
from agentcore.tools.catalogue import NAMES
from agentcore.tools.commands import RunsCommand, filled
from agentcore.tools.own import by_name, command_tools, installed_tools, own_tools
from agentcore.values import Value
from server.schemas import AnswerBody
from tests.fakes import call, house, kinds, say, use

pytestmark = pytest.mark.anyio

SHOW = "import sys, os, json; print(json.dumps([sys.argv[1:], os.getcwd(), sorted(os.environ)]))"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}, "more": {"type": "array"}},
    "required": ["name"],
    "additionalProperties": False,
}


def declared(*argv: str, name: str = "deploy", schema: Any = SCHEMA, tags: tuple[str, ...] = ()) -> CommandTool:
    return CommandTool(name, "Puts it out.", argv or (sys.executable, "-c", SHOW, "{name}"), schema, tags, Origin("s"))


def tool_of(tmp_path: Path, one: CommandTool, **environ: str) -> RunsCommand:
    return RunsCommand(one, Workspace(tmp_path.resolve(), (tmp_path.resolve(),)), {"PATH": "/usr/bin:/bin", **environ})


async def run(tool: RunsCommand, **input: Any) -> Outcome:
    return await tool.run(tool.spec.input.model_validate(input), ToolRoom("c", lambda text: None))


# --- a command ---


async def test_a_command_runs_without_a_shell_and_without_secrets(tmp_path: Path) -> None:
    tool = tool_of(tmp_path, declared(), MY_API_KEY="secret", LANG="C")
    outcome = await run(tool, name="a; echo $LANG `id` {count} *")
    assert outcome.output.startswith('[["a; echo $LANG `id` {count} *"], ')
    assert str(tmp_path) in outcome.output
    assert '"LANG"' in outcome.output
    assert "MY_API_KEY" not in outcome.output
    assert outcome.output.endswith("[exit code 0]")


async def test_a_failure_is_an_ordinary_answer_and_a_missing_program_an_error(tmp_path: Path) -> None:
    assert (await run(tool_of(tmp_path, declared("sh", "-c", "exit 3")), name="x")).output.endswith("[exit code 3]")
    with pytest.raises(ToolError, match="does not exist"):
        await run(tool_of(tmp_path, declared("no-such-program")), name="x")


@pytest.mark.parametrize(
    ("template", "input", "argv"),
    [
        (("p", "{name}"), {"name": "a b"}, ["p", "a b"]),
        (("p", "{name}"), {"name": ""}, ["p", ""]),
        (("p", "{name}"), {"name": "{count}", "count": 1}, ["p", "{count}"]),
        (("p", "--n={count}", "{name}"), {"name": "x", "count": -2}, ["p", "--n=-2", "x"]),
        (("p", "--n={count}", "{name}"), {"name": "x"}, ["p", "x"]),
        (("p", "--n={count}", "{name}"), {"name": "x", "count": None}, ["p", "x"]),
        (("p", "--", "{name}"), {"name": "-rf"}, ["p", "--", "-rf"]),
        (("p", "{more}"), {"more": ["a", "b"]}, ["p", '["a","b"]']),
        (("p", "{ name }", "{}", "$name", "{0}"), {"name": "x"}, ["p", "{ name }", "{}", "$name", "{0}"]),
        (("p", "{name}:{count}"), {"name": "x", "count": 3}, ["p", "x:3"]),
    ],
)
def test_a_field_stays_one_argument(template: tuple[str, ...], input: dict[str, Any], argv: list[str]) -> None:
    assert filled(template, input) == argv


@pytest.mark.parametrize(
    ("template", "input", "words"),
    [
        (("p", "{name}"), {"name": "-rf"}, "must not begin with a dash"),
        (("p", "{name}"), {"name": "--output=x"}, "must not begin with a dash"),
        (("p", "{count}"), {"count": -1}, "must not begin with a dash"),
        (("p", "{name}{count}"), {"name": "", "count": -1}, "must not begin with a dash"),
        (("p", "{name}", "--"), {"name": "-x"}, "must not begin with a dash"),
        (("p", "{name}", "{count}"), {"name": "--", "count": 1}, "must not begin with a dash"),
        (("p", "-{name}", "{count}"), {"name": "-", "count": -1}, "count must not begin with a dash"),
        (("p", "{name}"), {"name": "a\0b"}, "NUL"),
    ],
)
def test_a_value_never_becomes_an_option(template: tuple[str, ...], input: dict[str, Any], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        filled(template, input)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (declared("{name}"), "begins with the program"),
        (declared(""), "begins with the program"),
        (declared("p", "{nmae}"), "names {nmae}"),
        (declared("p", schema={"type": "object", "properties": {"a": {"type": "strnig"}}}), "no JSON Schema"),
        (declared("p", schema={"type": "object", "$ref": "http://127.0.0.1:9/x"}), "not followed"),
        (declared("p", schema={"type": "object", "$ref": "file:///etc/passwd"}), "not followed"),
        (declared("p", schema={"type": "array"}), "describe an object"),
        (declared(name="bash"), "of that name already"),
        (declared(name="task_stop"), "of that name already"),
        (declared(name="mine"), "of that name already"),
    ],
)
def test_a_declaration_that_cannot_be_used_is_told_and_the_others_work(
    tmp_path: Path, one: CommandTool, words: str
) -> None:
    place = Workspace(tmp_path, (tmp_path,))
    tools, [told] = command_tools([one, declared(name="good")], ["mine"], place, {})
    assert [tool.spec.name for tool in tools] == ["good"]
    assert told.startswith(f"The tool {one.name!r} in s cannot be used: ")
    assert words in told


def test_tags_say_when_a_person_is_asked(tmp_path: Path) -> None:
    plain, reads, confirms = (
        tool_of(tmp_path, declared(tags=tags)).spec for tags in ((), ("read-only",), ("confirm", "read-only"))
    )
    assert (plain.read_only, plain.asks) == (False, None)
    assert (reads.read_only, reads.asks) == (True, None)
    assert (confirms.read_only, confirms.asks) == (True, "tool")


def test_who_is_asked_sees_the_command_as_it_would_run(tmp_path: Path) -> None:
    tool = tool_of(tmp_path, declared("git", "push", "{name}"))
    assert tool.preview(tool.spec.input.model_validate({"name": "a b"})) == "git\npush\na b"
    assert tool.preview(tool.spec.input.model_validate({"name": "-f"})) is None


# --- its input ---


def test_an_input_is_held_to_the_schema_and_each_problem_is_named() -> None:
    model = schema_input(SCHEMA)
    assert model.model_json_schema() == SCHEMA
    assert model.model_validate({"name": "x", "count": 1}).root == {"name": "x", "count": 1}
    with pytest.raises(ValidationError) as refused:
        model.model_validate({"count": "many", "surprise": 1})
    assert sorted((error["loc"], error["msg"]) for error in refused.value.errors()) == [
        ((), '"name" is a required property'),
        ((), "Additional properties are not allowed ('surprise' was unexpected)"),
        (("count",), '"many" is not of type "integer"'),
    ]
    with pytest.raises(ValidationError):
        model.model_validate(["name"])


# --- through a whole run ---

SETTINGS = f"""
[[tools]]
name = "deploy"
description = "Puts it out."
argv = ["{sys.executable}", "-c", "import sys; print('out:', sys.argv[1])", "{{service}}"]
tags = ["confirm"]
[tools.schema]
type = "object"
properties = {{service = {{type = "string"}}}}
required = ["service"]

[[tools]]
name = "broken"
description = "Has no such field."
argv = ["true", "{{what}}"]
"""


async def test_a_command_of_the_settings_asks_in_yolo_too_and_runs_as_it_was_shown(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text(SETTINGS)
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(
            use(call("deploy", "c1", service=1)), use(call("deploy", "c2", service="web")), say("Done."), say("No.")
        )
        events = await home.run(live, "go", [AnswerBody(allow=True)])
        told = {tool.name: tool.input_schema for tool in home.provider.requests[0].tools}
        assert told["deploy"]["required"] == ["service"]
        assert "broken" not in told
        first, second = (event for event in events if isinstance(event, ToolEnd))
        assert (first.is_error, '1 is not of type "string"' in first.output) == (True, True)
        assert second.output == "out: web\n[exit code 0]"
        assert kinds(events).count("permission_request") == 1


async def test_what_is_wrong_with_a_declared_tool_is_a_notice(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text(SETTINGS)
    async with house(tmp_path) as home:
        live = await home.session()
        lines = [line async for line in _notices(home.app, live.id)]
        assert any("'broken' in settings.toml cannot be used" in line for line in lines)


async def _notices(app: App, session: str) -> Any:
    for line in await app.lines_after(session, 0, 10_000):
        event = Notice.model_validate_json(line) if b'"notice"' in line else None
        if event is not None:
            yield event.text


# --- tools from outside ---


class GreetInput(Value):
    who: str = Field(description="Whom.")


class Greet:
    def __init__(self, name: str = "greet") -> None:
        self.spec = ToolSpec(name=name, description="Greets.", input=GreetInput, read_only=True)

    async def run(self, input: GreetInput, room: ToolRoom) -> Outcome:
        return Outcome(f"Hello {input.who}")

    def preview(self, input: GreetInput) -> None:
        return None


def greeting() -> list[Greet]:
    return [Greet()]


def failing() -> list[Greet]:
    raise RuntimeError("a bug with a /secret/path")


def strange() -> list[object]:
    return [object()]


def point(function: str) -> EntryPoint:
    return EntryPoint(function, f"{__name__}:{function}", "agentcore.tools")


def test_packages_bring_tools_and_a_broken_one_only_costs_its_own(caplog: pytest.LogCaptureFixture) -> None:
    tools, told = installed_tools([point("strange"), point("greeting"), point("failing"), point("no_such")])
    assert [tool.spec.name for tool in tools] == ["greet"]
    assert told == (
        "The tools of the entry point 'failing' cannot be used: RuntimeError.",
        "The tools of the entry point 'no_such' cannot be used: AttributeError.",
        "The tools of the entry point 'strange' cannot be used: TypeError.",
    )
    assert len(caplog.records) == 3


def test_two_tools_of_one_name_are_refused_and_both_are_named() -> None:
    class Other(Greet):
        pass

    with pytest.raises(Unprocessable, match=r"'greet'.*\.Greet.*Other"):
        by_name([Greet()], [Other()])
    with pytest.raises(Unprocessable, match=r"\.Greet brings a tool 'bash'"):
        own_tools([Greet("bash")])
    assert list(by_name([Greet("b")], [Greet("a")])) == ["a", "b"]


async def test_nothing_starts_with_two_tools_of_one_name(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        for tools in ([Greet(), Greet()], [Greet("web_search")]):
            with pytest.raises(Unprocessable):
                App(home.app.config, providers=home.app.providers, tools=tools)


async def test_a_tool_that_is_handed_over_works_in_every_session(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        home.hub.app = App(home.app.config, providers=home.app.providers, patience=home.app._patience, tools=[Greet()])
        live = await home.session()
        home.provider.script(use(call("greet", "c1", who="you")), say("Done."))
        events = await home.run(live, "go")
        [end] = [event for event in events if isinstance(event, ToolEnd)]
        assert end.output == "Hello you"


async def test_the_names_that_are_kept_are_those_of_the_built_in_tools(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.session()
        live = await home.session()
        assert set(live.agent._parts.tools) <= NAMES
