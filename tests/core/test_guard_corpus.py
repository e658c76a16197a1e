"""How much of the corpus the built-in scanner finds, and how much it finds that is none.

The corpus was written before the rules, a third of it was not looked at until they were done. `pytest -s` shows the
table.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest

from agentcore.guard.builtin import BuiltIn
from agentcore.guard.scanning import Finding
from tests.guard_texts import Case, corpus

FLOOR = 0.95
"""Of precision and recall over all kinds, for the part that was looked at and for the one that was not."""
FLOOR_OF_A_KIND = 0.85
"""The held-out part has as few as three of a kind: one miss among eight is no alarm."""


@dataclass(slots=True)
class Tally:
    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)

    @property
    def kinds(self) -> list[str]:
        return sorted(self.right | self.wrong | self.missed)

    def precision(self, *kinds: str) -> float:
        right, wrong = self._sum(self.right, kinds), self._sum(self.wrong, kinds)
        return right / (right + wrong)

    def recall(self, *kinds: str) -> float:
        right, missed = self._sum(self.right, kinds), self._sum(self.missed, kinds)
        return right / (right + missed)

    def _sum(self, counts: Counter[str], kinds: Sequence[str]) -> int:
        return sum(counts[kind] for kind in kinds or self.kinds)


@cache
def tally(*, is_held_out: bool) -> Tally:
    scanner, result = BuiltIn(), Tally()
    for case in corpus():
        if case.is_held_out == is_held_out:
            count(case, set(scanner.scan(case.text)), result)
    return result


def count(case: Case, found: set[Finding], result: Tally) -> None:
    """A finding is right when its kind and both of its ends are."""
    expected = set(case.expected)
    result.right.update(one.kind for one in expected & found)
    result.missed.update(one.kind for one in expected - found)
    result.wrong.update(one.kind for one in found - expected)


def table(part: Tally) -> str:
    rows = [(kind, part.precision(kind), part.recall(kind), part.right[kind]) for kind in part.kinds]
    rows.append(("all", part.precision(), part.recall(), part.right.total()))
    return "\n".join(f"{kind:12} precision {p:.3f}  recall {r:.3f}  found {n}" for kind, p, r, n in rows)


def test_the_corpus_is_as_large_as_it_must_be() -> None:
    cases = corpus()
    per_language = Counter(case.language for case in cases)
    assert len(cases) >= 220
    assert sum(1 for count in per_language.values() if count >= 40) >= 5
    assert sum(1 for case in cases if not case.expected) >= 100
    assert 0.25 <= sum(case.is_held_out for case in cases) / len(cases) <= 0.4


@pytest.mark.parametrize("is_held_out", [False, True], ids=["open", "held-out"])
def test_the_scanner_finds_what_is_in_the_corpus_and_little_else(is_held_out: bool) -> None:
    part = tally(is_held_out=is_held_out)
    print(f"\n{table(part)}")
    assert part.precision() >= FLOOR, table(part)
    assert part.recall() >= FLOOR, table(part)
    for kind in part.kinds:
        assert part.precision(kind) >= FLOOR_OF_A_KIND, table(part)
        assert part.recall(kind) >= FLOOR_OF_A_KIND, table(part)


@pytest.mark.parametrize("language", sorted({case.language for case in corpus()}))
def test_no_language_falls_behind(language: str) -> None:
    scanner, result = BuiltIn(), Tally()
    for case in corpus():
        if case.language == language:
            count(case, set(scanner.scan(case.text)), result)
    assert result.precision() >= FLOOR_OF_A_KIND, table(result)
    assert result.recall() >= FLOOR_OF_A_KIND, table(result)
