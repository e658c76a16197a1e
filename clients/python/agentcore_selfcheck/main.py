"""`agentcore selfcheck`: one check after the other, each with a server and folders of its own."""

import logging
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

import anyio
import httpx

from agentcore_selfcheck.checks.approval import approval
from agentcore_selfcheck.checks.borders import borders
from agentcore_selfcheck.checks.confinement import confinement
from agentcore_selfcheck.checks.flood import flood
from agentcore_selfcheck.checks.replay import replay
from agentcore_selfcheck.folders import own_folder
from agentcore_selfcheck.showing import Board, Row
from agentcore_selfcheck.verdicts import Broken, Check, Missing

logger = logging.getLogger(__name__)

LIMIT_S = 60.0
"""For one check."""
CHECKS = (
    Check("an approval outlives the server", approval),
    Check("a reader who was cut off misses nothing", replay),
    Check("nobody gets in", borders),
    Check("no reader slows another", flood),
    Check("commands stay in their folder", confinement),
)


def main() -> int:
    """Try every promise; return 0 when all held, 1 when one is broken or could not be checked."""
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _interrupt)  # else a server of its own would be left behind
    board = Board(CHECKS)
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(own_folder())
        except OSError as error:
            sys.stderr.write(
                f"agentcore: The self-check has no place for its files: {error.filename}: {error.strerror}.\n"
            )
            return 1
        stack.enter_context(board.shown())
        for number, row in enumerate(board.rows):
            with board.running(row):
                anyio.run(_try, row, folder / str(number))
    return 0 if all(row.verdict == "held" for row in board.rows) else 1


def _interrupt(number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


async def _try(row: Row, folder: Path) -> None:
    def say(what: str) -> None:
        row.detail = what

    try:
        with anyio.fail_after(LIMIT_S):
            row.detail = await row.check.run(folder, say)
        row.verdict = "held"
    except Missing as error:
        row.verdict, row.detail = "not tried", str(error)
    except Broken as error:
        row.verdict, row.detail = "BROKEN", str(error)
    except httpx.HTTPError as error:
        row.verdict, row.detail = "BROKEN", f"the server did not answer: {type(error).__name__} (at: {row.detail})"
    except TimeoutError:
        row.verdict, row.detail = "BROKEN", f"it was not done after {LIMIT_S:.0f} s (at: {row.detail})"
    except Exception as error:  # whatever breaks in one check, the others are made and the table is printed
        row.verdict, row.detail = "unclear", f"could not be checked: {error!r} (at: {row.detail})"
        logger.exception("the check %r broke", row.check.promise)
