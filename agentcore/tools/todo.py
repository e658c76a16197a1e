"""The tool `todo_write`: the model's task list, whole each time; its state lives in the transcript alone."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import AfterValidator, Field

from agentcore.caps import safe_text
from agentcore.events import Todo, TodoItem
from agentcore.ports.tools import Outcome, ToolRoom, ToolSpec
from agentcore.values import Value

MAX_ITEMS = 100


def _at_most_one_in_progress(items: tuple[TodoItem, ...]) -> tuple[TodoItem, ...]:
    if sum(item.status == "in_progress" for item in items) > 1:
        raise ValueError("only one task may be in_progress")
    return items


class TodoInput(Value):
    todos: Annotated[tuple[TodoItem, ...], AfterValidator(_at_most_one_in_progress)] = Field(
        max_length=MAX_ITEMS, description="The whole list; it replaces the earlier one. At most one in_progress."
    )


class TodoTool:
    spec = ToolSpec(
        name="todo_write",
        description=(
            "Keep the task list of a longer piece of work, for you and for the person who follows it. "
            "Send the whole list each time; mark a task in_progress before you start it and completed when it is done."
        ),
        input=TodoInput,
        read_only=True,
    )

    async def run(self, input: TodoInput, room: ToolRoom) -> Outcome:
        items = tuple(item.model_copy(update={"content": safe_text(item.content)}) for item in input.todos)
        return Outcome(_told(items), events=(Todo(items=items),))

    def preview(self, input: TodoInput) -> None:
        return None


def _told(items: Sequence[TodoItem]) -> str:
    done = sum(item.status == "completed" for item in items)
    return f"The list is kept: {done} of {len(items)} completed."
