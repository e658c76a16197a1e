"""How an answer's body becomes events: an event stream, or the JSON array of a proxy that passes over `alt=sse`.

The vendor closes the body after its answer and has no last event of its own. So the end of the body counts, but it is
not waited for without bound once the model gave its reason to end; and a body that ends inside an event is cut off,
whatever came before.
"""

from collections.abc import AsyncIterator

import anyio
from pydantic_core import from_json

from agentcore.providers.faults import Faults
from agentcore.providers.gemini.reducer import Reducer
from agentcore.providers.sse import MAX_EVENT_BYTES, OversizedEvent, SseSplitter

QUIET_S = 1.0  # what follows the reason to end comes with it or right after
UNSURE_QUIET_S = 60.0  # where a reason stands on every event, or on the only one so far: a pause can be in mid-answer

_BEFORE = b"\xef\xbb\xbf \t\r\n"


class AnswerSplitter:
    """Tells by the first byte which of the two it is; hands out a JSON document whole, at its end."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._events = SseSplitter()
        self._document = bytearray()
        self._is_document: bool | None = None

    def feed(self, chunk: bytes) -> list[bytes]:
        """Raises: OversizedEvent."""
        if self._is_document is None and (rest := chunk.lstrip(_BEFORE)):
            self._is_document = rest[:1] in (b"[", b"{")
        if not self._is_document:
            return self._events.feed(chunk)
        self._document += chunk
        if len(self._document) > MAX_EVENT_BYTES:
            raise OversizedEvent(f"an answer of more than {MAX_EVENT_BYTES} bytes")
        return []

    def finish(self) -> bytes | None:
        """Raises: ProviderError `stream_truncated` where the body ends inside an event."""
        if self._is_document:
            return self._whole(bytes(self._document).strip(_BEFORE))
        is_inside = self._events.is_inside_event
        last = self._events.finish()
        if last is None and is_inside:
            raise self._faults.of("stream_truncated")
        return last

    def _whole(self, document: bytes) -> bytes:
        try:
            from_json(document)
        except ValueError:
            raise self._faults.of("stream_truncated") from None
        return document


class Chunks:
    """The pieces of a body; after the reason to end, only as long as they keep coming."""

    def __init__(self, chunks: AsyncIterator[bytes], reducer: Reducer) -> None:
        self._chunks = chunks
        self._reducer = reducer
        self._ended_at: float | None = None

    def __aiter__(self) -> "Chunks":
        return self

    async def __anext__(self) -> bytes:
        if not self._reducer.has_ended:
            return await anext(self._chunks)
        if not self._reducer.is_end_sure:
            with anyio.move_on_after(UNSURE_QUIET_S):
                return await anext(self._chunks)
            raise StopAsyncIteration
        now = anyio.current_time()
        self._ended_at = now if self._ended_at is None else self._ended_at
        is_kept = now < self._ended_at + QUIET_S  # a cancel must not cut an answer that is whole by now
        with anyio.move_on_after(QUIET_S, shield=is_kept):
            return await anext(self._chunks)
        raise StopAsyncIteration
