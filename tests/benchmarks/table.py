"""One figure beside its baseline, and the table of all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    HELD = "yes"
    NEAR = "nearly"
    """Missed by less than the noise of a busy machine: told, but no failure."""
    MISSED = "NO"


SLACK = 1.5  # a busy machine's noise, above which a target counts as clearly missed


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    measured: str
    baseline: str
    ratio: float
    """Measured over baseline; NaN where the two have no common unit."""
    target: str
    verdict: Verdict


def judge(value: float, limit: float) -> Verdict:
    """Compare a figure with the most it may be."""
    if value <= limit:
        return Verdict.HELD
    return Verdict.NEAR if value <= limit * SLACK else Verdict.MISSED


def worst(*verdicts: Verdict) -> Verdict:
    order = list(Verdict)
    return max(verdicts, key=order.index)


def render(rows: Sequence[Row]) -> str:
    heads = ("what", "measured", "baseline", "ratio", "target", "held?")
    cells = [heads, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if math.isnan(row.ratio) else f"{row.ratio:.2f}"
    return row.what, row.measured, row.baseline, ratio, row.target, row.verdict.value
