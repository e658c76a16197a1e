"""Names, variables, schemas, forms and content of MCP servers: pure functions and values."""

import base64
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import ValidationError

from agentcore.mcp.content import MAX_FILE_BYTES, Content
from agentcore.mcp.forms import BadAnswer, BadForm, fields_of, questions, rounds, values
from agentcore.mcp.names import MAX_CHARS, segments, tool_names
from agentcore.mcp.news import News, Seen
from agentcore.mcp.schemas import BadSchema, input_of
from agentcore.mcp.targets import Confinement, Unusable, moved, target_of
from agentcore.origin import Origin
from agentcore.ports.sandbox import SandboxProfile
from agentcore.ports.servers import Elsewhere
from agentcore.sandbox.choosing import NoSandbox
from agentcore.settings.servers import McpServer
from tests.fakes import MemoryBlobs
from tests.mcp.odd_server import FORM
from tests.pictures import picture as drawn

OWN, SHARED = Origin("settings.toml", Path("/config")), Origin(".mcp.json", Path("/repo"), is_shared=True)


def stdio(origin: Origin = OWN, **more: Any) -> McpServer:
    return McpServer("files", origin, "stdio", **({"command": "serve"} | more))


# --- names ---


def test_names_are_valid_unique_and_sorted() -> None:
    names = tool_names("git", ["z", "a b", "Status", "status", "x" * 90])
    assert list(names.values()) == sorted(names.values())
    assert len({name.lower() for name in names.values()}) == 5
    assert all(len(name) <= MAX_CHARS and name.startswith("mcp__git__") for name in names.values())
    assert names["a b"] == "mcp__git__a_b"


def test_the_tool_that_has_a_name_keeps_it_whatever_else_falls_together_with_it() -> None:
    for tools in (["delete.all", "delete_all"], ["delete_all", "delete.all", "delete all"]):
        assert tool_names("s", tools)["delete_all"] == "mcp__s__delete_all"
    assert tool_names("s", ["Read", "read"])["read"] == "mcp__s__read"


@pytest.mark.parametrize("tools", [["Read", "read", "READ"], ["READ", "read", "Read"], ["read", "READ", "Read"]])
def test_tools_that_differ_by_case_alone_have_each_its_name_in_any_order(tools: list[str]) -> None:
    names = {"READ": "mcp__s__READ_3f5637", "Read": "mcp__s__Read_9b9a8d", "read": "mcp__s__read"}
    assert tool_names("s", tools) == names
    assert tool_names("s", [one for one in tools if one != "READ"]) == {"Read": names["Read"], "read": names["read"]}


def test_a_tool_cannot_take_the_name_that_another_has_from_its_digest() -> None:
    marked = tool_names("s", ["read", "Read"])["Read"].removeprefix("mcp__s__")
    names = tool_names("s", ["read", "Read", marked])
    assert len({name.lower() for name in names.values()}) == 3
    assert names[marked] == f"mcp__s__{marked}"


def test_a_later_server_cannot_slip_under_the_rules_of_an_earlier_one() -> None:
    found = segments(["a_b", "a.b", "A_B", "a__b"])
    assert found["a_b"] == "a_b"
    assert len({segment.lower() for segment in found.values()}) == 4
    assert not any(segment != "a_b" and segment.startswith("a_b__") for segment in found.values())


def test_a_name_depends_on_nothing_but_what_it_names() -> None:
    assert tool_names("s", ["b", "a"]) == tool_names("s", ["a", "b"])


# --- variables ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${A}", "1"),
        ("x${A}y${A}", "x1y1"),
        ("${B:-two}", "two"),
        ("${A:-two}", "1"),
        ("${EMPTY:-two}", "two"),
        ("${B:-}", ""),
        ("$A ${} {A}", "$A ${} {A}"),
        ("${AGENTCORE_TOKEN:-none}", "none"),
    ],
)
def test_variables_are_filled_in(text: str, expected: str) -> None:
    environ = {"A": "1", "EMPTY": "", "AGENTCORE_TOKEN": "secret"}
    target = target_of(stdio(args=(text,), env={"V": text}), Path("/work"), environ)
    assert target.argv == ("serve", expected)
    assert target.environ["V"] == expected
    web = McpServer("web", OWN, "http", url=f"http://h/{text}", headers={"X": text})
    if " " not in text:
        assert target_of(web, Path("/work"), environ).url == f"http://h/{expected}"
        assert target_of(web, Path("/work"), environ).headers == {"X": expected}


