"""What the guard's scan of 100,000 characters costs: text as sessions have it, and text that is worst for its rules."""

import re
from functools import partial

from agentcore.guard.builtin import BuiltIn
from tests.benchmarks.table import Row, judge
from tests.benchmarks.timing import cpu_us
from tests.guard_texts import adversarial, ordinary

LIMIT_MS = 50.0
WORST_LIMIT_MS = 10 * LIMIT_MS
SHOWN = 5
"""Of the texts that are bad on purpose, the worst."""

_WORDS = re.compile(r"\w+")


def guard() -> list[Row]:
    scanner = BuiltIn()
    usual = {name: _ms(scanner, text) for name, text in ordinary().items()}
    bad = {name: _ms(scanner, text) for name, text in adversarial().items()}
    words = {name: cpu_us(partial(_WORDS.findall, text), 1) / 1000 for name, text in ordinary().items()}
    worst = sorted(bad, key=bad.__getitem__, reverse=True)[:SHOWN]
    base = max(usual.values())
    return [
        *(
            _row(name, cost, f"{words[name]:.1f} ms to find its words", cost / words[name], LIMIT_MS)
            for name, cost in usual.items()
        ),
        *(
            _row(f"worst: {name}", bad[name], f"{base:.1f} ms the dearest above", bad[name] / base, WORST_LIMIT_MS)
            for name in worst
        ),
    ]


def _ms(scanner: BuiltIn, text: str) -> float:
    return cpu_us(partial(scanner.scan, text), 1, rounds=2) / 1000


def _row(name: str, cost: float, baseline: str, ratio: float, limit: float) -> Row:
    return Row(f"guard 100 KB, {name}", f"{cost:.1f} ms", baseline, ratio, f"<= {limit:g} ms", judge(cost, limit))
