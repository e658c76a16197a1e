"""What is sent to Gemini: a prefix that never changes, signatures on their parts, nothing that would be refused."""

import json
from base64 import b64encode
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from agentcore.errors import ProviderError
from agentcore.messages import Block, Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import Finished, ModelRequest, ToolDefinition
from agentcore.providers.gemini.body import encode_body
from agentcore.providers.gemini.marks import ID, SIGNATURE, mark
from agentcore.providers.gemini.provider import GeminiProvider
from agentcore.providers.prefix import GONE, NEWER_MESSAGES
from tests.core.test_gemini_stream import endpoint_at, event, provider_at, recorded_parts
from tests.recordings import CannedServer, event_stream, http_answer, needs_recordings, replay_module

pytestmark = pytest.mark.anyio

MODEL = "gemini-3-flash-preview"
OLDER = "gemini-2.5-flash"
STAND_IN = "skip_thought_signature_validator"
TOOLS = (ToolDefinition(name="read", description="Read a file.", input_schema={"type": "object", "$defs": {}}),)
ONE_PIXEL, REPORT, LOST = "a" * 64, "b" * 64, "c" * 64
FILES = {ONE_PIXEL: b"\x89PNG", REPORT: b"%PDF"}


def user(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="user", content=blocks)


def assistant(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="assistant", content=blocks)


def picture(blob: str = ONE_PIXEL) -> Image:
    return Image(blob=blob, media_type="image/png", size_bytes=4, width=1, height=1)


def call(id: str = "c1", name: str = "read", **input: Any) -> ToolCall:
    return ToolCall(id=id, name=name, input=input)


def own(block: Text | ToolCall, name: str, value: str, model: str = MODEL) -> Opaque:
    return mark("gemini", model, block, name, value)


def request(messages: list[Message], **fields: Any) -> ModelRequest:
    given = {"model": MODEL, "system": "Be kind.", "tools": TOOLS, "messages": messages, "blob": FILES.__getitem__}
    return ModelRequest(**{**given, **fields})


def sent(messages: list[Message], **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode_body(request(messages, **fields), "gemini"))
    return body


def model_parts(*blocks: Block, model: str = MODEL) -> list[dict[str, Any]]:
    """The blocks of an answer as they go back."""
    contents = sent([user("u", Text(text="a")), assistant("m", *blocks), user("v", Text(text="b"))], model=model)[
        "contents"
    ]
    assert [content["role"] for content in contents] in (["user", "model", "user"], ["user", "user"])
    parts: list[dict[str, Any]] = contents[1]["parts"] if len(contents) == 3 else []
    return parts


def user_parts(*blocks: Block) -> list[dict[str, Any]]:
    """The blocks of a user's message as they are sent, after an answer with three calls."""
    first, second, third = call("c1", "read"), call("c2", "ls"), call("c3", "9 lives!")
    answer = assistant("m", first, own(second, ID, "given"), second, third)
    contents = sent([user("u", Text(text="a")), answer, user("v", *blocks)])["contents"]
    assert contents[2]["role"] == "user"
    parts: list[dict[str, Any]] = contents[2]["parts"]
    return parts


# --- the whole ----------------------------------------------------------------------------------------------------


def test_a_whole_body() -> None:
    assert sent([user("u", Text(text="Hello"))], max_tokens=50, temperature=0.5, model="gemini-2.0-flash") == {
        "generationConfig": {"maxOutputTokens": 50, "temperature": 0.5},
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "read",
                        "description": "Read a file.",
                        "parametersJsonSchema": {"type": "object", "$defs": {}},
                    }
                ]
            }
        ],
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
    }


def test_what_is_not_given_is_not_sent() -> None:
    assert sent([user("u", Text(text=" "))], system=" ", tools=(), model="gemma-3") == {
        "generationConfig": {},
        "contents": [{"role": "user", "parts": [{"text": "(empty message)"}]}],
    }


