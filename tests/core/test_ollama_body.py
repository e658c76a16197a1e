"""What is sent to Ollama: a prefix that never changes, its own form for calls, results and pictures."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from agentcore.messages import Block, Document, Image, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentcore.ports.models import Finished, ModelRequest, ToolDefinition
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.ollama.body import encode_body
from agentcore.providers.ollama.model import UNKNOWN, Model
from agentcore.providers.ollama.provider import OllamaProvider
from agentcore.providers.prefix import GONE
from tests.recordings import needs_recordings, recording, replay_module

pytestmark = pytest.mark.anyio

MODEL = "qwen3.6:latest"
WINDOW = 32_768
TOOLS = (ToolDefinition(name="read", description="Read a file.", input_schema={"type": "object"}),)
PICTURE = b"\x89PNG picture"
BLOBS = {hashlib.sha256(PICTURE).hexdigest(): PICTURE}
IMAGE = Image(blob=next(iter(BLOBS)), media_type="image/png", size_bytes=12, width=4, height=3)
LOST = IMAGE.model_copy(update={"blob": "0" * 64})
PAPER = Document(blob="1" * 64, media_type="application/pdf", size_bytes=5, name="a.pdf")
BLIND = Model(capabilities=frozenset({"completion", "tools"}))
THINKS = Model(capabilities=frozenset({"completion", "tools", "thinking"}))
UNSEEN = "[a picture was left out: this model cannot see pictures]"
UNREAD = "[a document was left out: this model cannot read documents]"


def user(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="user", content=blocks)


def assistant(id: str, *blocks: Block) -> Message:
    return Message(id=id, role="assistant", content=blocks)


def request(messages: list[Message], **fields: Any) -> ModelRequest:
    given = {"model": MODEL, "system": "Be kind.", "tools": TOOLS, "messages": messages, "blob": BLOBS.__getitem__}
    return ModelRequest(**{**given, **fields})


def sent(messages: list[Message], known: Model = UNKNOWN, **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode_body(request(messages, **fields), "ollama", known, WINDOW))
    return body


def wires(*messages: Message, model: Model = UNKNOWN) -> list[dict[str, Any]]:
    """These messages as they go out, behind the system prompt."""
    found: list[dict[str, Any]] = sent(list(messages), model)["messages"][1:]
    return found


def a_turn(number: int) -> list[Message]:
    """What one turn adds: an answer with a call, and its result."""
    call = ToolCall(id=f"c{number}", name="read", input={"path": f"grüße-{number}", "b": [1.5, None]})
    thought = Thinking(text="hm", provider="ollama", model=MODEL)
    return [
        assistant(f"a{number}", thought, Text(text=f"I read {number}."), call),
        user(f"u{number}", ToolResult(call_id=f"c{number}", content="line\n" * number, attachments=(IMAGE,))),
    ]


def test_a_whole_body() -> None:
    messages = [user("u0", Text(text="hi"))]
    assert sent(messages, THINKS, temperature=0.5, effort="high", max_tokens=77) == {
        "model": MODEL,
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_ctx": WINDOW, "temperature": 0.5, "num_predict": 77},
        "think": True,
        "tools": [
            {
                "type": "function",
                "function": {"name": "read", "description": "Read a file.", "parameters": {"type": "object"}},
            }
        ],
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}],
    }


def test_what_is_not_given_is_not_sent() -> None:
    assert sent([user("u0", Text(text="hi"))], system=" ", tools=()) == {
        "model": MODEL,
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_ctx": WINDOW},
        "messages": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.parametrize(
    ("model", "known", "effort", "think"),
    [
        ("qwen3", THINKS, "low", False),
        ("qwen3", THINKS, "medium", True),
        ("qwen3", THINKS, "max", True),
        ("qwen3", THINKS, None, None),
        ("qwen3", BLIND, "high", None),
        ("qwen3", UNKNOWN, "high", None),
        ("gpt-oss:20b", THINKS, "low", "low"),
        ("gpt-oss:20b", THINKS, "medium", "medium"),
        ("gpt-oss:20b", THINKS, "high", "high"),
        ("gpt-oss:20b", THINKS, "xhigh", "high"),
        ("gpt-oss:20b", THINKS, "max", "high"),
        ("gpt-oss:20b", UNKNOWN, "low", None),
    ],
)
def test_effort_is_said_only_to_a_model_that_is_known_to_think(
    model: str, known: Model, effort: str | None, think: Any
) -> None:
    assert sent([user("u0", Text(text="hi"))], known, model=model, effort=effort).get("think") == think


def test_the_bytes_of_a_request_begin_with_those_of_the_one_before() -> None:
    encoded: dict[str, bytes] = {}
    messages = [user("u", Text(text="begin"))]
    before = b""
    for number in range(80):  # far enough that older messages have become one piece
        body = encode_body(request(messages, encoded=encoded), "ollama", UNKNOWN, WINDOW)
        assert body == encode_body(request(messages, encoded={}), "ollama", UNKNOWN, WINDOW)
        assert body.startswith(before.removesuffix(b"]}"))
        before = body
        messages = [*messages, *a_turn(number)]


def test_a_message_is_encoded_once_for_each_model_and_once_more_when_it_turns_out_to_be_blind() -> None:
    encoded: dict[str, bytes] = {}
    messages = [user("u", Text(text="look"), IMAGE), *a_turn(1)]
    encode_body(request(messages, encoded=encoded), "ollama", UNKNOWN, WINDOW)
    assert list(encoded) == [f"ollama:{MODEL}:{message.id}" for message in messages]
    encoded[f"ollama:{MODEL}:a1"] = b'{"kept":true}'
    assert b',{"kept":true},' in encode_body(request(messages, encoded=encoded), "ollama", UNKNOWN, WINDOW)
    blind = encode_body(request(messages, encoded=encoded), "ollama", BLIND, WINDOW)
    assert b"kept" not in blind
    assert b"images" not in blind


@pytest.mark.parametrize(
    ("blocks", "wire"),
    [
        ((Text(text="a"), Text(text=" b")), {"role": "assistant", "content": "a b"}),
        ((Text(text=" \n"),), None),
        ((), None),
        (
            (Thinking(text="t", provider="ollama", model=MODEL), Text(text="a")),
            {"role": "assistant", "content": "a", "thinking": "t"},
        ),
        ((Thinking(text="t", provider="ollama", model=MODEL),), None),
        (
            (Thinking(text="t", provider="ollama", model="llama3"), Text(text="a")),
            {"role": "assistant", "content": "a"},
        ),
        ((Thinking(text="t", provider="lab", model=MODEL), Text(text="a")), {"role": "assistant", "content": "a"}),
        (
            (Opaque(provider="ollama", model=MODEL, raw={"type": "x"}), Text(text="a")),
            {"role": "assistant", "content": "a"},
        ),
        (
            (ToolCall(id="c1", name="read", input={"a": 1}), ToolCall(id="c2", name="ls", input=None)),
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "c1", "function": {"name": "read", "arguments": {"a": 1}}},
                    {"id": "c2", "function": {"name": "ls", "arguments": {}}},
                ],
            },
        ),
    ],
)
def test_an_answer_is_sent_back_in_ollamas_form(blocks: tuple[Block, ...], wire: dict[str, Any] | None) -> None:
    around = (user("u0", Text(text="x")), assistant("a0", *blocks), user("u1", Text(text="y")))
    x, *middle, y = wires(*around)
    assert (x, y) == ({"role": "user", "content": "x"}, {"role": "user", "content": "y"})
    assert middle == ([] if wire is None else [wire])


def test_results_are_messages_of_their_own_and_what_they_showed_follows() -> None:
    calls = assistant(
        "a1", *(ToolCall(id=f"c{n}", name=name, input={}) for n, name in enumerate(("read", "ls", "web")))
    )
    results = user(
        "u1",
        Text(text="a note"),
        ToolResult(call_id="c0", content="out", attachments=(IMAGE, PAPER)),
        ToolResult(call_id="c1", content="no such folder", is_error=True),
        ToolResult(call_id="c2", content=""),
    )
    assert wires(user("u0", Text(text="go")), calls, results)[2:] == [
        {"role": "tool", "content": "out", "tool_call_id": "c0", "tool_name": "read"},
        {"role": "tool", "content": "Error: no such folder", "tool_call_id": "c1", "tool_name": "ls"},
        {"role": "tool", "content": "", "tool_call_id": "c2", "tool_name": "web"},
        {
            "role": "user",
            "content": f"[shown by the tool above]\n\n{UNREAD}\n\na note",
            "images": [b64encode(PICTURE).decode()],
        },
    ]


def test_results_alone_are_followed_by_nothing() -> None:
    call = assistant("a1", ToolCall(id="c0", name="read", input={}))
    assert wires(user("u0", Text(text="go")), call, user("u1", ToolResult(call_id="c0", content="out")))[2:] == [
        {"role": "tool", "content": "out", "tool_call_id": "c0", "tool_name": "read"}
    ]


@pytest.mark.parametrize(
    ("blocks", "model", "wire"),
    [
        ((Text(text="look"), IMAGE), UNKNOWN, {"content": "look", "images": [b64encode(PICTURE).decode()]}),
        ((IMAGE,), Model(capabilities=frozenset({"vision"})), {"content": "", "images": [b64encode(PICTURE).decode()]}),
        ((IMAGE, Text(text="look")), BLIND, {"content": f"{UNSEEN}\n\nlook"}),
        ((LOST,), UNKNOWN, {"content": GONE}),
        ((Text(text="read"), PAPER), UNKNOWN, {"content": f"read\n\n{UNREAD}"}),
        ((Text(text=" "),), UNKNOWN, {"content": "(empty message)"}),
        ((), UNKNOWN, {"content": "(empty message)"}),
    ],
)
def test_what_a_person_sends(blocks: tuple[Block, ...], model: Model, wire: dict[str, Any]) -> None:
    assert wires(user("u0", *blocks), model=model) == [{"role": "user", **wire}]


@pytest.fixture
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


@needs_recordings
async def test_a_recorded_answer_goes_back_as_it_came_and_turns_share_their_beginning(replay: Any) -> None:
    replay.push("ollama-text", "ollama-tool-json", "ollama-text", "ollama-text")  # the first is what `show` takes
    provider = OllamaProvider(Endpoint(name="ollama", title="Ollama", base_url=replay.url))
    messages, encoded = [user("u", Text(text="begin"))], dict[str, bytes]()
    for number in range(3):
        async with provider.stream(request(messages, encoded=encoded)) as parts:
            last = [part async for part in parts][-1]
        assert isinstance(last, Finished)
        results = [ToolResult(call_id=b.id, content="ok") for b in last.content if isinstance(b, ToolCall)]
        messages += [assistant(f"a{number}", *last.content), user(f"u{number}", *results, Text(text="go on"))]
    await provider.close()
    first, second, third = (entry["body"] for entry in replay.requests() if entry["path"] == "/api/chat")
    assert {key: value for key, value in first.items() if key != "messages"} == {
        key: value for key, value in third.items() if key != "messages"
    }
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert third["messages"][: len(second["messages"])] == second["messages"]
    recorded = json.loads(recording("ollama-tool-json")["body"])["message"]
    [call] = recorded["tool_calls"]
    function = {key: call["function"][key] for key in ("name", "arguments")}
    assert second["messages"][2:] == [
        {
            "role": "assistant",
            "content": "",
            "thinking": recorded["thinking"],
            "tool_calls": [{"id": call["id"], "function": function}],
        },
        {"role": "tool", "content": "ok", "tool_call_id": call["id"], "tool_name": "get_current_weather"},
        {"role": "user", "content": "go on"},
    ]
