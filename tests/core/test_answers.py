"""What holds for every answer over HTTP, whoever the vendor: tried through the adapter of Anthropic, over a socket."""

import importlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream

from agentcore.caps import MAX_INPUT_DEPTH
from agentcore.errors import ProviderError, ProviderErrorKind
from agentcore.messages import Message, Text, Thinking
from agentcore.ports.models import Finished, ModelRequest, StreamPart, TextPart, ThinkingPart
from agentcore.providers import answers, sse
from agentcore.providers.anthropic.provider import AnthropicProvider
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.growing import GrowingInput, GrowingText, GrowingThinking, count, details
from agentcore.usage import Usage
from tests.core.test_caps import nested
from tests.recordings import CannedServer, event_stream, http_answer

pytestmark = pytest.mark.anyio

KEY = "sk-ant-api03-secret-secret"
REQUEST = ModelRequest(
    model="claude-sonnet-4-5",
    system="",
    tools=(),
    messages=[Message(id="u0", role="user", content=(Text(text="Hello"),))],
)
EVENTS: list[dict[str, object]] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
    {"type": "message_stop"},
]
ANSWER = event_stream(*EVENTS)
FINISHED = Finished(content=(Text(text="hi"),), usage=Usage(input=3, output=4), stop="end_turn")


@pytest.fixture(scope="module", autouse=True)
def _loaded_sdk() -> None:
    """Load the SDK before any deadline runs: the first time it takes seconds."""
    importlib.import_module("anthropic")


def provider_at(url: str, key: Key | None = None) -> AnthropicProvider:
    key = key or Key(KEY, source="ANTHROPIC_API_KEY")
    return AnthropicProvider(
        Endpoint("anthropic", "Anthropic", url, key, url_source="ANTHROPIC_BASE_URL", vendor="anthropic")
    )


@asynccontextmanager
async def closing(provider: AnthropicProvider) -> AsyncIterator[AnthropicProvider]:
    try:
        with anyio.fail_after(10):
            yield provider
    finally:
        await provider.close()


async def read(provider: AnthropicProvider, into: list[StreamPart] | None = None) -> list[StreamPart]:
    parts: list[StreamPart] = [] if into is None else into
    async with provider.stream(REQUEST) as stream:
        async for part in stream:
            parts.append(part)  # noqa: PERF401 - a comprehension would lose those before an error
    return parts


async def failure(url: str, key: Key | None = None) -> ProviderError:
    """Make one call; return the error that it must end with."""
    async with closing(provider_at(url, key)) as provider:
        with pytest.raises(ProviderError) as caught:
            await read(provider)
    return caught.value


async def failure_of(answer: bytes) -> ProviderError:
    async with CannedServer([answer]) as server:
        return await failure(server.url)


# --- what comes in place of an answer -----------------------------------------------------------------------------

OVERLOADED = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
PAGE = b'<html>Please log in, or "error"</html>'


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        (http_answer(529, OVERLOADED), "overloaded", "Overloaded"),
        (http_answer(502, PAGE, "text/html"), "server_error", "HTTP 502"),
        (http_answer(200, PAGE, "text/html; charset=utf-8"), "not_found", "sent text/html in place"),
        (http_answer(200, b'{"hello": 1}'), "not_found", "sent application/json in place"),
        (http_answer(200, b'{"error": null}'), "not_found", "sent application/json in place"),
        (http_answer(200, OVERLOADED), "overloaded", "Overloaded"),
        (http_answer(200, b'[{"error": "model \'x\' not found"}]'), "not_found", "model 'x' not found"),
        (http_answer(200, b'{"error": "strange"}'), "server_error", "strange"),
        (http_answer(200, b'"error"' * 100_000, "text/plain"), "not_found", "sent text/plain in place"),
        (http_answer(200, b"", "text/event-stream"), "stream_truncated", "broke off"),
        (http_answer(200, b"hello\n\n", "text/event-stream"), "stream_truncated", "broke off"),
        (http_answer(200, b": comment\n\n", "text/event-stream"), "stream_truncated", "broke off"),
        (http_answer(200, b"data: hello\n\n", "text/event-stream"), "server_error", "does not fit its protocol"),
        (http_answer(200, b"data: [1]\n\n", "text/event-stream"), "server_error", "does not fit its protocol"),
        (http_answer(200, b"data: 5\n\n", "text/event-stream"), "server_error", "does not fit its protocol"),
        (http_answer(200, b"x" * 99, "text/event-stream", "content-encoding: gzip"), "network", "during the answer"),
        (b"nonsense\r\n\r\n", "network", "RemoteProtocolError"),
        (b"", "network", "RemoteProtocolError"),
    ],
)
async def test_what_is_no_answer_is_named(answer: bytes, kind: ProviderErrorKind, told: str) -> None:
    error = await failure_of(answer)
    assert (error.kind, told in str(error), "Anthropic" in str(error)) == (kind, True, True)
    assert "log in" not in str(error)


