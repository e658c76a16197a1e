"""What is sent to OpenAI: a prefix that never changes, items that hold by themselves, nothing that would be refused."""

import importlib
import json
from base64 import b64encode
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import anyio
import pytest

from agentcore.errors import ProviderError
from agentcore.messages import Block, Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import Finished, ModelRequest, ToolDefinition
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.ids import wire_id
from agentcore.providers.openai.body import encode_body
from agentcore.providers.openai.models import OFFERED, effort_for, efforts
from agentcore.providers.openai.provider import OpenAIProvider
from agentcore.providers.openai.schema import meets_strict_rules
from agentcore.providers.prefix import GONE
from tests.recordings import CannedServer, event_stream, http_answer, needs_recordings, recording, replay_module

pytestmark = pytest.mark.anyio

MODEL = "gpt-5.5"
TOOLS = (ToolDefinition(name="read", description="Read a file.", input_schema={"type": "object"}),)
REASONING: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "seal=="}
SEARCH: dict[str, Any] = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
BYTES = {"a" * 64: b"\x89PNG", "b" * 64: b"%PDF"}
PICTURE = Image(blob="a" * 64, media_type="image/png", size_bytes=4, width=1, height=1)
PAPER = Document(blob="b" * 64, media_type="application/pdf", size_bytes=4, name="paper.pdf")
LOST = Document(blob="c" * 64, media_type="application/pdf", size_bytes=4)
IMAGE_WIRE = {
    "type": "input_image",
    "image_url": "data:image/png;base64," + b64encode(b"\x89PNG").decode(),
    "detail": "auto",
}
FILE_WIRE = {
    "type": "input_file",
    "filename": "paper.pdf",
    "file_data": "data:application/pdf;base64," + b64encode(b"%PDF").decode(),
}


def user(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="user", content=blocks)


def assistant(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="assistant", content=blocks)


def opaque(raw: dict[str, Any], provider: str = "openai", model: str = MODEL) -> Opaque:
    return Opaque(provider=provider, model=model, raw=raw)


def request(messages: list[Message], **fields: Any) -> ModelRequest:
    known = {"model": MODEL, "system": "Be kind.", "tools": TOOLS, "messages": messages, "blob": BYTES.__getitem__}
    return ModelRequest(**{**known, **fields})


def sent(messages: list[Message], **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode_body(request(messages, **fields), "openai"))
    return body


def options(**fields: Any) -> dict[str, Any]:
    body = sent([user("u0", Text(text="hi"))], system="", tools=(), **fields)
    return {key: value for key, value in body.items() if key not in ("model", "stream", "store", "input")}


def items_sent(*blocks: Block, role: str = "assistant") -> list[dict[str, Any]]:
    """The blocks of one message as they go out, in the middle of a conversation."""
    message = Message.model_validate({"id": "m", "role": role, "content": blocks})
    first, *items, last = sent([user("u0", Text(text="a")), message, user("u1", Text(text="c"))])["input"]
    assert (first, last) == (asked("a"), asked("c"))
    return list(items)


def asked(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def said(text: str, **fields: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content, **fields}


def called(id: str = "call_1", name: str = "read", arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def a_turn(number: int) -> list[Message]:
    """What one turn adds: an answer with reasoning, text and a call, and its result."""
    call = ToolCall(id=f"call_{number}", name="read", input={"path": f"grüße-{number}", "b": [1.5, None]})
    thought = Thinking(text="hm", provider="openai", model=MODEL)
    sealed = opaque({**REASONING, "id": f"rs_{number}"})
    return [
        assistant(f"a{number}", thought, sealed, Text(text=f"I read {number}."), call),
        user(f"u{number}", ToolResult(call_id=f"call_{number}", content="line\n" * number)),
    ]


def test_a_whole_body() -> None:
    assert sent([user("u0", Text(text="hi"))], effort="low", max_tokens=77, session="s-1", temperature=0.5) == {
        "model": MODEL,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "s-1",
        "max_output_tokens": 77,
        "reasoning": {"effort": "low", "summary": "auto"},
        "instructions": "Be kind.",
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Read a file.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "input": [asked("hi")],
    }


SEALED = {"include": ["reasoning.encrypted_content"]}
OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"model": "gpt-5.5"}, {**SEALED, "reasoning": {"summary": "auto"}}),
    ({"model": "gpt-5.5", "effort": "max"}, {**SEALED, "reasoning": {"effort": "xhigh", "summary": "auto"}}),
    ({"model": "gpt-4o", "effort": "high", "temperature": 0.0}, {"temperature": 0.0}),
    ({"model": "house-model", "temperature": 0.5}, {**SEALED, "temperature": 0.5}),
    ({"model": "house-model", "effort": "max"}, {**SEALED, "reasoning": {"effort": "max"}}),
]


