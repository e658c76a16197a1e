"""What may enter the transcript as the input of a call."""

import random
from typing import Any

import pytest
from pydantic_core import from_json, to_json

from agentcore.caps import MAX_INPUT_DEPTH, bounded_input


def nested(depth: int, inner: Any = 1) -> dict[str, Any]:
    """`inner` in `depth` containers, objects and lists by turns."""
    for number in range(depth - 1):
        inner = [inner] if number % 2 else {"a": inner}
    return {"a": inner}


ACCEPTED: list[dict[str, Any]] = [
    {},
    {"a": 1, "b": [True, None, 2.5, "ü \N{GRINNING FACE} \0"], "": {}},
    {"number": 10**30},
    nested(MAX_INPUT_DEPTH),
    nested(MAX_INPUT_DEPTH - 1, inner={}),
]


@pytest.mark.parametrize("value", ACCEPTED, ids=range(len(ACCEPTED)))
def test_an_object_is_returned_as_it_is(value: dict[str, Any]) -> None:
    assert bounded_input(value) is value
    assert from_json(to_json({"around": [{"it": value}]})) == {"around": [{"it": value}]}


REFUSED: list[object] = [
    *[None, [], "text", 1, ()],
    nested(MAX_INPUT_DEPTH + 1),
    nested(MAX_INPUT_DEPTH, inner=[]),
    nested(5000),
    {"a": "\ud83d"},
    {"\udc00": 1},
    nested(10, inner="\udc00"),
    {"a": float("nan")},
    {"a": [float("inf")]},
    *[{"a": (1,)}, {"a": b""}, {"a": object()}, {1: "a"}],
]


@pytest.mark.parametrize("value", REFUSED, ids=range(len(REFUSED)))
def test_what_could_not_be_read_back_is_none(value: object) -> None:
    assert bounded_input(value) is None


def test_the_depth_is_that_of_the_deepest_branch() -> None:
    source = random.Random(7)
    for _ in range(200):
        depths = [source.randint(1, MAX_INPUT_DEPTH + 3) for _ in range(3)]
        value = {"branches": [nested(depth) for depth in depths]}
        assert (bounded_input(value) is None) == (max(depths) + 2 > MAX_INPUT_DEPTH), depths
