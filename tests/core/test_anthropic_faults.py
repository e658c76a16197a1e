"""Every way in which a model call can fail gets its kind from what was said, and a sentence that helps."""

import importlib
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest

from agentcore.errors import ProviderError, ProviderErrorKind
from agentcore.messages import Message, Text
from agentcore.ports import ModelRequest
from agentcore.providers.anthropic.provider import AnthropicProvider
from agentcore.providers.retry_after import retry_after_s
from tests.recordings import CannedServer, event_stream, http_answer, names, needs_recordings, recording, replay_module

pytestmark = pytest.mark.anyio

KEY = "sk-ant-api03-secret-secret"
FAILURES = [name for name in names("anthropic-") if recording(name)["expect"]["error"]]


async def failure(url: str, **environ: str) -> ProviderError:
    """Make one call; return the error that it must end with."""
    provider = AnthropicProvider({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": url, **environ})
    hello = Message(id="m1", role="user", content=(Text(text="Hello"),))
    request = ModelRequest(model="claude-sonnet-4-5", system="", tools=(), messages=[hello])

    async def call() -> None:
        async with provider.stream(request) as parts:
            async for _ in parts:
                pass

    with anyio.fail_after(10), pytest.raises(ProviderError) as caught:
        await call()
    await provider.close()
    return caught.value


async def failure_of(answer: bytes) -> ProviderError:
    async with CannedServer([answer]) as server:
        return await failure(server.url)


@pytest.fixture(scope="module", autouse=True)
def _loaded_sdk() -> None:
    """Load the SDK before any deadline runs: the first time it takes seconds."""
    importlib.import_module("anthropic")


@pytest.fixture(scope="module")
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


@needs_recordings
@pytest.mark.parametrize("mode", ["chunk=whole", "chunk=byte", "framing=close"])
@pytest.mark.parametrize("name", FAILURES)
async def test_a_recorded_failure_has_its_kind(replay: Any, name: str, mode: str) -> None:
    expect = recording(name)["expect"]["error"]
    error = await failure(replay.url_for(name, mode))
    assert error.kind in expect.get("accept_kinds", [expect["kind"]])
    assert error.retry_after_s == (float(expect["retry_after"]) if "retry_after" in expect else None)
    assert "Anthropic" in str(error)


def error_body(type: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": type, "message": message}}).encode()


@pytest.mark.parametrize(
    ("status", "type", "message", "kind"),
    [
        (401, "authentication_error", "invalid x-api-key", "auth"),
        (403, "permission_error", "not allowed", "auth"),
        (400, "invalid_request_error", "messages: at least one message is required", "invalid_request"),
        (400, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum", "context_overflow"),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000",
            "context_overflow",
        ),
        (400, "invalid_request_error", "Your credit balance is too low to access the Anthropic API.", "quota"),
        (402, "billing_error", "payment required", "quota"),
        (404, "not_found_error", "model: claude-9", "not_found"),
        (413, "request_too_large", "Request exceeds the maximum size", "request_too_large"),
        (429, "rate_limit_error", "Number of request tokens has exceeded your limit", "rate_limit"),
        (500, "api_error", "Internal server error", "server_error"),
        (504, "timeout_error", "Request timed out", "server_error"),
        (529, "overloaded_error", "Overloaded", "overloaded"),
        (503, "overloaded_error", "Overloaded", "overloaded"),
        (400, "overloaded_error", "the body knows better than the status", "overloaded"),
        (418, "brand_new_error", "short and stout", "invalid_request"),
        (500, "brand_new_error", "short and stout", "server_error"),
    ],
)
async def test_the_kind_is_read_from_the_body(status: int, type: str, message: str, kind: ProviderErrorKind) -> None:
    error = await failure_of(http_answer(status, error_body(type, message)))
    assert (error.kind, message.rstrip(".") in str(error)) == (kind, True)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, "auth"), (404, "not_found"), (413, "request_too_large"), (429, "rate_limit"), (502, "server_error")],
)
async def test_a_page_in_place_of_an_error_body_counts_by_its_status(status: int, kind: ProviderErrorKind) -> None:
    error = await failure_of(http_answer(status, b"<html><h1>secret page</h1></html>", "text/html"))
    assert (error.kind, f"HTTP {status}" in str(error), "secret" in str(error)) == (kind, True, False)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (http_answer(200, b"<html>Please log in</html>", "text/html; charset=utf-8"), "not_found"),
        (http_answer(200, b'{"hello": 1}'), "not_found"),
        (http_answer(200, error_body("overloaded_error", "Overloaded")), "overloaded"),
        (http_answer(200, b"", "text/event-stream"), "stream_truncated"),
        (http_answer(200, b"hello\n\n", "text/event-stream"), "stream_truncated"),
        (http_answer(200, b"data: hello\n\n", "text/event-stream"), "server_error"),
        (b"nonsense\r\n\r\n", "network"),
        (b"", "network"),
    ],
)
async def test_what_is_no_event_stream_is_named(answer: bytes, kind: ProviderErrorKind) -> None:
    assert (await failure_of(answer)).kind == kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, "overloaded"),
        ({"type": "rate_limit_error", "message": "Slow down"}, "rate_limit"),
        ({"type": "invalid_request_error", "message": "prompt is too long: 1 > 0"}, "context_overflow"),
        ({"type": "brand_new_error"}, "server_error"),
        ("not an object", "server_error"),
    ],
)
@pytest.mark.parametrize("named", [{"type": "error"}, {}], ids=["typed", "bare"])
async def test_an_error_event_in_mid_stream_is_read_from_its_body(
    named: dict[str, str], error: object, kind: ProviderErrorKind
) -> None:
    start = {"type": "message_start", "message": {}}
    assert (await failure_of(event_stream(start, {**named, "error": error}))).kind == kind


