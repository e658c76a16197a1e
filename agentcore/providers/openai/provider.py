"""The Responses API: OpenAI's own, or that of a compatible server."""

import logging
import re
from typing import TYPE_CHECKING

from agentcore.errors import ProviderError
from agentcore.ports.models import ModelRequest
from agentcore.providers.answers import HttpProvider
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.growing import Wire
from agentcore.providers.official import UNREAD, openai_client, translated
from agentcore.providers.openai.body import Refusable, encode_body, withhold_reasoning
from agentcore.providers.openai.reducer import Reducer

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

log = logging.getLogger(__name__)

_REFUSED_OPTION: tuple[tuple[re.Pattern[str], Refusable], ...] = (
    (re.compile(r"reasoning.summar", re.IGNORECASE), "summary"),  # by accounts that the vendor has not verified
    (re.compile(r"encrypted content is not supported", re.IGNORECASE), "include"),  # by models that do not reason
)
_REFUSED_ITEM = re.compile(r"encrypted content.{0,400}not be|item .{1,160}(required|not found)", re.IGNORECASE)
"""What the vendor takes offence at, in its words: it has no codes for most of it."""


VENDORS_HOST = "api.openai.com"
_IF_ELSEWHERE = (
    "It has to offer /v1/responses. For a server with chat completions alone set up a [providers.<name>] in"
    ' settings.toml with type = "openai-compatible".'
)


class OpenAIProvider(HttpProvider["AsyncOpenAI"]):
    """One endpoint that speaks Responses."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        if endpoint.host != VENDORS_HOST:
            self.faults.if_elsewhere = _IF_ELSEWHERE
        self._left_out: dict[str, frozenset[Refusable]] = {}
        """By model: options that were refused once and are not tried again."""

    def _make_client(self) -> "AsyncOpenAI":
        return openai_client(self.endpoint, self.faults)

    def _reducer(self, request: ModelRequest) -> Reducer:
        return Reducer(self.name, request.model, self.faults)

    def _is_whole_answer(self, document: Wire) -> bool:
        return document.get("object") == "response"

    async def _open(self, client: "AsyncOpenAI", request: ModelRequest) -> "httpx2.Response":
        """Send the request; if something is refused that can do without, once more without it."""
        while True:  # ends: each round sends less than the one before
            left_out = self._left_out.get(request.model, frozenset())
            try:
                return await self._send(client, request, left_out)
            except ProviderError as error:
                option = _refused_option(error)
                if option is not None and option not in left_out:
                    self._leave_out(option, request.model)
                elif _refuses_item(error) and withhold_reasoning(request, self.name):
                    log.warning("session %s: %s refused earlier reasoning, sent without", request.session, self.name)
                else:
                    raise

    def _leave_out(self, option: Refusable, model: str) -> None:
        log.warning("%s refuses the option %r for %s, sending without from now on", self.name, option, model)
        self._left_out[model] = self._left_out.get(model, frozenset()) | {option}

    async def _send(
        self, client: "AsyncOpenAI", request: ModelRequest, left_out: frozenset[Refusable]
    ) -> "httpx2.Response":
        import httpx2
        import openai

        key = await self.endpoint.key.read()
        headers = {**UNREAD, "Authorization": f"Bearer {key or 'none'}"}
        with translated(self.faults, openai.APIConnectionError):
            return await client.post(
                "/responses",
                cast_to=httpx2.Response,
                content=encode_body(request, self.name, left_out),
                options={"headers": headers},
            )


def _refused_option(error: ProviderError) -> Refusable | None:
    if error.kind != "invalid_request":
        return None
    return next((option for wording, option in _REFUSED_OPTION if wording.search(str(error))), None)


def _refuses_item(error: ProviderError) -> bool:
    """Whether the vendor takes offence at reasoning that is sent back."""
    return error.kind == "invalid_request" and _REFUSED_ITEM.search(str(error)) is not None
