"""What `agentcore run` shows of a session as it happens: every event as one line of JSON, or what people should know.

Told from its first event on, also what happened before anybody listened. What stdout no longer takes is no reason to
fail here: `on_lost` is called, once.
"""

import json
import sys
from collections.abc import Callable
from typing import TypeAlias

from agentcore.app import App
from agentcore.encoding import head_of
from server import logs
from server.live import LiveSession
from server.output import StdoutLost

Told: TypeAlias = tuple[int, str, bytes]
"""Number, type and encoded line of an event."""

_SAID = frozenset({"model_retry", "approval_needed"})
"""Notices that are no warnings and said all the same: that a model is asked again, may be in minutes, and that what the
repository wants to run beside the session does not run."""


class Teller:
    """A listener of the session's log."""

    def __init__(self, output: str, on_lost: Callable[[], None]) -> None:
        """`output`: text or json."""
        self.trouble: StdoutLost | None = None
        """Why stdout takes nothing more."""
        self._output = output
        self._on_lost = on_lost

    def take(self, _seq: int, kind: str, line: bytes) -> None:
        if self._output == "json":
            self._write(lambda: sys.stdout.buffer.write(line + b"\n"))
        elif kind == "notice":
            _say_notice(json.loads(line))

    def answer(self, text: str) -> None:
        """The answer of a run: among the events it is one of them."""
        if self._output == "text" and text:
            self._write(lambda: sys.stdout.write(f"{text}\n"))

    def _write(self, write: Callable[[], object]) -> None:
        if self.trouble is not None:
            return
        try:
            write()
            sys.stdout.flush()
        except StdoutLost as error:
            self.trouble = error
            self._on_lost()


async def told_before(app: App, live: LiveSession) -> list[Told]:
    """What happened in a new session until now, as a listener would have been told; nothing comes between this and the
    caller's next step."""
    until, told = 0, list[Told]()
    while until < live.agent.log.last_seq:
        lines = await app.lines_after(live.id, until, live.agent.log.last_seq + 1)
        heads = [(head, line) for line in lines if (head := head_of(line)) is not None]
        told += [(seq, kind, line) for (kind, seq), line in heads]
        until = told[-1][0] if heads else live.agent.log.last_seq
    return told


def say(*sentences: str) -> None:
    """Tell people, each sentence once."""
    for sentence in dict.fromkeys(sentences):
        logs.people.info("%s", sentence)


def _say_notice(notice: dict[str, str]) -> None:
    if notice["level"] == "warning" or notice["code"] in _SAID:
        say(notice["text"])
