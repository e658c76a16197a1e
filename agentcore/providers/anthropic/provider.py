"""The provider `anthropic`: one client of the official SDK, one HTTP answer per model call.

The SDK makes the client, signs, sends and raises typed errors; the answer is read as bytes below it, since its event
objects cost fifteen times as much and pass off a cut answer as a whole one. Its retries are off: the loop retries.
The SDK is imported in a worker thread on first use (more than a second of CPU), never with this module.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, cast

import anyio
from anyio import to_thread
from pydantic_core import from_json

from agentcore.errors import ProviderError
from agentcore.ports import ModelRequest, StreamPart
from agentcore.providers.anthropic.body import encode_body, withhold_thinking
from agentcore.providers.anthropic.faults import Faults, of_setup, refuses_thinking
from agentcore.providers.anthropic.models import context_tokens
from agentcore.providers.anthropic.reducer import Reducer
from agentcore.providers.sse import OversizedEvent, SseSplitter

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic

log = logging.getLogger(__name__)

BASE_URL = "https://api.anthropic.com"
DRAIN_S = 0.05  # the rest of a finished answer is on its way; taking it keeps the connection for the next turn
CLOSE_S = 1.0
MAX_DOCUMENT_BYTES = 64 * 1024

_UNREAD = {"X-Stainless-Raw-Response": "stream"}  # the SDK's own switch: hand over the answer without reading it


class AnthropicProvider:
    """Anthropic, or a compatible server named by ANTHROPIC_BASE_URL."""

    name = "anthropic"

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._key = environ.get("ANTHROPIC_API_KEY", "").strip()
        self._token = environ.get("ANTHROPIC_AUTH_TOKEN", "").strip() if not self._key else ""
        self._base_url = environ.get("ANTHROPIC_BASE_URL", "").strip() or BASE_URL
        self._faults = Faults(self._key, self._token)
        self._client: AsyncAnthropic | None = None
        self._making = anyio.Lock()

    def why_not(self) -> str | None:
        """Say what is missing before a call can be made; None when it is ready."""
        secret = self._key or self._token
        if not secret:
            return "Anthropic needs a key: set ANTHROPIC_API_KEY."
        if not secret.isascii() or not secret.isprintable():
            return "ANTHROPIC_API_KEY holds characters that no key has: copy it again."
        return None

    def context_window(self, model: str) -> int | None:
        return context_tokens(model)

    async def warm(self) -> None:
        if self.why_not() is None:
            await self._ready_client()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[StreamPart]]:
        response = await self._send(request)
        chunks = response.aiter_bytes()
        reducer = Reducer(self.name, request.model, self._faults)
        parts = self._parts(chunks, reducer)
        try:
            if not _is_event_stream(response):
                raise await self._fault_of_document(response, chunks)
            yield parts
        finally:
            await parts.aclose()
            if reducer.is_done:
                await _drain(chunks)
            with anyio.move_on_after(CLOSE_S, shield=True):
                await response.aclose()

    async def _send(self, request: ModelRequest) -> "httpx2.Response":
        """Send the request; if its thinking is refused, send it once more without."""
        client = await self._ready_client()
        try:
            return await self._post(client, encode_body(request, self.name))
        except ProviderError as error:
            if not refuses_thinking(error) or not withhold_thinking(request, self.name):
                raise
            log.warning("session %s: Anthropic refused earlier thinking, sending again without", request.session)
        return await self._post(client, encode_body(request, self.name))

    async def _post(self, client: "AsyncAnthropic", body: bytes) -> "httpx2.Response":
        import anthropic
        import httpx2

        try:
            return await client.post(
                "/v1/messages", cast_to=httpx2.Response, content=body, options={"headers": _UNREAD}
            )
        except anthropic.APIStatusError as error:
            raise self._faults.of_answer(error.status_code, error.body, error.response.headers) from error
        except (anthropic.APIConnectionError, httpx2.RequestError) as error:
            raise self._faults.of("network", _name_of(error)) from error

    async def _parts(self, chunks: AsyncIterator[bytes], reducer: Reducer) -> AsyncGenerator[StreamPart, None]:
        """Yield what the answer shows, part by part; the last one is `Finished`."""
        import httpx2

        splitter = SseSplitter()
        try:
            async for chunk in chunks:
                for data in splitter.feed(chunk):
                    if (part := reducer.take(data)) is not None:
                        yield part
                        if reducer.is_done:
                            return
        except httpx2.RequestError as error:
            raise self._faults.of("network", f"the connection broke during the answer ({_name_of(error)})") from error
        except OversizedEvent as error:
            raise self._faults.of("server_error", str(error)) from error
        last = splitter.finish()
        if last is not None and (part := reducer.take(last)) is not None:
            yield part
        if not reducer.is_done:
            raise self._faults.of("stream_truncated")

    async def _fault_of_document(self, response: "httpx2.Response", chunks: AsyncIterator[bytes]) -> ProviderError:
        """Name what came in place of an event stream under a good status: an error, or another service's page."""
        import httpx2

        try:
            body = _json_or_none(await _first_bytes(chunks))
        except httpx2.RequestError as error:
            return self._faults.of("network", _name_of(error))
        if isinstance(body, dict) and "error" in body:
            return self._faults.of_answer(response.status_code, body, response.headers)
        media_type = response.headers.get("content-type", "")
        return self._faults.of("not_found", f"what answered sent {media_type} in place of an event stream")

    async def _ready_client(self) -> "AsyncAnthropic":
        """Return the one client; the first caller has it made, callers meanwhile wait for the same one."""
        if (problem := self.why_not()) is not None:
            raise ProviderError("auth", problem)
        if self._client is None:
            async with self._making:
                if self._client is None:
                    self._client = await to_thread.run_sync(self._make_client, abandon_on_cancel=True)
        return self._client

    def _make_client(self) -> "AsyncAnthropic":
        """Load the SDK and make the client. Both read the environment, so they can fail in any class."""
        try:
            import anthropic

            return anthropic.AsyncAnthropic(
                api_key=self._key or None,
                auth_token=self._token or None,
                base_url=self._base_url,
                max_retries=0,
                http_client=anthropic.DefaultAsyncHttpxClient(),  # the SDK's own one trips over itself when half made
                open_telemetry=False,
            )
        except Exception as error:
            raise of_setup(error) from error


def _is_event_stream(response: "httpx2.Response") -> bool:
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return media_type in ("", "text/event-stream")


def _json_or_none(body: bytes) -> object:
    try:
        return cast(object, from_json(body))
    except ValueError:
        return None


def _name_of(error: Exception) -> str:
    """The kind of a transport error: its text can hold addresses, its class says enough."""
    return type(error.__cause__ or error).__name__


async def _first_bytes(chunks: AsyncIterator[bytes]) -> bytes:
    found = bytearray()
    async for chunk in chunks:
        found += chunk
        if len(found) > MAX_DOCUMENT_BYTES:
            break
    return bytes(found)


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Take the end of a finished answer, if it comes at once, so that the connection can serve the next turn."""
    import httpx2

    with anyio.move_on_after(DRAIN_S), suppress(httpx2.RequestError):
        async for _ in chunks:
            pass