def test_an_answer_can_be_held_to_a_schema_where_tools_may_stand_beside_it() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    config = sent([user("u", Text(text="a"))], output_schema=schema)["generationConfig"]
    assert (config["responseMimeType"], config["responseJsonSchema"]) == ("application/json", schema)
    provider = provider_at("http://x")
    can = [provider.has_structured_output(model) for model in (MODEL, "gemini-4-argon", "gemini-flash-latest")]
    cannot = [provider.has_structured_output(model) for model in (OLDER, "gemini-2.0-flash", "gemini-exp-1206", "x")]
    assert (can, cannot) == ([True] * 3, [False] * 4)


SHOWN = {"includeThoughts": True}


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-1.5-pro", "high", None),
        ("gemini-2.0-flash", "high", None),
        ("gemma-3-27b-it", "high", None),
        ("gemini-exp-1206", "high", None),
        ("gemini-2.5-flash-image", "high", None),
        ("gemini-2.5-flash", None, SHOWN),
        ("gemini-2.5-flash", "low", SHOWN | {"thinkingBudget": 1_024}),
        ("gemini-2.5-flash", "medium", SHOWN | {"thinkingBudget": 8_192}),
        ("gemini-2.5-flash-lite", "high", SHOWN | {"thinkingBudget": 24_576}),
        ("gemini-2.5-flash", "max", SHOWN | {"thinkingBudget": 24_576}),
        ("gemini-2.5-pro", "high", SHOWN | {"thinkingBudget": 24_576}),
        ("gemini-2.5-pro", "xhigh", SHOWN | {"thinkingBudget": 32_768}),
        ("gemini-3-flash-preview", None, SHOWN),
        ("gemini-3-flash-preview", "low", SHOWN | {"thinkingLevel": "low"}),
        ("gemini-3-flash-preview", "medium", SHOWN | {"thinkingLevel": "medium"}),
        ("models/gemini-3.1-pro-preview", "medium", SHOWN | {"thinkingLevel": "medium"}),
        ("gemini-3-pro-preview", "medium", SHOWN | {"thinkingLevel": "high"}),
        ("gemini-4-argon", "xhigh", SHOWN | {"thinkingLevel": "high"}),
        ("gemini-flash-latest", "max", SHOWN | {"thinkingLevel": "high"}),
        ("gemini-3-flash-preview", "unheard-of", SHOWN),
    ],
)
def test_effort_is_told_as_the_generation_of_the_model_takes_it(
    model: str, effort: str | None, config: dict[str, Any] | None
) -> None:
    body = sent([user("u", Text(text="a"))], model=model, effort=effort)
    assert body["generationConfig"].get("thinkingConfig") == config


def test_windows_are_known_where_the_catalogue_has_none() -> None:
    provider = provider_at("http://x")
    models = ("gemini-2.5-pro", "gemini-9-new", "gemini-2.0-flash", "unknown")
    assert [provider.context_window(model) for model in models] == [1_048_576, 1_048_576, 1_000_000, None]


# --- the blocks of an answer --------------------------------------------------------------------------------------

SIGNED, CALLED = Text(text="t"), call(path="a")
WIRE_CALL = {"functionCall": {"name": "read", "args": {"path": "a"}}}
CODE: dict[str, Any] = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "S"}


