"""Chat Completions: any gateway or local server, at the base URL that ends in its `/v1`."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import anyio
from pydantic_core import from_json

from agentcore.errors import ProviderError
from agentcore.ports.models import ModelRequest, StreamPart
from agentcore.providers import answers
from agentcore.providers.answers import HttpProvider
from agentcore.providers.compatible.body import encode_body
from agentcore.providers.compatible.dialects import Dialect, dialect_of
from agentcore.providers.compatible.reducer import Reducer
from agentcore.providers.compatible.tail import ShortTail
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.growing import Wire
from agentcore.providers.http import read_body
from agentcore.providers.official import UNREAD, openai_client, translated

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

MAX_TOLD_BYTES = 2 * 1024 * 1024  # a list of some thousand models
ASK_S = 1.0  # a server that takes longer to tell about its models is used without

log = logging.getLogger(__name__)


class CompatibleProvider(HttpProvider["AsyncOpenAI"]):
    """One endpoint that speaks Chat Completions."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._windows: dict[str, int] = {}
        self._called: set[str] = set()
        self._asked: set[str] = set()
        self._otherwise: set[str] = set()
        """Models that want their reasoning back although the table says no, or the other way round."""
        self._is_llamacpp = False

    # --- what it is ---

    def context_window(self, model: str) -> int | None:
        return self.endpoint.context_length or self._windows.get(model) or super().context_window(model)

    def has_structured_output(self, model: str) -> bool:
        return model.startswith(self._dialect.models_with_schema)

    @cached_property
    def _dialect(self) -> Dialect:
        return dialect_of(self.endpoint)

    # --- one call ---

    def _make_client(self) -> "AsyncOpenAI":
        return openai_client(self.endpoint, self.faults)

    def _reducer(self, request: ModelRequest) -> Reducer:
        return Reducer(self.name, request.model, self.faults)

    def _is_whole_answer(self, document: Wire) -> bool:
        return bool(document.get("choices"))

    def _parts(self, chunks: AsyncIterator[bytes], reducer: answers.Reducer) -> AsyncGenerator[StreamPart, None]:
        if isinstance(reducer, Reducer):
            chunks = ShortTail(chunks, reducer)
        return super()._parts(chunks, reducer)

    async def _open(self, client: "AsyncOpenAI", request: ModelRequest) -> "httpx2.Response":
        """Send the request; if it is refused over the reasoning of earlier answers, once more the other way."""
        await self._learn_once(request.model)
        try:
            response = await self._send(client, request)
        except ProviderError as error:
            if error.kind != "invalid_request" or "reasoning_content" not in str(error):
                raise
            if request.model in self._otherwise:
                raise
            self._otherwise.add(request.model)
            log.warning("session %s: %s wants earlier reasoning otherwise", request.session, self.name)
            response = await self._send(client, request)
        self._is_llamacpp = response.headers.get("server") == "llama.cpp"
        self._called.add(request.model)
        return response

    async def _send(self, client: "AsyncOpenAI", request: ModelRequest) -> "httpx2.Response":
        import httpx2
        import openai

        dialect = self._dialect
        if request.model in self._otherwise:
            dialect = replace(dialect, returns_reasoning=not dialect.returns_reasoning)
        headers = {**UNREAD, **await self._authorization()}
        with translated(self.faults, openai.APIConnectionError):
            return await client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=encode_body(request, self.name, dialect),
                options={"headers": headers},
            )

    async def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {await self.endpoint.key.read() or 'none'}"}

    # --- what a local server tells about itself ---

    async def _learn_once(self, model: str) -> None:
        """Ask before the second call: the first one has loaded the model, and an answer is never held up by it."""
        if model in self._called and model not in self._asked:
            self._asked.add(model)
            await self._learn(model)

    async def _learn(self, model: str) -> None:
        """Read the windows that the server tells of; nothing changes where it does not."""
        try:
            with anyio.move_on_after(ASK_S):
                self._windows |= await self._told_windows(await self._ready_client(), model)
        except (ProviderError, ValueError, TypeError, LookupError, AttributeError) as error:
            log.info("%s does not tell the window of its models (%s)", self.name, type(error).__name__)

    async def _told_windows(self, client: "AsyncOpenAI", model: str) -> Mapping[str, int]:
        """The windows by model. llama.cpp has one for what it serves, which is often less than its model's."""
        if not self._is_llamacpp:
            return {}
        props = await self._read(client, "/props")
        return windows({model: props["default_generation_settings"]["n_ctx"]})

    async def _read(self, client: "AsyncOpenAI", path: str) -> Any:
        """The JSON at a path beside `/v1`. Raises: ProviderError; ValueError for what is no JSON."""
        import httpx2
        import openai

        url = self.endpoint.base_url.rstrip("/").removesuffix("/v1") + path
        headers = {**UNREAD, **await self._authorization()}
        with translated(self.faults, openai.APIConnectionError):
            response = await client.get(url, cast_to=httpx2.Response, options={"headers": headers})
            return from_json(await read_body(response, MAX_TOLD_BYTES))


def windows(told: Mapping[str, object]) -> dict[str, int]:
    """Those that are numbers of tokens."""
    return {model: window for model, window in told.items() if type(window) is int and window > 0}
