"""What prompts and runs come to: the values that callers are given."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from agentcore.events import Done, Error, StopReason
from agentcore.sessions.records import Disposition
from agentcore.usage import Usage


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended."""

    run_id: str
    prompt_id: str
    stop_reason: StopReason
    text: str
    usage: Usage
    turns: int
    cost_usd: float | None = None
    """The price of `usage`; None when that of one call is not known."""
    structured: dict[str, JsonValue] | None = None
    """The answer as `output_schema` describes it, checked; None where none was asked for or given."""
    error: Error | None = None
    steered: tuple[str, ...] = ()
    """Ids of the prompts that it took while it went on: its end is theirs."""


def result_of(done: Done, error: Error | None, steered: Sequence[str] = ()) -> RunResult:
    """What a run came to, by its `done`; `steered` are the prompts that it took."""
    return RunResult(
        run_id=done.run_id,
        prompt_id=done.prompt_id or "",
        stop_reason=done.stop_reason,
        text=done.text,
        usage=done.usage,
        turns=done.turns,
        cost_usd=done.cost_usd,
        structured=done.structured,
        error=error,
        steered=tuple(steered),
    )


def removed_prompt(prompt_id: str) -> RunResult:
    """What a prompt came to that was taken out of the queue."""
    error = Error(code="prompt_removed", text="The prompt was removed from the queue before its run began.")
    return RunResult("", prompt_id, "interrupted", "", Usage(), 0, error=error)


@dataclass(frozen=True, slots=True)
class Earlier:
    """A prompt whose submission came again."""

    prompt_id: str
    after_seq: int
    """The last number before it was accepted."""
    disposition: Disposition
    result: RunResult | None
    """What it came to; None while it has not ended."""
