"""What Ollama tells about a model, asked of a small server that answers as Ollama does, and what follows from it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from agentcore.errors import ProviderError
from agentcore.messages import Message, Text
from agentcore.ports.models import Finished, ModelRequest, ToolDefinition
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.ollama import provider as module
from agentcore.providers.ollama.model import UNKNOWN, WINDOW_TOKENS, Model, read_model
from agentcore.providers.ollama.provider import KEPT_S, SILENT_S, OllamaProvider
from tests.recordings import CannedServer, http_answer

pytestmark = pytest.mark.anyio

MODEL = "qwen3.6:latest"
TOOLS = (ToolDefinition(name="read", description="Read a file.", input_schema={"type": "object"}),)
ANSWER = {"message": {"role": "assistant", "content": "Hi"}, "done": True, "done_reason": "stop"}
CHAT = http_answer(200, json.dumps(ANSWER).encode() + b"\n", "application/x-ndjson")
CAPABILITIES = ["completion", "tools", "thinking"]


def shown(length: Any = 262_144, capabilities: Any = CAPABILITIES) -> dict[str, Any]:
    """The parts of an answer of `/api/show` that matter, among some that do not."""
    return {
        "license": "a long text",
        "details": {"family": "qwen3", "parameter_size": "8B"},
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": length, "clip.context_length": 77},
        "capabilities": capabilities,
    }


class FakeOllama(CannedServer):
    """Tells what it is given to tell, and answers every chat; remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__([])
        self.shows: dict[str, bytes] = {}
        """By model; others are not found."""
        self.chat = CHAT
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str] = []
        self.is_silent = False

    def show(self, model: str, *, length: Any = 262_144, capabilities: Any = CAPABILITIES) -> None:
        self.shows[model] = http_answer(200, json.dumps(shown(length, capabilities)).encode())

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]

    @property
    def chats(self) -> list[dict[str, Any]]:
        return [body for path, body in self.asked if path == "/api/chat"]

    async def _answer_to(self, reader: asyncio.StreamReader) -> bytes:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n"))}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        path = head.split(" ")[1]
        self.asked.append((path, body))
        self.keys.append(headers.get("authorization", ""))
        if path == "/api/chat":
            return self.chat
        if self.is_silent:
            await anyio.sleep_forever()
        missing = json.dumps({"error": f"model '{body['model']}' not found"}).encode()
        return self.shows.get(body["model"], http_answer(404, missing))


@asynccontextmanager
async def ollama(
    clock: Callable[[], float] = lambda: 0.0, **settings: Any
) -> AsyncIterator[tuple[FakeOllama, OllamaProvider]]:
    server = FakeOllama()
    async with server:
        endpoint = Endpoint(name="ollama", title="Ollama", base_url=server.url, **settings)
        provider = OllamaProvider(endpoint, clock)
        try:
            yield server, provider
        finally:
            await provider.close()


async def call(provider: OllamaProvider, model: str = MODEL, **fields: Any) -> Finished:
    messages = [Message(id="u0", role="user", content=(Text(text="Hello"),))]
    request = ModelRequest(**{"model": model, "system": "", "tools": TOOLS, "messages": messages, **fields})
    with anyio.fail_after(20):
        async with provider.stream(request) as parts:
            last = [part async for part in parts][-1]
    assert isinstance(last, Finished)
    return last