async def test_nobody_at_the_address_is_a_network_failure() -> None:
    async with CannedServer([]) as server:
        pass
    error = await failure(server.url)
    assert (error.kind, "ANTHROPIC_BASE_URL" in str(error)) == ("network", True)


async def test_a_last_event_without_its_blank_line_counts_if_it_is_whole() -> None:
    body = ANSWER.partition(b"\r\n\r\n")[2]
    whole = http_answer(200, body.rstrip(b"\n"), "text/event-stream")
    async with CannedServer([whole]) as server, closing(provider_at(server.url)) as provider:
        assert (await read(provider))[-1] == FINISHED
    assert (await failure_of(http_answer(200, body.rstrip(b"\n}"), "text/event-stream"))).kind == "stream_truncated"


async def test_an_event_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1_000)
    error = await failure_of(http_answer(200, b"data: " + b"a" * 200_000, "text/event-stream"))
    assert (error.kind, "more than 1000 bytes" in str(error)) == ("server_error", True)


# --- before anything is sent --------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["no address", "ftp://127.0.0.1", "http://[", "http://127.0.0.1:99999"])
async def test_an_address_that_is_none_names_its_variable(url: str) -> None:
    assert "ANTHROPIC_BASE_URL" in str(await failure(url))


@pytest.mark.parametrize("key", ["", "  ", "sk-ant-ключ", "sk-ant-\x07"])
async def test_without_a_usable_key_nothing_is_sent(key: str) -> None:
    async with CannedServer([]) as server:
        error = await failure(server.url, Key(key, source="ANTHROPIC_API_KEY"))
    assert (error.kind, "ANTHROPIC_API_KEY" in str(error), server.connections) == ("auth", True, 0)


async def test_warming_without_a_key_does_nothing() -> None:
    provider = provider_at("http://127.0.0.1:9", Key(source="ANTHROPIC_API_KEY"))
    await provider.warm()
    assert provider._client is None


@pytest.mark.parametrize(
    ("variable", "value", "advice"),
    [
        ("ALL_PROXY", "socks5://127.0.0.1:1", "socksio"),
        ("ALL_PROXY", "nonsense://127.0.0.1", "ALL_PROXY"),
        ("HTTPS_PROXY", "http://127.0.0.1:many", "HTTPS_PROXY"),
        ("SSL_CERT_FILE", "/no/such/file", "SSL_CERT_FILE"),
        ("SSL_CERT_FILE", __file__, "SSL_CERT_FILE"),
    ],
)
async def test_an_environment_in_which_no_client_can_be_made_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, advice: str
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)  # where some other package has brought it
    monkeypatch.setenv(variable, value)
    error = await failure("http://lab.invalid")
    assert (error.kind, advice in str(error), error.is_retryable) == ("invalid_request", True, False)
    assert value not in str(error)


async def test_no_proxy_leads_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with CannedServer([ANSWER]) as server, closing(provider_at(server.url)) as provider:
        assert (await read(provider))[-1] == FINISHED


async def test_no_answer_is_given_up_for_its_silence() -> None:
    async with closing(provider_at("http://127.0.0.1:9")) as provider:
        await provider.warm()
        assert provider._client is not None
        assert provider._client.timeout == httpx2.Timeout(connect=10.0, read=None, write=60.0, pool=None)


async def test_a_missing_sdk_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)  # how Python marks a module that cannot be imported
    with pytest.raises(ProviderError, match="Install agentcore-server again"):
        await provider_at("http://127.0.0.1:9").warm()


async def test_a_command_is_asked_for_a_new_key_once_the_vendor_refused_the_old_one() -> None:
    command = Key(source="api_key_command of lab", command="echo $$", clock=lambda: 0.0)
    refused = http_answer(401, b'{"error":{"type":"authentication_error","message":"old"}}')
    async with CannedServer([ANSWER, refused, ANSWER]) as server, closing(provider_at(server.url, command)) as provider:
        await read(provider)
        first = command.secrets
        with pytest.raises(ProviderError, match="Check api_key_command of lab") as caught:
            await read(provider)
        assert (caught.value.kind, command.secrets) == ("auth", first)
        await read(provider)
        assert command.secrets != first


