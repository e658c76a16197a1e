"""The Messages API: Anthropic's own, or that of a compatible server."""

import re
from typing import TYPE_CHECKING

from agentcore.errors import ProviderError
from agentcore.ports.models import ModelRequest
from agentcore.providers.answers import HttpProvider
from agentcore.providers.anthropic.body import encode_body, withhold_thinking
from agentcore.providers.anthropic.models import abilities
from agentcore.providers.anthropic.reducer import Reducer
from agentcore.providers.growing import Wire
from agentcore.providers.official import UNREAD, anthropic_client, translated

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic


VENDORS_HOST = "api.anthropic.com"
_ABOUT_BLOCKS = re.compile(
    r"messages\.\d{1,9}\.content\.\d{1,9}.{0,400}(thinking|signature)|thinking`? blocks?\b|"
    r"bound to a different conversation",
    re.IGNORECASE,
)
"""A refusal of thinking that was sent back, not of the options for new thinking."""


class AnthropicProvider(HttpProvider["AsyncAnthropic"]):
    """One endpoint that speaks Messages."""

    def has_structured_output(self, model: str) -> bool:
        return abilities(model).has_schema

    def _make_client(self) -> "AsyncAnthropic":
        return anthropic_client(self.endpoint, self.faults)

    def _reducer(self, request: ModelRequest) -> Reducer:
        return Reducer(self.name, request.model, self.faults)

    def _is_whole_answer(self, document: Wire) -> bool:
        return document.get("type") == "message"

    @property
    def _is_eager(self) -> bool:
        """Only the vendor's own address takes the field for sure: Bedrock, behind many a gateway, refuses it."""
        return self.endpoint.host == VENDORS_HOST

    async def _open(self, client: "AsyncAnthropic", request: ModelRequest) -> "httpx2.Response":
        """Send the request; if its thinking is refused, send it once more without."""
        return await self._sent_or_without(
            request, lambda: self._send(client, request), _refuses_thinking, withhold_thinking
        )

    async def _send(self, client: "AsyncAnthropic", request: ModelRequest) -> "httpx2.Response":
        import anthropic
        import httpx2

        key = await self.endpoint.key.read()
        headers = {**UNREAD, "Authorization": f"Bearer {key or 'none'}"}
        with translated(self.faults, anthropic.APIConnectionError):
            return await client.post(
                "/v1/messages",
                cast_to=httpx2.Response,
                content=encode_body(request, self.name, is_eager=self._is_eager),
                options={"headers": headers},
            )


def _refuses_thinking(error: ProviderError) -> bool:
    """Whether the vendor takes offence at thinking that is sent back; it says so in words only."""
    return error.kind == "invalid_request" and _ABOUT_BLOCKS.search(str(error)) is not None
