"""Every recorded answer, cut at many places: it is never taken for a whole one, and what it calls is never run. One
whose end comes late is waited for."""

import re
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import anyio
import pytest

from agentcore.errors import ProviderError
from agentcore.messages import Block, Message, Text, ToolCall
from agentcore.ports.models import Finished, ModelRequest
from agentcore.providers.answers import HttpProvider
from agentcore.providers.anthropic.provider import AnthropicProvider
from agentcore.providers.compatible.provider import CompatibleProvider
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.gemini.provider import GeminiProvider
from agentcore.providers.ollama.provider import OllamaProvider
from agentcore.providers.openai.provider import OpenAIProvider
from tests.recordings import names, needs_recordings, recording

pytestmark = [pytest.mark.anyio, needs_recordings]

PROVIDERS: dict[str, type[HttpProvider[Any]]] = {
    "anthropic": AnthropicProvider,
    "openai-responses": OpenAIProvider,
    "openai-chat": CompatibleProvider,
    "gemini": GeminiProvider,
    "ollama": OllamaProvider,
}
WHOLE = [name for name in names("") if (recording(name)["status"], recording(name)["expect"]["error"]) == (200, None)]
REPEATS_ITS_END = "gemini-utf8-crlf"  # every event of it has a finish reason, so a cut between two cannot be seen
PLACES = 16


async def taken(name: str, body: AsyncIterator[bytes]) -> Finished:
    """What the adapter makes of a body that ends well, however much of it there is. Raises: ProviderError."""
    provider = PROVIDERS[recording(name)["provider"]](Endpoint(name="lab", title="lab", base_url="http://127.0.0.1:1"))
    hello = Message(id="m1", role="user", content=(Text(text="Hello"),))
    reducer = provider._reducer(ModelRequest(model="some-model", system="", tools=(), messages=[hello]))
    parts = [part async for part in provider._parts(body, reducer)]
    assert [place for place, part in enumerate(parts) if isinstance(part, Finished)] == [len(parts) - 1]
    last = parts[-1]
    assert isinstance(last, Finished)
    return last


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 997):
        yield body[start : start + 997]


def without_ids(content: tuple[Block, ...]) -> list[Block]:
    """Gemini gives calls no ids, so each reading makes its own."""
    return [block.model_copy(update={"id": ""}) if isinstance(block, ToolCall) else block for block in content]


@pytest.mark.parametrize("name", [name for name in WHOLE if name != REPEATS_ITS_END])
async def test_a_cut_answer_is_whole_or_nothing(name: str) -> None:
    body = recording(name)["body"].encode()
    whole = await taken(name, pieces(body))
    cuts = {len(body) * place // PLACES for place in range(PLACES)} | {len(body) - length for length in (2, 3, 15, 40)}
    kinds = []
    for cut in sorted(cuts):
        try:
            last = await taken(name, pieces(body[:cut]))
        except ProviderError as error:
            kinds.append(error.kind)
            continue
        # Only its token counts, or its mark of the end, are missing.
        assert (without_ids(last.content), last.stop) == (without_ids(whole.content), whole.stop), cut
    assert set(kinds) == {"stream_truncated"}


async def test_a_pause_before_the_last_event_changes_nothing() -> None:
    async def compare(name: str) -> None:
        body = recording(name)["body"].encode()
        whole, late = await taken(name, pieces(body)), await taken(name, late_end(body))
        assert (without_ids(late.content), late.stop, late.usage) == (
            without_ids(whole.content),
            whole.stop,
            whole.usage,
        ), name

    async with anyio.create_task_group() as tasks:
        for name in WHOLE:
            if not name.startswith("gemini-"):  # has no last event: a pause after its reason to stop is its end
                tasks.start_soon(compare, name)


async def late_end(body: bytes) -> AsyncIterator[bytes]:
    """Pauses before each of the last two events, or lines."""
    ends = [found.end() for found in re.finditer(rb"\n(?:\r?\n)?", body.rstrip())]
    last = [end for end in ends if end < len(body.rstrip())][-2:]
    for start, end in pairwise([0, *last, len(body)]):
        if start:
            await anyio.sleep(1.3)
        yield body[start:end]
