"""The real time, behind the `Clock` port."""

import time

import anyio


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


async def wait_for(event: anyio.Event, timeout_s: float) -> bool:
    """Wait for an event, at most so long; return whether it came."""
    with anyio.move_on_after(timeout_s):
        await event.wait()
    return event.is_set()
