"""What is sent to Anthropic: a prefix that never changes, marks in three places, nothing that would be refused."""

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import pairwise
from typing import Any

import pytest

from agentcore.errors import ProviderError
from agentcore.messages import Block, Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import Finished, ModelRequest, ToolDefinition
from agentcore.providers.anthropic.body import encode_body
from agentcore.providers.anthropic.provider import AnthropicProvider
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.ids import wire_id
from agentcore.providers.prefix import GONE
from agentcore.providers.vendors import SERVICES
from tests.recordings import CannedServer, event_stream, http_answer, needs_recordings, recording, replay_module

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


def provider_at(url: str) -> AnthropicProvider:
    endpoint = Endpoint(
        name="anthropic", title="Anthropic", base_url=url, key=Key("sk-ant-api03-test"), vendor="anthropic"
    )
    return AnthropicProvider(endpoint)


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
    assert sent([user("u0", Text(text="hi"))], temperature=0.5, max_tokens=77) == {
        "model": MODEL,
        "max_tokens": 77,
        "stream": True,
        "temperature": 0.5,
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
        ("claude-opus-5-5", 64_000),
        ("claude-sonnet-4-5", 64_000),
        ("claude-opus-4-1-20250805", 32_000),
        ("claude-sonnet-4-20250514", 32_000),
        ("claude-3-5-haiku-latest", 8_192),
        ("claude-3-haiku-20240307", 4_096),
        ("some-local-model", 8_192),
    ],
)
def test_max_tokens_when_the_caller_names_none(model: str, tokens: int) -> None:
    assert sent([user("u0", Text(text="hi"))], model=model)["max_tokens"] == tokens


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def budget(tokens: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


def effort(level: str) -> dict[str, Any]:
    return {"output_config": {"effort": level}}


@pytest.mark.parametrize(
    ("model", "asked", "options"),
    [
        ("claude-opus-5-5", {}, {"thinking": ADAPTIVE}),
        ("claude-opus-5-5", {"effort": "xhigh", "temperature": 0.5}, {"thinking": ADAPTIVE, **effort("xhigh")}),
        ("claude-haiku-5-5", {"effort": "low"}, {"thinking": ADAPTIVE, **effort("low")}),
        ("claude-fable-5-2", {"temperature": 0.5}, {"thinking": ADAPTIVE}),
        ("claude-novelty-12", {"effort": "max"}, {"thinking": ADAPTIVE, **effort("max")}),
        ("claude-mythos-preview", {"effort": "xhigh"}, {"thinking": ADAPTIVE, **effort("high")}),
        ("claude-opus-4-7", {"temperature": 0.5}, {}),
        ("claude-opus-4-8", {"effort": "xhigh"}, {"thinking": ADAPTIVE, **effort("xhigh")}),
        ("claude-opus-4-6", {"temperature": 0.5}, {"temperature": 0.5}),
        ("claude-sonnet-4-6", {"effort": "xhigh", "temperature": 0.5}, {"thinking": ADAPTIVE, **effort("high")}),
        ("claude-opus-4-6", {"effort": "max"}, {"thinking": ADAPTIVE, **effort("max")}),
        ("claude-opus-4-5-20251101", {"effort": "max", "temperature": 0.5}, {**budget(32_000), **effort("high")}),
        ("claude-sonnet-4-5", {"effort": "high", "temperature": 0.5}, budget(16_384)),
        ("claude-haiku-4-5", {"effort": "low"}, budget(2_048)),
        ("claude-haiku-4-5", {"effort": "max", "max_tokens": 5_000}, budget(2_500)),
        ("claude-haiku-4-5", {"effort": "max", "max_tokens": 2_048}, budget(1_024)),
        ("claude-haiku-4-5", {"effort": "max", "max_tokens": 2_047, "temperature": 0.5}, {"temperature": 0.5}),
        ("claude-haiku-4-5", {"temperature": 0.5}, {"temperature": 0.5}),
        ("claude-opus-4-1", {"effort": "max"}, budget(16_000)),
        ("claude-sonnet-4-20250514", {"effort": "medium"}, budget(8_192)),
        ("claude-3-7-sonnet-latest", {"effort": "medium"}, budget(8_192)),
        ("claude-3-5-haiku-latest", {"effort": "max", "temperature": 0.5}, {"temperature": 0.5}),
        ("anthropic/claude-opus-4.6", {"effort": "low"}, {"thinking": ADAPTIVE, **effort("low")}),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", {"effort": "low"}, budget(2_048)),
        ("some-local-model", {}, {}),
        ("some-local-model", {"effort": "xhigh", "temperature": 0.5}, {"temperature": 0.5, **effort("xhigh")}),
        ("claude-opus-5", {"effort": "novelty"}, {"thinking": ADAPTIVE, **effort("novelty")}),
    ],
)
def test_reasoning_is_asked_for_as_the_model_takes_it(
    model: str, asked: dict[str, Any], options: dict[str, Any]
) -> None:
    body = sent([user("u0", Text(text="hi"))], model=model, **asked)
    known = ("thinking", "temperature", "output_config")
    assert {name: body[name] for name in known if name in body} == options


def test_every_offered_model_is_known_to_the_catalogue_and_takes_a_schema() -> None:
    provider, offered = provider_at("https://api.anthropic.com"), SERVICES["anthropic"].models
    assert [model for model in offered if not provider.context_window(model)] == []
    assert [model for model in offered if not provider.has_structured_output(model)] == []


@pytest.mark.parametrize("model", ["claude-opus-4-1", "claude-3-7-sonnet-latest", "some-local-model"])
def test_a_model_that_is_not_known_to_hold_to_a_schema_is_not_said_to(model: str) -> None:
    assert not provider_at("http://127.0.0.1").has_structured_output(model)


def test_the_schema_of_the_answer_is_sent_with_closed_objects_and_left_as_it_was() -> None:
    schema = {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["object", {"type": "object"}]},
            "properties": {"type": ["object", "null"], "properties": {"a": {"type": "object", "properties": {}}}},
            "list": {"type": "array", "items": {"anyOf": [{"type": "object"}, {"$ref": "#/$defs/d"}]}},
        },
        "additionalProperties": True,
        "default": {"type": "object"},
        "$defs": {"d": {"type": "object"}},
    }
    before = deepcopy(schema)
    body = sent([user("u0", Text(text="hi"))], effort="low", model="claude-opus-4-6", output_schema=schema)
    assert schema == before
    closed: dict[str, Any] = {"type": "object", "additionalProperties": False}
    assert body["output_config"] == {
        "effort": "low",
        "format": {
            "type": "json_schema",
            "schema": {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "enum": ["object", {"type": "object"}]},
                    "properties": {
                        "type": ["object", "null"],
                        "properties": {"a": {**closed, "properties": {}}},
                        "additionalProperties": False,
                    },
                    "list": {"type": "array", "items": {"anyOf": [closed, {"$ref": "#/$defs/d"}]}},
                },
                "additionalProperties": False,
                "default": {"type": "object"},
                "$defs": {"d": closed},
            },
        },
    }


