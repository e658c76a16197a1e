"""The tool `ask_user`: puts questions before a person. The gate asks; running means that they were answered.

What was answered comes as `answers` of the input. The result is what the person said, in words for the model.
"""

from agentcore.ports.tools import Outcome, ToolRoom, ToolSpec
from agentcore.questions import QuestionsInput


class AskUserTool:
    spec = ToolSpec(
        name="ask_user",
        description=(
            "Ask the user when you cannot go on without a decision that is theirs: up to four questions with options "
            "(without options: yes or no), or one question that is answered in words. The user may take days."
        ),
        input=QuestionsInput,
        read_only=True,
        timeout_s=None,  # operator-paced
        asks="question",
    )

    async def run(self, input: QuestionsInput, room: ToolRoom) -> Outcome:
        if not input.answers:
            return Outcome("Nobody answered. Decide for yourself, and say what you assumed.", is_error=True)
        if input.input is not None:
            return Outcome(f"The user answered: {input.answers.get(input.input, '')}")
        lines = [f"- {question}\n  {answer}" for question, answer in input.answers.items()]
        return Outcome("\n".join(["The user answered:", *lines]))

    def preview(self, input: QuestionsInput) -> str | None:
        return None
