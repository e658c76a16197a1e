"""What is sent to a Chat Completions service: a prefix that never changes, and each dialect's own wants."""

import base64
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from pydantic import JsonValue

from agentcore.errors import ProviderError
from agentcore.messages import Block, Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import Finished, ModelRequest, ToolDefinition
from agentcore.providers.compatible.body import encode_body
from agentcore.providers.compatible.dialects import dialect_of
from agentcore.providers.compatible.provider import CompatibleProvider
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.prefix import GONE
from tests.recordings import CannedServer, event_stream, http_answer, needs_recordings, replay_module

pytestmark = pytest.mark.anyio

MODEL = "some-model"
TOOLS = (ToolDefinition(name="read", description="Read a file.", input_schema={"type": "object"}),)
TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "Read a file.", "parameters": {"type": "object"}},
}
IMAGE = Image(blob="a" * 64, media_type="image/png", size_bytes=3, width=1, height=1)
PDF = Document(blob="b" * 64, media_type="application/pdf", size_bytes=3, name="plan.pdf")
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(b"png").decode()}}
PDF_URL = "data:application/pdf;base64," + base64.b64encode(b"pdf").decode()
BYTES = {IMAGE.blob: b"png", PDF.blob: b"pdf"}
UNKNOWN = Opaque(provider="lab", model=MODEL, raw={"type": "novelty"})
DONE = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}


def endpoint(vendor: str = "", url: str = "http://lab.test") -> Endpoint:
    return Endpoint(name="lab", title="provider lab", base_url=f"{url}/v1", key=Key("sk-test-key"), vendor=vendor)


def user(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="user", content=blocks)


def assistant(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="assistant", content=blocks)


def request(messages: list[Message], **fields: Any) -> ModelRequest:
    given: dict[str, Any] = {
        "model": MODEL,
        "system": "Be kind.",
        "tools": TOOLS,
        "messages": messages,
        "blob": BYTES.__getitem__,
    }
    return ModelRequest(**(given | fields))


def encoded(messages: list[Message], vendor: str = "", **fields: Any) -> bytes:
    return encode_body(request(messages, **fields), "lab", dialect_of(endpoint(vendor)))


def sent(messages: list[Message], vendor: str = "", **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encoded(messages, vendor, **fields))
    return body


def messages_sent(*messages: Message, vendor: str = "") -> list[dict[str, Any]]:
    """The messages as they go out, without the system prompt."""
    wires: list[dict[str, Any]] = sent(list(messages), vendor)["messages"]
    return wires[1:]


def thought(text: str = "hm", provider: str = "lab", model: str = MODEL) -> Thinking:
    return Thinking(text=text, provider=provider, model=model)


def sealed(provider: str = "lab", model: str = MODEL) -> Opaque:
    entry: JsonValue = {
        "type": "reasoning.text",
        "text": "hm",
        "signature": "seal==",
        "index": 0,
        "format": "anthropic-claude-v1",
    }
    return Opaque(provider=provider, model=model, raw={"type": "reasoning_details", "reasoning_details": [entry]})


def call(id: str, **input: Any) -> ToolCall:
    return ToolCall(id=id, name="read", input=input)


def call_sent(id: str, arguments: str = "{}", name: str = "read") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def a_turn(number: int) -> list[Message]:
    """What one turn adds: an answer with a call, and its result."""
    blocks = (sealed(), thought(), Text(text=f"I read {number}."), call(f"c{number}", path=f"grüße-{number}"))
    return [assistant(f"a{number}", *blocks), user(f"u{number}", ToolResult(call_id=f"c{number}", content="line\n"))]


def test_a_whole_body() -> None:
    assert sent([user("u0", Text(text="hi"))], temperature=0.5, effort="low", max_tokens=77, session="s1") == {
        "model": MODEL,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 77,
        "temperature": 0.5,
        "reasoning_effort": "low",
        "tools": [TOOL],
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
    }


