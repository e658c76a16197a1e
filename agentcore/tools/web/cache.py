"""What was fetched lately, in memory, by address: the second question about a page costs no second request.

Bounded by age, number and bytes; whatever was not used for the longest time goes first. One for all sessions.
"""

from collections import OrderedDict
from dataclasses import dataclass

from agentcore.ports.clock import Clock

KEPT_S = 15 * 60.0  # the contract's
MAX_PAGES = 64
MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Page:
    """What an address holds, ready to be shown."""

    address: str
    """After redirects."""
    media_type: str
    size_bytes: int
    """As it was sent, unpacked."""
    text: str = ""
    picture: bytes = b""
    """In place of a text."""

    @property
    def held_bytes(self) -> int:
        return len(self.text.encode()) + len(self.picture)


class PageCache:
    """Pages by the address that was asked for."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pages: OrderedDict[str, tuple[float, Page]] = OrderedDict()
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._pages)

    def find(self, address: str) -> Page | None:
        until, page = self._pages.get(address, (0.0, None))
        if page is None:
            return None
        if until <= self._clock.monotonic():
            self._drop(address)
            return None
        self._pages.move_to_end(address)
        return page

    def keep(self, address: str, page: Page) -> None:
        self._drop(address)
        self._pages[address] = (self._clock.monotonic() + KEPT_S, page)
        self._held_bytes += page.held_bytes
        while len(self._pages) > MAX_PAGES or self._held_bytes > MAX_BYTES:
            self._drop(next(iter(self._pages)))

    def _drop(self, address: str) -> None:
        _, page = self._pages.pop(address, (0.0, None))
        if page is not None:
            self._held_bytes -= page.held_bytes