@pytest.mark.parametrize(
    ("blocks", "parts"),
    [
        ([Text(text="a"), Text(text="b")], [{"text": "a"}, {"text": "b"}]),
        ([Text(text=" \n")], []),
        ([own(SIGNED, SIGNATURE, "S"), Text(text=" ")], [{"text": " ", "thoughtSignature": "S"}]),
        (
            [Text(text="a"), own(SIGNED, SIGNATURE, "S"), SIGNED, Text(text="b")],
            [{"text": "a"}, {"text": "t", "thoughtSignature": "S"}, {"text": "b"}],
        ),
        (
            [own(CALLED, SIGNATURE, "S"), own(CALLED, ID, "given"), CALLED, CALLED],
            [
                {
                    "functionCall": {"id": "given", "name": "read", "args": {"path": "a"}},
                    "thoughtSignature": "S",
                },
                WIRE_CALL,
            ],
        ),
        # a mark whose block is gone, or is another's
        ([own(CALLED, SIGNATURE, "S"), Text(text="a")], [{"text": "a"}]),
        ([own(SIGNED, SIGNATURE, "S"), CALLED], [WIRE_CALL | {"thoughtSignature": STAND_IN}]),
        ([own(SIGNED, SIGNATURE, "S"), Opaque(provider="x", model="y", raw={}), SIGNED], [{"text": "t"}]),
        ([own(CALLED, SIGNATURE, "S")], []),
        ([own(SIGNED, SIGNATURE, "S", "gemini-3.1-pro-preview"), SIGNED], [{"text": "t"}]),
        ([mark("lab", MODEL, SIGNED, SIGNATURE, "S"), SIGNED], [{"text": "t"}]),
        # calls of others
        ([CALLED, CALLED], [WIRE_CALL | {"thoughtSignature": STAND_IN}, WIRE_CALL]),
        ([own(CALLED, ID, "given", OLDER), CALLED], [WIRE_CALL | {"thoughtSignature": STAND_IN}]),
        (
            [ToolCall(id="c", name="9.é:" + "x" * 200, input=None)],
            [
                {
                    "functionCall": {"name": "_9._:" + "x" * 123, "args": {}},
                    "thoughtSignature": STAND_IN,
                }
            ],
        ),
        # thoughts and parts that only the vendor understands
        ([Thinking(text="t", provider="gemini", model=MODEL)], []),
        ([Thinking(text="t", signature="S", provider="gemini", model=OLDER)], []),
        (
            [Thinking(text="t", signature="S", provider="gemini", model=MODEL)],
            [{"text": "t", "thought": True, "thoughtSignature": "S"}],
        ),
        ([Opaque(provider="gemini", model=MODEL, raw=CODE), Text(text="a")], [CODE, {"text": "a"}]),
        ([Opaque(provider="gemini", model=OLDER, raw=CODE)], []),
        ([Opaque(provider="openai", model=MODEL, raw=CODE)], []),
    ],
)
def test_a_block_goes_back_as_it_came_or_not_at_all(blocks: list[Block], parts: list[dict[str, Any]]) -> None:
    assert model_parts(*blocks) == parts


def test_before_the_third_generation_no_signature_is_made_up() -> None:
    assert model_parts(CALLED, model=OLDER) == [WIRE_CALL]
    assert model_parts(CALLED, model="gemini-pro-latest") == [WIRE_CALL | {"thoughtSignature": STAND_IN}]


# --- the blocks of a user's message -------------------------------------------------------------------------------


def result(name: str, *, id: str | None = None, **response: str) -> dict[str, Any]:
    return {"functionResponse": ({"id": id} if id else {}) | {"name": name, "response": response}}


PIXEL = {"inlineData": {"mimeType": "image/png", "data": b64encode(b"\x89PNG").decode()}}
PDF = {"inlineData": {"mimeType": "application/pdf", "data": b64encode(b"%PDF").decode()}}


def test_results_come_first_under_the_name_and_id_of_their_calls() -> None:
    assert user_parts(
        Text(text="a note"),
        ToolResult(call_id="c1", content="out"),
        ToolResult(call_id="c2", content="broken", is_error=True),
        ToolResult(call_id="c3", content=""),
        ToolResult(call_id="lost", content="x"),
    ) == [
        result("read", output="out"),
        result("ls", id="given", error="broken"),
        result("_9_lives_", output=""),
        result("unknown", output="x"),
        {"text": "a note"},
    ]