@pytest.mark.parametrize("text", ["${B}", "${EMPTY}", "${AGENTCORE_TOKEN}"])
def test_a_variable_that_is_not_there_is_told(text: str) -> None:
    with pytest.raises(Unusable, match="The MCP server files needs the variable"):
        target_of(stdio(args=(text,)), Path("/work"), {"EMPTY": "", "AGENTCORE_TOKEN": "secret"})


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x", "http://", "http://a b", "nothing"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(Unusable):
        target_of(McpServer("web", OWN, "http", url=url), Path("/work"), {})


def test_a_header_cannot_bring_another_one() -> None:
    server = McpServer("web", OWN, "http", url="http://h", headers={"X": "${A}"})
    with pytest.raises(Unusable):
        target_of(server, Path("/work"), {"A": "1\r\nHost: other"})


def test_a_command_gets_the_safe_variables_and_its_own_alone() -> None:
    environ = {"PATH": "/bin", "HOME": "/home/u", "SECRET_TOKEN": "x", "ANTHROPIC_API_KEY": "y", "A": "1"}
    target = target_of(stdio(env={"KEY": "${A}"}), Path("/work"), environ)
    assert target.environ == {"PATH": "/bin", "HOME": "/home/u", "KEY": "1"}


def test_servers_are_one_where_all_that_makes_them_is_the_same() -> None:
    def key(server: McpServer, cwd: str = "/work", **environ: str) -> str:
        return target_of(server, Path(cwd), environ).key

    def confined(*writable: Path) -> str:
        confinement = Confinement(NoSandbox("not here"), SandboxProfile(writable))
        return target_of(stdio(is_confined=True), Path("/work"), {}, confinement).key

    base = key(stdio())
    assert key(stdio()) == base
    assert confined(Path("/a")) == confined(Path("/a"))
    others = [
        key(stdio(), "/other"),
        key(stdio(args=("x",))),
        key(stdio(env={"A": "1"})),
        key(stdio(timeout_ms=5.0)),
        key(stdio(SHARED)),
        key(stdio(), PATH="/bin"),
        confined(Path("/a")),
        confined(Path("/b")),
    ]
    assert len({base, *others}) == 9
    web = McpServer("web", OWN, "http", url="http://h")
    assert key(web) == key(web, "/other")


def test_what_is_to_be_confined_is_not_reached_where_nothing_confines_it() -> None:
    with pytest.raises(Unusable, match="is to run in the sandbox"):
        target_of(stdio(is_confined=True), Path("/work"), {})


def test_a_command_of_a_repository_runs_in_its_folder() -> None:
    assert target_of(stdio(SHARED), Path("/repo/deep"), {}).folder == Path("/repo")
    assert target_of(stdio(OWN), Path("/work"), {}).folder == Path("/work")


def test_a_command_moves_to_a_copy_of_the_project_with_its_folder_and_what_it_may_write() -> None:
    elsewhere = Elsewhere(Path("/repo"), Path("/repo/.claude/worktrees/s-1"))
    profile = SandboxProfile((Path("/repo"), Path("/"), Path("/repo/deep"), Path("/other")), has_network=True)
    args = ("--root", "/repo", "/repo/deep", "/repo/deep/file", ".", "x=/repo")
    server = stdio(command="bin/serve", args=args, is_confined=True)
    target = target_of(server, Path("/repo/deep"), {"PATH": "/bin"}, Confinement(NoSandbox("no"), profile))
    there = moved(target, elsewhere)
    assert there.argv == (
        "/repo/deep/bin/serve",
        "--root",
        "/repo/.claude/worktrees/s-1",
        "/repo/.claude/worktrees/s-1/deep",
        *args[3:],
    )
    assert there.folder == Path("/repo/.claude/worktrees/s-1/deep")
    assert there.confined is not None
    assert there.confined.profile.writable == (elsewhere.folder, Path("/other"))
    assert there.confined.profile.has_network
    assert (there.environ, there.timeout_s, there.source) == (target.environ, target.timeout_s, target.source)
    assert there.key != target.key


def test_a_command_of_another_folder_moves_to_the_top_of_a_copy() -> None:
    elsewhere = Elsewhere(Path("/repo/inner"), Path("/copy"))
    there = moved(target_of(stdio(SHARED), Path("/repo/inner"), {}), elsewhere)
    assert (there.folder, there.argv, there.confined) == (Path("/copy"), ("serve",), None)


def test_no_secret_is_in_what_a_target_looks_like() -> None:
    target = target_of(stdio(env={"KEY": "hunter2"}), Path("/work"), {})
    web = target_of(McpServer("w", OWN, "http", url="http://h?key=hunter2", headers={"A": "hunter2"}), Path("/"), {})
    assert "hunter2" not in repr(target) + repr(web)


# --- schemas ---


