"""The set of tools, the two that touch nothing, and the bench on which the other tool tests stand."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentcore.events import Todo, TodoItem
from agentcore.permissions.workspace import Workspace
from agentcore.ports.tools import Outcome, Tool, ToolError, ToolRoom
from agentcore.tools.catalogue import builtin_tools
from tests.fakes import MemoryBlobs

pytestmark = pytest.mark.anyio


class Workbench:
    """A project folder with something beside it, and the tools of one session, called as the loop calls them."""

    def __init__(self, base: Path, environ: Mapping[str, str] | None = None, **workspace: tuple[Path, ...]) -> None:
        base = base.resolve()
        self.root, self.outside = base / "project", base / "outside"
        self.root.mkdir(exist_ok=True)
        self.outside.mkdir(exist_ok=True)
        self.workspace = Workspace(self.root, (self.root,), **workspace)
        self.environ = os.environ if environ is None else environ
        self.said: list[str] = []
        self.blobs = MemoryBlobs()
        self.use(self.workspace)

    def use(self, workspace: Workspace) -> None:
        self.tools: dict[str, Tool] = {
            tool.spec.name: tool for tool in builtin_tools(workspace, self.environ, self.blobs)
        }

    async def call(self, name: str, **input: Any) -> Outcome:
        tool = self.tools[name]
        try:
            return await tool.run(tool.spec.input.model_validate(input), ToolRoom("call-1", self.said.append))
        except ToolError as error:
            return Outcome(str(error), is_error=True)

    async def output(self, name: str, **input: Any) -> str:
        """The output of a call that must succeed."""
        outcome = await self.call(name, **input)
        assert not outcome.is_error, outcome.output
        return outcome.output

    async def error(self, name: str, **input: Any) -> str:
        """The words of a call that must fail."""
        outcome = await self.call(name, **input)
        assert outcome.is_error, outcome.output
        return outcome.output

    def preview(self, name: str, **input: Any) -> str | None:
        tool = self.tools[name]
        return tool.preview(tool.spec.input.model_validate(input))

    def put(self, name: str, content: str | bytes = "") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path


def item(content: str, status: Any) -> TodoItem:
    return TodoItem(content=content, status=status)


async def test_a_task_list_is_announced_whole(tmp_path: Path) -> None:
    todos = [{"content": "plan\0\ud800", "status": "completed"}, {"content": "build", "status": "in_progress"}]
    outcome = await Workbench(tmp_path).call("todo_write", todos=todos)
    items = (item("plan\ufffd\ufffd", "completed"), item("build", "in_progress"))
    assert outcome == Outcome("The list is kept: 1 of 2 completed.", events=(Todo(items=items),))


@pytest.mark.parametrize(
    "todos",
    [
        [{"content": "a", "status": "in_progress"}, {"content": "b", "status": "in_progress"}],
        [{"content": "a", "status": "started"}],
        [{"content": "a", "status": "pending"}] * 101,
    ],
)
async def test_a_task_list_that_makes_no_sense_is_refused(tmp_path: Path, todos: list[Any]) -> None:
    with pytest.raises(ValidationError):
        await Workbench(tmp_path).call("todo_write", todos=todos)


async def test_an_approved_plan_is_to_be_carried_out(tmp_path: Path) -> None:
    outcome = await Workbench(tmp_path).call("exit_plan_mode", plan="1. build")
    assert outcome == Outcome("The plan was approved. Carry it out now.")


@pytest.mark.parametrize("plan", ["", " \n\t"])
async def test_an_empty_plan_is_refused_before_anybody_is_asked(tmp_path: Path, plan: str) -> None:
    with pytest.raises(ValidationError, match="plan is empty"):
        await Workbench(tmp_path).call("exit_plan_mode", plan=plan)


async def test_each_session_has_its_own_record_of_what_was_read(tmp_path: Path) -> None:
    first, second = Workbench(tmp_path), Workbench(tmp_path)
    first.put("a.txt", "old")
    await first.output("read", file_path="a.txt")
    assert "was not read" in await second.error("write", file_path="a.txt", content="new")
    await first.output("write", file_path="a.txt", content="new")