@pytest.mark.parametrize(("asked_for", "options_sent"), OPTIONS)
def test_a_model_gets_only_options_that_it_takes(asked_for: dict[str, Any], options_sent: dict[str, Any]) -> None:
    assert options(**asked_for) == options_sent


@pytest.mark.parametrize(
    ("model", "low", "xhigh", "max"),
    [
        ("o4-mini", "low", "high", "high"),
        ("o3-2025-04-16", "low", "high", "high"),
        ("o3-deep-research", "medium", "medium", "medium"),
        ("gpt-5", "low", "high", "high"),
        ("gpt-5-mini-2025-08-07", "low", "high", "high"),
        ("gpt-5-pro", "high", "high", "high"),
        ("gpt-5.1-codex", "low", "high", "high"),
        ("gpt-5.1-codex-max", "low", "xhigh", "xhigh"),
        ("gpt-5.2", "low", "xhigh", "xhigh"),
        ("gpt-5.5-pro-2026-04-23", "medium", "xhigh", "xhigh"),
        ("openai/gpt-5.6-terra", "low", "xhigh", "max"),
        ("gpt-6.1-sol", "low", "xhigh", "max"),
        ("ft:gpt-4o-mini:house", None, None, None),
        ("gpt-4.1-nano", None, None, None),
        ("gpt-oss-20b", "low", "xhigh", "max"),
    ],
)
def test_an_effort_is_the_highest_that_the_model_takes(model: str, low: str, xhigh: str, max: str) -> None:
    assert [effort_for(model, asked) for asked in ("low", "xhigh", "max")] == [low, xhigh, max]


def test_a_word_that_is_no_level_is_passed_on_to_models_that_reason() -> None:
    assert [effort_for(model, "minimal") for model in ("gpt-5", "house-model", "gpt-4o")] == [
        "minimal",
        "minimal",
        None,
    ]


def test_every_model_that_is_offered_reasons() -> None:
    assert all(efforts(model) for model in OFFERED)


def an_object(**fields: Any) -> dict[str, Any]:
    properties = {"a": {"type": "string"}}
    return {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": False, **fields}


SCHEMAS: list[tuple[dict[str, Any], bool]] = [
    (an_object(), True),
    (an_object(title="T", description="d"), True),
    ({"type": "object", "additionalProperties": False}, True),
    (an_object(required=[]), False),
    (an_object(required=["a", "b"]), False),
    (an_object(additionalProperties=True), False),
    (an_object(additionalProperties={}), False),
    ({"type": "object"}, False),
    ({"type": "string"}, False),
    (an_object(anyOf=[an_object()]), False),
    (an_object(patternProperties={}), False),
    (an_object(properties={"a": an_object()}), True),
    (an_object(properties={"a": an_object(required=[])}), False),
    (an_object(properties={"a": {"anyOf": [an_object(), {"type": "null"}]}}), True),
    (an_object(properties={"a": {"anyOf": [{"type": "object"}, {"type": "null"}]}}), False),
    (an_object(properties={"a": {"type": "array", "items": an_object()}}), True),
    (an_object(properties={"a": {"type": "array", "items": {"type": ["object", "null"]}}}), False),
    (an_object(properties={"a": {"$ref": "#/$defs/A"}}, **{"$defs": {"A": an_object()}}), True),
    (an_object(properties={"a": {"$ref": "#/$defs/A"}}, **{"$defs": {"A": an_object(required=[])}}), False),
    (an_object(properties={"a": {"type": "string", "format": "color"}}), False),
    (an_object(properties={"a": True}), False),
]


@pytest.mark.parametrize(("schema", "is_strict"), SCHEMAS)
def test_a_schema_is_strict_only_if_the_vendor_can_enforce_it(schema: dict[str, Any], is_strict: bool) -> None:
    assert meets_strict_rules(schema) is is_strict
    text = {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict}}
    assert options(output_schema=schema)["text"] == text


