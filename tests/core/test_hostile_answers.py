"""Services that mean no good, or are broken: what they send is bounded, goes nowhere else, and ends as a sentence.

Every adapter is tried over a socket, because what its SDK makes of an answer counts as well.
"""

import asyncio
import gzip
import json
import re
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import anyio
import pytest

from agentcore.errors import ProviderError
from agentcore.messages import Message, Text, Thinking, ToolCall
from agentcore.ports.models import Finished, ModelRequest, Provider
from agentcore.providers import answers, faults, growing, http
from agentcore.providers.anthropic import provider as anthropic_provider
from agentcore.providers.catalogue import cost_usd
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.faults import Faults
from agentcore.providers.growing import GrowingInput
from agentcore.providers.openai import provider as openai_provider
from agentcore.providers.retry_after import retry_after_s
from agentcore.providers.vendors import DIALECTS
from agentcore.usage import Usage
from tests.recordings import event_stream, http_answer

pytestmark = pytest.mark.anyio

TYPES = ("anthropic", "openai", "openai-compatible", "gemini", "ollama")
SDKS = ("anthropic", "openai", "openai-compatible")
SECRET = "TOP-SECRET-PROMPT"
SHOWN_BY_OLLAMA = http_answer(200, b'{"capabilities":["tools","completion"]}')


def lines(*objects: Any) -> bytes:
    return http_answer(200, b"".join(json.dumps(each).encode() + b"\n" for each in objects), "application/x-ndjson")


