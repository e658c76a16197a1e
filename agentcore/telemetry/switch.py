"""Turns OpenTelemetry on when the first session is made, where it is wanted. Until then nothing of it is loaded."""

import logging
import threading
from typing import TYPE_CHECKING

from agentcore.redaction import Redactor
from agentcore.telemetry.wanted import Wanted

if TYPE_CHECKING:
    from agentcore.telemetry.room import Telemetry

logger = logging.getLogger(__name__)


class Switch:
    def __init__(self, wanted: Wanted, given: "Telemetry | None" = None) -> None:
        """`given` takes the place of what is wanted."""
        self._wanted = wanted
        self._telemetry = given
        self._is_decided = given is not None or not wanted.signals
        self._deciding = threading.Lock()

    def turn_on(self, redactor: Redactor) -> "Telemetry | None":
        """None where it is off. Blocking, and for any thread."""
        with self._deciding:
            if not self._is_decided:
                self._is_decided = True
                self._telemetry = self._started(redactor)
            return self._telemetry

    def _started(self, redactor: Redactor) -> "Telemetry | None":
        try:
            from agentcore.telemetry.exporting import start

            return start(self._wanted, redactor)
        except Exception:  # whatever the SDK makes of odd variables, it is no reason to have no sessions
            logger.exception("OpenTelemetry is off: it does not start as the OTEL_* variables have it")
            return None

    async def close(self) -> None:
        if self._telemetry is not None:
            await self._telemetry.close()