def test_files_of_results_follow_all_results_and_say_whose_they_are() -> None:
    pdf = Document(blob=REPORT, media_type="application/pdf", size_bytes=4)
    assert user_parts(
        ToolResult(call_id="c1", content="out", attachments=(picture(), pdf)),
        ToolResult(call_id="c2", content="", attachments=(picture(LOST),)),
        picture(),
        Text(text=""),
    ) == [
        result("read", output="out"),
        result("ls", id="given", output=""),
        {"text": "[shown by read]"},
        PIXEL,
        PDF,
        {"text": "[shown by ls]"},
        {"text": GONE},
        PIXEL,
    ]


# --- the prefix ---------------------------------------------------------------------------------------------------


def a_turn(number: int) -> list[Message]:
    """What one turn adds: an answer with a call, and its result."""
    called = call(f"c{number}", path=f"grüße-{number}")
    blocks = (Text(text=f"I read {number}."), own(called, SIGNATURE, f"S{number}"), own(called, ID, f"g{number}"))
    return [
        assistant(f"a{number}", *blocks, called),
        user(f"u{number}", ToolResult(call_id=f"c{number}", content="line\n" * number)),
    ]


def test_bodies_of_successive_turns_share_every_byte_of_their_beginning() -> None:
    messages, encoded = [user("u", Text(text="begin"))], dict[str, bytes]()
    bodies = [encode_body(request(messages, encoded=encoded), "gemini")]
    for number in range(2 * NEWER_MESSAGES):
        messages += a_turn(number)
        bodies.append(encode_body(request(messages, encoded=encoded), "gemini"))
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix(b"]}"))
    assert bodies[-1] == encode_body(request(messages), "gemini")
    assert json.loads(bodies[-1])["contents"][-1]["parts"] == [
        result("read", id=f"g{number}", output="line\n" * number)
    ]


def test_no_message_is_serialised_twice() -> None:
    messages = [user("u", Text(text="begin")), *a_turn(1), user("v", Text(text="go on"))]
    encoded: dict[str, bytes] = {}
    encode_body(request(messages, encoded=encoded), "gemini")
    key = next(key for key in encoded if key.endswith("a1"))
    encoded[key] = b'{"kept":true}'
    assert b',{"kept":true},' in encode_body(request(messages, encoded=encoded), "gemini")
    assert b"kept" not in encode_body(request(messages, encoded=encoded, model=OLDER), "gemini")


# --- against a server ---------------------------------------------------------------------------------------------


@pytest.fixture
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


async def answer_to(provider: GeminiProvider, request: ModelRequest) -> Finished:
    async with provider.stream(request) as parts:
        last = [part async for part in parts][-1]
    assert isinstance(last, Finished)
    return last


ROUND_TRIPS = [
    "gemini-parallel-tools",
    "gemini-partial-args-noargs",
    "gemini-3-signature-on-text",
    "gemini-thought-tool",
]


@needs_recordings
async def test_several_turns_against_a_server_share_their_beginning_and_send_answers_back_as_they_came(
    replay: Any,
) -> None:
    replay.push(*ROUND_TRIPS, "gemini-text")
    provider = provider_at(replay.url)
    messages, encoded = [user("u", Text(text="begin"))], dict[str, bytes]()
    for number in range(len(ROUND_TRIPS) + 1):
        last = await answer_to(provider, request(messages, encoded=encoded))
        results = [ToolResult(call_id=b.id, content="ok") for b in last.content if isinstance(b, ToolCall)]
        messages += [assistant(f"a{number}", *last.content), user(f"u{number}", *results, Text(text="go on"))]
    await provider.close()
    log = replay.requests()
    assert [entry["warnings"] for entry in log] == [[]] * len(log)
    assert {entry["query"]["alt"] for entry in log} == {"sse"}
    bodies = [json.dumps(entry["body"]) for entry in log]
    for earlier, later in pairwise(bodies):
        assert later.startswith(earlier.removesuffix("]}"))
    contents = log[-1]["body"]["contents"]
    for number, name in enumerate(ROUND_TRIPS):
        assert contents[1 + 2 * number] == {"role": "model", "parts": as_sent_back(name)}, name
    given = [part["functionResponse"].get("id") for part in contents[2]["parts"] if "functionResponse" in part]
    assert given == ["0b3pdf3o", "brynwdxm"]
    without = [part["functionResponse"] for part in contents[4]["parts"] if "functionResponse" in part]
    assert without == [{"name": name, "response": {"output": "ok"}} for name in ["read_theme"] + ["read_screen"] * 3]


