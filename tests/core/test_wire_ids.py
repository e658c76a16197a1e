"""No two calls become one on the wire, whatever their ids are and whichever vendor is asked."""

import json
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from agentcore.messages import Message, Text, ToolCall, ToolResult
from agentcore.ports.models import ModelRequest
from agentcore.providers.anthropic.body import encode_body as anthropic_body
from agentcore.providers.compatible.body import encode_body as compatible_body
from agentcore.providers.compatible.dialects import Dialect
from agentcore.providers.ids import NINE, PRINTABLE, USUAL, wire_id
from agentcore.providers.ollama.body import encode_body as ollama_body
from agentcore.providers.ollama.model import UNKNOWN
from agentcore.providers.openai.body import encode_body as openai_body

IDS = ["a_b", "a.b", "a b", "a-b", "", "_", "\n", "ключ", "functions.ls:0", "x" * 64, "x" * 65, "x" * 10_000, "9" * 9]


def test_an_id_that_is_legal_stays_as_it_is() -> None:
    assert [wire_id(each) for each in ("a_b", "toolu_01", "x" * 64)] == ["a_b", "toolu_01", "x" * 64]
    assert wire_id("functions.ls:0", PRINTABLE) == "functions.ls:0"
    assert wire_id("123456789", NINE, 9) == "123456789"


@pytest.mark.parametrize(("legal", "chars"), [(USUAL, 64), (PRINTABLE, 64), (NINE, 9)])
def test_all_others_become_legal_ones_of_their_own(legal: re.Pattern[str], chars: int) -> None:
    sent = [wire_id(each, legal, chars) for each in IDS]
    assert all(map(legal.fullmatch, sent))
    assert len(set(sent)) == len(IDS)


def test_a_lone_surrogate_is_no_obstacle() -> None:
    assert wire_id("\ud800") != wire_id("\ud801")


def ids_in(value: Any, names: tuple[str, ...]) -> list[str]:
    """All values under these names, in order."""
    if isinstance(value, list):
        return [found for item in value for found in ids_in(item, names)]
    if not isinstance(value, dict):
        return []
    own = [value[name] for name in names if isinstance(value.get(name), str)]
    return own + [found for member in value.values() for found in ids_in(member, names)]


BODIES: dict[str, tuple[Callable[[ModelRequest], bytes], tuple[str, ...], tuple[str, ...]]] = {
    "anthropic": (lambda request: anthropic_body(request, "p"), ("id",), ("tool_use_id",)),
    "openai": (lambda request: openai_body(request, "p"), ("call_id",), ("call_id",)),
    "compatible": (lambda request: compatible_body(request, "p", Dialect()), ("id",), ("tool_call_id",)),
    "mistral": (lambda request: compatible_body(request, "p", Dialect(is_strict=True)), ("id",), ("tool_call_id",)),
    "ollama": (lambda request: ollama_body(request, "p", UNKNOWN, 1), ("id",), ("tool_call_id",)),
}
"""How a request is written, and under which names its calls and its results have their ids."""


@pytest.mark.parametrize("vendor", BODIES)
def test_calls_and_results_keep_their_pairs(vendor: str) -> None:
    encode, of_calls, of_results = BODIES[vendor]
    calls = tuple(ToolCall(id=each, name="ls", input={}) for each in IDS)
    results = tuple(ToolResult(call_id=each, content=f"{number}") for number, each in enumerate(IDS))
    messages = [
        Message(id="1", role="user", content=(Text(text="x"),)),
        Message(id="2", role="assistant", content=calls),
        Message(id="3", role="user", content=results),
    ]
    body = json.loads(encode(ModelRequest("m", "", (), messages)))
    found = {side: ids_in(body, names) for side, names in (("calls", of_calls), ("results", of_results))}
    if of_calls == of_results:
        found = {"calls": found["calls"][: len(IDS)], "results": found["results"][len(IDS) :]}
    assert found["calls"] == found["results"]
    assert len(set(found["calls"])) == len(IDS)
    assert max(map(len, found["calls"])) <= 64


def test_the_fingerprints_of_short_ids_do_not_meet() -> None:
    ids = [f"{a}.{b}" for a, b in product(range(100), range(100))]
    assert len({wire_id(each, NINE, 9) for each in ids}) == len(ids)
