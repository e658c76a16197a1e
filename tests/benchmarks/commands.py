"""What a turn costs in which the model runs one trivial command, in a plain folder and in a git work tree.

The two take turns, so that the machine is as busy for the one as for the other. Medians.
"""

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import anyio

from server.live import LiveSession
from tests.benchmarks.table import Row, judge
from tests.fakes import House, call, house, say, use

ROUNDS = 60
FILES = 50
TARGET_MS = 15.0  # the contract's: one trivial tool turn over the model's own time
PROGRAMS = 3
"""In a work tree git is asked for the state before and after the command, and once for the index."""


def commands() -> list[Row]:
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as tree:
        plain_ms, tree_ms, git_ms = anyio.run(_measure, Path(plain), Path(tree))
    spawn_ms = statistics.median(_timed_ms(["/bin/bash", "-c", "true"], Path()) for _ in range(ROUNDS))
    limit = max(TARGET_MS, plain_ms + PROGRAMS * git_ms)
    return [
        Row(
            "a turn with one command",
            f"{plain_ms:.1f} ms",
            f"{spawn_ms:.1f} ms bare spawn",
            plain_ms / spawn_ms,
            f"<= {TARGET_MS:g} ms",
            judge(plain_ms, TARGET_MS),
        ),
        Row(
            f"the same in a git work tree of {FILES} files",
            f"{tree_ms:.1f} ms",
            f"{plain_ms:.1f} ms, git status {git_ms:.1f} ms",
            tree_ms / plain_ms,
            f"<= {TARGET_MS:g} ms, or {PROGRAMS} git status more",
            judge(tree_ms, limit),
        ),
    ]


async def _measure(plain: Path, tree: Path) -> tuple[float, float, float]:
    """Milliseconds of a turn in either place, and of one bare `git status`."""
    async with house(plain) as one, house(tree) as other:
        work = tree / "work"
        _make_repository(work)
        places = [(one, await one.session(mode="yolo")), (other, await other.session(mode="yolo"))]
        took: list[list[float]] = [[], [], []]
        for number in range(ROUNDS):
            for times, (home, live) in zip(took, places, strict=False):
                times.append(await _turn_ms(home, live, number))
            took[2].append(_timed_ms(["git", "status", "--porcelain"], work))
        plain_ms, tree_ms, git_ms = map(statistics.median, took)
        return plain_ms, tree_ms, git_ms


async def _turn_ms(home: House, live: LiveSession, number: int) -> float:
    home.provider.script(use(call("bash", f"c{number}", command="true")), say("Done."))
    began = time.perf_counter()
    accepted = live.prompt("Go on.")
    await live.outcome_of(accepted.prompt_id).wait()
    return (time.perf_counter() - began) * 1000


def _timed_ms(arguments: list[str], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run(arguments, cwd=folder, check=True, capture_output=True)
    return (time.perf_counter() - began) * 1000


def _make_repository(folder: Path) -> None:
    for number in range(FILES):
        (folder / f"{number}.txt").write_text("A line of text.\n" * 20)
    commit = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-qm", "x"]
    for arguments in (["git", "init", "-q", "."], ["git", "add", "-A"], commit):
        subprocess.run(arguments, cwd=folder, check=True, capture_output=True)