async def test_the_input_of_tools_is_streamed_at_once_by_the_vendor_itself_and_by_no_other_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = event_stream({"type": "message_start", "message": {}}, {"type": "message_stop"})
    async with CannedServer([answer] * 2) as server:
        provider = provider_at(server.url)
        await call(provider, request([user("u", Text(text="begin"))]))
        monkeypatch.setattr("agentcore.providers.anthropic.provider.VENDORS_HOST", "127.0.0.1")
        await call(provider, request([user("u", Text(text="begin"))]))
        await provider.close()
    plain = {"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}
    assert [json.loads(body)["tools"] for body in server.bodies] == [
        [plain],
        [{**plain, "eager_input_streaming": True}],
    ]


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


IMAGE = Image(blob="0" * 64, media_type="image/png", size_bytes=3, width=1, height=1)
PDF = Document(blob="1" * 64, media_type="application/pdf", size_bytes=3, name="a.pdf")
BLOBS = {IMAGE.blob: b"png", PDF.blob: b"pdf"}
IMAGE_WIRE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cG5n"}}
PDF_WIRE = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "cGRm"}}


@pytest.mark.parametrize(
    ("blocks", "last"),
    [
        ([Text(text="a}]"), IMAGE], IMAGE_WIRE),
        ([IMAGE, PDF], PDF_WIRE),
        ([ToolResult(call_id="t", content="out")], {"type": "tool_result", "tool_use_id": "t", "content": "out"}),
        ([ToolResult(call_id="t", content="")], {"type": "tool_result", "tool_use_id": "t"}),
        (
            [Text(text="x"), ToolResult(call_id="t", content="see", attachments=(IMAGE, PDF))],
            {"type": "text", "text": "x"},
        ),
        (
            [ToolResult(call_id="t", content="see", attachments=(IMAGE, PDF))],
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "text", "text": "see"}, IMAGE_WIRE, PDF_WIRE],
            },
        ),
        (
            [ToolResult(call_id="t", content="", attachments=(IMAGE,), is_error=True)],
            {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE_WIRE], "is_error": True},
        ),
    ],
)
def test_the_mark_stands_on_the_last_block_whatever_it_is(blocks: list[Block], last: dict[str, Any]) -> None:
    *others, marked = sent([user("u", *blocks)], blob=BLOBS.__getitem__)["messages"][0]["content"]
    assert marked == {**last, "cache_control": MARK}
    assert MARK not in [block.get("cache_control") for block in others]


