"""What all vendors over HTTP share: one client for the life of the process, one answer per model call, read as bytes.

The rules that hold for every answer stand here once. It is a stream of the protocol's media type, else what came
instead is named. It counts only with the protocol's own terminal event, which the reducer knows. Data that does not
fit the protocol ends it. Leaving the context closes the connection at once, but the end of a finished answer is
taken first where it is on its way, so that the connection serves the next turn.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

import anyio
from anyio import to_thread
from pydantic_core import from_json

from agentcore.errors import ProviderError
from agentcore.messages import ToolCall
from agentcore.ports.models import Finished, ModelRequest, StreamPart, TextPart, ThinkingPart, ToolCallPart
from agentcore.providers.catalogue import catalogue, context_window, cost_usd
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.faults import Faults, Said, read_error
from agentcore.providers.growing import MAX_BYTES, Wire
from agentcore.providers.sse import OversizedEvent, SseSplitter
from agentcore.usage import Usage

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

DRAIN_S = 0.05  # the rest of a finished answer is on its way; taking it keeps the connection for the next turn
CLOSE_S = 1.0
MAX_DOCUMENT_BYTES = 64 * 1024
MAX_CALLS = 1_000  # of one answer; each is announced, journaled and answered
_MAX_STOP_CHARS = 200
_JSON = "application/json"

_AGAINST_PROTOCOL = (ValueError, TypeError, LookupError, AttributeError)
"""What a reducer raises over data that is no JSON or not of the form that the protocol promises."""


class Reducer(Protocol):
    """Turns the events of one answer into parts."""

    is_done: bool
    """The terminal event was seen and nothing that matters can follow."""

    def take(self, data: bytes) -> Sequence[StreamPart]:
        """Take one event; return what it shows. Raises: ProviderError, or ValueError, TypeError, LookupError and
        AttributeError over data that does not fit."""
        ...

    def finish(self) -> Finished:
        """The whole answer. Raises: ProviderError `stream_truncated` where the terminal event is missing."""
        ...


class Splitter(Protocol):
    """Cuts bytes into the data of events."""

    def feed(self, chunk: bytes) -> list[bytes]: ...

    def finish(self) -> bytes | None: ...


_TOO_MANY_CALLS = f"it made more than {MAX_CALLS:,} tool calls in one answer"


class _Extent:
    """How much of an answer was shown. One that goes on without end is ended."""

    def __init__(self) -> None:
        self._chars = 0
        self._calls = 0

    def excess_with(self, part: StreamPart) -> str | None:
        """Count a part; say what there is too much of, None while there is not."""
        match part:
            case TextPart(text) | ThinkingPart(text):
                self._chars += len(text)
                if self._chars > MAX_BYTES:
                    return f"its answer is longer than {MAX_BYTES:,} characters"
            case ToolCallPart(size_bytes=0):
                self._calls += 1
                if self._calls > MAX_CALLS:
                    return _TOO_MANY_CALLS
        return None


class Closable(Protocol):
    async def close(self) -> None: ...


Client = TypeVar("Client", bound=Closable)


class HttpProvider(ABC, Generic[Client]):
    """One endpoint. A vendor says how its client is made, how a request is sent and how its events are read."""

    stream_types: ClassVar[frozenset[str]] = frozenset({"", "text/event-stream"})

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.name = endpoint.name
        self.faults = Faults(endpoint)
        self.loading: Callable[[], AbstractContextManager[None]] = nullcontext
        """Entered in the worker thread that loads the SDK: for whoever has to know that much will come to stay."""
        self._client: Client | None = None
        self._making = anyio.Lock()

    @abstractmethod
    def _make_client(self) -> Client:
        """Load what is needed and make the client; runs in a worker thread, once."""

    @abstractmethod
    async def _open(self, client: Client, request: ModelRequest) -> "httpx2.Response":
        """Send the request; return the answer with its body unread. Raises: ProviderError."""

    @abstractmethod
    def _reducer(self, request: ModelRequest) -> Reducer: ...

    def _splitter(self) -> Splitter:
        return SseSplitter()

    def _is_whole_answer(self, document: Wire) -> bool:
        """Whether a JSON document is an answer in one piece, of a server that passes over `stream`, and the reducer
        takes it as an event."""
        return False

    # --- what it is ---

    @property
    def is_local(self) -> bool:
        return self.endpoint.is_local

    def why_not(self) -> str | None:
        """A sentence that says what is missing before a call can be made; None when it is ready."""
        return self.endpoint.why_not()

    def context_window(self, model: str) -> int | None:
        return self.endpoint.context_length or context_window(self.endpoint.vendor, model)

    def has_structured_output(self, model: str) -> bool:
        return True

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        return cost_usd(self.endpoint.vendor, model, usage)

    # --- its life ---

    async def warm(self) -> None:
        if self.why_not() is None:
            await self._ready_client()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _ready_client(self) -> Client:
        """Return the one client; the first caller has it made, callers meanwhile wait for the same one."""
        if (problem := self.why_not()) is not None:
            raise ProviderError("auth", problem)
        if self._client is None:
            async with self._making:
                if self._client is None:
                    self._client = await to_thread.run_sync(self._made_client, abandon_on_cancel=True)
        return self._client

    def _made_client(self) -> Client:
        catalogue()  # a file is read once, here rather than on the event loop
        try:
            with self.loading():
                return self._make_client()
        except Exception as error:  # SDKs read the environment when they are made, and fail in any class
            raise self.faults.of_setup(error) from error

    # --- one call ---

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamPart]]:
        try:
            response = await self._open(await self._ready_client(), request)
        except ProviderError as error:
            if error.kind == "auth":
                self.endpoint.key.forget()
            raise
        chunks = response.aiter_bytes()
        reducer = self._reducer(request)
        parts = self._parts(chunks, reducer)
        try:
            if not self._is_stream(response):
                parts = self._parts(_alone(await self._document(response, chunks)), reducer)
            yield parts
        finally:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await parts.aclose()
                if reducer.is_done:
                    await _drain(chunks)
                await response.aclose()

    async def _sent_or_without(
        self,
        request: ModelRequest,
        send: "Callable[[], Awaitable[httpx2.Response]]",
        refuses: Callable[[ProviderError], bool],
        withhold: Callable[[ModelRequest, str], bool],
    ) -> "httpx2.Response":
        """Send; if the seals of earlier reasoning are refused, withhold them and send once more."""
        try:
            return await send()
        except ProviderError as error:
            if not refuses(error) or not withhold(request, self.name):
                raise
            log.warning("session %s: %s refused earlier reasoning, sent without", request.session, self.name)
        return await send()

    def _is_stream(self, response: "httpx2.Response") -> bool:
        return _media_type(response) in self.stream_types

    async def _parts(self, chunks: AsyncIterator[bytes], reducer: Reducer) -> AsyncGenerator[StreamPart, None]:
        """Yield what the answer shows, part by part; the last one is `Finished`."""
        import httpx2

        splitter, extent = self._splitter(), _Extent()
        try:
            async for chunk in chunks:
                for data in splitter.feed(chunk):
                    for part in self._taken(reducer, data):
                        if (excess := extent.excess_with(part)) is not None:
                            raise self.faults.of("server_error", excess)
                        yield part
                    if reducer.is_done:
                        yield self._finished(reducer)
                        return
        except httpx2.RequestError as error:
            raise self.faults.of("network", f"the connection broke during the answer ({name_of(error)})") from error
        except OversizedEvent as error:
            raise self.faults.of("server_error", str(error)) from error
        if (last := splitter.finish()) is not None:
            for part in self._taken(reducer, last):
                yield part
        yield self._finished(reducer)

    def _taken(self, reducer: Reducer, data: bytes) -> Sequence[StreamPart]:
        try:
            return reducer.take(data)
        except _AGAINST_PROTOCOL as error:
            raise self.faults.of("server_error", "it sent an event that does not fit its protocol") from error

    def _finished(self, reducer: Reducer) -> Finished:
        try:
            finished = reducer.finish()
            if type(finished.stop) is not str:
                raise TypeError("a reason to stop is no string")
            calls = sum(isinstance(block, ToolCall) for block in finished.content)
        except _AGAINST_PROTOCOL as error:
            raise self.faults.of("server_error", "its answer does not fit its protocol") from error
        if calls > MAX_CALLS:
            raise self.faults.of("server_error", _TOO_MANY_CALLS)
        return replace(finished, stop=finished.stop[:_MAX_STOP_CHARS], detail=self.faults.quotable(finished.detail))

    async def _document(self, response: "httpx2.Response", chunks: AsyncIterator[bytes]) -> bytes:
        """Return an answer that came as one JSON document. Raises: ProviderError for what else came in place of an
        event stream under a good status: an error, or another service's page."""
        import httpx2

        try:
            body = await _first_bytes(chunks, MAX_BYTES if _media_type(response) == _JSON else MAX_DOCUMENT_BYTES)
        except httpx2.RequestError as error:
            raise self.faults.of("network", name_of(error)) from error
        if b'"error"' in body and read_error(body) != Said():
            raise self.faults.of_answer(response.status_code, body, response.headers)
        with suppress(ValueError):
            if isinstance(document := from_json(body), dict) and self._is_whole_answer(document):
                return body
        raise self.faults.of("not_found", f"what answered sent {_media_type(response)} in place of an event stream")


def name_of(error: Exception) -> str:
    """The kind of a transport error: its text can hold addresses, its class says enough."""
    return type(error.__cause__ or error).__name__


def _media_type(response: "httpx2.Response") -> str:
    value: str = response.headers.get("content-type", "")
    return value.partition(";")[0].strip().lower()


async def _alone(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _first_bytes(chunks: AsyncIterator[bytes], max_bytes: int) -> bytes:
    found = bytearray()
    async for chunk in chunks:
        found += chunk
        if len(found) > max_bytes:
            break
    return bytes(found)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Take the end of a finished answer, if it comes at once, so that the connection can serve the next turn."""
    import httpx2

    with anyio.move_on_after(DRAIN_S), suppress(httpx2.RequestError):
        async for _ in chunks:
            pass
