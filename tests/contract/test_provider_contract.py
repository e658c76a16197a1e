"""What every provider promises, tried on each of them: parts, then `Finished` once and last; typed errors only."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest
from pydantic_core import to_json

from agentcore.errors import ProviderError
from agentcore.messages import Message, Opaque, Text, ToolCall
from agentcore.ports.models import Finished, ModelRequest, Provider, TextPart, ToolCallPart
from agentcore.providers.anthropic.provider import AnthropicProvider
from agentcore.providers.compatible.provider import CompatibleProvider
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.gemini.provider import GeminiProvider
from agentcore.providers.ollama.provider import OllamaProvider
from agentcore.providers.openai.provider import OpenAIProvider
from agentcore.providers.scripted.provider import ScriptedProvider
from agentcore.providers.scripted.script import Script
from tests.recordings import CannedServer, event_stream, http_answer

pytestmark = pytest.mark.anyio

REQUEST = ModelRequest(
    model="claude-sonnet-4-5",
    system="",
    tools=(),
    messages=[Message(id="u0", role="user", content=(Text(text="go"),))],
)
FAILURE = http_answer(529, b'{"type":"error","error":{"type":"overloaded_error","message":"Full"}}')
ANSWER = event_stream(
    {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Two"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": " words"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "c1", "name": "ls", "input": {}},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"path":"."}'}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
)
RESPONSES_CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "ls", "arguments": '{"path":"."}'}
RESPONSES_TEXT = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Two words"}]}
RESPONSES_END = {"status": "completed", "usage": {"input_tokens": 3, "output_tokens": 4}}
RESPONSES_ANSWER = event_stream(
    {"type": "response.created", "response": {}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**RESPONSES_TEXT, "content": []}},
    {"type": "response.output_text.delta", "output_index": 0, "delta": "Two"},
    {"type": "response.output_text.delta", "output_index": 0, "delta": " words"},
    {"type": "response.output_item.done", "output_index": 0, "item": RESPONSES_TEXT},
    {"type": "response.output_item.added", "output_index": 1, "item": {**RESPONSES_CALL, "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"path":"."}'},
    {"type": "response.output_item.done", "output_index": 1, "item": RESPONSES_CALL},
    {"type": "response.completed", "response": RESPONSES_END},
)
RESPONSES_FAILURE = http_answer(503, b'{"error":{"code":"server_is_overloaded","message":"Full"}}')
GEMINI_CALL = {"functionCall": {"id": "c1", "name": "ls", "args": {"path": "."}}}
GEMINI_USAGE = {"promptTokenCount": 3, "candidatesTokenCount": 4}
GEMINI_ANSWER = event_stream(
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "Two"}]}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": " words"}, GEMINI_CALL]}}]},
    {"candidates": [{"content": {}, "finishReason": "STOP"}], "usageMetadata": GEMINI_USAGE},
)
GEMINI_FAILURE = http_answer(503, b'{"error":{"code":503,"status":"UNAVAILABLE","message":"Full"}}')
CHAT_CALL = {"index": 0, "id": "c1", "function": {"name": "ls", "arguments": '{"path":"."}'}}
CHAT_ANSWER = event_stream(
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Two"}}]},
    {"choices": [{"index": 0, "delta": {"content": " words"}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [CHAT_CALL]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
)
CHAT_FAILURE = http_answer(503, b'{"error":{"message":"Full","code":503}}')
SCRIPT = {
    "turns": [
        {
            "text": "Two words",
            "tool_calls": [{"name": "ls", "id": "c1", "input": {"path": "."}}],
            "usage": {"input": 3, "output": 4},
        }
    ]
}

Opened = AbstractAsyncContextManager[Provider]


@asynccontextmanager
async def anthropic(fails: bool) -> AsyncIterator[Provider]:
    async with CannedServer([FAILURE if fails else ANSWER] * 3) as server:
        endpoint = Endpoint(name="anthropic", title="Anthropic", base_url=server.url, key=Key("sk-ant-api03-test"))
        provider = AnthropicProvider(endpoint)
        yield provider
        await provider.close()


@asynccontextmanager
async def openai(fails: bool) -> AsyncIterator[Provider]:
    async with CannedServer([RESPONSES_FAILURE if fails else RESPONSES_ANSWER] * 3) as server:
        provider = OpenAIProvider(Endpoint(name="openai", title="OpenAI", base_url=f"{server.url}/v1"))
        yield provider
        await provider.close()


@asynccontextmanager
async def compatible(fails: bool) -> AsyncIterator[Provider]:
    async with CannedServer([CHAT_FAILURE if fails else CHAT_ANSWER] * 3) as server:
        provider = CompatibleProvider(Endpoint(name="lab", title="provider lab", base_url=f"{server.url}/v1"))
        yield provider
        await provider.close()


@asynccontextmanager
async def gemini(fails: bool) -> AsyncIterator[Provider]:
    async with CannedServer([GEMINI_FAILURE if fails else GEMINI_ANSWER] * 3) as server:
        provider = GeminiProvider(Endpoint(name="gemini", title="Gemini", base_url=server.url))
        yield provider
        await provider.close()


@asynccontextmanager
async def ollama(fails: bool) -> AsyncIterator[Provider]:
    lines = (
        {"message": {"role": "assistant", "content": "Two"}, "done": False},
        {"message": {"role": "assistant", "content": " words"}, "done": False},
        {
            "message": {"tool_calls": [{"id": "c1", "function": {"name": "ls", "arguments": {"path": "."}}}]},
            "done": False,
        },
        {"message": {"content": ""}, "done": True, "done_reason": "stop", "prompt_eval_count": 3, "eval_count": 4},
    )
    answer = http_answer(200, b"".join(to_json(line) + b"\n" for line in lines), "application/x-ndjson")
    no_show = http_answer(501, b"")  # it does not tell what its models can do
    async with CannedServer([no_show, *([FAILURE if fails else answer] * 3)]) as server:
        provider = OllamaProvider(Endpoint(name="ollama", title="Ollama", base_url=server.url))
        yield provider
        await provider.close()


@asynccontextmanager
async def scripted(fails: bool) -> AsyncIterator[Provider]:
    error = {"turns": [{"error": {"kind": "overloaded", "message": "Full"}}]}
    provider = ScriptedProvider(Script.model_validate(error if fails else SCRIPT))
    yield provider
    await provider.close()


@pytest.fixture(
    params=[anthropic, openai, compatible, gemini, ollama, scripted],
    ids=["anthropic", "openai", "compatible", "gemini", "ollama", "scripted"],
)
def opened(request: pytest.FixtureRequest) -> Callable[..., Opened]:
    make: Callable[..., Opened] = request.param
    return make


async def test_parts_come_first_and_finished_once_and_last(opened: Callable[..., Opened]) -> None:
    async with opened(fails=False) as provider:
        for _ in range(2):
            async with provider.stream(REQUEST) as stream:
                *parts, last = [part async for part in stream]
            assert parts[:3] == [TextPart("Two"), TextPart(" words"), ToolCallPart("c1", "ls", 0)]
            assert parts[-1] == ToolCallPart("c1", "ls", 12)
            assert isinstance(last, Finished)
            content = [block for block in last.content if not isinstance(block, Opaque)]  # each vendor has its own
            assert content == [Text(text="Two words"), ToolCall(id="c1", name="ls", input={"path": "."})]
            assert (last.usage.input, last.usage.output, last.stop) == (3, 4, "tool_use")


async def test_a_stream_can_be_left_at_any_part_and_the_next_call_works(opened: Callable[..., Opened]) -> None:
    async with opened(fails=False) as provider:
        for left_after in (1, 3):
            seen = 0
            async with provider.stream(REQUEST) as stream:
                async for _ in stream:
                    seen += 1
                    if seen == left_after:
                        break
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        async with provider.stream(REQUEST) as stream:
            assert isinstance([part async for part in stream][-1], Finished)


async def test_an_error_inside_the_block_passes_through_and_the_stream_is_closed(opened: Callable[..., Opened]) -> None:
    async def fail(provider: Provider) -> None:
        async with provider.stream(REQUEST) as stream:
            await anext(stream)
            raise LookupError("of the caller")

    async with opened(fails=False) as provider:
        with pytest.raises(LookupError, match="of the caller"):
            await fail(provider)


async def test_cancelling_ends_the_call(opened: Callable[..., Opened]) -> None:
    async with opened(fails=False) as provider:
        with anyio.CancelScope() as scope:
            scope.cancel()
            async with provider.stream(REQUEST) as stream:
                async for _ in stream:
                    pass
        assert scope.cancelled_caught


async def test_a_failure_is_a_provider_error(opened: Callable[..., Opened]) -> None:
    async def call(provider: Provider) -> None:
        async with provider.stream(REQUEST) as stream:
            async for _ in stream:
                pass

    async with opened(fails=True) as provider:
        with pytest.raises(ProviderError) as caught:
            await call(provider)
        assert caught.value.kind == "overloaded"


async def test_warming_and_closing_twice_is_harmless(opened: Callable[..., Opened]) -> None:
    async with opened(fails=False) as provider:
        await provider.warm()
        await provider.warm()
        await provider.close()
        async with provider.stream(REQUEST) as stream:
            assert isinstance([part async for part in stream][-1], Finished)
        await provider.close()
