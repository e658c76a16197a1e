"""Reading the answers of a provider against the replay server: what the tests of all adapters do alike."""

from typing import Any, Protocol

import anyio
from anyio import to_thread

from agentcore.messages import Message, Text
from agentcore.ports.models import ModelRequest, Provider, StreamPart, ToolCallPart


class Closable(Provider, Protocol):
    async def close(self) -> None: ...


def asking(model: str) -> ModelRequest:
    hello = Message(id="m1", role="user", content=(Text(text="Hello"),))
    return ModelRequest(model=model, system="Be kind.", tools=(), messages=[hello])


async def read(provider: Provider, request: ModelRequest, into: list[StreamPart]) -> None:
    """Append the parts one by one, so that those before an error are there as well."""
    async with provider.stream(request) as parts:
        async for part in parts:
            into.append(part)  # noqa: PERF401 - a comprehension would lose them


async def collected(provider: Closable, request: ModelRequest) -> list[StreamPart]:
    """All parts of one answer; closes the provider."""
    parts: list[StreamPart] = []
    try:
        with anyio.fail_after(20):
            await read(provider, request, into=parts)
    finally:
        await provider.close()
    return parts


async def assert_leaving_closes(
    provider: Closable, request: ModelRequest, replay: Any, sent_less_than: int
) -> StreamPart:
    """Leave after the first part, which is returned; the connection is closed at once."""
    async with provider.stream(request) as parts:
        first = await anext(aiter(parts))
    await _assert_client_left(replay, sent_less_than)
    await provider.close()
    return first


async def assert_cancelling_closes(provider: Closable, request: ModelRequest, replay: Any, sent_less_than: int) -> None:
    """Cancel an answer that stands still after it showed something; the connection is closed at once."""
    with anyio.fail_after(10), anyio.CancelScope() as scope:
        async with provider.stream(request) as parts:
            async for part in parts:
                if not isinstance(part, ToolCallPart):
                    scope.cancel()
    assert scope.cancelled_caught
    await _assert_client_left(replay, sent_less_than)
    await provider.close()


async def _assert_client_left(replay: Any, sent_less_than: int) -> None:
    """By the newest model call that the server got: what a model can do is asked on other paths."""
    with anyio.fail_after(5):
        while (last := (await to_thread.run_sync(_calls, replay))[-1])["finished_at"] is None:
            pass
    assert last["client_left"] is True
    assert last["sent"] < sent_less_than


def _calls(replay: Any) -> list[dict[str, Any]]:
    return [entry for entry in replay.requests() if entry["path"] != "/api/show"]