def test_the_bytes_of_a_request_begin_with_those_of_the_one_before() -> None:
    encoded: dict[str, bytes] = {}
    messages = [user("u", Text(text="begin"))]
    before = b""
    for number in range(6):
        body = encode_body(request(messages, encoded=encoded), "openai")
        assert body == encode_body(request(messages, encoded={}), "openai")
        assert body.startswith(before.removesuffix(b"]}"))
        before = body
        messages = [*messages, *a_turn(number)]


def test_a_message_is_encoded_once_for_each_model() -> None:
    encoded: dict[str, bytes] = {}
    messages = [user("u", Text(text="begin")), *a_turn(1)]
    encode_body(request(messages, encoded=encoded), "openai")
    assert list(encoded) == [f"openai:{MODEL}:{message.id}" for message in messages]
    encoded[f"openai:{MODEL}:a1"] = b'{"kept":true}'
    assert b',{"kept":true},' in encode_body(request(messages, encoded=encoded), "openai")
    assert b"kept" not in encode_body(request(messages, encoded=encoded, model="gpt-5.4"), "openai")


ANSWERS: dict[str, tuple[list[Block], list[dict[str, Any]]]] = {
    "text": ([Text(text="a")], [said("a")]),
    "blank": ([Text(text=" \n"), Text(text="")], []),
    "thinking": ([Thinking(text="t", signature="s", provider="openai", model=MODEL), Text(text="a")], [said("a")]),
    "phase": (
        [opaque({"type": "message", "phase": "commentary"}), Text(text="a"), Text(text="b")],
        [said("a", phase="commentary"), said("b")],
    ),
    "phase that lost its text": (
        [opaque({"type": "message", "phase": "commentary"}), ToolCall(id="call_1", name="read"), Text(text="a")],
        [called(), said("a")],
    ),
    "foreign phase": ([opaque({"type": "message", "phase": "x"}, model="gpt-5.4"), Text(text="a")], [said("a")]),
    "reasoning": ([opaque(REASONING), Text(text="a")], [REASONING, said("a")]),
    "reasoning as it came": (
        [opaque({**REASONING, "content": [{"type": "reasoning_text"}], "status": "completed"}), Text(text="a")],
        [REASONING, said("a")],
    ),
    "reasoning of another model": ([opaque(REASONING, model="gpt-5.4"), Text(text="a")], [said("a")]),
    "reasoning of another provider": ([opaque(REASONING, provider="lab"), Text(text="a")], [said("a")]),
    "reasoning alone": ([opaque(REASONING)], []),
    "reasoning before a blank": ([opaque(REASONING), Text(text=" ")], []),
    "reasoning that lost its call": ([Text(text="a"), opaque(REASONING)], [said("a")]),
    "reasoning after reasoning": (
        [opaque({**REASONING, "id": "rs_0"}), opaque(REASONING), ToolCall(id="call_1", name="read")],
        [REASONING, called()],
    ),
    "server-side tool": ([opaque(REASONING), opaque(SEARCH), Text(text="a")], [REASONING, SEARCH, said("a")]),
    "call": (
        [ToolCall(id="call_1", name="read", input={"ü": [1.5, None]})],
        [called(arguments='{"ü":[1.5,null]}')],
    ),
    "call without input": ([ToolCall(id="call_1", name="read", input=None)], [called()]),
    "foreign call": (
        [ToolCall(id="x" * 65, name="a.b", input={}), ToolCall(id="", name="", input={})],
        [called(wire_id("x" * 65), "a_b"), called(wire_id(""), "_")],
    ),
}


@pytest.mark.parametrize(("blocks", "items"), ANSWERS.values(), ids=ANSWERS.keys())
def test_an_answer_is_sent_back_as_the_vendor_takes_it_or_not_at_all(
    blocks: list[Block], items: list[dict[str, Any]]
) -> None:
    assert items_sent(*blocks) == items


