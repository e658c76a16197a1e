"""The tool `task`: hands one piece of work to a subagent, and gives back what that says at its end."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, Protocol

from pydantic import Field

from agentcore.events import SUBAGENT_TOOL
from agentcore.ports.background import Background, TaskRoom
from agentcore.ports.models import ToolDefinition
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.subagents.kinds import AgentIndex, AgentKind
from agentcore.values import Value
from agentcore.within import one_line

LISTED_CHARS = 600
"""Of one description."""
ALL_LISTED_CHARS = 16_000
"""Of all together; behind that names alone are listed."""
_ABOUT = (
    "Hand a piece of work to a subagent. It begins with nothing but your prompt, works by itself with its own tools,"
    " and only its last message comes back: say in the prompt all that it has to know, and what it is to answer."
    " Several calls in one message run side by side. What it does is asked, allowed and undone as your own work is."
)


class TaskInput(Value):
    description: str = Field(min_length=1, max_length=200, description="What it is about, in three to five words.")
    prompt: str = Field(min_length=1, max_length=200_000, description="The whole task.")
    subagent_type: str = Field(min_length=1, max_length=100, description="One of the agents in the description.")
    model: str | None = Field(
        default=None, max_length=200, description="Another model of the same vendor. Leave it out for your own."
    )
    run_in_background: bool = Field(
        default=False, description="Go on without waiting. You are told by yourself when it is done."
    )
    isolation: Literal["worktree"] | None = Field(
        default=None,
        description="`worktree`: it works in a git worktree of its own, which is kept if it changed something.",
    )


@dataclass(frozen=True, slots=True)
class Order:
    """One piece of work for a subagent."""

    kind: AgentKind
    prompt: str
    call_id: str
    """Of the main agent's call."""
    model: str | None = None
    is_isolated: bool = False


class Delegates(Protocol):
    """Runs subagents in the name of a session."""

    def check(self, order: Order) -> None:
        """Raises: ToolError for an order that cannot be carried out."""
        ...

    async def run(self, order: Order, say: Callable[[str], None], task_id: str | None = None) -> Outcome:
        """Carry an order out, as part of the run that goes on or as a background task.

        `say` is given what it said last where it is cut off. Raises: ToolError; Paused when the process stops.
        """
        ...


class TaskTool:
    spec = ToolSpec(
        name=SUBAGENT_TOOL,
        description=_ABOUT,
        input=TaskInput,
        gated_inside=True,
        parallel_safe=True,
        timeout_s=None,  # its turns are bounded, and each of its calls
    )

    def __init__(self, delegates: Delegates, index: Callable[[], AgentIndex], background: Background | None) -> None:
        """`index` is that of the context that goes on."""
        self._delegates = delegates
        self._index = index
        self._background = background

    async def run(self, input: TaskInput, room: ToolRoom) -> Outcome:
        kind = self._find(input.subagent_type)
        is_isolated = kind.is_isolated or input.isolation is not None
        order = Order(kind, input.prompt, room.call_id, input.model, is_isolated)
        self._delegates.check(order)
        if input.run_in_background or kind.is_background:
            return self._begin(order, input.description)
        return await self._delegates.run(order, room.say)

    def preview(self, input: TaskInput) -> None:
        return None

    def _find(self, name: str) -> AgentKind:
        index = self._index()
        kind = index.find(name)
        if kind is None:
            near = get_close_matches(name.lower(), index.kinds, n=3) or list(index.kinds)[:20]
            raise ToolError(f"There is no agent {one_line(name, 100)!r}. Use one of: {', '.join(near)}.")
        return kind

    def _begin(self, order: Order, description: str) -> Outcome:
        if self._background is None:
            raise ToolError("Nothing can run in the background here: leave run_in_background out.")

        async def work(room: TaskRoom) -> Outcome:
            return await self._delegates.run(order, lambda text: room.take(text.encode()), room.task_id)

        task_id = self._background.start(f"{order.kind.name}: {description}", work, kind="agent")
        return Outcome(
            f"The subagent works in the background as {task_id}. You are told by yourself when it is done; until then"
            " go on with something else, or end your turn."
        )


def described(spec: ToolSpec, kinds: Iterable[AgentKind]) -> ToolDefinition:
    """The tool as a fresh context is told it, with the agents that there are."""
    definition = spec.definition()
    lines, left = [], ALL_LISTED_CHARS
    for kind in kinds:
        about = one_line(kind.description, LISTED_CHARS)
        line = f"- {kind.name}: {about}" if len(about) <= left else f"- {kind.name}"
        left -= len(line)
        lines.append(line)
    text = "\n".join([definition.description, "", "The agents:", *lines])
    return definition.model_copy(update={"description": text})