def told(model: Any, value: Any) -> list[str]:
    try:
        model.model_validate(value)
    except ValidationError as error:
        return [".".join(map(str, problem["loc"])) for problem in error.errors()]
    return []


def test_an_input_is_held_to_its_schema() -> None:
    model = input_of(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {"id": {"type": "string"}, "list": {"$ref": "#/definitions/l"}},
            "definitions": {"l": {"type": "array", "items": {"type": "integer"}}},
            "required": ["id"],
        }
    )
    assert told(model, {"id": "x", "list": [1]}) == []
    assert told(model, {"id": 1, "list": ["x"]}) == ["id", "list.0"]
    assert told(model, {}) == [""]


def branches(count: int) -> dict[str, Any]:
    """Two references in each definition: twice as much work with each."""
    definitions: dict[str, Any] = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(count)}
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "$defs": definitions | {f"d{count}": {"type": "string"}},
        "required": ["b"],
    }


@pytest.mark.parametrize(
    "schema",
    [
        branches(40),
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["b"]},
        {"type": "object", "allOf": [{"$ref": "#/$defs/x"}], "$defs": {"x": {"$ref": "#/$defs/x"}}, "required": ["b"]},
        {"type": "object", "properties": {"a": {"pattern": "(a+)+" * 500}}, "required": ["b"]},
        {"type": "object", "properties": {"a": {"$dynamicRef": "#x"}}, "required": ["b"]},
        {"type": "object", "properties": {"a": {"$id": "http://x/", "$ref": "#y"}}, "required": ["b"]},
    ],
    ids=["branches", "recursive", "itself", "patterns", "dynamic", "moved"],
)
def test_what_could_cost_too_much_is_looked_at_from_outside(schema: dict[str, Any]) -> None:
    model = input_of(schema)
    assert told(model, {"b": 1, "a": {"a": {"a": 1}}}) == []
    assert told(model, {}) == ["b"]
    assert model.model_json_schema()["properties"] == schema.get("properties", {})


def test_what_branches_a_little_is_checked_whole() -> None:
    model = input_of(branches(3))
    assert told(model, {"a": 1, "b": 1}) == ["a"] * 8


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {},
        {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "properties": {"a": {"items": [{"anyOf": [{"$ref": "other.json"}]}]}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
        {"type": "object", "properties": {"a b": {}}},
        {"type": "object", "properties": []},
        {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        {"type": "object", "properties": {"a": {"description": "x" * 70_000}}},
    ],
)
def test_a_schema_that_is_none_or_leads_elsewhere_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(BadSchema):
        input_of(schema)


def test_a_schema_nested_without_end_is_refused() -> None:
    node: dict[str, Any] = {}
    for _ in range(60):
        node = {"items": node}
    with pytest.raises(BadSchema):
        input_of({"type": "object", "properties": {"a": node}})


def test_models_are_not_told_what_vendors_refuse() -> None:
    schema = {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}], "$schema": "x", "title": "t"}
    model = input_of(schema)
    assert model.model_json_schema() == {"type": "object", "properties": {"a": {}}}
    assert told(model, {}) != []


def test_a_field_may_be_called_like_a_keyword() -> None:
    model = input_of(
        {"type": "object", "properties": {"$id": {"type": "string"}, "x": {}}}
        | {"properties": {"id": {}, "enum": {"type": "integer"}}}
    )
    assert told(model, {"enum": "x"}) == ["enum"]


# --- forms ---


def test_a_form_is_asked_in_rounds() -> None:
    asked = [questions(some) for some in rounds(fields_of(FORM))]
    first, second, third = asked
    assert [(one.question, one.labels) for one in first.questions] == [
        ("Which color?", ("red", "green")),
        ("Sure?", ("yes", "no")),
    ]
    assert second.input == "How old? (integer)"
    assert third.input == "A nickname? (- leaves it out)"


def test_answers_become_values() -> None:
    first, second, third = rounds(fields_of(FORM))
    assert values(first, {"Which color?": "green", "Sure?": "yes"}) == {"color": "green", "sure": True}
    assert values(second, {"x": " 42 "}) == {"age": 42}
    assert values(third, {"x": "-"}) == {}
    assert values(third, {"x": "Jo"}) == {"nick": "Jo"}
    for wrong in ("many", "4.5", ""):
        with pytest.raises(BadAnswer):
            values(second, {"x": wrong})


