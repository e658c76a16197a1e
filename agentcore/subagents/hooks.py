"""What the loop of a subagent is told by the user's hooks: those of its calls, and of its own beginning and end.

What is a person's (prompts), the session's or a whole run's is nothing of a subagent: hooks hear nothing of that here.
"""

from collections.abc import Sequence

from agentcore.events import CompactionTrigger
from agentcore.messages import ToolCall, ToolResult
from agentcore.ports.hooks import AfterCall, BeforeCall, Heard, Hooks, NoHooks
from agentcore.ports.permission import Answer, Ask
from agentcore.ports.tools import Outcome
from agentcore.subagents.circles import MAX_REPEATS, WITHIN_TURNS, Circles


class WentInCircles(Exception):
    """It makes the same calls again and again, and is not let go on."""


CIRCLES = (
    f"It was stopped: it made the same calls with the same results {MAX_REPEATS} times within {WITHIN_TURNS} turns."
    " Do not give the same task again as it is."
)


class SubagentHooks(NoHooks):
    """Satisfies the Hooks port over `hooks`, whose scripts are told already which subagent it is."""

    def __init__(self, hooks: Hooks, agent_id: str, agent_type: str) -> None:
        self._hooks = hooks
        self._id = agent_id
        self._type = agent_type
        self._circles = Circles()

    async def started(self) -> Heard:
        return await self._hooks.subagent_started(self._id, self._type)

    async def before_call(self, call: ToolCall) -> BeforeCall:
        return await self._hooks.before_call(call)

    async def permission_request(self, question: Ask) -> Answer | None:
        return await self._hooks.permission_request(question)

    async def after_call(self, call: ToolCall, outcome: Outcome, duration_ms: int) -> AfterCall:
        return await self._hooks.after_call(call, outcome, duration_ms)

    async def after_batch(self, results: Sequence[tuple[ToolCall, ToolResult]]) -> Heard:
        """Raises: WentInCircles."""
        heard = await self._hooks.after_batch(results)
        if self._circles.is_closed_by(results):
            raise WentInCircles
        return heard

    async def stopping(self, text: str, *, is_continued: bool) -> Heard:
        return await self._hooks.subagent_stopping(self._id, self._type, text, is_continued=is_continued)

    async def compacting(self, trigger: CompactionTrigger) -> Heard:
        return await self._hooks.compacting(trigger)

    def notify(self, kind: str, message: str) -> None:
        self._hooks.notify(kind, message)
