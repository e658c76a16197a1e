"""What is sent to Anthropic: a prefix that never changes, marks in three places, nothing that would be refused."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from agentcore.errors import ProviderError
from agentcore.messages import Block, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.ports import Finished, ModelRequest, ToolDefinition
from agentcore.providers.anthropic.body import encode_body
from agentcore.providers.anthropic.provider import AnthropicProvider
from tests.recordings import CannedServer, event_stream, http_answer, needs_recordings, replay_module

pytestmark = pytest.mark.anyio

MODEL = "claude-sonnet-4-5"
MARK = {"type": "ephemeral"}
MARK_BYTES = b',"cache_control":{"type":"ephemeral"}'
TOOLS = (ToolDefinition(name="read", description="Read a file.", input_schema={"type": "object"}),)


def user(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="user", content=blocks)


def assistant(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="assistant", content=blocks)


def request(messages: list[Message], **fields: Any) -> ModelRequest:
    return ModelRequest(**{"model": MODEL, "system": "Be kind.", "tools": TOOLS, "messages": messages, **fields})


def sent(messages: list[Message], **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode_body(request(messages, **fields), "anthropic"))
    return body


def content_sent(*blocks: Block, role: str = "assistant") -> list[dict[str, Any]]:
    """The blocks of one message as they go out, in the middle of a conversation."""
    around = [user("u0", Text(text="a")), Message.model_validate({"id": "m", "role": role, "content": blocks})]
    messages = sent([*around, user("u1", Text(text="b")), user("u2", Text(text="c"))])["messages"]
    content: list[dict[str, Any]] = messages[1]["content"] if len(messages) == 4 else []
    return content


def a_turn(number: int) -> list[Message]:
    """What one turn adds: an answer with a call, and its result."""
    call = ToolCall(id=f"toolu_{number}", name="read", input={"path": f"grüße-{number}", "b": [1.5, None]})
    thought = Thinking(text="hm", signature="seal==", provider="anthropic", model=MODEL)
    return [
        assistant(f"a{number}", thought, Text(text=f"I read {number}."), call),
        user(f"u{number}", ToolResult(call_id=f"toolu_{number}", content="line\n" * number)),
    ]


def test_a_whole_body() -> None:
    assert sent([user("u0", Text(text="hi"))], temperature=0.5, effort="low", max_tokens=77) == {
        "model": MODEL,
        "max_tokens": 77,
        "stream": True,
        "temperature": 0.5,
        "output_config": {"effort": "low"},
        "tools": [{"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}],
        "system": [{"type": "text", "text": "Be kind.", "cache_control": MARK}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": MARK}]}],
    }


def test_what_is_not_given_is_not_sent() -> None:
    assert set(sent([user("u0", Text(text="hi"))], system=" ", tools=())) == {
        "model",
        "max_tokens",
        "stream",
        "messages",
    }


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-sonnet-4-5", 32_000),
        ("claude-opus-4-1-20250805", 32_000),
        ("claude-3-5-haiku-latest", 8_192),
        ("claude-3-haiku-20240307", 4_096),
        ("some-local-model", 8_192),
    ],
)
def test_max_tokens_when_the_caller_names_none(model: str, tokens: int) -> None:
    assert sent([user("u0", Text(text="hi"))], model=model)["max_tokens"] == tokens


def test_the_bytes_of_a_request_begin_with_those_of_the_one_before() -> None:
    encoded: dict[str, bytes] = {}
    messages = [user("u", Text(text="begin"))]
    before = b""
    for number in range(6):
        body = encode_body(request(messages, encoded=encoded), "anthropic").replace(MARK_BYTES, b"")
        assert body == encode_body(request(messages, encoded={}), "anthropic").replace(MARK_BYTES, b"")
        assert body.startswith(before.removesuffix(b"]}"))
        before = body
        messages = [*messages, *a_turn(number)]


def test_a_message_is_encoded_once() -> None:
    encoded: dict[str, bytes] = {}
    messages = [user("u", Text(text="begin")), *a_turn(1)]
    encode_body(request(messages, encoded=encoded), "anthropic")
    assert list(encoded) == [f"anthropic:{MODEL}:{message.id}" for message in messages]
    encoded[f"anthropic:{MODEL}:a1"] = b'{"kept":true}'
    assert b',{"kept":true},' in encode_body(request(messages, encoded=encoded), "anthropic")
    assert b"kept" not in encode_body(request(messages, encoded=encoded, model="claude-opus-4-5"), "anthropic")


def test_marks_stand_on_the_system_prompt_the_newest_message_and_where_the_last_request_ended() -> None:
    messages = [user("u", Text(text="begin"), Text(text="now")), *a_turn(1), *a_turn(2), *a_turn(3)]
    body = sent(messages)
    marked = [
        (place, index)
        for place, message in enumerate(body["messages"])
        for index, block in enumerate(message["content"])
        if "cache_control" in block
    ]
    assert marked == [(4, 0), (6, 0)]
    assert "cache_control" not in body["tools"][0]
    first = sent(messages[:1])["messages"][0]["content"]
    assert [block.get("cache_control") for block in first] == [None, MARK]


@pytest.mark.parametrize(
    ("block", "wire"),
    [
        (Text(text="a"), [{"type": "text", "text": "a"}]),
        (Text(text=""), []),
        (Text(text=" \n"), []),
        (
            Thinking(text="t", signature="s", provider="anthropic", model=MODEL),
            [{"type": "thinking", "thinking": "t", "signature": "s"}],
        ),
        (Thinking(text="t", signature=None, provider="anthropic", model=MODEL), []),
        (Thinking(text="t", signature="s", provider="anthropic", model="claude-opus-4-5"), []),
        (Thinking(text="t", signature="s", provider="openai", model=MODEL), []),
        (Opaque(provider="anthropic", model=MODEL, raw={"type": "x", "data": "y"}), [{"type": "x", "data": "y"}]),
        (Opaque(provider="anthropic", model="claude-opus-4-5", raw={"type": "x"}), []),
        (Opaque(provider="openai", model=MODEL, raw={"type": "x"}), []),
        (
            ToolCall(id="toolu_1", name="read", input={"a": 1}),
            [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"a": 1}}],
        ),
        (
            ToolCall(id="call:1/x", name="a.b", input=None),
            [{"type": "tool_use", "id": "call_1_x", "name": "a_b", "input": {}}],
        ),
    ],
)
def test_a_block_is_sent_as_the_vendor_takes_it_or_not_at_all(block: Block, wire: list[dict[str, Any]]) -> None:
    assert content_sent(block) == wire


def test_results_come_first_and_are_paired_with_their_calls() -> None:
    blocks = (
        Text(text="a note"),
        ToolResult(call_id="call:1", content="out"),
        ToolResult(call_id="b", content=" ", is_error=True),
    )
    assert content_sent(*blocks, role="user") == [
        {"type": "tool_result", "tool_use_id": "call_1", "content": "out"},
        {"type": "tool_result", "tool_use_id": "b", "is_error": True},
        {"type": "text", "text": "a note"},
    ]


def test_an_empty_prompt_keeps_its_place() -> None:
    assert sent([user("u0", Text(text=""))])["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "(empty message)", "cache_control": MARK}]}
    ]


@pytest.fixture
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


@needs_recordings
async def test_several_turns_against_a_server_share_their_beginning(replay: Any) -> None:
    replay.push("anthropic-thinking-tool", "anthropic-redacted-thinking", "anthropic-tool", "anthropic-text")
    provider = AnthropicProvider({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": replay.url})
    messages, encoded = [user("u", Text(text="begin"))], dict[str, bytes]()
    for number in range(4):
        async with provider.stream(request(messages, encoded=encoded)) as parts:
            last = [part async for part in parts][-1]
        assert isinstance(last, Finished)
        results = [ToolResult(call_id=b.id, content="ok") for b in last.content if isinstance(b, ToolCall)]
        messages += [assistant(f"a{number}", *last.content), user(f"u{number}", *results, Text(text="go on"))]
    await provider.close()
    log = replay.requests()
    assert [entry["warnings"] for entry in log] == [[], [], [], []]
    bodies = [json.dumps(without_marks(entry["body"])) for entry in log]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix("]}"))
    kinds = [block["type"] for message in log[-1]["body"]["messages"] for block in message["content"]]
    assert kinds == [
        *["text", "thinking", "tool_use", "tool_result", "text"],
        *["redacted_thinking", "redacted_thinking", "text", "text"],
        *["text", "tool_use", "tool_result", "text"],
    ]


async def test_refused_thinking_is_withheld_from_then_on_and_the_call_repeated_once() -> None:
    refusal = http_answer(
        400,
        b'{"type":"error","error":{"type":"invalid_request_error",'
        b'"message":"messages.1.content.0: Invalid `signature` in `thinking` block"}}',
    )
    answer = event_stream({"type": "message_start", "message": {}}, {"type": "message_stop"})
    encoded: dict[str, bytes] = {}
    redacted = Opaque(provider="anthropic", model=MODEL, raw={"type": "redacted_thinking", "data": "x"})
    messages = [user("u", Text(text="begin")), *a_turn(1), assistant("r", redacted), user("n", Text(text="go on"))]
    async with CannedServer([refusal, answer, answer, refusal]) as server:
        provider = AnthropicProvider({"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": server.url})
        await call(provider, request(messages, encoded=encoded))
        await call(provider, request([*messages, *a_turn(2)], encoded=encoded))
        with pytest.raises(ProviderError, match="thinking"):
            await call(provider, request([user("u", Text(text="nothing to withhold"))]))
        await provider.close()
    first, second, third, _ = [body.replace(MARK_BYTES, b"") for body in server.bodies]
    assert (first.count(b"thinking"), second.count(b"thinking"), third.count(b"thinking")) == (3, 0, 2)
    assert third.startswith(second.removesuffix(b"]}"))


async def call(provider: AnthropicProvider, request: ModelRequest) -> None:
    async with provider.stream(request) as parts:
        async for _ in parts:
            pass


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value