# --- the life of the client ---------------------------------------------------------------------------------------


async def test_concurrent_first_calls_make_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    make = AnthropicProvider._make_client

    def counted(self: AnthropicProvider) -> object:
        made.append(self)
        return make(self)

    monkeypatch.setattr(AnthropicProvider, "_make_client", counted)
    async with (
        CannedServer([ANSWER] * 4) as server,
        closing(provider_at(server.url)) as provider,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(provider.warm)
        for _ in range(4):
            tasks.start_soon(read, provider)
    assert (len(made), len(server.bodies)) == (1, 4)


async def test_closing_twice_is_harmless_and_the_next_call_makes_a_new_client() -> None:
    async with CannedServer([ANSWER] * 2) as server, closing(provider_at(server.url)) as provider:
        assert (await read(provider))[-1] == FINISHED
        await provider.close()
        await provider.close()
        assert (await read(provider))[-1] == FINISHED


async def test_a_first_caller_that_leaves_does_not_leave_the_others_without_a_client() -> None:
    async with CannedServer([ANSWER]) as server, closing(provider_at(server.url)) as provider:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await provider.warm()
        assert scope.cancelled_caught
        assert (await read(provider))[-1] == FINISHED


# --- connections --------------------------------------------------------------------------------------------------

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(*events: dict[str, object]) -> bytes:
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return b"%x\r\n%s\r\n" % (len(data), data)


class HeldServer:
    """Begins each answer with the same bytes, and sends its end only when told to; knows when a client has left."""

    def __init__(self, beginning: bytes) -> None:
        self._beginning = beginning
        self.connections = 0
        self.may_end = anyio.Event()
        self.has_left = anyio.Event()
        self.url = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator["HeldServer"]:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, self._serve)
            yield self
            tasks.cancel_scope.cancel()

    async def _serve(self, stream: SocketStream) -> None:
        self.connections += 1
        async with stream, anyio.create_task_group() as tasks:
            try:
                while b"\r\n\r\n" in await stream.receive():  # head and body of a request come in one piece or two
                    tasks.start_soon(self._answer, stream)
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                self.has_left.set()
            tasks.cancel_scope.cancel()

    async def _answer(self, stream: SocketStream) -> None:
        await stream.send(HEAD + self._beginning)
        await self.may_end.wait()
        await stream.send(LAST_CHUNK)


async def test_nothing_is_waited_for_after_the_end_of_the_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "CLOSE_S", 60.0)
    async with HeldServer(chunk(*EVENTS)).running() as server, closing(provider_at(server.url)) as provider:
        assert (await read(provider))[-1] == FINISHED
        await server.has_left.wait()


async def test_the_end_of_the_body_is_taken_where_it_comes_so_that_turns_share_a_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "DRAIN_S", 5.0)
    async with HeldServer(chunk(*EVENTS)).running() as server, closing(provider_at(server.url)) as provider:
        for _ in range(3):
            async with provider.stream(REQUEST) as stream:
                async for part in stream:
                    if isinstance(part, Finished):
                        server.may_end.set()
        assert server.connections == 1


async def test_a_cancel_at_the_very_end_closes_the_connection_as_well() -> None:
    async with HeldServer(chunk(*EVENTS)).running() as server, closing(provider_at(server.url)) as provider:
        with anyio.CancelScope() as scope:
            async with provider.stream(REQUEST) as stream:
                async for part in stream:
                    if isinstance(part, Finished):
                        scope.cancel()
        await server.has_left.wait()


async def test_a_cancel_between_two_parts_closes_the_connection() -> None:
    async with HeldServer(chunk(*EVENTS[:3])).running() as server, closing(provider_at(server.url)) as provider:
        with anyio.CancelScope() as scope:
            async with provider.stream(REQUEST) as stream:
                async for _ in stream:
                    scope.cancel()
                    await anyio.sleep_forever()
        await server.has_left.wait()


async def test_a_body_that_stops_is_left_by_a_cancel() -> None:
    async with HeldServer(chunk(*EVENTS[:3])).running() as server, closing(provider_at(server.url)) as provider:
        parts: list[StreamPart] = []
        with anyio.move_on_after(0.2) as scope:
            await read(provider, parts)
        assert (scope.cancelled_caught, parts) == (True, [TextPart("hi")])
        await server.has_left.wait()


