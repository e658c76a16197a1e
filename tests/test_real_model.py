"""A smoke test against a real model server, named by LLAMA_BASE_URL: llama.cpp, LM Studio or Ollama, with or without
`/v1` at its end. Over Chat Completions, and over Messages where it is offered; through the adapters and a whole run.

The same tests run against a small stand-in first, so that the smoke test itself is known to work. What a small model
says is anyone's guess: only that it says something, how it ends, and what is counted is looked at.
"""

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.errors import ProviderError
from agentcore.messages import Message, Text
from agentcore.ports.models import Finished, ModelRequest, Provider, StreamPart, TextPart, ThinkingPart
from agentcore.providers.anthropic.provider import AnthropicProvider
from agentcore.providers.compatible.provider import CompatibleProvider
from agentcore.providers.endpoint import Endpoint, Key
from tests.daemon import running

SLOW_S = 300.0  # a small machine loads a model and reads a long prompt
WHY_ABSENT = "no model server: set LLAMA_BASE_URL to a running llama.cpp, LM Studio or Ollama"
TYPES = {"compatible": "openai-compatible", "messages": "anthropic"}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}

ARGUMENTS = '{"city": "Paris"}'

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(2 * SLOW_S)]


@dataclass(frozen=True)
class Server:
    root: str
    """Without `/v1`."""
    model: str
    has_messages: bool
    is_real: bool

    def address(self, protocol: str) -> str:
        return self.root if protocol == "messages" else f"{self.root}/v1"


def reached(url: str, *, is_real: bool) -> Server:
    """The server at this address, with the first model that it lists."""
    root = url.rstrip("/").removesuffix("/v1")
    with urllib.request.urlopen(f"{root}/v1/models", timeout=30) as answer:
        model = json.load(answer)["data"][0]["id"]
    probe = urllib.request.Request(f"{root}/v1/messages", b"{}", {"Content-Type": "application/json"})
    status = 200
    try:
        urllib.request.urlopen(probe, timeout=30).close()
    except urllib.error.HTTPError as refusal:
        with refusal:
            status = refusal.code
    return Server(root, model, has_messages=status not in (404, 405, 501), is_real=is_real)


REAL = pytest.param(
    "real",
    marks=[pytest.mark.realmodel, pytest.mark.skipif(not os.environ.get("LLAMA_BASE_URL"), reason=WHY_ABSENT)],
)


@pytest.fixture(scope="module", params=["stand-in", REAL])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "real":
        yield reached(os.environ["LLAMA_BASE_URL"], is_real=True)
        return
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as stand_in:
        thread = threading.Thread(target=stand_in.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield reached(f"http://127.0.0.1:{stand_in.server_port}/v1", is_real=False)
        finally:
            stand_in.shutdown()
            thread.join()


@pytest.fixture(params=TYPES)
def protocol(request: pytest.FixtureRequest, server: Server) -> str:
    if request.param == "messages" and not server.has_messages:
        pytest.skip("this server does not offer Messages")
    return str(request.param)


@asynccontextmanager
async def opened(server: Server, protocol: str) -> AsyncIterator[Provider]:
    endpoint = Endpoint(name="lab", title="provider lab", base_url=server.address(protocol), key=Key("none-needed"))
    made: dict[str, type[AnthropicProvider | CompatibleProvider]] = {
        "messages": AnthropicProvider,
        "compatible": CompatibleProvider,
    }
    provider = made[protocol](endpoint)
    await provider.warm()
    try:
        yield provider
    finally:
        await provider.close()


def asking(server: Server, text: str, **fields: Any) -> ModelRequest:
    message = Message(id="u0", role="user", content=(Text(text=text),))
    return ModelRequest(**{"model": server.model, "system": "", "tools": (), "messages": [message], **fields})


async def answered(provider: Provider, request: ModelRequest) -> tuple[list[StreamPart], Finished]:
    with anyio.fail_after(SLOW_S):
        async with provider.stream(request) as parts:
            *shown, last = [part async for part in parts]
    assert isinstance(last, Finished)
    return shown, last


def text_of(finished: Finished) -> str:
    return "".join(block.text for block in finished.content if isinstance(block, Text))


async def test_an_answer_is_streamed_ended_and_counted(server: Server, protocol: str) -> None:
    async with opened(server, protocol) as provider:
        shown, last = await answered(provider, asking(server, "Say hello in one short sentence.", max_tokens=2_000))
    assert any(isinstance(part, TextPart | ThinkingPart) for part in shown)
    assert "".join(part.text for part in shown if isinstance(part, TextPart)) == text_of(last)
    assert last.stop in ("end_turn", "max_tokens")
    assert text_of(last) or last.stop == "max_tokens"
    assert last.usage.input + last.usage.cache_read > 0
    assert last.usage.output > 0


async def test_leaving_an_answer_ends_it_and_the_next_one_comes(server: Server, protocol: str) -> None:
    async with opened(server, protocol) as provider:
        with anyio.fail_after(SLOW_S), anyio.CancelScope() as scope:
            async with provider.stream(asking(server, "Count from 1 to 5000, one number a line.")) as parts:
                async for _ in parts:
                    scope.cancel()
        assert scope.cancelled_caught
        _, last = await answered(provider, asking(server, "Say hello.", max_tokens=2_000))
    assert last.usage.output > 0


async def test_a_prompt_that_is_too_long_is_named_so(server: Server, protocol: str) -> None:
    async with opened(server, protocol) as provider:
        words = 2 * min(provider.context_window(server.model) or 131_072, 131_072)
        kind = ""
        try:
            await answered(provider, asking(server, "word " * words, max_tokens=1))
        except ProviderError as error:
            kind = error.kind
    if not kind and server.is_real:
        pytest.skip("this server takes it, or cuts it without a word")
    assert kind in ("context_overflow", "request_too_large")


async def test_a_whole_run(server: Server, protocol: str, tmp_path: Path) -> None:
    answer = await run(server, protocol, tmp_path, text="Say hello in one short sentence. Use no tool.")
    assert answer["stop_reason"] in ("end_turn", "max_tokens"), answer
    assert answer["text"]


async def test_a_whole_run_gives_an_answer_of_the_form_that_was_asked_for(
    server: Server, protocol: str, tmp_path: Path
) -> None:
    answer = await run(server, protocol, tmp_path, text="What is the capital of France?", output_schema=SCHEMA)
    if answer["stop_reason"] == "error" and server.is_real:
        pytest.skip("this model gives no answer of that form: it may be too small")
    assert list(answer["structured"]) == ["city"], answer


async def run(server: Server, protocol: str, folder: Path, **prompt: Any) -> dict[str, Any]:
    """One prompt to a daemon of its own; what it came to."""
    settings = folder / "config" / "agentcore" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[providers.lab]\ntype = "{TYPES[protocol]}"\nbase_url = "{server.address(protocol)}"\n'
        'api_key_env = "LAB_KEY"\n'
    )
    with running(folder, "--mode", "deny", LAB_KEY="none-needed") as daemon:
        async with daemon.client() as http:
            created = await http.post("/v1/sessions", json={"model": f"lab/{server.model}"})
            assert created.status_code == 201, created.text
            path = f"/v1/sessions/{created.json()['id']}/prompt"
            answer = await http.post(path, json={**prompt, "wait": True}, timeout=SLOW_S)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


