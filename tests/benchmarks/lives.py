"""How long nothing goes wrong: many random lives of a session, and many kills of a real server. One violation fails."""

import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import anyio

from tests.benchmarks.table import Row, Verdict
from tests.crash.test_sweep import KILLS_OF_A_SEED, kill_often, telling
from tests.property.walks import BATCH, take_many

T = TypeVar("T")
WALKS = 10_000  # the contract's number
KILLS = 300  # the contract's number
PROCESSES = 2  # the machine that the contract speaks of
PIECE = 10  # batches between two words of progress
FIRST_SEED = 1_000  # the ordinary run has those before


def interleavings() -> list[Row]:
    last = FIRST_SEED + WALKS // BATCH
    pieces = [range(first, min(first + PIECE, last)) for first in range(FIRST_SEED, last, PIECE)]
    return [_row("random lives of a session", "walks", _count(take_many, pieces, WALKS), WALKS)]


def kills() -> list[Row]:
    seeds = range(FIRST_SEED, FIRST_SEED + KILLS // KILLS_OF_A_SEED)
    return [_row("kills of a server at random points", "kills", _count(_kill, seeds, KILLS), KILLS)]


def _kill(number: int) -> int:
    with tempfile.TemporaryDirectory() as folder, telling(Path(folder)) as server:
        anyio.run(kill_often, server, number)
    return KILLS_OF_A_SEED


def _count(work: Callable[[T], int], pieces: Sequence[T], of: int) -> int:
    """Do the pieces side by side, tell how many were done; a violation in one of them is raised here."""
    began, done = time.monotonic(), 0
    with get_context("spawn").Pool(PROCESSES) as pool:
        for number in pool.imap_unordered(work, pieces):
            done += number
            print(f"\n{done:,} of {of:,} in {time.monotonic() - began:.0f} s", end=" ", file=sys.stderr, flush=True)
    return done


def _row(what: str, unit: str, done: int, wanted: int) -> Row:
    verdict = Verdict.HELD if done >= wanted else Verdict.MISSED
    return Row(what, f"{done:,} {unit}, 0 violations", "", math.nan, f">= {wanted:,}", verdict)
