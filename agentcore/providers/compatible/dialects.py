"""What the services that speak Chat Completions want otherwise than the others: one table.

By the vendor of an endpoint, as the catalogue names it, else by its host. A service that is not here gets the plainest
form, since many refuse a request with a field that they do not know. Facts without a source are those of the vendor's
own API reference.
"""

from dataclasses import dataclass

from agentcore.providers.catalogue import vendor_of_host
from agentcore.providers.endpoint import Endpoint

_UP_TO_XHIGH = ("low", "medium", "high", "xhigh")
_ALL = ("",)


@dataclass(frozen=True, slots=True)
class Dialect:
    efforts: tuple[str, ...] = ("low", "medium", "high")
    """What `reasoning_effort` may be; more than the last is asked for as the last."""
    has_reasoning_object: bool = False
    """The effort is given as `reasoning: {effort}`."""
    max_tokens_field: str = "max_tokens"
    has_stream_options: bool = True
    """`stream_options` is known; the others report usage unasked."""
    has_cache_key: bool = False
    """`prompt_cache_key` is known."""
    takes_images: bool = True
    takes_files: bool = False
    returns_reasoning: bool = False
    """An answer's `reasoning_content` has to come back with it, and be there, if only empty, beside tool calls."""
    is_strict: bool = False
    """Call ids have nine letters or digits, and no user message follows a tool's result."""
    models_with_schema: tuple[str, ...] = ()
    """What the names of models begin with that can be held to a schema while they have tools and stream."""


# Not held to a schema, though they know `response_format`: local servers constrain the whole output by it, so that the
# model can call no tool any more, and Groq takes it neither with tools nor for a stream.
_DIALECTS: dict[str, Dialect] = {
    "openai": Dialect(
        _UP_TO_XHIGH,
        max_tokens_field="max_completion_tokens",  # the newer models refuse the old name
        has_cache_key=True,
        takes_files=True,
        models_with_schema=_ALL,
    ),
    "azure": Dialect(_UP_TO_XHIGH, max_tokens_field="max_completion_tokens", models_with_schema=_ALL),
    "openrouter": Dialect(
        _UP_TO_XHIGH,
        has_reasoning_object=True,
        takes_files=True,
        models_with_schema=("openai/", "google/gemini-"),  # for other models it may drop the field without a word
    ),
    "vercel": Dialect(_UP_TO_XHIGH, has_reasoning_object=True),
    # Since V3.2 it refuses a tool round without the reasoning (400, "must be passed back"); `max` is its own word.
    "deepseek": Dialect((*_UP_TO_XHIGH, "max"), takes_images=False, returns_reasoning=True),
    # 400, "thinking is enabled but reasoning_content is missing in assistant tool call message".
    "moonshotai": Dialect(has_cache_key=True, returns_reasoning=True),
    # 422 for unknown fields; "Tool call id was … but must be a-z, A-Z, 0-9, with a length of 9"; code 3230,
    # "Unexpected role 'user' after role 'tool'".
    "mistral": Dialect(has_stream_options=False, is_strict=True),
}
_VENDORS_OF_HOSTS = {"ai-gateway.vercel.sh": "vercel", "api.kimi.com": "moonshotai"}
"""Hosts that the catalogue does not know."""
_PLAIN = Dialect()


def dialect_of(endpoint: Endpoint) -> Dialect:
    vendor = endpoint.vendor or _VENDORS_OF_HOSTS.get(endpoint.host) or vendor_of_host(endpoint.host) or ""
    return _DIALECTS.get(vendor, _PLAIN)