def anthropic_events(
    *blocks: dict[str, Any], delta: dict[str, Any] | None = None, **usage: Any
) -> list[dict[str, Any]]:
    """The events of an answer with these blocks, each begun and ended."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": {"input_tokens": 1}}}]
    for index, block in enumerate(blocks):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        ]
    delta = delta or {"stop_reason": "end_turn"}
    return [*events, {"type": "message_delta", "delta": delta, "usage": usage}, {"type": "message_stop"}]


def anthropic_answer(*blocks: dict[str, Any], delta: dict[str, Any] | None = None, **usage: Any) -> bytes:
    return event_stream(*anthropic_events(*blocks, delta=delta, **usage))


def compatible_answer(delta: dict[str, Any], reason: Any = "stop", **more: Any) -> bytes:
    return event_stream(
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], **more},
    )


def gemini_answer(part: dict[str, Any], reason: Any = "STOP", **more: Any) -> bytes:
    return event_stream({"candidates": [{"content": {"parts": [part]}, "finishReason": reason, **more}]})


GOOD: dict[str, bytes] = {
    "anthropic": anthropic_answer({"type": "text", "text": "fine"}),
    "openai": event_stream(
        {"type": "response.created", "response": {}},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"type": "message", "content": [{"type": "output_text", "text": "fine"}]},
        },
        {"type": "response.completed", "response": {"usage": {"input_tokens": 1}}},
    ),
    "openai-compatible": compatible_answer({"content": "fine"}),
    "gemini": gemini_answer({"text": "fine"}),
    "ollama": lines({"message": {"content": "fine"}}, {"done": True, "done_reason": "stop"}),
}

Send = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Service:
    """Answers every call in one way; remembers heads and bodies of the calls."""

    def __init__(self, answer: bytes | Send) -> None:
        self._answer = answer
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0] or 0)
                body = await reader.readexactly(length)
                if "/api/show" in head:
                    writer.write(SHOWN_BY_OLLAMA)
                    continue
                self.heads.append(head)
                self.bodies.append(body)
                if isinstance(self._answer, bytes):
                    writer.write(self._answer)
                    await writer.drain()
                else:
                    await self._answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(answer: bytes | Send) -> AsyncIterator[Service]:
    service = Service(answer)
    listener = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield service
    finally:
        listener.close()


REQUEST = ModelRequest(
    model="m", system="", tools=(), messages=[Message(id="u0", role="user", content=(Text(text=SECRET),))]
)


def made(kind: str, url: str, **more: Any) -> Provider:
    path = "/v1" if kind.startswith("openai") else ""
    key = Key("sekret-0123456789", source="LAB_KEY")
    endpoint = Endpoint(name="lab", title="Lab", base_url=url + path, key=key, url_source="base_url of lab", **more)
    return DIALECTS[kind].make(endpoint)  # type: ignore[index] # the names of TYPES are those of the table


async def finished(kind: str, url: str, **more: Any) -> Finished:
    provider = made(kind, url, **more)
    last: Any = None
    try:
        await provider.warm()
        with anyio.fail_after(20):
            async with provider.stream(REQUEST) as parts:
                async for part in parts:
                    last = part
    finally:
        await provider.close()
    assert isinstance(last, Finished)
    return last


async def failure(kind: str, answer: bytes | Send) -> ProviderError:
    async with serving(answer) as service:
        with pytest.raises(ProviderError) as caught:
            await finished(kind, service.url)
    return caught.value


# --- where a conversation goes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_followed_nowhere_and_told(kind: str, status: int) -> None:
    async with serving(GOOD[kind]) as thief:
        place = f"location: {thief.url.replace('127.0.0.1', 'localhost')}/v1/messages?alt=sse&token=x"
        error = await failure(kind, http_answer(status, b"", "text/plain", place))
    assert thief.bodies == []
    assert error.kind == "not_found"
    assert f"redirects to {thief.url.replace('127.0.0.1', 'localhost')}. Nothing" in str(error)
    assert "correct base_url of lab" in str(error)


SECRETS = {
    "ANTHROPIC_CUSTOM_HEADERS": "x-leak: secret-a\nX-Other: secret-b\nUser-Agent: secret-c\ncontent-type: text/plain",
    "OPENAI_CUSTOM_HEADERS": "x-leak: secret-d\nauthorization: secret-e",
    "OPENAI_ORG_ID": "secret-f",
    "OPENAI_PROJECT_ID": "secret-g",
    "ANTHROPIC_AUTH_TOKEN": "secret-h",
    "OPENAI_API_KEY": "secret-i",
}


@pytest.mark.parametrize("kind", TYPES)
async def test_what_the_environment_holds_for_a_vendor_goes_to_no_other_address(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    async with serving(GOOD[kind]) as service:
        await finished(kind, service.url)
    (head,) = service.heads
    assert "secret-" not in head
    assert "content-type: application/json" in head.lower()
    assert "sekret-0123456789" in head


@pytest.mark.parametrize(
    ("kind", "own"),
    [("anthropic", {"secret-a", "secret-b", "secret-c"}), ("openai", {"secret-d", "secret-f", "secret-g"})],
)
async def test_a_vendor_gets_what_is_meant_for_it(kind: str, own: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    async with serving(GOOD[kind]) as service:
        await finished(kind, service.url, is_vendors_own=True)
    assert set(re.findall("secret-.", service.heads[0])) == own


# --- how much is read ---------------------------------------------------------------------------------------------


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 Oops\r\ncontent-type: application/json\r\n\r\n")
    while True:
        writer.write(b" " * 65536)
        await writer.drain()


async def silent(writer: asyncio.StreamWriter) -> None:
    writer.write(b'HTTP/1.1 500 Oops\r\ncontent-length: 99999\r\n\r\n{"error":')
    await writer.drain()
    await asyncio.sleep(60)


@pytest.mark.parametrize("kind", TYPES)
async def test_the_body_of_a_refusal_is_read_to_a_bound(kind: str) -> None:
    before = peak_mb()
    assert (await failure(kind, endless)).kind == "server_error"
    assert peak_mb() - before < 100


@pytest.mark.parametrize("kind", TYPES)
async def test_a_refusal_that_never_ends_is_not_waited_for(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REFUSAL_S", 0.2)
    error = await failure(kind, silent)
    assert (error.kind, "HTTP 500" in str(error)) == ("server_error", True)


@pytest.mark.parametrize("kind", TYPES)
async def test_a_refusal_that_unpacks_to_much_is_cut(kind: str) -> None:
    bomb = gzip.compress(b" " * 200_000_000)
    before, began = peak_mb(), time.process_time()
    error = await failure(kind, http_answer(400, bomb, "application/json", "content-encoding: gzip"))
    assert error.kind == "invalid_request"
    assert peak_mb() - before < 100
    assert time.process_time() - began < 2


@pytest.mark.parametrize("kind", TYPES)
async def test_a_refusal_is_read_whole_where_it_is_short(kind: str) -> None:
    told = gzip.compress(b'{"error":{"message":"no such thing"}}')
    error = await failure(kind, http_answer(400, told, "application/json", "content-encoding: gzip"))
    assert "no such thing" in str(error)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, rot13"])
async def test_an_encoding_that_nobody_asked_for_is_named(kind: str, encoding: str) -> None:
    error = await failure(kind, http_answer(200, b"\0\0", "text/event-stream", f"content-encoding: {encoding}"))
    assert (error.kind, encoding.split()[-1] in str(error)) == ("server_error", True)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("status", [204, 205])
async def test_an_answer_without_content_is_named(kind: str, status: int) -> None:
    error = await failure(kind, f"HTTP/1.1 {status} None\r\ncontent-length: 0\r\n\r\n".encode())
    assert (error.kind, f"HTTP {status}" in str(error)) == ("server_error", True)


async def test_an_answer_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_BYTES", 1_000)
    monkeypatch.setattr(growing, "MAX_BYTES", 1_000)
    long = {"type": "text", "text": "x" * 600}
    thought = {"type": "thinking", "thinking": "x" * 600}
    assert len((await finished_of("anthropic", anthropic_answer(long))).content) == 1
    for blocks in ([long, long], [long, thought]):
        error = await failure("anthropic", anthropic_answer(*blocks))
        assert (error.kind, "longer than 1,000" in str(error)) == ("server_error", True)
    call = {
        "content": "",
        "tool_calls": [{"index": 0, "id": "a", "function": {"name": "ls", "arguments": '{"a":"' + "x" * 999}}],
    }
    assert (await failure("openai-compatible", compatible_answer(call))).kind == "server_error"


async def finished_of(kind: str, answer: bytes) -> Finished:
    async with serving(answer) as service:
        return await finished(kind, service.url)


@pytest.mark.parametrize("kind", ["anthropic", "openai-compatible", "ollama"])
async def test_more_calls_than_anybody_needs_are_refused(kind: str) -> None:
    def calls(count: int) -> bytes:
        if kind == "anthropic":
            blocks = [{"type": "tool_use", "id": f"c{i}", "name": "ls", "input": {}} for i in range(count)]
            return anthropic_answer(*blocks, delta={"stop_reason": "tool_use"})
        functions = [{"id": "same", "function": {"name": "ls", "arguments": {}}} for _ in range(count)]
        if kind == "ollama":
            return lines({"message": {"tool_calls": functions}}, {"done": True})
        numbered = [each | {"index": number} for number, each in enumerate(functions)]
        return compatible_answer({"tool_calls": numbered}, "tool_calls")

    assert len((await finished_of(kind, calls(answers.MAX_CALLS))).content) == answers.MAX_CALLS
    error = await failure(kind, calls(answers.MAX_CALLS + 1))
    assert (error.kind, "more than 1,000 tool calls" in str(error)) == ("server_error", True)


# --- what makes no sense ------------------------------------------------------------------------------------------


def anthropic_call(id: Any, name: Any) -> bytes:
    return anthropic_answer(
        {"type": "tool_use", "id": id, "name": name, "input": {}}, delta={"stop_reason": "tool_use"}
    )


def compatible_call(id: Any, name: Any) -> bytes:
    return compatible_answer({"tool_calls": [{"index": 0, "id": id, "function": {"name": name, "arguments": "{}"}}]})


def openai_call(id: Any, name: Any) -> bytes:
    item = {"type": "function_call", "call_id": id, "name": name, "arguments": "{}"}
    return event_stream(
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {}},
    )


LONG = "z" * 100_000
NONSENSE = {
    "anthropic stop": ("anthropic", anthropic_answer(delta={"stop_reason": 5})),
    "anthropic stop list": ("anthropic", anthropic_answer(delta={"stop_reason": ["end_turn"]})),
    "anthropic id": ("anthropic", anthropic_call(5, "ls")),
    "anthropic no id": ("anthropic", anthropic_call(None, "ls")),
    "anthropic name": ("anthropic", anthropic_call("a", 5)),
    "anthropic no name": ("anthropic", anthropic_call("a", None)),
    "anthropic long id": ("anthropic", anthropic_call(LONG, "ls")),
    "anthropic long name": ("anthropic", anthropic_call("a", LONG)),
    "openai id": ("openai", openai_call(5, "ls")),
    "openai name": ("openai", openai_call("a", 5)),
    "openai long id": ("openai", openai_call(LONG, "ls")),
    "compatible stop": ("openai-compatible", compatible_answer({"content": "x"}, 5)),
    "compatible stop object": ("openai-compatible", compatible_answer({"content": "x"}, {"a": 1})),
    "compatible id": ("openai-compatible", compatible_call(5, "ls")),
    "compatible name": ("openai-compatible", compatible_call("a", 5)),
    "compatible long id": ("openai-compatible", compatible_call(LONG, "ls")),
    "gemini stop": ("gemini", gemini_answer({"text": "x"}, 5)),
    "gemini stop list": ("gemini", gemini_answer({"text": "x"}, ["STOP"])),
    "gemini name": ("gemini", gemini_answer({"functionCall": {"name": 5, "args": {}}})),
    "gemini id": ("gemini", gemini_answer({"functionCall": {"id": 5, "name": "ls", "args": {}}})),
    "gemini long id": ("gemini", gemini_answer({"functionCall": {"id": LONG, "name": "ls", "args": {}}})),
    "ollama name": ("ollama", lines({"message": {"tool_calls": [{"function": {"name": 5}}]}}, {"done": True})),
    "ollama stop": ("ollama", lines({"message": {"content": "x"}}, {"done": True, "done_reason": 5})),
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_is_a_failure_of_the_service(name: str) -> None:
    error = await failure(*NONSENSE[name])
    assert (error.kind, "Lab" in str(error)) == ("server_error", True)


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("anthropic", anthropic_answer(delta={"stop_reason": LONG})),
        ("openai-compatible", compatible_answer({"content": "x"}, LONG)),
        ("gemini", gemini_answer({"text": "x"}, LONG)),
        ("ollama", lines({"done": True, "done_reason": LONG})),
    ],
)
async def test_an_endless_stop_word_is_cut(kind: str, answer: bytes) -> None:
    assert (await finished_of(kind, answer)).stop == "z" * 200


HUGE = 10**400
COUNTS = {
    "anthropic": anthropic_answer(output_tokens=HUGE),
    "openai-compatible": compatible_answer({"content": "x"}, usage={"prompt_tokens": HUGE, "completion_tokens": 1}),
    "gemini": event_stream(
        {
            "candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": HUGE},
        }
    ),
    "ollama": lines({"done": True, "eval_count": HUGE}),
}


@pytest.mark.parametrize("kind", COUNTS)
async def test_a_count_beyond_all_sense_spoils_no_answer(kind: str) -> None:
    usage = (await finished_of(kind, COUNTS[kind])).usage
    assert usage is not None
    assert max(usage.input, usage.output) == growing.MAX_TOKENS
    assert cost_usd("anthropic", "claude-sonnet-4-5", usage) is not None


def test_a_price_that_no_number_can_hold_is_unknown() -> None:
    assert cost_usd("anthropic", "claude-sonnet-4-5", Usage(input=HUGE)) is None


@pytest.mark.parametrize(
    ("date", "wait"),
    [
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 99999999999999999999999 Jan 2026", None),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 -2359", None),
        ("nan", None),
        ("1e400", None),
        ("1" * 5000, None),
        ("-5", None),
    ],
)
def test_a_wait_that_makes_no_sense_is_none(date: str, wait: float | None) -> None:
    found = retry_after_s({"retry-after": date})
    assert found == wait or (wait is None and found is not None and found > 1e9)


@pytest.mark.parametrize(
    "text",
    [
        '{"path":".","path":"/etc"}',
        '{"a":{"b":1,"b":2}}',
        '{"a":[{"b":1,"b":1}]}',
        '{"a":1,"\\u0061":2}',
        '{"a":NaN}',
        '{"a":' + "[" * 3000 + "]" * 3000 + "}",
    ],
)
def test_an_input_that_says_two_things_under_one_name_is_none(text: str) -> None:
    whole = GrowingInput()
    whole.add(text)
    assert whole.parse() is None


def test_an_input_with_the_same_name_in_two_places_is_whole() -> None:
    whole = GrowingInput()
    whole.add('{"a":{"b":1},"c":[{"b":1},{"b":2}]}')
    assert whole.parse() == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 2}]}


# --- blocks that never ended --------------------------------------------------------------------------------------


def cut(block: dict[str, Any], *deltas: dict[str, Any], stop: str = "end_turn") -> bytes:
    """An answer whose one block has no end, though the answer has."""
    grown = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas]
    return event_stream(
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *grown,
        {"type": "message_delta", "delta": {"stop_reason": stop}},
        {"type": "message_stop"},
    )


CUT = [
    (
        cut({"type": "tool_use", "id": "q", "name": "ls", "input": {}}, stop="tool_use"),
        (ToolCall(id="q", name="ls", input=None),),
    ),
    (
        cut(
            {"type": "tool_use", "id": "q", "name": "ls", "input": {}},
            {"type": "input_json_delta", "partial_json": "{}"},
            stop="tool_use",
        ),
        (ToolCall(id="q", name="ls", input=None),),
    ),
    (cut({"type": "text", "text": "so far"}), (Text(text="so far"),)),
    (cut({"type": "thinking", "thinking": "so far"}), ()),
    (
        cut({"type": "thinking", "thinking": "so far", "signature": "s"}),
        (Thinking(text="so far", signature="s", provider="lab", model="m"),),
    ),
    (cut({"type": "redacted_thinking", "data": "x"}), ()),
]


@pytest.mark.parametrize(("answer", "content"), CUT)
async def test_a_block_that_never_ended_is_nothing_to_act_on(answer: bytes, content: tuple[Any, ...]) -> None:
    assert (await finished_of("anthropic", answer)).content == content


# --- why it ended -------------------------------------------------------------------------------------------------

ENDS = {
    "anthropic": (
        "anthropic",
        anthropic_answer(
            delta={
                "stop_reason": "refusal",
                "stop_details": {"type": "refusal", "category": "cyber", "explanation": "It asks for an exploit."},
            }
        ),
        ("refusal", "cyber: It asks for an exploit"),
    ),
    "gemini": (
        "gemini",
        gemini_answer(
            {"text": "x"},
            "SAFETY",
            finishMessage="Unsafe.",
            safetyRatings=[{"category": "HARM_A", "blocked": True}, {"category": "HARM_B"}],
        ),
        ("refusal", "SAFETY: Unsafe.: HARM_A"),
    ),
    "gemini prompt": (
        "gemini",
        event_stream({"promptFeedback": {"blockReason": "BLOCKLIST", "blockReasonMessage": "A word."}}),
        ("refusal", "BLOCKLIST: A word"),
    ),
    "gemini well": ("gemini", GOOD["gemini"], ("end_turn", "")),
    "compatible": (
        "openai-compatible",
        compatible_answer({"content": "x"}, "content_filter: PROHIBITED_CONTENT"),
        ("refusal", "content_filter: PROHIBITED_CONTENT"),
    ),
    "openai": (
        "openai",
        event_stream(
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}},
        ),
        ("refusal", "content_filter"),
    ),
    "malformed": ("gemini", gemini_answer({"text": "x"}, "MALFORMED_FUNCTION_CALL"), ("MALFORMED_FUNCTION_CALL", None)),
}


@pytest.mark.parametrize("name", ENDS)
async def test_the_vendor_says_why(name: str) -> None:
    kind, answer, (stop, detail) = ENDS[name]
    found = await finished_of(kind, answer)
    assert found.stop == stop
    assert detail is None or found.detail == detail


async def test_what_the_vendor_says_is_short_and_holds_no_key() -> None:
    told = "the key sekret-0123456789 \x07" + "x" * 1_000_000
    answer = anthropic_answer(delta={"stop_reason": "refusal", "stop_details": {"explanation": told}})
    detail = (await finished_of("anthropic", answer)).detail
    assert detail.startswith("the key [key] xxx")
    assert len(detail) <= 401


async def test_an_address_without_the_responses_api_is_told_what_it_lacks() -> None:
    for status, body, is_told in (
        (404, b"404 page not found", True),
        (405, b'{"detail":"Method Not Allowed"}', True),
        (404, b'{"error":{"message":"Unknown model x","code":"model_not_found"}}', False),
        (401, b"no", False),
    ):
        error = await failure("openai", http_answer(status, body))
        assert ('type = "openai-compatible"' in str(error)) is is_told
    error = await failure("openai-compatible", http_answer(404, b"404 page not found"))
    assert "responses" not in str(error)


async def test_a_path_that_is_missing_is_no_failure_of_the_moment() -> None:
    body = b'{"error":"Unexpected endpoint or method. (POST /chat/completions)"}'
    error = await failure("openai-compatible", http_answer(200, body))
    assert (error.kind, error.is_retryable) == ("not_found", False)


# --- patterns over what others say --------------------------------------------------------------------------------


def patterns() -> Iterator[re.Pattern[str]]:
    """All that are used on the words of a service."""

    def within(value: object) -> Iterator[re.Pattern[str]]:
        if isinstance(value, re.Pattern):
            yield value
        elif isinstance(value, tuple):
            for each in value:
                yield from within(each)

    modules: tuple[ModuleType, ...] = (faults, anthropic_provider, openai_provider)
    for module in modules:
        for value in vars(module).values():
            yield from within(value)


def bad_texts(pattern: re.Pattern[str]) -> Iterator[str]:
    """Texts of 4,000 characters that begin to fit again and again: the words of a pattern, joined in many ways."""
    plain = re.sub(r"\\\w", ",", pattern.pattern)  # without `\b` and the like
    words = [word for word in re.split(r"[^\w' ]+", plain) if len(word) > 1] + ["a", "9"]
    for word in words:
        for end in ("", " ", ":", "-", "/", ".", ": '", " a "):
            yield ((word + end) * 4_000)[:4_000]
            yield (word + end + "a" * 4_000)[:4_000]


def test_no_pattern_is_slow_whatever_a_service_says() -> None:
    found = set(patterns())
    assert len(found) > 10
    for pattern in found:
        for text in bad_texts(pattern):
            began = time.process_time()
            pattern.search(text)
            assert time.process_time() - began < 0.1, (pattern.pattern, text[:40])


@pytest.mark.parametrize("said", ["models:" * 1_000_000, "é " * 2_000_000, "sk-" * 2_000_000, "/home/" * 1_000_000])
def test_a_message_of_megabytes_is_cut_before_anything_looks_at_it(said: str) -> None:
    lab = Faults(Endpoint("lab", "Lab", "http://h", Key("sekret-0123456789")))
    for error in (
        {"message": said, "code": said},
        said,
        [{"msg": said}] * 3,
        {"metadata": {"raw": said}, "message": said},
    ):
        began = time.process_time()
        text = str(lab.of_event(error))
        assert time.process_time() - began < 0.2
        assert len(text) < 700


@pytest.mark.parametrize("shift", range(0, 240, 7))
def test_no_part_of_a_key_is_shown_where_a_message_is_cut(shift: int) -> None:
    key = "sekret-" + "0123456789" * 20
    lab = Faults(Endpoint("lab", "Lab", "http://h", Key(key)))
    told = str(lab.of_event({"message": "." * shift + key * 1_000}))
    assert "sek" not in told.replace("[key]", "")
