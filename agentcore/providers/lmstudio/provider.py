"""LM Studio: its Chat Completions, and its native API for what its models hold and can do.

`GET /api/v0/models` (LM Studio 0.3.6 and later) lists per model `max_context_length`, once it is loaded
`loaded_context_length`, which is what counts, and `capabilities`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agentcore.providers.compatible.provider import CompatibleProvider, windows
from agentcore.providers.endpoint import Endpoint

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_MODELS = "/api/v0/models"
_TOOLS = "tool_use"


class LmStudioProvider(CompatibleProvider):
    """One LM Studio."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._can_use_tools: dict[str, bool] = {}

    def can_use_tools(self, model: str) -> bool | None:
        """Whether the model was trained for tools; None before LM Studio has told. The others get them as text."""
        return self._can_use_tools.get(model)

    async def warm(self) -> None:
        await super().warm()
        if self.why_not() is None:
            await self._learn("")

    async def _told_windows(self, client: "AsyncOpenAI", model: str) -> Mapping[str, int]:
        models = (await self._read(client, _MODELS))["data"]
        self._can_use_tools = {each["id"]: _TOOLS in (each.get("capabilities") or ()) for each in models}
        return windows(
            {each["id"]: each.get("loaded_context_length") or each.get("max_context_length") for each in models}
        )
