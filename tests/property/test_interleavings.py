"""A few hundred random lives of a session, the same ones each time: nothing is lost, doubled or half done."""

import pytest

from tests.property.walks import BATCH, take_many

BATCHES = 6  # for each part


@pytest.mark.parametrize("part", range(6))
def test_no_order_of_moves_loses_doubles_or_halves_anything(part: int) -> None:
    seeds = range(part * BATCHES, (part + 1) * BATCHES)
    print("seeds", seeds)
    assert take_many(seeds) == BATCHES * BATCH
