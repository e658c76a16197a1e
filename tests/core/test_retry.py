"""What is done about a failed model call, as tables: how often, how long, whom next."""

from typing import get_args

import anyio
import pytest

from agentcore.candidates import Candidate, CoolDowns, choose
from agentcore.clock import wait_for
from agentcore.errors import ProviderError, ProviderErrorKind
from agentcore.retry import LONGEST_WAIT_S, attempts_for, back_off_s, cool_down_s, wait_s
from tests.fakes import FakeClock, FakeProvider

KINDS: dict[ProviderErrorKind, tuple[int, float | None]] = {
    # kind: how often one model is asked, and how long it is left alone then (None: no other model is asked)
    "auth": (1, 600.0),
    "invalid_request": (1, None),
    "not_found": (1, 600.0),
    "context_overflow": (1, None),
    "request_too_large": (1, None),
    "rate_limit": (4, 60.0),
    "quota": (1, 600.0),
    "overloaded": (4, 60.0),
    "server_error": (4, 60.0),
    "tool_use_failed": (1, None),
    "stream_truncated": (4, 600.0),
    "network": (4, 60.0),
    "stalled": (2, 60.0),
    "cancelled": (1, None),
}


def asked(kind: ProviderErrorKind) -> int:
    """How often a model is asked that fails like this each time."""
    attempts = 1
    while wait_s(ProviderError(kind, "x"), attempts, lambda: 1.0) is not None:
        attempts += 1
    return attempts


def test_the_table_names_every_kind() -> None:
    assert set(KINDS) == set(get_args(ProviderErrorKind))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_asked_again_and_left_alone_as_the_table_says(kind: ProviderErrorKind) -> None:
    assert (asked(kind), cool_down_s(ProviderError(kind, "x"))) == KINDS[kind]


def test_a_sentence_about_attempts_never_promises_more_than_there_are() -> None:
    retried = {kind: attempts for kind, (attempts, _) in KINDS.items() if attempts > 1}
    assert {kind: attempts_for(kind) for kind in retried} == retried


def test_the_back_off_doubles_up_to_its_cap() -> None:
    assert [back_off_s(attempts) for attempts in range(1, 10)] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


WAITS = [
    # attempts so far, chance, retry-after, what is waited
    (1, 1.0, None, 0.5),
    (1, 0.0, None, 0.0),
    (3, 0.25, None, 0.5),
    (1, 1.0, 0.2, 0.5),
    (1, 1.0, 7.0, 7.0),
    (1, 0.0, 90.0, 90.0),
    (1, 1.0, LONGEST_WAIT_S, LONGEST_WAIT_S),
    (1, 1.0, LONGEST_WAIT_S + 1, None),
    (4, 1.0, 7.0, None),
]


@pytest.mark.parametrize(("attempts", "chance", "retry_after", "waited"), WAITS)
def test_the_vendors_wish_is_a_floor_and_a_very_long_one_is_not_waited_for(
    attempts: int, chance: float, retry_after: float | None, waited: float | None
) -> None:
    error = ProviderError("rate_limit", "x", retry_after_s=retry_after)
    assert wait_s(error, attempts, lambda: chance) == waited


COOL_DOWNS = [(None, 60.0), (5.0, 60.0), (200.0, 200.0), (86_400.0, 600.0)]


@pytest.mark.parametrize(("retry_after", "seconds"), COOL_DOWNS)
def test_a_cool_down_lasts_as_long_as_the_vendor_asks_within_bounds(retry_after: float | None, seconds: float) -> None:
    assert cool_down_s(ProviderError("rate_limit", "x", retry_after_s=retry_after)) == seconds


A, B, C = (Candidate(FakeProvider(name), "m") for name in "abc")

CHOICES = [
    # cooling, tried, chosen
    ((), (), A),
    ((A,), (), B),
    ((A, B), (), C),
    ((A, B, C), (), A),
    ((A,), (A,), B),
    ((A, B), (A,), C),
    ((A, B, C), (A,), None),
    ((B,), (B,), A),
    ((), (A, B, C), None),
]


@pytest.mark.parametrize(("cooling", "tried", "chosen"), CHOICES)
def test_the_first_model_that_may_be_asked_is_chosen(
    cooling: tuple[Candidate, ...], tried: tuple[Candidate, ...], chosen: Candidate | None
) -> None:
    cool_downs = CoolDowns(FakeClock())
    for candidate in cooling:
        cool_downs.begin(candidate, 60)
    assert choose((A, B, C), cool_downs, tried) == chosen


def test_a_cool_down_ends_by_itself_and_is_never_shortened() -> None:
    clock = FakeClock()
    cool_downs = CoolDowns(clock)
    cool_downs.begin(A, 600)
    cool_downs.begin(A, 60)
    assert cool_downs.left_s(A) == 600
    clock.time += 599
    assert cool_downs.left_s(A) == 1
    clock.time += 1
    assert (cool_downs.left_s(A), cool_downs.left_s(B)) == (0, 0)


def test_an_answer_ends_a_cool_down() -> None:
    cool_downs = CoolDowns(FakeClock())
    cool_downs.begin(A, 600)
    cool_downs.end(A)
    assert cool_downs.left_s(A) == 0


@pytest.mark.anyio
async def test_a_wait_ends_with_its_event_or_its_time() -> None:
    event = anyio.Event()
    with anyio.fail_after(5):
        assert await wait_for(event, 0.001) is False
        event.set()
        assert await wait_for(event, 3600) is True
