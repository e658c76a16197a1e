"""What becomes of a prompt, by what its session is doing when it comes: the table of this room's README as a function.

It only decides, so that a prompt which is refused has changed nothing.
"""

from dataclasses import dataclass

from agentcore.agent import Disposition
from server.schemas import WhenBusy


@dataclass(frozen=True, slots=True)
class Standing:
    """How a session stands when a prompt comes."""

    is_running: bool
    takes_messages: bool
    """The run that is going on takes what the user says at its next border."""
    has_unfinished: bool
    """A run is interrupted or suspended."""
    has_begun: bool
    """Its prompt is in the transcript."""
    waits_for_deferred: bool
    """It can get no further before somebody answers what was deferred."""
    waiting: int
    """Prompts that wait for a run, or for the run that is going on to take them."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a prompt."""

    how: Disposition
    ends_unfinished: bool = False
    """The run that nobody goes on with is ended for it."""


def fate_of(standing: Standing, when_busy: WhenBusy) -> Fate:
    behind: Disposition = "interrupting" if when_busy == "interrupt" else "queued"
    if standing.is_running:
        return Fate("steering" if when_busy == "steer" and standing.takes_messages else behind)
    if standing.has_unfinished and not standing.has_begun and when_busy != "interrupt":
        return Fate("queued")  # the prompt before it was accepted and never begun
    if standing.has_unfinished and standing.waits_for_deferred and when_busy == "queue":
        return Fate("queued")
    return Fate(behind if standing.waiting else "started", ends_unfinished=standing.has_unfinished)
