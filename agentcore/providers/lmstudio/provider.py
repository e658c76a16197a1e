"""LM Studio: its Chat Completions, and its native API for what its models hold.

`GET /api/v0/models` (LM Studio 0.3.6 and later) lists per model `max_context_length` and, once it is loaded,
`loaded_context_length`, which is what counts. Its `capabilities` are no reason to refuse a model: those that were not
trained for tools are told of them in the prompt.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentcore.providers.compatible.provider import CompatibleProvider, windows

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_MODELS = "/api/v0/models"


class LmStudioProvider(CompatibleProvider):
    """One LM Studio."""

    async def warm(self) -> None:
        await super().warm()
        if self.why_not() is None:
            await self._learn("")

    async def _told_windows(self, client: "AsyncOpenAI", model: str) -> Mapping[str, int]:
        models = (await self._read(client, _MODELS))["data"]
        return windows(
            {each["id"]: each.get("loaded_context_length") or each.get("max_context_length") for each in models}
        )
