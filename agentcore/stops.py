"""What the loop does with each reason for which a model stops. A table; what is not in it ends the run.

An adapter whose vendor reports a wrong reason corrects it in the adapter, not here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from agentcore.events import StopReason
from agentcore.messages import Block, ToolCall


class Next(Enum):
    END = auto()
    """The run ends; the message keeps its text but not its tool calls."""
    TOOLS = auto()
    """Run the tool calls, then the next turn."""
    AGAIN = auto()
    """The next turn, with the message as it is."""
    FAIL = auto()
    """The run ends with an error; the message keeps its text but not its tool calls."""


@dataclass(frozen=True, slots=True)
class Verdict:
    next: Next
    reason: StopReason = "error"
    code: str = ""
    """Of the error, with FAIL."""
    text: str = ""


OVERFLOW = Verdict(
    Next.FAIL,
    code="context_window_exceeded",
    text="The conversation no longer fits the model's context window. Clear the session or start a new one.",
)

_STOPS: dict[str, Verdict] = {
    "end_turn": Verdict(Next.END, "end_turn"),
    "stop_sequence": Verdict(Next.END, "end_turn"),
    "": Verdict(Next.END, "end_turn"),
    "tool_use": Verdict(Next.TOOLS),
    "max_tokens": Verdict(Next.END, "max_tokens"),
    "refusal": Verdict(Next.END, "refusal"),
    "pause_turn": Verdict(Next.AGAIN),
    "model_context_window_exceeded": OVERFLOW,
}

_TOLD: dict[str, str] = {
    "MALFORMED_FUNCTION_CALL": "{model} made a tool call that could not be read. Send the prompt again.",
}
_UNKNOWN = (
    "{model} stopped for a reason that is not known here: {stop}. The run ends to be safe; send the prompt again, or"
    " use another model."
)
"""Of the stop words that end a run as unexpected: those with a sentence of their own, and the rest."""

_MISSING_TOOL_CALL = Verdict(
    Next.FAIL,
    # Never asked again: with nothing to answer the next request would be identical.
    code="missing_tool_call",
    text="The model stopped to use a tool but named none. Send the prompt again, or use another model.",
)


_EMPTY_PAUSE = Verdict(
    Next.FAIL,
    # Never asked again, for the same reason.
    code="unexpected_stop_reason",
    text="The model paused without having said anything. Send the prompt again.",
)


def judge(stop: str, content: Sequence[Block], model: str = "The model") -> Verdict:
    """Say how the run goes on after a call to a model that stopped for `stop` with this content."""
    has_calls = any(isinstance(block, ToolCall) for block in content)
    verdict = _STOPS.get(stop)
    if verdict is None:
        text = _TOLD.get(stop, _UNKNOWN).format(model=model, stop=repr(stop[:80]))
        return Verdict(Next.FAIL, code="unexpected_stop_reason", text=text)
    if verdict.next is Next.TOOLS and not has_calls:
        return _MISSING_TOOL_CALL
    if verdict.next is Next.AGAIN:
        if has_calls:
            return _STOPS["tool_use"]  # open calls are answered before anything is sent again
        return verdict if content else _EMPTY_PAUSE
    return verdict