def test_bytes_that_are_gone_are_told() -> None:
    result = ToolResult(call_id="t", content="", attachments=(IMAGE,))
    gone = {"type": "text", "text": GONE}
    assert content_sent(IMAGE, result, role="user") == [
        {"type": "tool_result", "tool_use_id": "t", "content": [gone]},
        gone,
    ]


def test_there_are_never_more_marks_than_the_vendor_takes() -> None:
    messages, encoded = [user("u", Text(text="begin"))], dict[str, bytes]()
    for number in range(80):
        assert encode_body(request(messages, encoded=encoded), "anthropic").count(MARK_BYTES) == min(number + 2, 3)
        messages = [*messages, *a_turn(number)]


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
            [{"type": "tool_use", "id": wire_id("call:1/x"), "name": "a_b", "input": {}}],
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
        {"type": "tool_result", "tool_use_id": wire_id("call:1"), "content": "out"},
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
    provider = provider_at(replay.url)
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


SERVER_SIDE = [
    "anthropic-pause-turn-short",
    "anthropic-redacted-thinking",
    "anthropic-mcp-thinking",
    "anthropic-code-execution",
    "anthropic-web-search",
    "anthropic-tool-search",
    "anthropic-thinking-tool",
]


@needs_recordings
@pytest.mark.parametrize("name", SERVER_SIDE)
async def test_a_recorded_answer_is_sent_back_as_it_came(replay: Any, name: str) -> None:
    replay.push(name, "anthropic-text")
    provider, begin = provider_at(replay.url), user("u", Text(text="begin"))
    async with provider.stream(request([begin])) as parts:
        last = [part async for part in parts][-1]
    assert isinstance(last, Finished)
    await call(provider, request([begin, assistant("a", *last.content)]))
    await provider.close()
    sent_back = replay.requests()[-1]
    assert sent_back["warnings"] == []
    assert sent_back["body"]["messages"][1:] == [{"role": "assistant", "content": recorded_blocks(name)}]


