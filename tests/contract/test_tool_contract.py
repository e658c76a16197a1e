"""What every built-in tool promises, whatever it does."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentcore.ports.tools import Tool
from agentcore.tools.catalogue import builtin_tools
from tests.core.test_tools import Workbench

pytestmark = pytest.mark.anyio

FIELDS = {
    "ask_user": {"questions", "input"},
    "bash": {"command", "description", "timeout", "sandbox", "run_in_background"},
    "edit": {"file_path", "old_string", "new_string", "replace_all"},
    "exit_plan_mode": {"plan"},
    "glob": {"pattern", "path"},
    "grep": {"pattern", "path", "glob", "output_mode", "-i", "multiline", "head_limit"},
    "ls": {"path"},
    "multi_edit": {"file_path", "edits"},
    "read": {"file_path", "offset", "limit"},
    "todo_write": {"todos"},
    "web_fetch": {"url", "prompt"},
    "web_search": {"query", "allowed_domains", "blocked_domains"},
    "write": {"file_path", "content"},
}
READ_ONLY = {"ask_user", "exit_plan_mode", "glob", "grep", "ls", "read", "todo_write"}
PARALLEL_SAFE = {"glob", "grep", "ls", "read", "web_fetch", "web_search"}
EDITS = {"edit", "multi_edit", "write"}
PATHS = {
    "edit": ("file_path",),
    "glob": ("path",),
    "grep": ("path",),
    "ls": ("path",),
    "multi_edit": ("file_path",),
    "read": ("file_path",),
    "write": ("file_path",),
}
ASKS = {"ask_user": "question", "exit_plan_mode": "plan"}
UNBOUNDED = {"ask_user", "bash", "exit_plan_mode", "web_fetch", "web_search"}
"""They keep a time of their own, or a person's."""
ENVIRON = {**os.environ, "BRAVE_API_KEY": "k"}
VALID: dict[str, dict[str, Any]] = {
    "ask_user": {"input": "Which one?"},
    "bash": {"command": "printf 'a\\0b\\377'"},
    "edit": {"file_path": "a.txt", "old_string": "one", "new_string": "two"},
    "exit_plan_mode": {"plan": "build it"},
    "glob": {"pattern": "**"},
    "grep": {"pattern": ".", "output_mode": "content"},
    "ls": {},
    "multi_edit": {"file_path": "a.txt", "edits": [{"old_string": "one", "new_string": "two"}]},
    "read": {"file_path": "a.txt"},
    "todo_write": {"todos": [{"content": "x", "status": "pending"}]},
    "web_fetch": {"url": "http://127.0.0.1:9/"},
    "web_search": {"query": "what now"},
    "write": {"file_path": "new/b.txt", "content": "x"},
}
NAMES = sorted(FIELDS)
REACH_OUT = {"ask_user", "web_fetch", "web_search"}
"""To a person or to the network, so they are run where there is one: in tests of their own."""


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(tmp_path, ENVIRON)
    bench.put("a.txt", b"one \xff\xfe\n")
    (bench.root / os.fsdecode(b"bad\xff\nname")).touch()
    return bench


def tree(root: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def tool_of(bench: Workbench, name: str) -> Tool:
    return bench.tools[name]


def test_the_set_is_whole_and_sorted(bench: Workbench) -> None:
    assert [tool.spec.name for tool in builtin_tools(bench.workspace, ENVIRON, bench.blobs)] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_declaration_is_true_to_the_table(bench: Workbench, name: str) -> None:
    spec = tool_of(bench, name).spec
    assert set(spec.definition().input_schema["properties"]) == FIELDS[name]  # type: ignore[arg-type]  # a JSON object
    assert spec.read_only == (name in READ_ONLY)
    assert spec.parallel_safe == (name in PARALLEL_SAFE)
    assert spec.edits == (name in EDITS)
    assert spec.paths == PATHS.get(name, ())
    assert spec.asks == ASKS.get(name)
    assert (spec.timeout_s is None) == (name in UNBOUNDED)


@pytest.mark.parametrize("name", NAMES)
def test_the_model_is_told_about_every_field(bench: Workbench, name: str) -> None:
    definition = tool_of(bench, name).spec.definition()
    fields: Any = definition.input_schema["properties"]
    assert definition.description
    assert definition.input_schema["additionalProperties"] is False
    assert [field for field, schema in fields.items() if not schema.get("description")] == []


@pytest.mark.parametrize("name", NAMES)
def test_unknown_fields_are_refused_and_inputs_cannot_change(bench: Workbench, name: str) -> None:
    model = tool_of(bench, name).spec.input
    with pytest.raises(ValidationError, match="extra_forbidden"):
        model.model_validate({**VALID[name], "surprise": 1})
    with pytest.raises(ValidationError, match="frozen"):
        setattr(model.model_validate(VALID[name]), next(iter(model.model_fields)), "x")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REACH_OUT])
async def test_what_leaves_is_text_and_a_reader_changes_nothing(bench: Workbench, name: str) -> None:
    if name in EDITS:
        await bench.output("read", file_path="a.txt")
    before = tree(bench.root)
    outcome = await bench.call(name, **VALID[name])
    assert not outcome.is_error
    for text in (outcome.output, outcome.display or "", *bench.said):
        assert "\0" not in text
        assert text.encode().decode() == text
    assert (tree(bench.root) != before) == (name in EDITS)


@pytest.mark.parametrize("name", NAMES)
def test_a_preview_changes_nothing_and_never_raises(bench: Workbench, name: str) -> None:
    before = tree(bench.root)
    assert (bench.preview(name, **VALID[name]) is not None) == (name in EDITS)
    for field in PATHS.get(name, ()):
        for path in ("/etc/passwd", "..", "a.txt/x", "a\0b", "x" * 5000, ""):
            assert bench.preview(name, **{**VALID[name], field: path}) is None
    assert tree(bench.root) == before


@pytest.mark.parametrize("name", [name for name in NAMES if name != "todo_write"])
def test_half_a_surrogate_pair_is_refused(bench: Workbench, name: str) -> None:
    broken = {key: "\ud800" if isinstance(value, str) else value for key, value in VALID[name].items()}
    if "edits" in broken:
        broken["edits"] = [{"old_string": "\ud800", "new_string": ""}]
    with pytest.raises(ValidationError):
        tool_of(bench, name).spec.input.model_validate(broken or {"path": "\ud800"})
