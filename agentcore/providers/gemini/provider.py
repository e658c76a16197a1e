"""Google's Gemini API with a key: one request, read as an event stream.

Without the vendor's SDK: its public functions hand out objects only (315 µs of CPU a delta, against 8 µs), its raw
stream is private, importing it costs 2.3 s of CPU and 62 MiB, and with an API key all it adds is one header. What it
is good for, the credentials of Google Cloud, is not offered here.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

from agentcore.errors import ProviderError
from agentcore.ports.models import ModelRequest, StreamPart
from agentcore.providers import answers
from agentcore.providers.answers import HttpProvider
from agentcore.providers.gemini.body import encode_body, withhold_signatures
from agentcore.providers.gemini.models import context_tokens, is_third_generation
from agentcore.providers.gemini.reducer import Reducer
from agentcore.providers.gemini.stream import AnswerSplitter, Chunks
from agentcore.providers.plain import PlainClient

if TYPE_CHECKING:
    import httpx2

_VERSION = "/v1beta"  # the one that knows all of the fields used here


class GeminiProvider(HttpProvider[PlainClient]):
    """One endpoint that speaks `streamGenerateContent`."""

    stream_types = HttpProvider.stream_types | {"application/json"}  # an array: a proxy passed over `alt=sse`

    def context_window(self, model: str) -> int | None:
        return super().context_window(model) or context_tokens(model)

    def has_structured_output(self, model: str) -> bool:
        """Only where it works beside tools, which are nearly always there: before Gemini 3 the vendor refuses both
        together ("Function calling with a response mime type: 'application/json' is unsupported")."""
        return is_third_generation(model)

    def _make_client(self) -> PlainClient:
        return PlainClient(self.endpoint, self.faults)

    def _reducer(self, request: ModelRequest) -> Reducer:
        return Reducer(self.name, request.model, self.faults)

    def _splitter(self) -> AnswerSplitter:
        return AnswerSplitter(self.faults)

    def _parts(self, chunks: AsyncIterator[bytes], reducer: answers.Reducer) -> AsyncGenerator[StreamPart, None]:
        assert isinstance(reducer, Reducer)
        return super()._parts(Chunks(chunks, reducer), reducer)

    async def _open(self, client: PlainClient, request: ModelRequest) -> "httpx2.Response":
        """Send the request; if its signatures are refused, send it once more without."""
        return await self._sent_or_without(
            request, lambda: self._send(client, request), _refuses_signatures, withhold_signatures
        )

    async def _send(self, client: PlainClient, request: ModelRequest) -> "httpx2.Response":
        key = await self.endpoint.key.read()
        headers = {"x-goog-api-key": key} if key else {}
        return await client.post(self._path(request.model), encode_body(request, self.name), headers)

    def _path(self, model: str) -> str:
        """Below the base URL, which may name the version itself."""
        version = "" if self.endpoint.base_url.rstrip("/").endswith(_VERSION) else _VERSION
        name = quote(model.removeprefix("models/"), safe="")
        return f"{version}/models/{name}:streamGenerateContent?alt=sse"


def _refuses_signatures(error: ProviderError) -> bool:
    """Whether the vendor takes offence at a signature that is sent back; it says so in words only."""
    return error.kind == "invalid_request" and "thought signature" in str(error).lower().replace("_", " ")
