"""What local servers tell about their models, over real HTTP: LM Studio by its own API, llama.cpp by `/props`."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from agentcore.messages import Message, Text
from agentcore.ports.models import Finished, ModelRequest, TextPart
from agentcore.providers.compatible import provider as compatible
from agentcore.providers.compatible.provider import CompatibleProvider
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.lmstudio.provider import LmStudioProvider
from tests.recordings import event_stream, http_answer

pytestmark = pytest.mark.anyio

QWEN: dict[str, Any] = {"id": "qwen/qwen3-8b", "type": "llm", "max_context_length": 32768, "capabilities": ["tool_use"]}
GEMMA = {"id": "gemma", "type": "vlm", "state": "loaded", "max_context_length": 8192, "loaded_context_length": 4096}
NOMIC = {"id": "nomic", "type": "embeddings"}
NATIVE = "GET /api/v0/models"
CHAT = "POST /v1/chat/completions"
PROPS = "GET /props"
ANSWER = event_stream({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]})
SAID = [TextPart("hi"), "end_turn"]


def answer(value: Any) -> bytes:
    return http_answer(200, json.dumps(value).encode())


class Server:
    """Answers by method and path; a path without answer is 404, an answer of nothing is never given."""

    def __init__(self, answers: Mapping[str, bytes]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = head.lower().partition("content-length: ")[2].split("\r\n")[0]
                await reader.readexactly(int(length or 0))
                line = head.rpartition(" HTTP/1.1")[0]
                self.asked.append(line)
                if not (told := self.answers.get(line, http_answer(404, b"{}"))):
                    await reader.read()
                    return
                writer.write(told)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answers: Mapping[str, bytes]) -> AsyncIterator[Server]:
    server = Server(answers)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    yield server
    listener.close()


def endpoint(url: str, context_length: int | None = None) -> Endpoint:
    return Endpoint(name="lmstudio", title="LM Studio", base_url=url, context_length=context_length)


async def told(provider: CompatibleProvider, model: str) -> list[Any]:
    hello = Message(id="m1", role="user", content=(Text(text="Hello"),))
    async with provider.stream(ModelRequest(model=model, system="", tools=(), messages=[hello])) as parts:
        return [part.stop if isinstance(part, Finished) else part async for part in parts]


async def test_windows_are_read_when_it_warms_up() -> None:
    async with serving({NATIVE: answer({"data": [QWEN, GEMMA, NOMIC]})}) as server:
        provider = LmStudioProvider(endpoint(server.url))
        assert provider.context_window("gemma") is None
        await provider.warm()
        models = ("qwen/qwen3-8b", "gemma", "nomic", "unknown")
        assert [provider.context_window(model) for model in models] == [32768, 4096, None, None]
        await provider.close()


async def test_the_window_of_a_model_is_read_again_once_its_first_answer_has_loaded_it() -> None:
    async with serving({NATIVE: answer({"data": [QWEN]}), CHAT: ANSWER}) as server:
        provider = LmStudioProvider(endpoint(server.url))
        await provider.warm()
        server.answers[NATIVE] = answer({"data": [QWEN | {"loaded_context_length": 4096}]})
        windows = []
        for _ in range(2):
            assert await told(provider, QWEN["id"]) == SAID
            windows.append(provider.context_window("qwen/qwen3-8b"))
        await provider.close()
    assert windows == [32768, 4096]  # asked before the second call: an answer is not held up by it
    assert server.asked == [NATIVE, CHAT, NATIVE, CHAT]


async def test_what_the_user_says_about_the_window_counts() -> None:
    async with serving({NATIVE: answer({"data": [GEMMA]})}) as server:
        provider = LmStudioProvider(endpoint(server.url, context_length=2048))
        await provider.warm()
        assert provider.context_window("gemma") == 2048
        await provider.close()


@pytest.mark.parametrize(
    "native",
    [
        http_answer(404, b"{}"),
        http_answer(401, b'{"error":"no"}'),
        http_answer(200, b"<html>", "text/html"),
        answer([]),
        answer({"data": None}),
        answer({"data": [5]}),
        answer({"data": [{"id": "gemma", "max_context_length": "8k", "loaded_context_length": -1}]}),
        b"garbage\r\n\r\n",
        b"",
    ],
)
async def test_a_server_that_does_not_tell_is_used_without(native: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compatible, "ASK_S", 0.1)
    async with serving({NATIVE: native, CHAT: ANSWER}) as server:
        provider = LmStudioProvider(endpoint(server.url))
        with anyio.fail_after(20):
            await provider.warm()
            assert await told(provider, "gemma") == SAID
        assert provider.context_window("gemma") is None
        await provider.close()


async def test_a_server_that_is_not_there_does_not_spoil_warming_up() -> None:
    provider = LmStudioProvider(endpoint("http://127.0.0.1:1/v1"))
    await provider.warm()
    assert provider.context_window("gemma") is None
    await provider.close()


async def test_llamacpp_is_asked_for_the_window_that_it_serves() -> None:
    chat = ANSWER.replace(b"\r\n", b"\r\nserver: llama.cpp\r\n", 1)
    props = answer({"default_generation_settings": {"n_ctx": 16384}})
    async with serving({CHAT: chat, PROPS: props}) as server:
        provider = CompatibleProvider(endpoint(server.url))
        for _ in range(2):
            assert await told(provider, "m") == SAID
        assert (provider.context_window("m"), provider.context_window("n")) == (16384, None)
        await provider.close()
    assert server.asked == [CHAT, PROPS, CHAT]


async def test_other_servers_are_asked_nothing() -> None:
    async with serving({CHAT: ANSWER}) as server:
        provider = CompatibleProvider(endpoint(server.url))
        await provider.warm()
        assert await told(provider, "m") == SAID
        await provider.close()
    assert server.asked == [CHAT]