@pytest.mark.parametrize(
    ("told", "model"),
    [
        (shown(), Model(262_144, frozenset(CAPABILITIES))),
        (shown(length=8192, capabilities=[]), Model(8192, frozenset())),
        (shown(length="8192", capabilities="tools"), UNKNOWN),
        (shown(length=0, capabilities=None), UNKNOWN),
        ({}, UNKNOWN),
        ({"model_info": [], "capabilities": {}}, UNKNOWN),
        ({"model_info": {"qwen3.context_length": 8192}}, UNKNOWN),
        ([], UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_what_is_read_and_what_counts_as_not_told(told: Any, model: Model) -> None:
    assert read_model(told) == model


@pytest.mark.parametrize(
    ("length", "set_by_user", "window"),
    [
        (262_144, None, WINDOW_TOKENS),
        (8_192, None, 8_192),
        (None, None, WINDOW_TOKENS),
        (262_144, 131_072, 131_072),
        (8_192, 4_096, 4_096),
    ],
)
async def test_the_window_is_what_fits_an_agent_or_less_unless_the_user_says(
    length: int | None, set_by_user: int | None, window: int
) -> None:
    async with ollama(context_length=set_by_user) as (server, provider):
        server.show(MODEL, length=length)
        assert provider.context_window(MODEL) == (set_by_user or WINDOW_TOKENS)
        await call(provider)
        assert provider.context_window(MODEL) == window
        assert server.chats[0]["options"] == {"num_ctx": window}


async def test_a_model_is_asked_for_once_and_again_after_some_minutes() -> None:
    now = [100.0]
    async with ollama(lambda: now[0]) as (server, provider):
        server.show(MODEL, length=8_192)
        server.show("other", length=4_096)
        for name in (MODEL, MODEL, "other", MODEL):
            await call(provider, name)
        assert [body["model"] for path, body in server.asked if path == "/api/show"] == [MODEL, "other"]
        server.show(MODEL, length=16_384)
        now[0] += KEPT_S - 1
        await call(provider)
        assert provider.context_window(MODEL) == 8_192
        now[0] += 1
        await call(provider)
        assert provider.context_window(MODEL) == 16_384
        assert server.asked[-2:][0] == ("/api/show", {"model": MODEL})


async def test_callers_at_the_same_time_ask_once() -> None:
    async with ollama() as (server, provider):
        server.show(MODEL)
        await provider.warm()
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(call, provider)
        assert sorted(server.paths) == ["/api/chat"] * 4 + ["/api/show"]


@pytest.mark.parametrize(
    "answer",
    [http_answer(421, b"{}"), http_answer(500, b""), http_answer(200, b"<html>"), http_answer(401, b'{"error":"no"}')],
)
async def test_a_server_that_does_not_tell_is_used_all_the_same_and_left_alone_for_a_while(answer: bytes) -> None:
    now = [100.0]
    async with ollama(lambda: now[0]) as (server, provider):
        server.shows = {MODEL: answer, "other": answer}
        for name in (MODEL, "other", MODEL):
            await call(provider, name, effort="high")
        assert server.paths == ["/api/show", "/api/chat", "/api/chat", "/api/chat"]
        assert [(chat["options"], len(chat["tools"]), "think" in chat) for chat in server.chats] == [
            ({"num_ctx": WINDOW_TOKENS}, 1, False)
        ] * 3
        now[0] += SILENT_S
        server.show(MODEL)
        await call(provider, effort="high")
        assert server.chats[-1]["think"] is True


async def test_a_server_that_stays_silent_is_waited_for_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOW_LIMIT_S", 0.05)
    async with ollama() as (server, provider):
        server.is_silent = True
        await call(provider)
        await call(provider)
        assert server.paths == ["/api/show", "/api/chat", "/api/chat"]


async def test_what_was_told_is_kept_when_the_server_later_does_not_tell() -> None:
    now = [100.0]
    async with ollama(lambda: now[0]) as (server, provider):
        server.show(MODEL, length=8_192)
        await call(provider)
        now[0] += KEPT_S
        server.shows[MODEL] = http_answer(500, b"")
        await call(provider)
        assert [chat["options"] for chat in server.chats] == [{"num_ctx": 8_192}] * 2


async def test_a_model_that_was_not_there_is_asked_for_again() -> None:
    async with ollama() as (server, provider):
        server.chat = http_answer(404, json.dumps({"error": f"model '{MODEL}' not found"}).encode())
        with pytest.raises(ProviderError, match=f"`ollama pull {MODEL}`") as caught:
            await call(provider)
        assert caught.value.kind == "not_found"
        server.show(MODEL, length=8_192)  # pulled meanwhile
        server.chat = CHAT
        await call(provider)
        assert server.chats[-1]["options"] == {"num_ctx": 8_192}


async def test_a_model_that_cannot_call_tools_is_refused_before_anything_is_sent() -> None:
    async with ollama() as (server, provider):
        server.show(MODEL, capabilities=["completion"])
        with pytest.raises(ProviderError, match=rf"{MODEL} of Ollama cannot call tools.*`ollama show`") as caught:
            await call(provider)
        assert (caught.value.kind, server.paths) == ("invalid_request", ["/api/show"])
        await call(provider, tools=())  # to talk it is good enough
        assert "tools" not in server.chats[0]


async def test_the_same_is_said_when_only_the_call_tells_it() -> None:
    async with ollama() as (server, provider):
        server.show(MODEL, capabilities=None)
        refusal = {"error": f"registry.ollama.ai/library/{MODEL} does not support tools"}
        server.chat = http_answer(400, json.dumps(refusal).encode())
        with pytest.raises(ProviderError, match=r"cannot call tools.*`ollama show`") as caught:
            await call(provider)
        assert caught.value.kind == "invalid_request"


async def test_a_conversation_that_is_too_long_is_an_overflow_not_forgotten() -> None:
    runner = {"code": 400, "message": "request (351 tokens) exceeds the available context size (256 tokens)"}
    refusal = {"error": json.dumps({"error": {**runner, "type": "exceed_context_size_error"}})}
    async with ollama() as (server, provider):
        server.show(MODEL)
        server.chat = http_answer(400, json.dumps(refusal).encode())
        with pytest.raises(ProviderError, match=r"request \(351 tokens\)") as caught:
            await call(provider)
        assert (caught.value.kind, server.chats[0]["truncate"]) == ("context_overflow", False)


async def test_no_answer_can_be_held_to_a_schema_beside_tools() -> None:
    async with ollama() as (server, provider):
        server.show(MODEL)
        await call(provider)
        assert not provider.has_structured_output(MODEL)


async def test_a_key_is_sent_where_there_is_one_and_no_header_where_there_is_none() -> None:
    async with ollama(key=Key("secret-key-1")) as (server, provider):
        await call(provider)
        assert server.keys == ["Bearer secret-key-1"] * 2
    async with ollama() as (server, provider):
        await call(provider)
        assert server.keys == ["", ""]


async def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with ollama() as (_, provider):
        assert (await call(provider)).content == (Text(text="Hi"),)
