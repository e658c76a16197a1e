"""What a live session is doing, and what may happen next. A missing entry is the error."""

from enum import Enum, auto


class Phase(Enum):
    IDLE = auto()
    RUNNING = auto()
    INTERRUPTED = auto()
    """Loaded with a run that has no `done`: the last answer or deadline, or a resume, goes on with it; a prompt or a
    cancel ends it."""
    SUSPENDED = auto()
    """Its run ended `suspended`: the last answer or deadline, or a resume, goes on with the rest of it; a prompt or a
    cancel ends it."""
    CLOSING = auto()
    """Closed while a run was going on: waits for its end."""
    CLOSED = auto()


class Signal(Enum):
    CLAIM = auto()
    """A prompt, or the rest of an interrupted or suspended run, takes the session."""
    FOLLOW = auto()
    """A run ended and the next one begins, in one step."""
    RUN_ENDED = auto()
    RUN_SUSPENDED = auto()
    """A run ended, and the rest of it is still to come."""
    ABANDON = auto()
    """An interrupted or suspended run is ended without going on with it."""
    CLOSE = auto()


NEXT: dict[tuple[Phase, Signal], Phase] = {
    (Phase.IDLE, Signal.CLAIM): Phase.RUNNING,
    (Phase.IDLE, Signal.CLOSE): Phase.CLOSED,
    (Phase.INTERRUPTED, Signal.CLAIM): Phase.RUNNING,
    (Phase.INTERRUPTED, Signal.ABANDON): Phase.IDLE,
    (Phase.INTERRUPTED, Signal.CLOSE): Phase.CLOSED,
    (Phase.SUSPENDED, Signal.CLAIM): Phase.RUNNING,
    (Phase.SUSPENDED, Signal.ABANDON): Phase.IDLE,
    (Phase.SUSPENDED, Signal.CLOSE): Phase.CLOSED,
    (Phase.RUNNING, Signal.FOLLOW): Phase.RUNNING,
    (Phase.RUNNING, Signal.RUN_ENDED): Phase.IDLE,
    (Phase.RUNNING, Signal.RUN_SUSPENDED): Phase.SUSPENDED,
    (Phase.RUNNING, Signal.CLOSE): Phase.CLOSING,
    (Phase.CLOSING, Signal.RUN_ENDED): Phase.CLOSED,
    (Phase.CLOSING, Signal.RUN_SUSPENDED): Phase.CLOSED,
    (Phase.CLOSING, Signal.CLOSE): Phase.CLOSING,
    (Phase.CLOSED, Signal.CLOSE): Phase.CLOSED,
}


class NotNow(Exception):
    """The signal has no place in the phase; nothing has changed."""

    def __init__(self, phase: Phase, signal: Signal) -> None:
        super().__init__(f"{signal.name} in {phase.name}")
        self.phase = phase


def next_phase(phase: Phase, signal: Signal) -> Phase:
    """The phase after a signal. Raises: NotNow."""
    following = NEXT.get((phase, signal))
    if following is None:
        raise NotNow(phase, signal)
    return following
