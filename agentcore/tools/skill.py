"""The tool `skill`: loads ready-made instructions when a task is what they are for."""

from collections.abc import Awaitable, Callable
from difflib import get_close_matches

from pydantic import Field

from agentcore.caps import HARD_LIMIT_BYTES
from agentcore.permissions.names import named_word
from agentcore.ports.tools import Outcome, ToolError, ToolRoom, ToolSpec
from agentcore.skills.expanding import Invocation, SkillAborted
from agentcore.skills.skill import SkillIndex
from agentcore.tools.inputs import Plain
from agentcore.values import Value


class SkillInput(Value):
    name: Plain = Field(min_length=1, max_length=400, description="One of the skills in your instructions.")
    args: Plain = Field(default="", max_length=20_000, description="What the skill is to be used with, if anything.")


class SkillTool:
    """There only where there are skills that a model may load."""

    spec = ToolSpec(
        name="skill",
        description=(
            "Load a skill: instructions for a kind of task, which you then follow. The skills are listed by name in "
            "your system prompt, each with what it is for."
        ),
        input=SkillInput,
        read_only=True,
        timeout_s=None,  # the commands in a skill have the time that commands have
        output_limit_bytes=HARD_LIMIT_BYTES,  # a skill is never cut: half of an instruction says something else
    )

    def __init__(self, index: Callable[[], SkillIndex], expanded: Callable[[Invocation], Awaitable[str]]) -> None:
        """`index` is that of the context that goes on. `expanded` raises SkillAborted."""
        self._index = index
        self._expanded = expanded

    async def run(self, input: SkillInput, room: ToolRoom) -> Outcome:
        skills = {name: skill for name, skill in self._index().skills.items() if skill.is_for_model}
        skill = skills.get(named_word(input.name))
        if skill is None:
            near = ", ".join(get_close_matches(input.name, skills, n=3))
            raise ToolError(f"There is no skill {input.name}." + (f" Close names: {near}." if near else ""))
        try:
            return Outcome(await self._expanded(Invocation(skill, input.args)))
        except SkillAborted as error:
            raise ToolError(str(error)) from error

    def preview(self, input: SkillInput) -> None:
        return None
