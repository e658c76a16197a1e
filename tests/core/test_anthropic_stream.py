"""Recorded answers of the real service, through the real SDK, over a socket: what the adapter makes of the bytes."""

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from agentcore.caps import MAX_INPUT_DEPTH
from agentcore.encoding import encode
from agentcore.errors import ProviderError
from agentcore.events import EVENTS, AssistantMessage
from agentcore.messages import Message, Opaque, Text, Thinking, ToolCall
from agentcore.ports.models import Finished, ModelRequest, StreamPart, TextPart, ThinkingPart, ToolCallPart
from agentcore.providers.anthropic.provider import AnthropicProvider
from agentcore.providers.anthropic.reducer import Reducer
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.faults import Faults
from agentcore.usage import Usage
from tests.core.test_caps import nested
from tests.recordings import CannedServer, event_stream, names, needs_recordings, recording, replay_module
from tests.streams import asking, assert_cancelling_closes, assert_leaving_closes, collected, read

pytestmark = pytest.mark.anyio

MODEL = "claude-sonnet-4-5"
ANSWERS = [name for name in names("anthropic-") if recording(name)["status"] == 200]
WHOLE = [name for name in ANSWERS if recording(name)["expect"]["error"] is None]
MODES = ["chunk=whole", "chunk=byte", "chunk=midline", "chunk=utf8", "chunk=random:7", "chunk=event,framing=close"]


@pytest.fixture(scope="module", autouse=True)
def _loaded_sdk() -> None:
    """Load the SDK before any deadline runs: the first time it takes seconds."""
    importlib.import_module("anthropic")


@pytest.fixture(scope="module")
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


def endpoint(url: str) -> Endpoint:
    key = Key("sk-ant-api03-test", source="ANTHROPIC_API_KEY")
    return Endpoint(name="anthropic", title="Anthropic", base_url=url, key=key, vendor="anthropic")


def provider_at(url: str) -> AnthropicProvider:
    return AnthropicProvider(endpoint(url))


def request(model: str = MODEL) -> ModelRequest:
    return asking(model)


async def collect(url: str) -> list[StreamPart]:
    return await collected(provider_at(url), request())


def described(parts: list[StreamPart]) -> dict[str, Any]:
    """The answer in the words of the recordings."""
    *before, last = parts
    assert isinstance(last, Finished)
    assert not any(isinstance(part, Finished) for part in before)
    thinking = [block for block in last.content if isinstance(block, Thinking)]
    raw = [block.raw for block in last.content if isinstance(block, Opaque)]
    calls = [block for block in last.content if isinstance(block, ToolCall)]
    assert "".join(part.text for part in before if isinstance(part, ThinkingPart)) == "".join(t.text for t in thinking)
    assert [part.call_id for part in before if isinstance(part, ToolCallPart) and not part.size_bytes] == [
        call.id for call in calls
    ]
    return {
        "text": "".join(part.text for part in before if isinstance(part, TextPart)),
        "thinking_text": "".join(block.text for block in thinking),
        "signatures": sum(1 for block in thinking if block.signature),
        "redacted_thinking": sum(1 for block in raw if block["type"] == "redacted_thinking"),
        "server_tools": [block["name"] for block in raw if str(block["type"]).endswith("tool_use")],
        "tool_calls": [{"name": call.name, "id": call.id, "input": call.input} for call in calls],
        "block_types": [b.raw["type"] if isinstance(b, Opaque) else b.type for b in last.content],
        "stop_reason": last.stop,
        "usage": last.usage,
    }


def expected(name: str) -> dict[str, Any]:
    expect = recording(name)["expect"]
    usage = expect["usage"]
    return {
        "text": expect["text"],
        "thinking_text": expect.get("thinking_text", ""),
        "signatures": expect.get("signatures", 0),
        "redacted_thinking": expect.get("redacted_thinking", 0),
        "server_tools": expect.get("server_tools", []),
        "tool_calls": [{key: call[key] for key in ("name", "id", "input")} for call in expect["tool_calls"]],
        "block_types": expect["block_types"],
        "stop_reason": expect["stop_reason"],
        "usage": Usage(
            input=usage["input_tokens"],
            output=usage["output_tokens"],
            cache_read=usage["cache_read_input_tokens"],
            cache_write=usage["cache_creation_input_tokens"],
            reasoning=usage.get("output_tokens_details", {}).get("thinking_tokens", 0),
        ),
    }


@needs_recordings
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WHOLE)
async def test_a_recorded_answer_gives_what_it_holds_however_it_is_cut(replay: Any, name: str, mode: str) -> None:
    assert described(await collect(replay.url_for(name, mode))) == expected(name)
    assert [entry["warnings"] for entry in replay.requests()[-1:]] == [[]]


