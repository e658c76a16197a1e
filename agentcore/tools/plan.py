"""The tool `exit_plan_mode`: puts a plan before a person. The gate asks; running means that it was approved."""

from typing import Annotated

from pydantic import AfterValidator, Field

from agentcore.ports.tools import Outcome, ToolRoom, ToolSpec
from agentcore.tools.inputs import Plain
from agentcore.values import Value


def _not_blank(plan: str) -> str:
    if not plan.strip():
        raise ValueError("the plan is empty: write down what you want to do")
    return plan


class PlanInput(Value):
    plan: Annotated[Plain, AfterValidator(_not_blank)] = Field(description="The whole plan, in Markdown.")
    """Judged before the gate: nobody is asked about an empty plan."""


class PlanTool:
    spec = ToolSpec(
        name="exit_plan_mode",
        description=(
            "Present your plan for approval when you have planned enough and want to begin. "
            "A person reads it and decides; change nothing before."
        ),
        input=PlanInput,
        read_only=True,
        timeout_s=None,
        asks="plan",
    )

    async def run(self, input: PlanInput, room: ToolRoom) -> Outcome:
        return Outcome("The plan was approved. Carry it out now.")

    def preview(self, input: PlanInput) -> None:
        return None
