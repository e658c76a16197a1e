"""A turn's own overhead at growing lengths of the conversation: through the loop, and in the request's bytes."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from agentcore.messages import Message, Text
from agentcore.ports.models import ModelRequest, ToolDefinition
from agentcore.providers.anthropic.body import encode_body
from agentcore.transcript import Transcript
from tests.benchmarks.table import Row, judge
from tests.benchmarks.timing import cpu_us
from tests.fakes import house, say

LENGTHS = (10, 1_000, 10_000)
RUNS = 30
TEXT = "Some words that somebody said. " * 8
TURN_LIMIT = 1.3  # "the same", with room for noise
US_PER_MESSAGE = 0.1
"""What each earlier message may add to a request: less than copying its bytes and far less than encoding it."""


def turn() -> list[Row]:
    costs = {length: anyio.run(_cpu_ms_of_run, length) for length in LENGTHS}
    return _rows("a run of one turn, {} messages", costs, lambda length: costs[LENGTHS[0]] * TURN_LIMIT, "the same")


def body() -> list[Row]:
    costs = {length: _cpu_ms_of_body(length) for length in LENGTHS}

    def limit(length: int) -> float:
        return costs[LENGTHS[0]] * TURN_LIMIT + length * US_PER_MESSAGE / 1000

    return _rows("request body, {} messages", costs, limit, "nothing encoded again")


def _rows(what: str, costs: dict[int, float], limit: Callable[[int], float], target: str) -> list[Row]:
    first = costs[LENGTHS[0]]
    return [
        Row(
            what.format(f"{length:,}"),
            f"{cost:.2f} ms",
            f"{first:.2f} ms at {LENGTHS[0]}",
            cost / first,
            target,
            judge(cost, limit(length)),
        )
        for length, cost in costs.items()
        if length != LENGTHS[0]
    ]


def _fill(transcript: Transcript, length: int) -> None:
    for number in range(0, length, 2):
        transcript.add_user(f"u{number}", (Text(text=TEXT),))
        transcript.add_assistant(Message(id=f"a{number}", role="assistant", content=(Text(text=TEXT),)))


async def _cpu_ms_of_run(length: int) -> float:
    """CPU of one prompt from acceptance to idle, journal, events and the check for compaction included."""
    best = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        async with house(Path(folder)) as home:
            home.provider.window = 10**9  # the size of the context is looked at with each turn, and nothing compacted
            live = await home.session()
            _fill(live.agent.history.transcript, length)
            for _ in range(RUNS):
                home.provider.script(say("Done."))
                home.provider.requests.clear()  # the fake keeps what it is asked, the transcript's copy with it
                began = time.process_time()
                accepted = live.prompt("Go on.")
                await live.outcome_of(accepted.prompt_id).wait()
                best = min(best, time.process_time() - began)
    return best * 1000


def _cpu_ms_of_body(length: int) -> float:
    """CPU of making the request of one more turn: two new messages, all others sent before."""
    transcript = Transcript()
    _fill(transcript, length)
    tool = ToolDefinition(name="read", description="Read a file.", input_schema={"type": "object", "properties": {}})

    def one_more() -> None:
        request = ModelRequest(
            model="m", system="Be brief.", tools=(tool,), messages=transcript.messages, encoded=transcript.encoded
        )
        encode_body(request, "anthropic")
        number = len(request.messages)
        transcript.add_user(f"u{number}", (Text(text=TEXT),))
        transcript.add_assistant(Message(id=f"a{number}", role="assistant", content=(Text(text=TEXT),)))

    one_more()
    return cpu_us(one_more, times=1, rounds=RUNS) / 1000
