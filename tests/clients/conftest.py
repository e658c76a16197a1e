"""The misbehaving server and impatient clients for it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from agentcore_client.async_client import AsyncClient
from agentcore_client.client import Client
from agentcore_client.retry import RetryPolicy
from tests.clients.unruly import TOKEN, Unruly, running

QUICK = RetryPolicy(attempts=4, first_s=0.001, longest_s=0.004)


@pytest.fixture
def unruly() -> Iterator[Unruly]:
    with running(Unruly()) as server:
        yield server


@pytest.fixture
def client(unruly: Unruly) -> Iterator[Client]:
    with Client(unruly.url, TOKEN, call_retry=QUICK, stream_retry=QUICK) as client:
        yield client


@pytest.fixture
async def async_client(unruly: Unruly) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(unruly.url, TOKEN, call_retry=QUICK, stream_retry=QUICK) as client:
        yield client
