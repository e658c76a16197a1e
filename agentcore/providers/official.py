"""Sending through the official SDKs of Anthropic and OpenAI, which share their inner client.

The SDK makes the client, signs, sends and raises typed errors; the answer is handed over unread, since its event
objects cost fifteen times as much and pass off a cut answer as a whole one. Its retries are off: the loop retries.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentcore.providers.answers import name_of
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.faults import Faults
from agentcore.providers.plain import CONNECT_S, IDLE_S, WRITE_S

UNREAD = {"X-Stainless-Raw-Response": "stream"}
"""The SDKs' own switch: hand over the answer without reading it."""


def http_options(endpoint: Endpoint) -> dict[str, Any]:
    """With what an SDK's HTTP client is made, in place of its own choices.

    No bound on how long an answer may be silent: the loop keeps watch over that. Connections outlive the tools of a
    turn (5 s otherwise). No proxy leads to this machine.
    """
    import httpx2

    return {
        "timeout": httpx2.Timeout(connect=CONNECT_S, read=None, write=WRITE_S, pool=None),
        "limits": httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=IDLE_S),
        "trust_env": not endpoint.is_local,
    }


@contextmanager
def translated(faults: Faults, refusals: type[Exception], breaks: type[Exception]) -> Iterator[None]:
    """Translate what an SDK raises while it sends: `refusals` is its class for an answer with a bad status, `breaks`
    the one for no answer. Raises: ProviderError."""
    import httpx2

    try:
        yield
    except refusals as error:
        response: httpx2.Response = error.response  # type: ignore[attr-defined] # the status errors of both have it
        raise faults.of_answer(response.status_code, response.content, response.headers) from error
    except (breaks, httpx2.RequestError) as error:
        raise faults.of("network", name_of(error)) from error
