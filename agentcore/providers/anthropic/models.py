"""What Claude models take.

From the vendor's pages on models, thinking, effort and structured outputs and its SDK 2.14, as of November 2026. Newer
models are taken for like the newest here. A name that is none of Claude's belongs to a compatible server.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

EFFORTS = ("low", "medium", "high", "xhigh", "max")

Thinks = Literal["never", "budget", "asked", "always"]
"""How reasoning is had: not at all; with a budget in tokens; adaptive where it is asked for; adaptive by default."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What may be sent to a model without a refusal."""

    max_tokens: int
    """The answer's length to ask for when the caller names none; at most the model's own limit."""
    thinks: Thinks = "never"
    efforts: Sequence[str] = ()
    """For `output_config.effort`; empty where the field is refused."""
    has_temperature: bool = True
    has_schema: bool = False
    """Takes `output_config.format`."""


_NEWEST = Abilities(64_000, "always", EFFORTS, has_temperature=False, has_schema=True)
_MODELS: tuple[tuple[str, Abilities], ...] = (
    # 64,000 is the lowest output limit since 4.5. Models before refuse input + max_tokens above their window, so they
    # are asked for less.
    (r"claude-opus-4-[78]", Abilities(64_000, "asked", EFFORTS, has_temperature=False, has_schema=True)),
    (r"claude-(opus|sonnet)-4-6", Abilities(64_000, "asked", ("low", "medium", "high", "max"), has_schema=True)),
    (r"claude-opus-4-5", Abilities(64_000, "budget", ("low", "medium", "high"), has_schema=True)),
    (r"claude-(sonnet|haiku)-4-5", Abilities(64_000, "budget", has_schema=True)),
    (r"claude-(opus|sonnet)-4|claude-3-7", Abilities(32_000, "budget")),
    (r"claude-3-5", Abilities(8_192)),
    (r"claude-[23]", Abilities(4_096)),
    (r"claude-mythos-preview", Abilities(64_000, "always", ("low", "medium", "high", "max"), False, True)),
    (r"claude-[a-z]+-([5-9]|\d\d)(?!\d)", _NEWEST),
)
"""By how a name begins; the first that fits."""
_ELSEWHERE = Abilities(8_192, efforts=EFFORTS)
"""Models behind a compatible server: often small, and nothing is sent to them that nobody asked for."""

BUDGETS = {"low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 32_000}
"""Thinking tokens; above 32,000 the vendor sees little gain. The steps between are ours."""
MIN_BUDGET = 1_024  # the vendor's


def abilities(model: str) -> Abilities:
    """Look a model up; gateways write dots for dashes and put their own words in front."""
    found = re.search(r"claude-.*", model.lower().replace(".", "-"))
    name = found[0] if found else ""
    return next((able for pattern, able in _MODELS if re.match(pattern, name)), _ELSEWHERE)


def effort_for(able: Abilities, effort: str) -> str | None:
    """The highest level that the model takes, up to the one that was asked for; None where it takes none.

    A level that is not known here is passed on, for the vendor to judge.
    """
    if not able.efforts or effort not in EFFORTS:
        return effort if able.efforts else None
    lower = EFFORTS[: EFFORTS.index(effort) + 1]
    return next(level for level in reversed(lower) if level in able.efforts)


def budget_for(effort: str, max_tokens: int) -> int | None:
    """Thinking tokens that leave half of the answer's length for the answer; None where that is too few to think."""
    budget = min(BUDGETS.get(effort, BUDGETS["high"]), max_tokens // 2)
    return budget if budget >= MIN_BUDGET else None
