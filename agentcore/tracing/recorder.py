"""Writes the trace file of one session. It never holds a run up: what cannot be written is told once and left out."""

import errno
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from agentcore.folders import open_regular
from agentcore.ports.clock import Clock
from agentcore.redaction import REDACTED, Redactor
from agentcore.tracing.requests import Deltas, Line
from agentcore.wiretap import Sent

logger = logging.getLogger(__name__)

MAX_BYTES = 256 * 1024 * 1024
"""Of a session's trace; then nothing more is written."""
SHOWN_HEADERS = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "content-type", "host", "openai-beta", "user-agent"}
)
"""The values of all others may be credentials."""


class Recorder:
    """Satisfies `wiretap.Listener`. The file belongs to its user alone; it is made with the first request. What stands
    in its place and is no file of its own (a link, a pipe) is neither followed nor waited for."""

    def __init__(self, path: Path, clock: Clock, last_seq: Callable[[], int], redactor: Redactor) -> None:
        self._path = path
        self._clock = clock
        self._last_seq = last_seq
        self._redactor = redactor
        self._deltas = Deltas()
        self._is_over = False
        self._has_begun = False

    def __call__(self, sent: Sent) -> None:
        if self._is_over:
            return
        body = self._without_secrets(sent.body)
        head, tail, text = self._deltas.shorten(sent.address, sent.agent, body)
        line = Line(
            at=round(self._clock.now(), 3),
            after_seq=self._last_seq(),
            agent=sent.agent,
            address=self._redactor.text(sent.address),
            headers=_shown(sent.headers),
            head=head,
            tail=tail,
            text=text,
        )
        try:
            self._append(line.model_dump_json(exclude_none=True).encode() + b"\n")
        except OSError:
            logger.warning("the trace of a session cannot be written and ends here", exc_info=True)
            self._is_over = True

    def _without_secrets(self, body: bytes) -> str:
        try:
            return self._redactor.line(body).decode()
        except ValueError:  # no vendor takes anything but JSON; what is none is still shown
            return self._redactor.text(body.decode(errors="replace"))

    def _append(self, line: bytes) -> None:
        file = open_regular(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
        try:
            if os.fstat(file).st_size + len(line) > MAX_BYTES:
                logger.warning("the trace of a session has %d MiB and ends here", MAX_BYTES >> 20)
                self._is_over = True
                return
            self._write(file, line)
        finally:
            os.close(file)

    def _write(self, file: int, line: bytes) -> None:
        """All of it or nothing. Raises: OSError."""
        size = os.fstat(file).st_size
        if not self._has_begun and size and os.pread(file, 1, size - 1) != b"\n":
            line = b"\n" + line  # what a killed server was writing stays a line of its own
        self._has_begun = True
        if os.write(file, line) < len(line):
            os.ftruncate(file, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _shown(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value if name.lower() in SHOWN_HEADERS else REDACTED for name, value in headers.items()}