# --- the stand-in -------------------------------------------------------------------------------------------------


class StandIn(BaseHTTPRequestHandler):
    """One model behind both protocols: answers, counts for ever, gives a final answer, refuses what is too long."""

    protocol_version = "HTTP/1.1"
    limit_chars = 200_000

    def do_GET(self) -> None:
        self.document(200, {"object": "list", "data": [{"id": "stand-in-1b", "object": "model"}]})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        body = json.loads(raw)
        if "messages" not in body:
            self.refuse("'messages' is required", "invalid_request_error")
        elif len(raw) > self.limit_chars:
            self.refuse("request exceeds the available context size, try increasing it", "exceed_context_size_error")
        else:
            self.stream(body)

    def refuse(self, message: str, kind: str) -> None:
        self.document(400, {"error": {"code": 400, "message": message, "type": kind}})

    def document(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        events = messages if self.path.endswith("/messages") else completions
        try:
            for event in events(words(body), wants_call="final_answer" in json.dumps(body.get("tools", []))):
                self.wfile.write(f"data: {event}\n\n".encode())
        except ConnectionError:
            pass  # the client has left

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def words(body: dict[str, Any]) -> Iterator[str]:
    if "Count from" in json.dumps(body["messages"][-1]):
        return (f"{number}\n" for number in count(1))
    return iter(("Hello", " there."))


def completions(said: Iterator[str], *, wants_call: bool) -> Iterator[str]:
    def chunk(*choices: dict[str, Any], **fields: Any) -> str:
        return json.dumps({"id": "x", "object": "chat.completion.chunk", "choices": choices, **fields})

    def delta(**fields: Any) -> dict[str, Any]:
        return {"index": 0, "delta": fields, "finish_reason": None}

    for word in said:
        yield chunk(delta(content=word))
    if wants_call:
        function = {"name": "final_answer", "arguments": ARGUMENTS}
        yield chunk(delta(tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": function}]))
    yield chunk({"index": 0, "delta": {}, "finish_reason": "tool_calls" if wants_call else "stop"})
    yield chunk(usage={"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9})
    yield "[DONE]"


def messages(said: Iterator[str], *, wants_call: bool) -> Iterator[str]:
    def event(kind: str, **fields: Any) -> str:
        return json.dumps({"type": kind, **fields})

    yield event("message_start", message={"usage": {"input_tokens": 7, "output_tokens": 0}})
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for word in said:
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})
    yield event("content_block_stop", index=0)
    if wants_call:
        call = {"type": "tool_use", "id": "c1", "name": "final_answer", "input": {}}
        yield event("content_block_start", index=1, content_block=call)
        yield event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": ARGUMENTS})
        yield event("content_block_stop", index=1)
    stop = "tool_use" if wants_call else "end_turn"
    yield event("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": 2})
    yield event("message_stop")