@needs_recordings
@pytest.mark.parametrize("how", ["end", "fin", "rst"])
@pytest.mark.parametrize("name", ["anthropic-tool", "anthropic-thinking-text", "anthropic-web-search"])
async def test_a_cut_answer_is_never_finished(replay: Any, name: str, how: str) -> None:
    size = recording(name)["bytes"]
    end = recording(name)["body"].encode().rindex(b'{"type":"message_stop"')
    provider = provider_at(replay.url)
    for cut in [0, 1, *range(40, end, max(1, size // 25)), end, end + 22]:
        parts: list[StreamPart] = []
        with pytest.raises(ProviderError) as caught:
            await read(provider, request(model=f"{name},cut={cut},how={how}"), into=parts)
        assert caught.value.kind == ("stream_truncated" if how == "end" else "network"), cut
        assert not any(isinstance(part, Finished) for part in parts), cut
    await provider.close()


@needs_recordings
async def test_leaving_early_closes_the_connection(replay: Any) -> None:
    provider = provider_at(replay.url_for("anthropic-thinking-text", "chunk=event,pause=0.02"))
    first = await assert_leaving_closes(provider, request(), replay, sent_less_than=5_000)
    assert isinstance(first, ThinkingPart)


@needs_recordings
async def test_cancelling_a_silent_answer_closes_the_connection(replay: Any) -> None:
    provider = provider_at(replay.url_for("anthropic-tool", "stall=900,hold=30"))
    await assert_cancelling_closes(provider, request(), replay, sent_less_than=901)


async def test_turns_share_one_connection() -> None:
    answer = event_stream(*answer_with({"type": "text", "text": ""}, [text_delta("hi")]))
    async with CannedServer([answer] * 3) as server:
        provider = provider_at(server.url)
        for _ in range(3):
            async with provider.stream(request()) as parts:
                async for part in parts:
                    if isinstance(part, Finished):
                        break
        await provider.close()
    assert (len(server.bodies), server.connections) == (3, 1)


# --- the reducer, event by event ----------------------------------------------------------------------------------


def answer_with(start: dict[str, Any], deltas: list[dict[str, Any]], stop: str = "end_turn") -> list[dict[str, Any]]:
    return [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


def text_delta(text: str) -> dict[str, Any]:
    return {"type": "text_delta", "text": text}


def input_delta(text: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": text}


def reduce(events: list[dict[str, Any]]) -> list[StreamPart]:
    reducer = Reducer("anthropic", MODEL, Faults(endpoint("http://127.0.0.1")))
    shown = [part for event in events for part in reducer.take(json.dumps(event).encode())]
    return [*shown, reducer.finish()]


@pytest.mark.parametrize(
    ("pieces", "input"),
    [
        ([], {}),
        ([""], {}),
        (["{}"], {}),
        (['{"a"', ": 1}"], {"a": 1}),
        (['{"a": "\\ud83e', '\\udd9c"}'], {"a": "🦜"}),
        (['{"a": 1'], None),
        (['{"a": 1}}'], None),
        (['{"a": 1} {"b": 2}'], None),
        (["[1]"], None),
        (["null"], None),
        (['"text"'], None),
        (['{"a": NaN}'], None),
        (["{'a': 1}"], None),
        (['{"a": 1,}'], None),
        (["{" * 3000], None),
        (['{"a":' * 500 + "1" + "}" * 500], None),
        (['{"a":' * (MAX_INPUT_DEPTH + 1) + "1" + "}" * (MAX_INPUT_DEPTH + 1)], None),
    ],
)
def test_only_one_whole_object_is_an_input(pieces: list[str], input: dict[str, Any] | None) -> None:
    start = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
    *shown, last = reduce(answer_with(start, [input_delta(piece) for piece in pieces], "tool_use"))
    assert isinstance(last, Finished)
    assert last.content == (ToolCall(id="toolu_1", name="read", input=input),)
    assert shown[0] == ToolCallPart("toolu_1", "read", 0)
    assert shown[-1] == ToolCallPart("toolu_1", "read", len("".join(pieces).encode()))


def test_what_is_kept_of_an_answer_can_be_journaled_and_read_back() -> None:
    calls = [
        ({"type": "tool_use", "id": "t", "name": "read", "input": nested(MAX_INPUT_DEPTH)}, []),
        ({"type": "tool_use", "id": "t", "name": "read", "input": {}}, [input_delta(json.dumps(nested(199)))]),
        ({"type": "server_tool_use", "name": "search", "input": {}}, [input_delta(json.dumps(nested(199)))]),
        ({"type": "novelty", "data": nested(MAX_INPUT_DEPTH - 1)}, []),
        ({"type": "novelty", "data": nested(190)}, []),
    ]
    kept = []
    for start, deltas in calls:
        last = reduce(answer_with(start, deltas))[-1]
        assert isinstance(last, Finished)
        event = AssistantMessage(message=Message(id="m", role="assistant", content=last.content), final=True)
        assert EVENTS.validate_json(encode(event, 1, "s", 1.0)) == event.model_copy(
            update={"seq": 1, "session": "s", "ts": 1.0}
        )
        kept.append([getattr(block, "input", None) or getattr(block, "raw", None) for block in last.content])
    assert kept == [[calls[0][0]["input"]], [None], [], [calls[3][0]], []]


def test_an_unknown_stop_reason_passes_through_as_it_is() -> None:
    last = reduce(answer_with({"type": "text", "text": ""}, [text_delta("a"), text_delta("b")], "brand_new"))[-1]
    assert last == Finished(content=(Text(text="ab"),), usage=Usage(input=5, output=9), stop="brand_new")


def test_an_unknown_block_is_kept_as_it_came_and_unknown_events_are_passed_over() -> None:
    start: dict[str, Any] = {"type": "novelty", "data": {"deep": [1, "ü"]}}
    events = answer_with(start, [{"type": "novelty_delta"}])
    events.insert(2, {"type": "weather_report", "rain": True})
    events.insert(2, {"type": "ping"})
    assert reduce(events) == [
        Finished(
            content=(Opaque(provider="anthropic", model=MODEL, raw=start),),
            usage=Usage(input=5, output=9),
            stop="end_turn",
        )
    ]


def test_blocks_of_nothing_are_left_out() -> None:
    assert reduce(answer_with({"type": "text", "text": ""}, []))[-1] == Finished(
        (), Usage(input=5, output=9), "end_turn"
    )
    assert reduce(answer_with({"type": "thinking", "thinking": ""}, []))[-1] == Finished(
        (), Usage(input=5, output=9), "end_turn"
    )


def test_thinking_without_text_keeps_its_signature() -> None:
    last = reduce(answer_with({"type": "thinking", "thinking": ""}, [{"type": "signature_delta", "signature": "s"}]))[
        -1
    ]
    assert isinstance(last, Finished)
    assert last.content == (Thinking(text="", signature="s", provider="anthropic", model=MODEL),)


BROKEN: dict[str, list[Any]] = {
    "second answer": [*answer_with({"type": "text", "text": ""}, [])[:-1], {"type": "message_start", "message": {}}],
    "delta of no block": [{"type": "content_block_delta", "index": 3, "delta": text_delta("a")}],
    "delta after the block": [
        *answer_with({"type": "text", "text": ""}, [])[:4],
        {"type": "content_block_delta", "index": 0, "delta": text_delta("a")},
    ],
    "text is a number": answer_with({"type": "text", "text": ""}, [{"type": "text_delta", "text": 5}]),
    "call without id": answer_with({"type": "tool_use", "name": "read"}, []),
    "id is a number": answer_with({"type": "tool_use", "name": "read", "id": 5}, []),
    "no object": [[1]],
    "end without beginning": [{"type": "message_stop"}],
}


@pytest.mark.parametrize("events", BROKEN.values(), ids=BROKEN.keys())
async def test_an_event_against_the_protocol_ends_the_answer(events: list[Any]) -> None:
    async with CannedServer([event_stream(*events)]) as server:
        with pytest.raises(ProviderError) as caught:
            await collect(server.url)
    assert caught.value.kind == "server_error"


def test_an_answer_without_its_end_is_never_finished() -> None:
    for left_out in range(1, 7):
        with pytest.raises(ProviderError) as caught:
            reduce(answer_with({"type": "text", "text": ""}, [text_delta("a")])[:-left_out])
        assert caught.value.kind == "stream_truncated"


def test_odd_token_counts_do_not_spoil_an_answer() -> None:
    events = answer_with({"type": "text", "text": "a"}, [])
    events[0]["message"]["usage"] = {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": None}
    events[-2]["usage"] = {"output_tokens": "9", "cache_read_input_tokens": None, "input_tokens": -1}
    last = reduce(events)[-1]
    assert isinstance(last, Finished)
    assert last.usage == Usage(cache_read=7)


@pytest.mark.parametrize("stop", [None, "end_turn", "tool_use"])
def test_calls_are_run_whatever_word_a_compatible_server_ends_with(stop: Any) -> None:
    for input in ({}, "", None):
        start = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": input}
        last = reduce(answer_with(start, [], stop))[-1]
        assert last == Finished((ToolCall(id="toolu_1", name="read", input={}),), Usage(input=5, output=9), "tool_use")


def test_the_text_of_a_compaction_is_kept_with_its_block() -> None:
    delta = {"type": "compaction_delta", "content": "all before", "encrypted_content": "x"}
    last = reduce(answer_with({"type": "compaction", "content": None}, [delta]))[-1]
    assert isinstance(last, Finished)
    raw = {"type": "compaction", "content": "all before", "encrypted_content": "x"}
    assert last.content == (Opaque(provider="anthropic", model=MODEL, raw=raw),)


def test_an_answer_in_one_piece_is_an_answer() -> None:
    message = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 9},
    }
    assert reduce([message]) == [
        ThinkingPart("hm"),
        TextPart("a"),
        ToolCallPart("toolu_1", "read", 0),
        Finished(
            (
                Thinking(text="hm", signature="s", provider="anthropic", model=MODEL),
                Text(text="a"),
                ToolCall(id="toolu_1", name="read", input={"a": 1}),
            ),
            Usage(input=5, output=9),
            "tool_use",
        ),
    ]
