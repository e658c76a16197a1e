"""CPU and wall time of small pieces of code: the best of several rounds, since all noise is upward."""

import time
from collections.abc import Callable

ROUNDS = 7


def cpu_us(piece: Callable[[], object], times: int, rounds: int = ROUNDS) -> float:
    """CPU microseconds of one call, the best of `rounds` rounds of `times` calls."""
    return min(_round(piece, times) for _ in range(rounds)) * 1e6


def _round(piece: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        piece()
    return (time.process_time() - began) / times