def test_results_come_first_and_are_paired_with_their_calls() -> None:
    blocks = (
        Text(text="a note"),
        ToolResult(call_id="call_1", content="out"),
        PICTURE,
        ToolResult(call_id="x" * 65, content="", is_error=True),
        ToolResult(call_id="call_2", content="two files", attachments=(PICTURE, PAPER)),
        ToolResult(call_id="call_3", content=" ", attachments=(LOST,)),
    )
    gone = {"type": "input_text", "text": GONE}
    assert items_sent(*blocks, role="user") == [
        {"type": "function_call_output", "call_id": "call_1", "output": "out"},
        {"type": "function_call_output", "call_id": wire_id("x" * 65), "output": ""},
        {
            "type": "function_call_output",
            "call_id": "call_2",
            "output": [{"type": "input_text", "text": "two files"}, IMAGE_WIRE, FILE_WIRE],
        },
        {"type": "function_call_output", "call_id": "call_3", "output": [gone]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a note"}, IMAGE_WIRE]},
    ]


def test_nothing_is_added_to_results_alone() -> None:
    result = {"type": "function_call_output", "call_id": "call_1", "output": "out"}
    assert items_sent(ToolResult(call_id="call_1", content="out"), Text(text=" "), role="user") == [result]


def test_files_of_a_prompt_go_with_it_and_an_empty_prompt_keeps_its_place() -> None:
    unnamed = PAPER.model_copy(update={"name": None})
    content = sent([user("u0", Text(text=" "), PICTURE, PAPER, unnamed, LOST)])["input"][0]["content"]
    gone = {"type": "input_text", "text": GONE}
    assert content == [IMAGE_WIRE, FILE_WIRE, {**FILE_WIRE, "filename": "document.pdf"}, gone]
    assert sent([user("u0", Text(text=""))])["input"] == [asked("(empty message)")]


# --- against a server ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def _loaded_sdk() -> None:
    """Load the SDK before any deadline runs: the first time it takes seconds."""
    importlib.import_module("openai")


@pytest.fixture
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


def provider_at(url: str) -> OpenAIProvider:
    return OpenAIProvider(Endpoint(name="openai", title="OpenAI", base_url=f"{url}/v1", key=Key("sk-secret-key")))


async def call(provider: OpenAIProvider, request: ModelRequest) -> Finished:
    with anyio.fail_after(20):
        async with provider.stream(request) as parts:
            last = [part async for part in parts][-1]
    assert isinstance(last, Finished)
    return last


def recorded_item(name: str, kind: str) -> dict[str, Any]:
    lines = [line[6:] for line in recording(name)["body"].splitlines() if line.startswith("data: {")]
    ends = [event["item"] for event in map(json.loads, lines) if event["type"] == "response.output_item.done"]
    item: dict[str, Any] = next(item for item in ends if item["type"] == kind)
    return item


def as_sent(item: dict[str, Any]) -> dict[str, Any]:
    return {key: item[key] for key in ("type", "id", "summary", "encrypted_content")}


@needs_recordings
async def test_recorded_answers_are_sent_back_in_their_form_and_turns_share_their_beginning(replay: Any) -> None:
    recordings = ["responses-phase", "responses-reasoning-summary-tool", "responses-lmstudio-tool"]
    recordings += ["responses-web-search", "responses-custom-tool", "responses-text"]
    replay.push(*recordings)
    provider = provider_at(replay.url)
    messages, encoded = [user("u", Text(text="begin"))], dict[str, bytes]()
    for number in range(len(recordings)):
        last = await call(provider, request(messages, encoded=encoded, session="s-1"))
        results = [ToolResult(call_id=b.id, content="ok") for b in last.content if isinstance(b, ToolCall)]
        messages += [assistant(f"a{number}", *last.content), user(f"u{number}", *results, Text(text="on"))]
    await provider.close()
    log = replay.requests()
    assert [entry["warnings"] for entry in log] == [[]] * len(recordings)
    assert [entry["path"] for entry in log] == ["/v1/responses"] * len(recordings)
    assert all(entry["headers"]["authorization"].endswith("key") for entry in log)  # masked but for its end
    for earlier, later in pairwise(json.dumps(entry["body"]) for entry in log):
        assert later.startswith(earlier.removesuffix("]}"))

    def outcome(name: str) -> list[dict[str, Any]]:
        (expected,) = recording(name)["expect"]["tool_calls"]
        arguments = {"input": expected["input"]} if expected.get("custom") else expected["input"]
        wire = called(expected["id"], expected["name"], json.dumps(arguments, separators=(",", ":")))
        return [wire, {"type": "function_call_output", "call_id": expected["id"], "output": "ok"}, asked("on")]

    phase, summary, local, search, custom, _ = recordings
    assert log[-1]["body"]["input"] == [
        asked("begin"),
        as_sent(recorded_item(phase, "reasoning")),
        said(recording(phase)["expect"]["text"], phase="commentary"),
        *outcome(phase),
        as_sent(recorded_item(summary, "reasoning")),
        *outcome(summary),
        said(recording(local)["expect"]["text"]),
        *outcome(local),
        recorded_item(search, "web_search_call"),
        said(recording(search)["expect"]["text"]),
        asked("on"),
        *outcome(custom),
    ]


def refusal(message: str, **fields: str) -> bytes:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None, **fields}
    return http_answer(400, json.dumps({"error": error}).encode())


