"""`python -m tests.benchmarks [WORD …]`: measure all, or the rows whose name holds one of the words.

The table goes to stdout, progress to stderr. Exit code 1 when a target is missed by more than noise.
"""

import sys
import time
from collections.abc import Callable, Iterator

from tests.benchmarks import (
    cancel,
    commands,
    connections,
    deltas,
    guard,
    lives,
    micro,
    sandbox,
    startup,
    streams,
    turns,
)
from tests.benchmarks.table import Row, Verdict, render

Measure = Callable[[], list[Row]]

MEASURES: dict[str, Measure] = {
    "startup": startup.startup,
    "publish": micro.publish,
    "load": micro.load,
    "turn": turns.turn,
    "body": turns.body,
    "guard": guard.guard,
    "sandbox": sandbox.sandbox,
    "command": commands.commands,
    "deltas": deltas.deltas,
    "cancel": cancel.cancel,
    "replay": streams.replay,
    "stalled": streams.stalled,
    "cycles": connections.cycles,
    "stop": connections.stop,
    "memory": streams.memory,
    "interleavings": lives.interleavings,
    "kills": lives.kills,
}


def main(words: list[str]) -> int:
    rows = list(_measured(words))
    print(render(rows))
    return 1 if any(row.verdict is Verdict.MISSED for row in rows) else 0


def _measured(words: list[str]) -> Iterator[Row]:
    for name, measure in MEASURES.items():
        if words and not any(word in name for word in words):
            continue
        began = time.monotonic()
        print(f"{name} …", end=" ", file=sys.stderr, flush=True)
        yield from measure()
        print(f"{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