def test_what_is_not_given_is_not_sent() -> None:
    assert sent([user("u0", Text(text="hi"))], system=" ", tools=()) == {
        "model": MODEL,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.parametrize(
    ("vendor", "options"),
    [
        ("", {"stream_options": {"include_usage": True}, "max_tokens": 7, "reasoning_effort": "high"}),
        ("groq", {"stream_options": {"include_usage": True}, "max_tokens": 7, "reasoning_effort": "high"}),
        ("openrouter", {"stream_options": {"include_usage": True}, "max_tokens": 7, "reasoning": {"effort": "xhigh"}}),
        ("deepseek", {"stream_options": {"include_usage": True}, "max_tokens": 7, "reasoning_effort": "max"}),
        ("mistral", {"max_tokens": 7, "reasoning_effort": "high"}),
        (
            "moonshotai",
            {
                "stream_options": {"include_usage": True},
                "max_tokens": 7,
                "reasoning_effort": "high",
                "prompt_cache_key": "s1",
            },
        ),
        (
            "openai",
            {
                "stream_options": {"include_usage": True},
                "max_completion_tokens": 7,
                "reasoning_effort": "xhigh",
                "prompt_cache_key": "s1",
            },
        ),
    ],
)
def test_options_are_spelled_as_the_service_knows_them(vendor: str, options: dict[str, Any]) -> None:
    body = sent([user("u", Text(text="hi"))], vendor, max_tokens=7, effort="max", session="s1")
    assert {key: value for key, value in body.items() if key not in ("model", "stream", "tools", "messages")} == options


@pytest.mark.parametrize(
    ("url", "vendor"),
    [
        ("https://openrouter.ai/api", "openrouter"),
        ("https://ai-gateway.vercel.sh", "vercel"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://api.moonshot.cn", "moonshotai"),
        ("https://api.kimi.com/coding", "moonshotai"),
        ("https://api.mistral.ai", "mistral"),
        ("https://me.openai.azure.com/openai", "azure"),
        ("http://127.0.0.1:8080", ""),
    ],
)
def test_a_service_is_known_by_its_host(url: str, vendor: str) -> None:
    assert dialect_of(endpoint(url=url)) == dialect_of(endpoint(vendor))


@pytest.mark.parametrize(
    ("vendor", "model", "has"),
    [
        ("openai", "gpt-5", True),
        ("openrouter", "openai/gpt-5", True),
        ("openrouter", "moonshotai/kimi-k2", False),
        ("groq", "openai/gpt-oss-120b", False),
        ("", "qwen3", False),
    ],
)
def test_only_some_hold_an_answer_to_a_schema(vendor: str, model: str, has: bool) -> None:
    assert CompatibleProvider(endpoint(vendor)).has_structured_output(model) is has


def test_a_schema_is_sent_as_the_form_of_the_answer() -> None:
    body = sent([user("u", Text(text="hi"))], "openai", output_schema={"type": "object"})
    schema = {"name": "answer", "schema": {"type": "object"}}
    assert body["response_format"] == {"type": "json_schema", "json_schema": schema}


@pytest.mark.parametrize("vendor", ["", "deepseek", "mistral"])
def test_the_bytes_of_a_request_begin_with_those_of_the_one_before(vendor: str) -> None:
    kept: dict[str, bytes] = {}
    messages = [user("u", Text(text="begin"))]
    before = b""
    for number in range(6):
        body = encoded(messages, vendor, encoded=kept)
        assert body == encoded(messages, vendor, encoded={})
        assert body.startswith(before.removesuffix(b"]}"))
        before = body
        messages = [*messages, *a_turn(number)]


def test_a_message_is_encoded_once() -> None:
    kept: dict[str, bytes] = {}
    messages = [user("u", Text(text="begin")), *a_turn(1)]
    encoded(messages, encoded=kept)
    assert list(kept) == [f"lab:{MODEL}:{message.id}" for message in messages]
    kept[f"lab:{MODEL}:a1"] = b'{"kept":true}'
    assert b',{"kept":true},' in encoded(messages, encoded=kept)
    assert b"kept" not in encoded(messages, encoded=kept, model="another")


# --- the model's side ---


@pytest.mark.parametrize(
    ("blocks", "wires"),
    [
        ((Text(text="a"), Text(text="b")), [{"role": "assistant", "content": "ab"}]),
        ((Text(text=" \n"),), []),
        ((thought(),), []),
        ((sealed(),), []),
        ((thought(), Text(text="a")), [{"role": "assistant", "content": "a"}]),
        (
            (Text(text=" "), call("x", a=1), call("y")),
            [{"role": "assistant", "content": None, "tool_calls": [call_sent("x", '{"a":1}'), call_sent("y")]}],
        ),
        (
            (Text(text="a"), ToolCall(id="x/1", name="a.b", input=None)),
            [{"role": "assistant", "content": "a", "tool_calls": [call_sent("x/1", name="a_b")]}],
        ),
        (
            (sealed(), thought(), Text(text="a")),
            [{"role": "assistant", "content": "a", "reasoning_details": sealed().raw["reasoning_details"]}],
        ),
        ((sealed(provider="anthropic"), Text(text="a")), [{"role": "assistant", "content": "a"}]),
        ((sealed(model="another"), Text(text="a")), [{"role": "assistant", "content": "a"}]),
        ((UNKNOWN, Text(text="a")), [{"role": "assistant", "content": "a"}]),
    ],
)
def test_an_answer_is_sent_as_one_message_or_not_at_all(blocks: tuple[Block, ...], wires: list[dict[str, Any]]) -> None:
    assert messages_sent(assistant("a", *blocks)) == wires


@pytest.mark.parametrize("vendor", ["deepseek", "moonshotai"])
@pytest.mark.parametrize(
    ("blocks", "reasoning"),
    [
        ((thought("a"), Text(text="x"), thought("b"), call("c")), "ab"),
        ((thought("a"), Text(text="x")), "a"),
        ((thought("a", provider="anthropic"), call("c")), ""),
        ((Text(text="x"), call("c")), ""),
        ((Text(text="x"),), None),
    ],
)
def test_reasoning_comes_back_where_the_service_demands_it(
    vendor: str, blocks: tuple[Block, ...], reasoning: str | None
) -> None:
    (wire,) = messages_sent(assistant("a", *blocks), vendor=vendor)
    assert wire.get("reasoning_content") == reasoning


# --- the user's side ---


def test_results_are_messages_of_their_own_before_what_the_user_says() -> None:
    blocks = (
        Text(text="a note"),
        ToolResult(call_id="x", content="out"),
        ToolResult(call_id="y", content=" ", is_error=True),
        Text(text="go on"),
    )
    assert messages_sent(user("u", *blocks)) == [
        {"role": "tool", "tool_call_id": "x", "content": "out"},
        {"role": "tool", "tool_call_id": "y", "content": "(no output)"},
        {"role": "user", "content": "a note\n\ngo on"},
    ]


def test_what_a_tool_showed_follows_in_a_user_message_that_says_whose_it_is() -> None:
    result = ToolResult(call_id="x", content="out", attachments=(IMAGE, PDF))
    others = (ToolResult(call_id="y", content="more"), Text(text="go on"))
    assert messages_sent(user("u", result, *others)) == [
        {"role": "tool", "tool_call_id": "x", "content": "out"},
        {"role": "tool", "tool_call_id": "y", "content": "more"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Shown by the tool call x:"},
                IMAGE_PART,
                {"type": "text", "text": "[the document plan.pdf was left out here: this service takes no files]"},
                {"type": "text", "text": "go on"},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("vendor", "block", "content"),
    [
        ("", Text(text="a"), "a"),
        ("", Text(text=" "), "(empty message)"),
        ("", IMAGE, [IMAGE_PART]),
        ("", IMAGE.model_copy(update={"blob": "c" * 64}), GONE),
        ("", PDF, "[the document plan.pdf was left out here: this service takes no files]"),
        ("deepseek", IMAGE, "[an image was left out here: this service takes none]"),
        ("openrouter", PDF, [{"type": "file", "file": {"filename": "plan.pdf", "file_data": PDF_URL}}]),
        ("openrouter", PDF.model_copy(update={"blob": "c" * 64}), GONE),
    ],
)
def test_a_users_block_is_sent_as_the_service_takes_it(vendor: str, block: Block, content: object) -> None:
    assert messages_sent(user("u", block), vendor=vendor) == [{"role": "user", "content": content}]


def test_a_strict_service_gets_short_ids_and_its_order_of_roles() -> None:
    own, foreign = "g6fVbXS8K", "call_KMbhDNYS2l62U8AAxZnpxtg6"
    answer = assistant("a", call(own), call(foreign))
    results = (ToolResult(call_id=own, content="1"), ToolResult(call_id=foreign, content="2"))
    asked, *rest = messages_sent(answer, user("u", *results, Text(text="go on")), vendor="mistral")
    ids = [each["id"] for each in asked["tool_calls"]]
    assert ids[0] == own
    assert (len(ids[1]), ids[1].isalnum()) == (9, True)
    assert [(wire["role"], wire.get("tool_call_id")) for wire in rest] == [
        ("tool", ids[0]),
        ("tool", ids[1]),
        ("assistant", None),
        ("user", None),
    ]
    assert [wire["role"] for wire in messages_sent(user("u", *results), vendor="mistral")] == ["tool", "tool"]


# --- against a server ---


@pytest.fixture
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


async def told(provider: CompatibleProvider, request: ModelRequest) -> Finished:
    async with provider.stream(request) as parts:
        last = [part async for part in parts][-1]
    assert isinstance(last, Finished)
    return last


@needs_recordings
async def test_several_turns_against_a_server_share_their_beginning_and_keep_their_seals(replay: Any) -> None:
    replay.push(
        "chat-openrouter-comments-reasoning-details-tool", "chat-vercel-gateway-thinking-tool", "chat-tool", "chat-text"
    )
    provider = CompatibleProvider(endpoint("openrouter", replay.url))
    messages, kept = [user("u", Text(text="begin"))], dict[str, bytes]()
    for number in range(4):
        last = await told(provider, request(messages, encoded=kept))
        results = [ToolResult(call_id=b.id, content="ok") for b in last.content if isinstance(b, ToolCall)]
        messages += [assistant(f"a{number}", *last.content), user(f"u{number}", *results, Text(text="go on"))]
    await provider.close()
    log = replay.requests()
    assert [entry["warnings"] for entry in log] == [[], [], [], []]
    for earlier, later in pairwise(json.dumps(entry["body"]) for entry in log):
        assert later.startswith(earlier.removesuffix("]}"))
    answers = [wire for wire in log[-1]["body"]["messages"] if wire["role"] == "assistant"]
    assert [reasoning_in(wire) for wire in answers] == [
        seen_in("chat-openrouter-comments-reasoning-details-tool"),
        seen_in("chat-vercel-gateway-thinking-tool"),
        None,
    ]
    assert {"reasoning", "reasoning_content"}.isdisjoint(key for wire in answers for key in wire)


def reasoning_in(wire: dict[str, Any]) -> tuple[str, str] | None:
    if "reasoning_details" not in wire:
        return None
    (entry,) = wire["reasoning_details"]
    assert (entry["type"], entry["index"], entry["format"]) == ("reasoning.text", 0, "anthropic-claude-v1")
    return entry["text"], entry["signature"]


def seen_in(name: str) -> tuple[str, str]:
    """Text and seal of a recorded answer, read off its bytes."""
    body = replay_module().Recording.load(replay_module().HERE / f"{name}.json").body.decode()
    lines = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for line in lines for choice in line["choices"]]
    entries = [entry for delta in deltas for entry in delta.get("reasoning_details", [])]
    return "".join(e.get("text", "") for e in entries), "".join(e.get("signature", "") for e in entries)


@pytest.mark.parametrize(
    ("vendor", "refusal", "had", "has"),
    [
        ("", "The reasoning_content in the thinking mode must be passed back to the API.", 0, 2),
        ("deepseek", "property 'reasoning_content' is unsupported", 2, 0),
    ],
)
async def test_a_service_that_wants_reasoning_otherwise_gets_it_so_from_then_on(
    vendor: str, refusal: str, had: int, has: int
) -> None:
    error = {"error": {"message": refusal, "type": "invalid_request_error"}}
    refused = http_answer(400, json.dumps(error).encode())
    turn = [assistant("a", thought(), call("x")), user("u1", ToolResult(call_id="x", content="out"))]
    older = [user("u0", Text(text="hi")), *turn, assistant("b", thought(), call("y"))]
    messages = [*older, user("u2", ToolResult(call_id="y", content="out"))]
    kept: dict[str, bytes] = {}
    async with CannedServer([refused, event_stream(DONE), event_stream(DONE), refused]) as server:
        provider = CompatibleProvider(endpoint(vendor, server.url))
        for _ in range(2):
            await told(provider, request(messages, encoded=kept))
        with pytest.raises(ProviderError, match="reasoning_content"):
            await told(provider, request(messages, encoded=kept))
        await provider.close()
    assert [body.count(b'"reasoning_content":"hm"') for body in server.bodies] == [had, has, has, has]