ANSWER = event_stream({"type": "response.created"}, {"type": "response.completed", "response": {"status": "completed"}})
REFUSED_REASONING = [
    refusal("Item 'rs_1' of type 'reasoning' was provided without its required following item."),
    refusal("Item 'ws_1' of type 'web_search_call' was provided without its required 'reasoning' item: 'rs_1'."),
    refusal("Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."),
    refusal("The encrypted content gAAA could not be verified.", code="invalid_encrypted_content"),
]


@pytest.mark.parametrize("refused", REFUSED_REASONING)
async def test_refused_reasoning_is_withheld_from_then_on_and_the_call_repeated_once(refused: bytes) -> None:
    encoded: dict[str, bytes] = {}
    frame = opaque({"type": "message", "phase": "commentary"})
    search = assistant("s", opaque({**REASONING, "id": "rs_s"}), opaque(SEARCH), frame, Text(text="found"))
    messages = [user("u", Text(text="begin")), *a_turn(1), search, user("n", Text(text="go on"))]
    async with CannedServer([refused, ANSWER, ANSWER, refused, refused, refused]) as server:
        provider = provider_at(server.url)
        await call(provider, request(messages, encoded=encoded))
        await call(provider, request([*messages, *a_turn(2)], encoded=encoded))
        for last in ([user("u", Text(text="nothing to withhold"))], messages):
            with pytest.raises(ProviderError) as caught:
                await call(provider, request(last))
            assert caught.value.kind == "invalid_request"
        await provider.close()
    first, second, third = server.bodies[:3]
    assert [body.count(b"seal==") for body in server.bodies] == [2, 0, 1, 0, 2, 0]
    assert (b"ws_1" in first, b"ws_1" in second) == (True, False)
    assert b'"phase":"commentary"' in second
    assert third.startswith(second.removesuffix(b"]}"))


NO_SUMMARY = refusal("Your organization must be verified to generate reasoning summaries.", param="reasoning.summary")
NO_SEAL = refusal("Encrypted content is not supported with this model.", param="include")


async def test_a_refused_option_is_left_out_from_then_on_for_that_model() -> None:
    prompt = [user("u", Text(text="begin"))]
    async with CannedServer([NO_SUMMARY, NO_SEAL, ANSWER, ANSWER, ANSWER, NO_SUMMARY, NO_SUMMARY]) as server:
        provider = provider_at(server.url)
        for model in (MODEL, MODEL, "gpt-5.4"):
            await call(provider, request(prompt, model=model, effort="high"))
        with pytest.raises(ProviderError, match="verified"):
            await call(provider, request(prompt, model="gpt-6-sol"))
        await provider.close()
    bodies = [json.loads(body) for body in server.bodies]
    both, effort = {"effort": "high", "summary": "auto"}, {"effort": "high"}
    assert [body.get("reasoning") for body in bodies] == [both, effort, effort, effort, both, {"summary": "auto"}, None]
    assert ["include" in body for body in bodies] == [True, True, False, False, True, True, True]


async def test_another_refusal_is_not_repeated() -> None:
    async with CannedServer([refusal("Unknown parameter: 'input[0].colour'.")]) as server:
        provider = provider_at(server.url)
        with pytest.raises(ProviderError, match="colour") as caught:
            await call(provider, request([user("u", Text(text="begin")), *a_turn(1)]))
        await provider.close()
    assert (caught.value.kind, len(server.bodies)) == ("invalid_request", 1)


async def test_a_failure_is_not_repeated_by_the_sdk() -> None:
    failure = http_answer(503, b'{"error":{"code":"server_is_overloaded","message":"Full"}}')
    async with CannedServer([failure, ANSWER]) as server:
        provider = provider_at(server.url)
        with pytest.raises(ProviderError) as caught:
            await call(provider, request([user("u", Text(text="begin"))]))
        await provider.close()
    assert (caught.value.kind, len(server.bodies)) == ("overloaded", 1)
