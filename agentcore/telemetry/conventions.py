"""The words of OpenTelemetry's semantic conventions for generative AI that are used here, and a few of our own.

The conventions are in development, and have a repository of their own (open-telemetry/semantic-conventions-genai,
read in November 2026); whoever updates them here changes no other file.
"""

from collections.abc import Mapping
from typing import TypeAlias

Attributes: TypeAlias = dict[str, str | bool | int | float | list[str]]

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
MODEL = "gen_ai.request.model"
STREAM = "gen_ai.request.stream"
CONVERSATION = "gen_ai.conversation.id"
AGENT_NAME = "gen_ai.agent.name"
AGENT_ID = "gen_ai.agent.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK_S = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - the name of an attribute
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
CALL_ID = "gen_ai.tool.call.id"
CALL_ARGUMENTS = "gen_ai.tool.call.arguments"
CALL_RESULT = "gen_ai.tool.call.result"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
ERROR_TYPE = "error.type"

CHAT, INVOKE_AGENT, EXECUTE_TOOL = "chat", "invoke_agent", "execute_tool"
"""Operations."""
OTHER = "_OTHER"
"""The `error.type` of what has no better name."""

RUN_ID = "agentcore.run.id"
PROMPT_ID = "agentcore.prompt.id"
STOP_REASON = "agentcore.stop_reason"
TURNS = "agentcore.turns"
TURN = "agentcore.turn"
ATTEMPT = "agentcore.attempt"
COST_USD = "agentcore.cost_usd"
LEFT_OPEN = "agentcore.left_open"
"""It was cut off by the end of the session or the server; an interrupted run goes on with the next load."""
REQUEST_ID = "agentcore.permission.request_id"
REQUEST_KIND = "agentcore.permission.kind"
RESOLUTION = "agentcore.permission.resolution"
ANSWERED_BY = "agentcore.permission.answered_by"

SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
RUN_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
"""Borders of the histograms, as the conventions have them."""

_PROVIDERS: Mapping[str, str] = {"gemini": "gcp.gemini", "mistral": "mistral_ai", "xai": "x_ai"}
"""Vendors that have another name there than here."""


def of_model(label: str) -> Attributes:
    """What says which model is meant by `provider/model`."""
    provider, _, model = label.partition("/")
    return {PROVIDER: _PROVIDERS.get(provider, provider), MODEL: model}