PAGE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 10000000\r\n\r\n"


async def test_of_a_page_no_more_is_read_than_is_needed_to_name_it() -> None:
    assert (await failure_of(PAGE_HEAD + b"x" * 2 * answers.MAX_DOCUMENT_BYTES)).kind == "not_found"


async def test_a_page_that_never_ends_is_left_by_a_cancel() -> None:
    page = PAGE_HEAD + b"hello"
    async with CannedServer([page]) as server, closing(provider_at(server.url)) as provider:
        with anyio.move_on_after(0.2) as scope:
            await read(provider)
        assert scope.cancelled_caught


# --- blocks while they arrive -------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [GrowingText(), GrowingThinking("lab", "m"), GrowingInput()])
@pytest.mark.parametrize("nothing", [None, "", 0, [], {}])
def test_nothing_adds_nothing(block: GrowingText | GrowingThinking | GrowingInput, nothing: object) -> None:
    assert not block.add(nothing)


@pytest.mark.parametrize("block", [GrowingText(), GrowingThinking("lab", "m"), GrowingInput()])
@pytest.mark.parametrize("wrong", [5, True, b"a", ["a"], {"a": 1}])
def test_what_is_no_text_is_against_the_protocol(
    block: GrowingText | GrowingThinking | GrowingInput, wrong: object
) -> None:
    with pytest.raises(TypeError):
        block.add(wrong)


def test_text_and_thinking_are_shown_as_they_come_and_kept_as_one() -> None:
    text, thinking = GrowingText(), GrowingThinking("lab", "m")
    assert (text.block(), thinking.block()) == (None, None)
    assert [text.add("a"), text.add("b")] == [TextPart("a"), TextPart("b")]
    assert [thinking.add("c"), thinking.add("d")] == [ThinkingPart("c"), ThinkingPart("d")]
    thinking.signature = "seal"
    assert text.block() == Text(text="ab")
    assert thinking.block() == Thinking(text="cd", signature="seal", provider="lab", model="m")


def test_a_signature_alone_is_worth_keeping() -> None:
    thinking = GrowingThinking("lab", "m")
    thinking.signature = "seal"
    assert thinking.block() == Thinking(text="", signature="seal", provider="lab", model="m")


@pytest.mark.parametrize(
    ("initial", "pieces", "input"),
    [
        (None, [], {}),
        ({"a": 1}, [], {"a": 1}),
        ({"a": 1}, [" "], {"a": 1}),
        ({"a": 1}, ['{"b"', ": 2}"], {"b": 2}),
        ("text", [], None),
        ([], [], None),
        (None, ['{"a": "\\ud83e', '\\udd9c"}'], {"a": "🦜"}),
        (None, [' {"a": 1}\n'], {"a": 1}),
        (None, ['{"a": 1'], None),
        (None, ['{"a": 1}}'], None),
        (None, ['{"a": 1,}'], None),
        (None, ["{'a': 1}"], None),
        (None, ['{"a": NaN}'], None),
        (None, ['{"a": 1e999}'], None),
        (None, ['{"a": "\\ud83e"}'], None),
        (None, ["[1]"], None),
        (None, ["null"], None),
        (None, [json.dumps(nested(MAX_INPUT_DEPTH))], nested(MAX_INPUT_DEPTH)),
        (None, [json.dumps(nested(MAX_INPUT_DEPTH + 1))], None),
        (None, ["{" * 5_000], None),
    ],
)
def test_only_one_whole_object_is_an_input(initial: object, pieces: list[str], input: object) -> None:
    growing = GrowingInput(initial)
    assert [growing.add(piece) for piece in pieces] == [True] * len(pieces)
    assert growing.parse() == input
    assert growing.size_bytes == len("".join(pieces).encode())


@pytest.mark.parametrize(
    ("value", "counted"), [(5, 5), (0, 0), (-1, 0), (None, 0), ("5", 0), (5.0, 0), (True, 0), ({}, 0)]
)
def test_a_count_that_makes_no_sense_is_none(value: object, counted: int) -> None:
    assert (count({"tokens": value}, "tokens"), count({}, "tokens")) == (counted, 0)


@pytest.mark.parametrize("value", [None, 5, [], "text"])
def test_details_that_are_no_object_are_none(value: object) -> None:
    assert (details({"of": value}, "of"), details({"of": {"a": 1}}, "of")) == ({}, {"a": 1})
