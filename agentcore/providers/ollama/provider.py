"""Ollama over its own API, which alone lets the window be set: over the compatible one it forgets all above 4,096.

What a model can hold and do is asked of `/api/show` before its first call. Where that gets no answer the call is made
all the same, with the window that suits most models, and tools are sent.

A model that is known to call no tools is refused before anything is sent: told to work without, it would invent what
it did. It cannot be held to a schema beside tools either: the grammar leaves no room for a call.
"""

import logging
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import anyio
from pydantic_core import from_json, to_json

from agentcore.errors import ProviderError
from agentcore.ports.models import ModelRequest
from agentcore.providers.answers import HttpProvider
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.http import read_body
from agentcore.providers.ollama.body import encode_body
from agentcore.providers.ollama.lines import LineSplitter
from agentcore.providers.ollama.model import UNKNOWN, Model, read_model
from agentcore.providers.ollama.reducer import Reducer
from agentcore.providers.plain import PlainClient

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

SHOW_LIMIT_S = 5.0  # it reads a file on the same machine
KEPT_S = 600.0  # a model may be pulled again, and change
SILENT_S = 600.0  # a server that does not tell is not asked with each call
MAX_SHOWN_BYTES = 4 * 1024 * 1024  # licence, template and the list of tensors come as well

_SAID_BY_THE_CALL = frozenset({"network", "not_found"})
"""Kinds of failure that the call after it has as well, and says better."""


@dataclass(frozen=True, slots=True)
class _Told:
    model: Model
    until: float
    """By the clock; then it is asked again."""


class OllamaProvider(HttpProvider[PlainClient]):
    """One Ollama server."""

    stream_types: ClassVar[frozenset[str]] = frozenset({"", "application/x-ndjson", "application/json"})

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(endpoint)
        self._clock = clock
        self._told: dict[str, _Told] = {}
        self._silent_until = -math.inf
        self._asking = anyio.Lock()

    def context_window(self, model: str) -> int | None:
        """The window that the model is loaded with; before its first call, the one that it would get if unknown."""
        return self._window(model)

    def has_structured_output(self, model: str) -> bool:
        return False

    def _make_client(self) -> PlainClient:
        return PlainClient(self.endpoint, self.faults)

    def _splitter(self) -> LineSplitter:
        return LineSplitter()

    def _reducer(self, request: ModelRequest) -> Reducer:
        return Reducer(self.name, request.model, self.faults, self._window(request.model))

    async def _open(self, client: PlainClient, request: ModelRequest) -> "httpx2.Response":
        headers = await self._headers()
        model = await self._model(client, request.model, headers)
        if request.tools and model.can("tools") is False:
            raise self._cannot_call_tools(request.model)
        body = encode_body(request, self.name, model, self._window(request.model))
        try:
            return await client.post("/api/chat", body, headers)
        except ProviderError as error:
            raise self._with_advice(error, request.model) from error

    async def _headers(self) -> dict[str, str]:
        key = await self.endpoint.key.read()
        return {"Authorization": f"Bearer {key}"} if key else {}

    def _window(self, name: str) -> int:
        told = self._told.get(name)
        return self.endpoint.context_length or (told.model if told else UNKNOWN).window

    async def _model(self, client: PlainClient, name: str, headers: dict[str, str]) -> Model:
        """What is known of a model; asks if that is nothing, or old. Callers meanwhile wait for the same answer."""
        async with self._asking:
            told, now = self._told.get(name), self._clock()
            if (told is None or told.until <= now) and self._silent_until <= now:
                await self._ask(client, name, headers)
                told = self._told.get(name)
            return told.model if told else UNKNOWN

    async def _ask(self, client: PlainClient, name: str, headers: dict[str, str]) -> None:
        """Ask and keep what is told. A server that does not tell is left alone for a while."""
        try:
            with anyio.fail_after(SHOW_LIMIT_S):
                model = await self._show(client, name, headers)
        except (ProviderError, TimeoutError, ValueError) as error:
            if not isinstance(error, ProviderError) or error.kind not in _SAID_BY_THE_CALL:
                log.debug("%s does not tell what its models can do (%s)", self.name, type(error).__name__)
                self._silent_until = self._clock() + SILENT_S
            return
        self._told[name] = _Told(model, self._clock() + KEPT_S)

    async def _show(self, client: PlainClient, name: str, headers: dict[str, str]) -> Model:
        """Raises: ProviderError, ValueError for what is no JSON."""
        import httpx2

        response = await client.post("/api/show", to_json({"model": name}), headers)
        try:
            return read_model(from_json(await read_body(response, MAX_SHOWN_BYTES)))
        except httpx2.RequestError as error:
            raise self.faults.of("network") from error

    def _cannot_call_tools(self, name: str) -> ProviderError:
        sentence = f"The model {name[:80]} of {self.endpoint.title} cannot call tools, and an agent works with tools."
        return ProviderError(
            "invalid_request", f"{sentence} Choose a model for which `ollama show` lists tools among its capabilities."
        )

    def _with_advice(self, error: ProviderError, name: str) -> ProviderError:
        """The same error; for what an older server, or one that told nothing, says itself, what to do about it."""
        if error.kind == "not_found" and re.search(rf"\bmodel [\"'`]?{re.escape(name)}[\"'`]? not found", str(error)):
            return self.faults.of("not_found", f"it has no model {name}, get it with `ollama pull {name}`")
        if error.kind == "invalid_request" and "does not support tools" in str(error):
            return self._cannot_call_tools(name)
        return error