def test_several_are_chosen_by_their_titles() -> None:
    items = {"anyOf": [{"const": "a", "title": "Red, dark"}, {"const": "b", "title": "Blue"}]}
    [some] = rounds(fields_of({"properties": {"c": {"type": "array", "items": items}}, "required": ["c"]}))
    [question] = questions(some).questions
    assert question.multi_select
    assert question.labels == ("Red, dark", "Blue")
    assert values(some, {question.question: "Red, dark, Blue"}) == {"c": ["a", "b"]}
    assert values(some, {question.question: "Blue"}) == {"c": ["b"]}


def test_what_need_not_be_filled_in_can_be_left_out() -> None:
    [some] = rounds(fields_of({"properties": {"c": {"enum": ["a", "b"]}}}))
    [question] = questions(some).questions
    assert values(some, {question.question: question.labels[-1]}) == {}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {"a": {"type": "object"}}},
        {"properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {str(n): {"type": "string"} for n in range(13)}},
        {"properties": {"a": True}},
    ],
)
def test_a_form_of_another_kind_is_not_asked(schema: dict[str, Any]) -> None:
    with pytest.raises(BadForm):
        fields_of(schema)


def test_many_choices_are_answered_in_words() -> None:
    [some] = rounds(fields_of({"properties": {"c": {"enum": [f"v{n}" for n in range(20)]}}, "required": ["c"]}))
    asked = questions(some)
    assert asked.input is not None
    assert "v19" in asked.input
    assert values(some, {asked.input: "v7"}) == {"c": "v7"}
    with pytest.raises(BadAnswer):
        values(some, {asked.input: "v99"})


# --- content ---


def picture(size: int = 0) -> Any:
    from mcp_types import ImageContent

    data = drawn() + bytes(size)
    return ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type="image/png")


def test_pictures_are_kept_and_those_too_many_or_too_large_are_named() -> None:
    async def collect() -> Content:
        content = Content(MemoryBlobs())
        for one in (picture(MAX_FILE_BYTES), *(picture() for _ in range(5))):
            await content.add(one)
        return content

    content = anyio.run(collect)
    assert len(content.files) == 4
    assert content.text == (
        "[picture (image/png) is not shown: larger than 5 MiB]\n"
        "[picture (image/png) is not shown: more than 4 in one answer]"
    )


def test_what_cannot_be_shown_is_named() -> None:
    from mcp_types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent, ResourceLink

    async def collect() -> str:
        content = Content(MemoryBlobs())
        await content.add(AudioContent(type="audio", data="", mime_type="audio/wav"))
        await content.add(ResourceLink(type="resource_link", name="n", uri="x://y"))
        blob = BlobResourceContents(uri="x://z", mime_type="application/zip", blob="")
        await content.add(EmbeddedResource(type="resource", resource=blob))
        await content.add(ImageContent(type="image", data="no base64", mime_type="image/png"))
        return content.text

    assert anyio.run(collect).splitlines()[:3] == [
        "[audio (audio/wav) is not shown]",
        "[resource n: x://y]",
        "[x://z (application/zip) is not shown]",
    ]


# --- news ---


def test_news_are_differences_however_much_happened_between() -> None:
    news = News()

    def take(**seen: Seen) -> list[tuple[str, str]]:
        return [(notice.code, notice.text) for notice in news.take(seen)]

    assert take(a=Seen("ready", tools=("x",)), b=Seen("connecting")) == [
        ("mcp_unavailable", "The MCP server b is still starting; its tools come when it is there.")
    ]
    assert take(a=Seen("ready", tools=("x",)), b=Seen("connecting")) == []
    assert take(a=Seen("ready", tools=("y", "z")), b=Seen("ready", tools=("q",))) == [
        ("mcp_changed", "The MCP server a changed its tools: +y, +z, -x."),
        ("mcp_changed", "The MCP server b is there now, with 1 tool."),
    ]
    assert take(a=Seen("failed", "Boom."), b=Seen("ready", tools=("q",))) == [
        ("mcp_unavailable", "The MCP server a cannot be used: Boom.")
    ]
    assert take(b=Seen("ready", tools=("q",))) == [("mcp_changed", "The MCP server a is no longer used.")]


def test_what_of_a_server_cannot_be_used_is_one_notice_until_it_is_something_else() -> None:
    news = News()

    def take(*left_out: str) -> list[tuple[str, str]]:
        seen = {"a": Seen("ready", tools=("x",), left_out=left_out)}
        return [(notice.code, notice.text) for notice in news.take(seen)]

    assert take("One.", "Two.") == [("mcp_unavailable", "Of the MCP server a not all can be used. One. Two.")]
    assert take("One.", "Two.") == []
    assert take(*("One.",) * 7) == [
        ("mcp_unavailable", f"Of the MCP server a not all can be used. {'One. ' * 5}And 2 more.")
    ]
    assert take() == []
