"""Tickets: once, for a short time, for one session, and never many."""

import pytest

from server.tickets import LIFETIME_S, MAX_OPEN, Tickets


class Clock:
    """Moves when told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return 1_700_000_000 + self.seconds

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tickets(clock: Clock) -> Tickets:
    return Tickets(clock)


def test_a_ticket_is_good_once(tickets: Tickets) -> None:
    ticket = tickets.issue()
    assert [tickets.redeem(ticket.value, "s1") for _ in range(2)] == [True, False]


def test_a_ticket_for_a_session_opens_that_session_alone_and_is_spent_by_trying(tickets: Tickets) -> None:
    assert tickets.redeem(tickets.issue("s1").value, "s1")
    other = tickets.issue("s1")
    assert [tickets.redeem(other.value, session) for session in ("s2", "s1")] == [False, False]


@pytest.mark.parametrize(("age_s", "good"), [(LIFETIME_S - 0.1, True), (LIFETIME_S, False)])
def test_a_ticket_lives_thirty_seconds(age_s: float, good: bool, clock: Clock, tickets: Tickets) -> None:
    ticket = tickets.issue()
    assert ticket.expires_at == clock.now() + 30
    clock.seconds += age_s
    assert tickets.redeem(ticket.value, "s1") is good


@pytest.mark.parametrize("value", ["", "x", "\udc80"])
def test_what_was_never_issued_is_refused(value: str, tickets: Tickets) -> None:
    assert not tickets.redeem(value, "s1")


def test_the_oldest_gives_way_when_there_are_too_many(tickets: Tickets) -> None:
    issued = [tickets.issue() for _ in range(MAX_OPEN + 1)]
    assert len(tickets) == MAX_OPEN
    assert [tickets.redeem(issued[i].value, "s1") for i in (0, 1, MAX_OPEN)] == [False, True, True]


def test_expired_tickets_are_forgotten(clock: Clock, tickets: Tickets) -> None:
    for _ in range(10):
        tickets.issue()
    clock.seconds += LIFETIME_S
    tickets.issue()
    assert len(tickets) == 1


def test_tickets_are_long_differ_and_are_not_printed(tickets: Tickets) -> None:
    values = {tickets.issue().value for _ in range(50)}
    assert len(values) == 50
    assert all(len(value) >= 43 for value in values)
    ticket = tickets.issue()
    assert ticket.value not in repr(ticket)
