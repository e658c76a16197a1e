"""Random walks: lists of moves that Hypothesis chooses, and shortens when one of them breaks something."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

from tests.property.life import Life

Move = tuple[str, tuple[Any, ...]]
Walk = tuple[dict[str, Any], list[Move]]

SHORTEST, LONGEST = 40, 100  # moves: enough for a few runs with kills between them; every second has no place

BATCH = 10  # from the eleventh example on Hypothesis varies what it has seen: fresh walks reach more

which = st.integers(0, 3)
then = st.sampled_from(["all"] * 12 + ["nothing"] * 6 + ["kill"] + ["some"] * 2)
"""What happens behind a move before the next one: everything goes on until it waits, or less, or a kill."""

_TOOLS = st.lists(st.sampled_from(["look", "change", "hand_over"]), min_size=1, max_size=3)
_MORE = st.sampled_from(["look", "change", "hand_over", "begin", "begin", "delegate", "delegate", "delegate_behind"])
Moves = list[tuple[int, str, tuple[st.SearchStrategy[Any], ...]]]
_MOVES: Moves = [
    (3, "time_goes_on", (st.integers(0, 5),)),
    (9, "prompt", (st.sampled_from(["reject", "queue", "steer", "interrupt"]), then)),
    (6, "model_answers", (then,)),
    (
        8,
        "model_calls_tools",
        (_TOOLS, then),
    ),
    (2, "model_fails", (st.sampled_from(["overloaded", "network", "auth", "invalid_request"]), then)),
    (1, "model_shows_a_word", (then,)),
    (8, "a_tool_ends", (which, st.sampled_from(["done", "failed"]), then)),
    (7, "answer", (which, st.booleans(), st.booleans(), then)),
    (5, "answer_from_outside", (which, st.booleans(), then)),
    (3, "change_the_queue", (which, st.sampled_from(["edit", "reorder", "remove"]))),
    (1, "send_a_prompt_again", (which,)),
    (1, "cancel", (then,)),
    (2, "suspend", (then,)),
    (5, "resume", (then,)),
    (1, "clear", ()),
    (1, "compact", ()),
    (1, "change_who_is_there", (st.sampled_from(["wait", "defer", "deny"]),)),
    (1, "a_minute_passes", ()),
    (3, "come_or_go", ()),
    (1, "kill", (st.integers(0, 4), st.booleans())),
    (1, "stop_and_start", ()),
    (1, "delete_and_load", ()),
]
"""Each with how often it is chosen, among all of them."""


_BESIDE: Moves = [
    (9, "prompt", (st.sampled_from(["reject", "queue", "steer", "interrupt"]), then)),
    (24, "model_calls_tools", (st.lists(_MORE, min_size=2, max_size=5), then)),
    (12, "subagent_answers", (which, then)),
    (18, "subagent_calls_tools", (which, _TOOLS, then)),
    (3, "subagent_fails", (which, st.sampled_from(["overloaded", "auth"]), then)),
    (12, "a_task_ends", (which, st.sampled_from(["done", "failed"]), then)),
    (3, "stop_a_task", (which,)),
]
"""What there is besides where work goes on beside the main agent."""


@st.composite
def moves(draw: st.DrawFn, given: Moves) -> Move:
    name, arguments = draw(st.sampled_from([move[1:] for move in given for _ in range(move[0])]))
    return name, tuple(draw(argument) for argument in arguments)


_BEGINNINGS = st.fixed_dictionaries(
    {"unattended": st.sampled_from(["wait", "defer"]), "expires": st.booleans(), "reads": st.booleans()}
)
walks: st.SearchStrategy[Walk] = st.one_of(
    st.tuples(_BEGINNINGS, st.lists(moves(given), min_size=SHORTEST, max_size=LONGEST))
    for given in (_MOVES, _MOVES + _BESIDE)
)


def take(walk: Walk) -> None:
    """Take a walk, and let the session come to its rest."""
    beginning, moves = walk
    with tempfile.TemporaryDirectory(prefix="property-") as folder:
        life = Life(Path(folder), **beginning)
        try:
            for name, arguments in moves:
                note(f"life.{name}({', '.join(map(repr, arguments))})")
                getattr(life, name)(*arguments)
                life.check()
            life.come_to_rest()
        finally:
            life.world.close()


def take_many(batches: range) -> int:
    """Take BATCH walks for each of these seeds; return how many were taken."""
    taken = 0

    @settings(max_examples=BATCH, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(walks)
    def taking(walk: Walk) -> None:
        nonlocal taken
        taken += 1
        take(walk)

    for number in batches:
        seed(number)(taking)()
    return taken