async def test_nobody_at_the_address_is_a_network_failure() -> None:
    async with CannedServer([]) as server:
        pass
    error = await failure(server.url)
    assert (error.kind, "ANTHROPIC_BASE_URL" in str(error)) == ("network", True)


@pytest.mark.parametrize("url", ["no address", "ftp://127.0.0.1", "http://[", "http://127.0.0.1:99999"])
async def test_an_address_that_is_none_names_its_variable(url: str) -> None:
    assert "ANTHROPIC_BASE_URL" in str(await failure(url))


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
    monkeypatch.setenv(variable, value)
    error = await failure("http://127.0.0.1:9")
    assert (error.kind, advice in str(error), error.is_retryable) == ("invalid_request", True, False)
    assert value not in str(error)


async def test_a_missing_sdk_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)  # how Python marks a module that cannot be imported
    provider = AnthropicProvider({"ANTHROPIC_API_KEY": KEY})
    with pytest.raises(ProviderError, match="Install agentcore-server again"):
        await provider.warm()


@pytest.mark.parametrize("key", ["", "  ", "sk-ant-ключ", "sk-ant-\x07"])
async def test_without_a_usable_key_the_variable_is_named_before_anything_is_sent(key: str) -> None:
    assert "ANTHROPIC_API_KEY" in str(AnthropicProvider({"ANTHROPIC_API_KEY": key}).why_not())
    async with CannedServer([]) as server:
        error = await failure(server.url, ANTHROPIC_API_KEY=key)
    assert (error.kind, "ANTHROPIC_API_KEY" in str(error), server.connections) == ("auth", True, 0)


def test_a_key_or_a_token_makes_it_ready() -> None:
    assert AnthropicProvider({"ANTHROPIC_API_KEY": KEY}).why_not() is None
    assert AnthropicProvider({"ANTHROPIC_AUTH_TOKEN": "token"}).why_not() is None


async def test_warming_without_a_key_does_nothing() -> None:
    provider = AnthropicProvider({})
    await provider.warm()
    assert provider._client is None


async def test_a_key_that_the_vendor_repeats_is_not_passed_on() -> None:
    said = "invalid key plain-secret or sk-ant-someone-elses"
    async with CannedServer([http_answer(401, error_body("authentication_error", said))]) as server:
        error = await failure(server.url, ANTHROPIC_API_KEY="plain-secret")
    assert "invalid key [key] or [key]" in str(error)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30.0),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:30 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, now=datetime(2026, 1, 1, tzinfo=UTC)) == seconds
