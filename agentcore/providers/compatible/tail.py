"""The end of an answer that has already said why it stopped: token counts and `[DONE]`, which not everybody sends."""

from collections.abc import AsyncIterator
from typing import Protocol

import anyio

TAIL_S = 2.0  # what follows a finish reason comes right after it; a server that sends nothing holds no turn
CALLS_TAIL_S = 5.0  # some give a reason with each of several calls, and a call that is lost is worse than a wait
LONGEST_TAIL_S = 10.0  # however steadily something comes that ends nothing


class Ending(Protocol):
    is_ending: bool

    @property
    def has_calls(self) -> bool: ...


class ShortTail:
    """The pieces of an answer as they come; those after its finish reason only as long as none is waited for long.

    A connection that breaks then is as good as closed: nothing of the answer was still to come.
    """

    def __init__(self, chunks: AsyncIterator[bytes], answer: Ending) -> None:
        self._chunks = chunks
        self._answer = answer
        self._last_deadline: float | None = None

    def __aiter__(self) -> "ShortTail":
        return self

    async def __anext__(self) -> bytes:
        if not self._answer.is_ending:
            self._last_deadline = None
            return await anext(self._chunks)
        return await self._next_of_tail()

    async def _next_of_tail(self) -> bytes:
        import httpx2

        now, quiet_s = anyio.current_time(), CALLS_TAIL_S if self._answer.has_calls else TAIL_S
        if self._last_deadline is None:
            self._last_deadline = now + LONGEST_TAIL_S
        # A cancel must not cut an answer that is whole by now; what it has called would not be run any more.
        is_kept = not self._answer.has_calls and now < self._last_deadline - LONGEST_TAIL_S + TAIL_S
        with anyio.CancelScope(deadline=min(now + quiet_s, self._last_deadline), shield=is_kept):
            try:
                return await anext(self._chunks)
            except httpx2.RequestError:
                pass
        raise StopAsyncIteration
