"""Sending through the official SDKs of Anthropic and OpenAI, which share their inner client.

The SDK makes the client, signs and sends; the answer is handed over unread, since its event objects cost fifteen times
as much and pass off a cut answer as a whole one. Its retries are off: the loop retries. Refusals are read by our own
`http`, because the SDK reads them whole, however long they are.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agentcore.errors import ProviderError
from agentcore.providers.answers import name_of
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.faults import Faults
from agentcore.providers.http import http_options

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI

UNREAD = {"X-Stainless-Raw-Response": "stream", "Content-Type": "application/json"}
"""The SDKs' own switch: hand over the answer without reading it. The type is named for the sake of `_withheld`."""


def anthropic_client(endpoint: Endpoint, faults: Faults) -> "AsyncAnthropic":
    import anthropic

    return anthropic.AsyncAnthropic(
        api_key="sent with each request",
        base_url=endpoint.base_url,
        max_retries=0,
        default_headers={} if endpoint.is_vendors_own else _withheld("ANTHROPIC_CUSTOM_HEADERS", anthropic.Omit()),
        # Given, because the SDK's own one trips over itself when half made.
        http_client=anthropic.DefaultAsyncHttpxClient(**http_options(endpoint, faults)),
        open_telemetry=False,
    )


def openai_client(endpoint: Endpoint, faults: Faults) -> "AsyncOpenAI":
    import openai

    client = openai.AsyncOpenAI(
        api_key="sent with each request",
        base_url=endpoint.base_url,
        max_retries=0,
        default_headers={} if endpoint.is_vendors_own else _withheld("OPENAI_CUSTOM_HEADERS", openai.Omit()),
        # Given, for the same reason, and because the SDK may choose one on aiohttp by itself.
        http_client=openai.DefaultAsyncHttpxClient(**http_options(endpoint, faults)),
    )
    if not endpoint.is_vendors_own:
        client.organization = client.project = None  # read from the environment as well
    return client


def _withheld(variable: str, omit: Any) -> dict[str, Any]:
    """Default headers that take out what an SDK reads from a variable of its vendor's: secrets, often, meant for the
    vendor alone. `omit` is the SDK's own mark for a header that is not sent."""
    lines = os.environ.get(variable, "").split("\n")
    return {name.strip(): omit for name, colon, _ in (line.partition(":") for line in lines) if colon}


@contextmanager
def translated(faults: Faults, breaks: type[Exception]) -> Iterator[None]:
    """Translate what an SDK raises while it sends; `breaks` is its class for no answer. Raises: ProviderError."""
    import httpx2

    try:
        yield
    except (breaks, httpx2.RequestError) as error:
        if isinstance(error.__cause__, ProviderError):  # a refusal, which Anthropic's SDK takes for no answer
            raise error.__cause__ from None
        raise faults.of("network", name_of(error)) from error
