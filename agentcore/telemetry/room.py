"""OpenTelemetry of one process: an observer for each session, and an end that is bounded.

Without the standard variables nothing of this is loaded. Promise: whatever an exporter does, no run waits for it.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from weakref import WeakSet

from anyio import to_thread
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from agentcore.redaction import Redactor
from agentcore.telemetry.content import Content
from agentcore.telemetry.observer import Observer
from agentcore.telemetry.pen import Pen

logger = logging.getLogger(__name__)

CLOSE_S = 1.0
"""For what is still to be sent when the process stops; beside the 13 s of runs and hooks it fits into the 15 s after
which the process ends anyhow."""


class Telemetry:
    def __init__(
        self,
        tracers: TracerProvider,
        meters: MeterProvider,
        *,
        content: bool = False,
        redactor: Redactor | None = None,
        shut_down: Callable[[], None] | None = None,
    ) -> None:
        """`content` puts what was said into spans, known secrets taken out. `shut_down` sends what is left, and may
        take long; providers of the caller's own stay as they are."""
        self._pen = Pen(tracers, meters, Content(redactor or Redactor()) if content else None)
        self._shut_down = shut_down
        self._observers: WeakSet[Observer] = WeakSet()
        """They live as long as the logs that they listen to."""

    def observer(self, session: str) -> Observer:
        observer = Observer(session, self._pen)
        self._observers.add(observer)
        return observer

    async def close(self) -> None:
        """End what is open, and give what is left a moment to be sent."""
        for observer in list(self._observers):
            observer.close()
        if self._shut_down is not None:
            # a thread of its own, that no end of the process waits for: a collector may be silent for long
            send = partial(_send_last, self._shut_down)
            self._shut_down = None
            sending = threading.Thread(target=send, name="end of OpenTelemetry", daemon=True)
            sending.start()
            await to_thread.run_sync(partial(sending.join, CLOSE_S))
            if sending.is_alive():
                logger.warning("the OpenTelemetry collector did not take what was left in %g s; it is lost", CLOSE_S)


def _send_last(shut_down: Callable[[], None]) -> None:
    try:
        shut_down()
    except Exception:  # the SDK raises what it likes, and in a thread nobody would catch it
        logger.exception("what was left for OpenTelemetry is lost")