def as_sent_back(name: str) -> list[dict[str, Any]]:
    """What the vendor wants back of a recorded answer: no thoughts, no empty text, calls whole, text without gaps."""
    expect: list[dict[str, Any]] = []
    for part in recorded_parts(name):
        if part.get("thought") or part == {"text": ""}:
            continue
        if "functionCall" in part and "name" not in part["functionCall"]:
            for piece in part["functionCall"].get("partialArgs", ()):
                args = expect[-1]["functionCall"]["args"]
                args["id"] = args.get("id", "") + piece["stringValue"]
        elif "functionCall" in part:
            whole = {"args": {}} | part["functionCall"]
            whole.pop("willContinue", None)
            expect.append(part | {"functionCall": whole})
        elif "thoughtSignature" not in part and expect and set(expect[-1]) == {"text"}:
            expect[-1] = {"text": expect[-1]["text"] + part["text"]}
        else:
            expect.append(part)
    return expect


REFUSED = http_answer(
    400, b'{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "Thought signature is not valid"}}'
)
ANSWER = event_stream(event({"text": "hi"}, stop="STOP"))


async def test_refused_signatures_are_withheld_from_then_on_and_the_call_repeated_once() -> None:
    messages, encoded = [user("u", Text(text="begin")), *a_turn(1)], dict[str, bytes]()
    async with CannedServer([REFUSED, ANSWER, ANSWER, REFUSED]) as server:
        provider = provider_at(server.url)
        await answer_to(provider, request(messages, encoded=encoded))
        await answer_to(provider, request([*messages, *a_turn(2)], encoded=encoded))
        with pytest.raises(ProviderError, match="Thought signature"):
            await answer_to(provider, request([user("u", Text(text="nothing to withhold"))]))
        await provider.close()
    first, second, third, _ = server.bodies
    assert [body.count(b'"thoughtSignature":"S') for body in (first, second, third)] == [1, 0, 1]
    assert [body.count(STAND_IN.encode()) for body in (first, second, third)] == [0, 1, 1]
    assert third.startswith(second.removesuffix(b"]}"))
    assert second.count(b'"id":"g1"') == 2


@pytest.mark.parametrize("base", ["", "/", "/v1beta", "/v1beta/", "/behind/a/proxy"])
@pytest.mark.parametrize("model", ["gemini-text", "models/gemini-text"])
@needs_recordings
async def test_the_address_is_right_however_the_base_url_ends(replay: Any, base: str, model: str) -> None:
    provider = provider_at(replay.url.rstrip("/") + base)
    assert (await answer_to(provider, request([user("u", Text(text="a"))], model=model))).stop == "end_turn"
    await provider.close()
    last = replay.requests()[-1]
    proxy = "/behind/a/proxy" if "proxy" in base else ""
    assert last["path"] == f"{proxy}/v1beta/models/gemini-text:streamGenerateContent"
    assert "x-goog-api-key" in last["headers"]
    assert last["headers"]["content-type"] == "application/json"


async def test_a_name_cannot_lead_to_another_address() -> None:
    provider = GeminiProvider(endpoint_at("http://x"))
    assert provider._path("../files?key=1#") == ("/v1beta/models/..%2Ffiles%3Fkey%3D1%23:streamGenerateContent?alt=sse")
