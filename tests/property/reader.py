"""A client that reads the stream, drops it at any time and comes back with its last number."""

from collections.abc import Sequence

from server.hub import Hub
from server.live import LiveSession
from server.reader import SessionReader
from tests.daemon import DISPLAY_ONLY, parse_frame


class Person:
    def __init__(self) -> None:
        self.cursor = 0
        self._lines: list[bytes] = []
        """The durable events that came."""
        self._checked = 0

    async def read(self, hub: Hub, live: LiveSession) -> None:
        """Read from the last number on, to the end of the session or until cancelled."""
        async for chunk in SessionReader(hub, live, self.cursor).chunks():
            self._take(chunk)

    def _take(self, chunk: bytes) -> None:
        for block in chunk.split(b"\n\n")[:-1]:
            frame = parse_frame(block)
            assert not (frame.event == "gap" and frame.json["reason"] == "ahead")
            if frame.id is None:
                continue
            assert frame.id > self.cursor, "an event came twice, or late"
            self.cursor = frame.id
            if frame.event not in DISPLAY_ONLY:
                self._lines.append(frame.data)

    def check(self, numbers: Sequence[int], lines: Sequence[bytes]) -> None:
        """Compare what came with the durable events of the journal, up to the last number that came."""
        while self._checked < len(self._lines):
            assert self._lines[self._checked] == lines[self._checked], "an event is missing, doubled or another one"
            self._checked += 1
        if self._checked < len(lines):
            assert numbers[self._checked] > self.cursor, "an event was passed over"
