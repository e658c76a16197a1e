"""What the main agent is told of a subagent's end."""

from collections.abc import Mapping

from agentcore.events import StopReason

NO_ANSWER = "(the subagent ended without a word)"
_ENDS: Mapping[StopReason, str] = {
    "budget": "It was stopped: the budget of the session is used up.",
    "hook_stopped": "It was stopped by a hook of the user.",
    "interrupted": "It was interrupted.",
    "max_tokens": "Its last message was cut at its limit of tokens.",
    "max_turns": "It was stopped: it made as many model calls as it may.",
    "refusal": "The model refused to go on.",
    "suspended": "It was stopped, because the session is being suspended. It cannot be gone on with.",
}
"""Of every way to end but the good one."""


def result(text: str, reason: StopReason) -> str:
    """Its last words, and how it ended where that was not by itself."""
    if reason == "end_turn":
        return text or NO_ANSWER
    return with_remark(text, _ENDS.get(reason, f"It ended early: {reason}."))


def failed(text: str, why: str) -> str:
    return with_remark(text, f"It failed: {why}")


def with_remark(text: str, remark: str) -> str:
    said = f"What it said last:\n{text}\n\n" if text else ""
    return f"{said}[{remark}]"