def recorded_blocks(name: str) -> list[dict[str, Any]]:
    """The content of a recorded answer in the vendor's own form, without citations and callers."""
    blocks: list[dict[str, Any]] = []
    for line in recording(name)["body"].splitlines():
        event = json.loads(line[5:]) if line.startswith("data:") else {}
        match event.get("type"):
            case "content_block_start":
                blocks.append(event["content_block"])
                inputs = ""
            case "content_block_delta":
                delta = {key: text for key, text in event["delta"].items() if key not in ("type", "citation")}
                inputs += delta.pop("partial_json", "")
                for key, text in delta.items():
                    blocks[-1][key] += text
            case "content_block_stop" if inputs:
                blocks[-1]["input"] = json.loads(inputs)
    own = {"text": "citations", "tool_use": "caller"}
    kept = [block for block in blocks if block.get("text") != ""]
    return [{key: value for key, value in block.items() if key != own.get(block["type"])} for block in kept]


def refusal(message: str) -> bytes:
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    return http_answer(400, json.dumps(error).encode())


EMPTY_ANSWER = event_stream({"type": "message_start", "message": {}}, {"type": "message_stop"})


@pytest.mark.parametrize(
    "message",
    [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0.thinking.signature: Field required",
        "messages.3.content.8: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be"
        " modified. These blocks must remain as they were in the original response.",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        "messages.1.content.0: The block is bound to a different conversation.",
    ],
)
async def test_refused_thinking_is_withheld_from_then_on_and_the_call_repeated_once(message: str) -> None:
    encoded: dict[str, bytes] = {}
    redacted = Opaque(provider="anthropic", model=MODEL, raw={"type": "redacted_thinking", "data": "x"})
    messages = [user("u", Text(text="begin")), *a_turn(1), assistant("r", redacted), user("n", Text(text="go on"))]
    async with CannedServer([refusal(message), EMPTY_ANSWER, EMPTY_ANSWER]) as server:
        provider = provider_at(server.url)
        await call(provider, request(messages, encoded=encoded))
        await call(provider, request([*messages, *a_turn(2)], encoded=encoded))
        await provider.close()
    first, second, third = [body.replace(MARK_BYTES, b"") for body in server.bodies]
    assert (first.count(b"thinking"), second.count(b"thinking"), third.count(b"thinking")) == (3, 0, 2)
    assert third.startswith(second.removesuffix(b"]}"))


async def test_what_is_refused_without_its_thinking_as_well_is_not_sent_a_third_time() -> None:
    refused = refusal("messages.1.content.0: Invalid `signature` in `thinking` block")
    messages, encoded = [user("u", Text(text="begin")), *a_turn(1)], dict[str, bytes]()
    async with CannedServer([refused] * 3) as server:
        provider = provider_at(server.url)
        for sent_in_all in (2, 3):
            with pytest.raises(ProviderError, match="signature"):
                await call(provider, request(messages, encoded=encoded))
            assert len(server.bodies) == sent_in_all
        await provider.close()


@pytest.mark.parametrize(
    "message",
    [
        "`max_tokens` must be greater than `thinking.budget_tokens`.",
        '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and'
        ' "output_config.effort" to control thinking behavior.',
        "`temperature` may only be set to 1 when thinking is enabled.",
        "messages.1.content.0: unexpected `tool_use_id` found in `tool_result` blocks",
    ],
)
async def test_a_refusal_of_anything_else_withholds_no_thinking(message: str) -> None:
    async with CannedServer([refusal(message)] * 2) as server:
        provider = provider_at(server.url)
        with pytest.raises(ProviderError) as caught:
            await call(provider, request([user("u", Text(text="begin")), *a_turn(1)]))
        await provider.close()
    assert (caught.value.kind, len(server.bodies)) == ("invalid_request", 1)


async def call(provider: AnthropicProvider, request: ModelRequest) -> None:
    async with provider.stream(request) as parts:
        async for _ in parts:
            pass


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_marks(item) for key, item in value.items() if key != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value
