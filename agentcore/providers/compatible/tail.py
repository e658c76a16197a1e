"""The end of an answer that has already said why it stopped: token counts and `[DONE]`, which not everybody sends."""

from collections.abc import AsyncIterator
from typing import Protocol

import anyio

TAIL_S = 1.0  # what follows a finish reason comes with it or right after; a server that sends nothing holds no turn


class Ending(Protocol):
    is_ending: bool


class ShortTail:
    """The pieces of an answer as they come; those after its finish reason only for a second, whatever they are.

    A connection that breaks then is as good as closed: nothing of the answer was still to come.
    """

    def __init__(self, chunks: AsyncIterator[bytes], answer: Ending) -> None:
        self._chunks = chunks
        self._answer = answer
        self._deadline: float | None = None

    def __aiter__(self) -> "ShortTail":
        return self

    async def __anext__(self) -> bytes:
        if not self._answer.is_ending:
            self._deadline = None
            return await anext(self._chunks)
        return await self._next_of_tail()

    async def _next_of_tail(self) -> bytes:
        import httpx2

        if self._deadline is None:
            self._deadline = anyio.current_time() + TAIL_S
        with anyio.CancelScope(deadline=self._deadline):
            try:
                return await anext(self._chunks)
            except httpx2.RequestError:
                pass
        raise StopAsyncIteration
