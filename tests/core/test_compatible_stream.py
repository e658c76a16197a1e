"""Recorded answers of real gateways and local servers, through the real SDK: what the adapter makes of the bytes."""

import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import anyio
import pytest

from agentcore.errors import ProviderError
from agentcore.messages import Message, Opaque, Text, Thinking, ToolCall
from agentcore.ports.models import Finished, ModelRequest, StreamPart, TextPart, ThinkingPart, ToolCallPart
from agentcore.providers.compatible import tail
from agentcore.providers.compatible.body import encode_body
from agentcore.providers.compatible.dialects import Dialect
from agentcore.providers.compatible.provider import CompatibleProvider
from agentcore.providers.compatible.reducer import Reducer
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.faults import Faults
from agentcore.usage import Usage
from tests.recordings import CannedServer, http_answer, names, needs_recordings, recording, replay_module
from tests.streams import asking, assert_cancelling_closes, assert_leaving_closes, collected, read

pytestmark = pytest.mark.anyio

MODEL = "some-model"
ALL = names("chat-")
WHOLE = [name for name in ALL if recording(name)["expect"]["error"] is None]
FAILED = [name for name in ALL if recording(name)["expect"]["error"]]
MODES = ["chunk=whole", "chunk=byte", "chunk=midline", "chunk=utf8", "chunk=random:7", "chunk=event,framing=close"]
STOPS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", None: ""}


@pytest.fixture(scope="module", autouse=True)
def _loaded_sdk() -> None:
    """Load the SDK before any deadline runs: the first time it takes seconds."""
    importlib.import_module("openai")


@pytest.fixture(scope="module")
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


def provider_at(url: str, vendor: str = "") -> CompatibleProvider:
    return CompatibleProvider(
        Endpoint(name="lab", title="provider lab", base_url=f"{url}/v1", key=Key("sk-test-key"), vendor=vendor)
    )


def request(model: str = MODEL) -> ModelRequest:
    return asking(model)


async def collect(url: str) -> list[StreamPart]:
    return await collected(provider_at(url), request())


def described(parts: list[StreamPart]) -> dict[str, Any]:
    """The answer in the words of the recordings."""
    *before, last = parts
    assert isinstance(last, Finished)
    assert not any(isinstance(part, Finished) for part in before)
    thinking = "".join(block.text for block in last.content if isinstance(block, Thinking))
    calls = [block for block in last.content if isinstance(block, ToolCall)]
    details = [entry for b in last.content if isinstance(b, Opaque) for entry in as_list(b.raw["reasoning_details"])]
    assert "".join(part.text for part in before if isinstance(part, ThinkingPart)) == thinking
    assert [part.call_id for part in before if isinstance(part, ToolCallPart) and not part.size_bytes] == [
        call.id for call in calls
    ]
    return {
        "text": "".join(part.text for part in before if isinstance(part, TextPart)),
        "kept_text": "".join(block.text for block in last.content if isinstance(block, Text)),
        "thinking_text": thinking,
        "signatures": sum(1 for entry in details if entry.get("signature")),
        "tool_calls": [{"name": call.name, "id": call.id, "input": call.input} for call in calls],
        "stop_reason": last.stop,
        "usage": last.usage,
    }


def as_list(value: Any) -> list[dict[str, Any]]:
    assert isinstance(value, list)
    return value


def expected(name: str) -> dict[str, Any]:
    expect = recording(name)["expect"]
    usage = expect["usage"]
    text = expect["text"] or expect.get("refusal", "")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    stop = "refusal" if expect.get("refusal") else STOPS[expect["stop_reason"]]
    return {
        "text": text,
        "kept_text": text,
        "thinking_text": expect.get("thinking_text", ""),
        "signatures": expect.get("signatures", 0),
        "tool_calls": [{key: call[key] for key in ("name", "id", "input")} for call in expect["tool_calls"]],
        "stop_reason": "tool_use" if expect["tool_calls"] else stop,
        "usage": Usage(
            input=usage["prompt_tokens"] - cached,
            output=usage["total_tokens"] - usage["prompt_tokens"],
            cache_read=cached,
            reasoning=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens", 0),
        ),
    }


@needs_recordings
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WHOLE)
async def test_a_recorded_answer_gives_what_it_holds_however_it_is_cut(replay: Any, name: str, mode: str) -> None:
    assert described(await collect(replay.url_for(name, mode))) == expected(name)
    (entry,) = replay.requests()[-1:]
    assert (entry["warnings"], entry["method"], entry["headers"]["content-type"]) == ([], "POST", "application/json")


@needs_recordings
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FAILED)
async def test_a_recorded_failure_has_its_kind(replay: Any, name: str, mode: str) -> None:
    expect, provider, parts = recording(name)["expect"], provider_at(replay.url_for(name, mode)), list[StreamPart]()
    with pytest.raises(ProviderError) as caught:
        await read(provider, request(), into=parts)
    await provider.close()
    assert caught.value.kind in expect["error"].get("accept_kinds", [expect["error"]["kind"]])
    wait = expect["error"].get("retry_after")
    assert caught.value.retry_after_s == (None if wait is None else float(wait))
    assert str(caught.value).startswith(("Provider lab", "The "))
    assert "provider lab" in str(caught.value).lower()
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == expect["text"]


def end_of(name: str) -> int:
    """Where the first byte of the event lies that ends the answer."""
    body = recording(name)["body"]
    chunk = body.find('"finish_reason":"')
    start = body.rfind("data: ", 0, chunk) if chunk >= 0 else body.index("data: [DONE]")
    return len(body[:start].encode())


@needs_recordings
@pytest.mark.parametrize("how", ["end", "fin", "rst"])
@pytest.mark.parametrize("name", ["chat-tool", "chat-mistral-tool", "chat-kimi-id-repeated-noargs", "chat-text"])
async def test_a_cut_answer_is_never_finished(replay: Any, name: str, how: str) -> None:
    provider, end = provider_at(replay.url), end_of(name)
    for cut in [0, 1, *range(40, end, max(1, end // 25)), end, end + 10]:
        parts: list[StreamPart] = []
        with pytest.raises(ProviderError) as caught:
            await read(provider, request(model=f"{name},cut={cut},how={how}"), into=parts)
        assert caught.value.kind == ("stream_truncated" if how == "end" else "network"), cut
        assert not any(isinstance(part, Finished) for part in parts), cut
    await provider.close()


@needs_recordings
@pytest.mark.parametrize("how", ["end", "fin", "rst"])
async def test_an_answer_that_breaks_after_its_finish_reason_is_whole_but_uncounted(replay: Any, how: str) -> None:
    body = recording("chat-tool")["body"]
    cut = len(body[: body.index('"choices":[],')].encode())
    described_ = described(await collect(replay.url_for("chat-tool", f"cut={cut},how={how}")))
    assert described_ == expected("chat-tool") | {"usage": None}


@needs_recordings
async def test_the_end_mark_counts_without_its_blank_line(replay: Any) -> None:
    parts = await collect(replay.url_for("chat-kimi-id-repeated-noargs", "cut=-2,how=end"))
    assert described(parts) == expected("chat-kimi-id-repeated-noargs")


@needs_recordings
async def test_leaving_early_closes_the_connection(replay: Any) -> None:
    provider = provider_at(replay.url_for("chat-ollama-reasoning-tool", "chunk=event,pause=0.02"))
    first = await assert_leaving_closes(provider, request(), replay, sent_less_than=5_000)
    assert isinstance(first, ThinkingPart)


@needs_recordings
async def test_cancelling_a_silent_answer_closes_the_connection(replay: Any) -> None:
    provider = provider_at(replay.url_for("chat-ollama-reasoning-tool", "stall=900,hold=30"))
    await assert_cancelling_closes(provider, request(), replay, sent_less_than=901)


@needs_recordings
@pytest.mark.parametrize(
    ("name", "silent_from", "is_counted"),
    [
        ("chat-tool", "data: [DONE]", True),  # the tokens are counted: the end mark is not waited for
        ("chat-mistral-tool", "data: [DONE]", True),  # counted together with the finish reason
        ("chat-tool", '"choices":[],', False),
    ],
)
async def test_a_server_that_keeps_the_connection_after_the_end_holds_no_turn(
    replay: Any, monkeypatch: pytest.MonkeyPatch, name: str, silent_from: str, is_counted: bool
) -> None:
    monkeypatch.setattr(tail, "TAIL_S", 0.1)
    monkeypatch.setattr(tail, "CALLS_TAIL_S", 0.1)
    body = recording(name)["body"]
    stall = len(body[: body.index(silent_from)].encode())
    with anyio.fail_after(5):
        answer = described(await collect(replay.url_for(name, f"stall={stall},hold=30")))
    assert answer == (expected(name) if is_counted else expected(name) | {"usage": None})


@needs_recordings
@pytest.mark.parametrize("mode", ["chunk=byte,pause=0.001", "chunk=midline,pause=0.1", "chunk=event,pause=0.2"])
async def test_a_slow_end_loses_no_counts(replay: Any, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setattr(tail, "TAIL_S", 0.35)  # shorter than all of the end, far longer than each pause in it
    monkeypatch.setattr(tail, "CALLS_TAIL_S", 0.35)
    for name in ("chat-text", "chat-tool"):
        assert described(await collect(replay.url_for(name, mode))) == expected(name)


class Pieces:
    """A body that comes in pieces, each after a pause."""

    def __init__(self, *pieces: tuple[float, bytes]) -> None:
        self._pieces = iter(pieces)

    def __aiter__(self) -> "Pieces":
        return self

    async def __anext__(self) -> bytes:
        pause_s, piece = next(self._pieces, (None, b""))
        if pause_s is None:
            raise StopAsyncIteration
        await anyio.sleep(pause_s)
        return piece


class Ended:
    is_ending = True

    def __init__(self, *, has_calls: bool) -> None:
        self.has_calls = has_calls


@pytest.mark.parametrize(
    ("has_calls", "pauses", "taken"),
    [
        (False, [0.02, 0.02, 0.02], 3),
        (False, [0.02, 0.5, 0.02], 1),
        (True, [0.02, 0.08, 0.02], 3),
        (True, [0.02, 0.5, 0.02], 1),
        (True, [0.05] * 9, 5),
    ],
)
async def test_each_piece_of_the_end_is_waited_for_anew_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch, has_calls: bool, pauses: list[float], taken: int
) -> None:
    for name, value in (("TAIL_S", 0.05), ("CALLS_TAIL_S", 0.15), ("LONGEST_TAIL_S", 0.28)):
        monkeypatch.setattr(tail, name, value)
    pieces = tail.ShortTail(Pieces(*((pause, b"x") for pause in pauses)), Ended(has_calls=has_calls))
    assert len([piece async for piece in pieces]) == taken


def test_a_call_that_comes_after_a_finish_reason_and_its_counts_is_part_of_the_answer() -> None:
    counted: dict[str, Any] = {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    reducer = a_reducer()
    for index, name in enumerate("fgh"):
        call = calling(piece(index, name, name, "{}"))
        call["choices"][0]["finish_reason"] = "tool_calls"
        reducer.take(json.dumps(call | counted).encode())
        assert not reducer.is_done
    assert [block.name for block in reducer.finish().content if isinstance(block, ToolCall)] == ["f", "g", "h"]


async def test_an_answer_in_one_piece_is_taken_from_a_server_that_passes_over_stream() -> None:
    message = {"role": "assistant", "content": "hi", "tool_calls": [piece(None, "x", "f", '{"a":1}')]}
    whole = {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    told = whole | {"usage": {"prompt_tokens": 9, "completion_tokens": 4}}
    body = json.dumps(told, indent=2).encode()
    last = Finished((Text(text="hi"), ToolCall(id="x", name="f", input=A)), Usage(input=9, output=4), "tool_use")
    for media_type in ("application/json", "text/event-stream"):
        async with CannedServer([http_answer(200, body, media_type)]) as server:
            assert (await collect(server.url))[-1] == last


async def test_turns_share_one_connection() -> None:
    answer = stream_of(chunk({"content": "hi"}), chunk({}, "stop"), b"[DONE]")
    async with CannedServer([answer] * 3) as server:
        provider = provider_at(server.url)
        for _ in range(3):
            async with provider.stream(request()) as parts:
                async for part in parts:
                    if isinstance(part, Finished):
                        break
        await provider.close()
    assert (len(server.bodies), server.connections) == (3, 1)


async def test_an_error_line_without_data_is_the_error() -> None:
    line = b'error: {"error":{"message":"Instance is gone","code":503,"type":"ServiceUnavailable"}}\n\n'
    body = b"data: " + json.dumps(chunk({"content": "hi"})).encode() + b"\n\n" + line
    parts: list[StreamPart] = []
    async with CannedServer([http_answer(200, body, "text/event-stream")]) as server:
        provider = provider_at(server.url)
        with pytest.raises(ProviderError, match="Instance is gone") as caught:
            await read(provider, request(), into=parts)
        await provider.close()
    assert (caught.value.kind, parts) == ("overloaded", [TextPart("hi")])


async def test_what_is_meant_for_openai_alone_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    provider = provider_at("http://127.0.0.1:1")
    await provider.warm()
    assert provider._client
    assert "secret" not in str(provider._client.default_headers)
    await provider.close()


# --- the reducer, chunk by chunk ----------------------------------------------------------------------------------


def chunk(delta: dict[str, Any] | None, reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], **fields}


def calling(*pieces: dict[str, Any]) -> dict[str, Any]:
    return chunk({"tool_calls": list(pieces)})


def piece(index: int | None, id: str | None, name: str | None, arguments: object) -> dict[str, Any]:
    return {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}


def stream_of(*events: dict[str, Any] | bytes) -> bytes:
    datas = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    return http_answer(200, b"".join(b"data: " + data + b"\n\n" for data in datas), "text/event-stream")


def a_reducer() -> Reducer:
    return Reducer("lab", MODEL, Faults(Endpoint(name="lab", title="provider lab", base_url="http://x")))


def reduce(*events: dict[str, Any] | bytes) -> list[StreamPart]:
    reducer, parts = a_reducer(), list[StreamPart]()
    for event in events:
        parts += reducer.take(event if isinstance(event, bytes) else json.dumps(event).encode())
    return [*parts, reducer.finish()]


def answer(*events: dict[str, Any] | bytes) -> Finished:
    last = reduce(*events)[-1]
    assert isinstance(last, Finished)
    return last


def calls_of(*events: dict[str, Any]) -> list[tuple[str, str, Any]]:
    content = answer(*events, chunk({}, "tool_calls")).content
    return [(block.id, block.name, block.input) for block in content if isinstance(block, ToolCall)]


A: dict[str, Any] = {"a": 1}
B: dict[str, Any] = {"b": 2}
PIECES: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str, Any]]]] = {
    "in pieces, one index each": (
        [piece(0, "x", "f", ""), piece(0, None, None, '{"a":'), piece(1, "y", "g", '{"b": 2}'), piece(0, "", "", "1}")],
        [("x", "f", A), ("y", "g", B)],
    ),
    "whole calls without index": (
        [piece(None, "x", "f", '{"a":1}'), piece(None, "y", "f", '{"b":2}')],
        [("x", "f", A), ("y", "f", B)],
    ),
    "pieces without index": (
        [piece(None, "x", "f", ""), piece(None, None, None, '{"a":'), piece(None, None, None, "1}")],
        [("x", "f", A)],
    ),
    "pieces without index go where their id says": (
        [piece(None, "x", "f", ""), piece(None, "y", "g", '{"b":2}'), piece(None, "x", None, '{"a":1}')],
        [("x", "f", A), ("y", "g", B)],
    ),
    "several under one index": (
        [piece(0, "x", "f", '{"a":1}'), piece(0, "y", "g", '{"b":'), piece(0, None, None, "2}")],
        [("x", "f", A), ("y", "g", B)],
    ),
    "id and name on each piece": (
        [piece(0, "x", "f", ""), piece(0, "x", "f", '{"a"'), piece(0, "x", "f", ":1}"), piece(0, "x", "f", "")],
        [("x", "f", A)],
    ),
    "an id that changes in mid-air": (
        [piece(0, "x", "f", ""), piece(0, "x2", None, '{"a"'), piece(0, "x3", None, ":1}")],
        [("x", "f", A)],
    ),
    "no ids, one index each": (
        [piece(0, None, "f", '{"a":1}'), piece(1, "", "g", '{"b":2}')],
        [("call_0", "f", A), ("call_1", "g", B)],
    ),
    "no ids, no index": (
        [piece(None, None, "f", '{"a":1}'), piece(None, None, "f", '{"b":2}')],
        [("call_0", "f", A), ("call_1", "f", B)],
    ),
    "no ids, name on each piece": (
        [piece(0, None, "f", '{"a"'), piece(0, None, "f", ":1}"), piece(0, None, "f", None)],
        [("call_0", "f", A)],
    ),
    "an id that comes late": ([piece(0, None, "f", '{"a":'), piece(0, "x", None, "1}")], [("call_0", "f", A)]),
    "a name that comes late": ([piece(0, "x", None, None), piece(0, None, "f", '{"a":1}')], [("x", "f", A)]),
    "arguments as an object": ([piece(0, "x", "f", {"a": 1})], [("x", "f", A)]),
    "no arguments": ([piece(0, "x", "f", None), {"index": 1, "id": "y", "function": {"name": "g"}}],
                     [("x", "f", {}), ("y", "g", {})]),
    "incomplete arguments": ([piece(0, "x", "f", '{"a":')], [("x", "f", None)]),
    "no object": ([piece(0, "x", "f", "[1]"), piece(1, "y", "f", '"a"')], [("x", "f", None), ("y", "f", None)]),
    "more than one object": ([piece(0, "x", "f", '{"a":1}{"a":1}')], [("x", "f", None)]),
    "names alone, one index": (
        [piece(0, None, "f", None), piece(0, None, "g", None)], [("call_0", "f", {}), ("call_1", "g", {})]
    ),
    "a second name beside an id": ([piece(0, "x", "f", ""), piece(0, None, "g", '{"a":1}')], [("x", "f", A)]),
    "never named": ([piece(0, "x", None, '{"a":1}')], [("x", "", A)]),
}  # fmt: skip


@pytest.mark.parametrize(("pieces", "calls"), PIECES.values(), ids=PIECES.keys())
def test_calls_are_put_together_as_they_were_meant(
    pieces: list[dict[str, Any]], calls: list[tuple[str, str, Any]]
) -> None:
    assert calls_of(*(calling(each) for each in pieces)) == calls
    assert calls_of(calling(*pieces)) == calls


def test_a_call_is_shown_when_it_begins_and_as_it_grows() -> None:
    first, second = piece(0, "x", "f", ""), piece(0, None, None, '{"ü":1}')
    shown = reduce(calling(first), calling(second), chunk({}, "tool_calls"))[:-1]
    assert shown == [ToolCallPart("x", "f", 0), ToolCallPart("x", "f", 8)]


def test_the_form_before_tool_calls_is_a_call() -> None:
    pieces = [
        chunk({"function_call": {"name": "f", "arguments": '{"a"'}}),
        chunk({"function_call": {"arguments": ":1}"}}),
    ]
    assert answer(*pieces, chunk({}, "function_call")) == Finished(
        (ToolCall(id="call_0", name="f", input=A),), None, "tool_use"
    )


@pytest.mark.parametrize(
    ("reason", "text_stop", "call_stop"),
    [
        ("stop", "end_turn", "tool_use"),
        ("tool_calls", "tool_use", "tool_use"),
        ("function_call", "tool_use", "tool_use"),
        ("length", "max_tokens", "max_tokens"),
        ("content_filter", "refusal", "refusal"),
        ("model_length", "model_context_window_exceeded", "model_context_window_exceeded"),
        ("STOP", "end_turn", "tool_use"),
        ("COMPLETE", "end_turn", "tool_use"),
        ("MAX_TOKENS", "max_tokens", "max_tokens"),
        ("SAFETY", "refusal", "refusal"),
        ("content_filter: PROHIBITED_CONTENT", "refusal", "refusal"),
        ("brand_new", "brand_new", "brand_new"),
        (None, "", "tool_use"),
    ],
)
def test_finish_reasons_become_neutral_words(reason: str | None, text_stop: str, call_stop: str) -> None:
    call = calling(piece(0, "x", "f", "{}"))
    assert answer(chunk({"content": "a"}), chunk({}, reason), b"[DONE]").stop == text_stop
    assert answer(call, chunk({}, reason), b"[DONE]").stop == call_stop


@pytest.mark.parametrize(
    "events",
    [
        [b"[DONE]"],
        [chunk({"content": "a"})],
        [{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}],
        [{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}, b"[DONE]"],
        [],
    ],
)
def test_an_answer_without_choice_or_end_is_cut(events: list[Any]) -> None:
    with pytest.raises(ProviderError) as caught:
        reduce(*events)
    assert caught.value.kind == "stream_truncated"


FAILURES: dict[str, tuple[dict[str, Any] | bytes, str, str]] = {
    "an object": ({"error": {"message": "Full", "code": 503}}, "overloaded", "Full"),
    "a sentence": ({"error": "It broke"}, "server_error", "It broke"),
    "by itself": ({"object": "error", "message": "Bad day", "type": "server_error"}, "server_error", "Bad day"),
    "a message": ({"message": "Rate limit", "code": 429}, "rate_limit", "Rate limit"),
    "in the choice": (
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 429, "message": "Slow"}}]},
        "rate_limit",
        "Slow",
    ),
    "a finish reason": (chunk({}, "error"), "server_error", "error"),
    "no room": (chunk({}, "insufficient_system_resource"), "overloaded", "insufficient_system_resource"),
    "in Groq's own field": (chunk({}, x_groq={"error": "over capacity"}), "server_error", "over capacity"),
    "a detail": ({"detail": "Insufficient balance"}, "quota", "Insufficient balance"),
    "MiniMax": (
        {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        "quota",
        "insufficient balance",
    ),
    "a bare sentence": (b"error: the instance is gone", "server_error", "the instance is gone"),
    "a bare body": (b'error: {"error": {"message": "Gone", "code": 503}}', "overloaded", "Gone"),
}


@pytest.mark.parametrize(("event", "kind", "said"), FAILURES.values(), ids=FAILURES.keys())
def test_an_error_in_any_form_ends_the_answer(event: dict[str, Any] | bytes, kind: str, said: str) -> None:
    with pytest.raises(ProviderError, match=said) as caught:
        reduce(chunk({"content": "a"}), event, b"[DONE]")
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    "event",
    [
        [1],
        chunk({"content": 5}),
        chunk({"tool_calls": [5]}),
        calling(piece(0, "x", "f", 5)),
        calling({"index": 0, "id": 5, "function": {"name": "f"}}),
        {"choices": 5},
        b'{"choices": [',
    ],
)
def test_a_chunk_against_the_protocol_is_refused(event: Any) -> None:
    with pytest.raises((ValueError, TypeError, LookupError, AttributeError)):
        a_reducer().take(event if isinstance(event, bytes) else json.dumps(event).encode())


def test_reasoning_is_taken_from_the_field_that_was_first() -> None:
    twice = [chunk({"reasoning_content": text, "reasoning": text}) for text in ("a", "b")]
    again = chunk({"reasoning": "ab", "reasoning_details": [{"type": "reasoning.text", "text": "ab"}]})
    last = answer(*twice, again, chunk({"content": "c"}, "stop"))
    details = Opaque(
        provider="lab",
        model=MODEL,
        raw={"type": "reasoning_details", "reasoning_details": [{"type": "reasoning.text", "text": "ab"}]},
    )
    assert last.content == (details, Thinking(text="ab", provider="lab", model=MODEL), Text(text="c"))


def test_reasoning_that_stands_in_the_details_alone_is_shown() -> None:
    details = [{"type": "reasoning.summary", "summary": "s", "index": 0}, {"type": "reasoning.encrypted", "data": "x"}]
    assert reduce(chunk({"reasoning_details": details}), chunk({}, "stop"))[0] == ThinkingPart("s")


THOUGHTS: dict[str, tuple[list[Any], str]] = {
    "Mistral": ([{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}], "hm"),
    "Mistral, as a text": ([{"type": "thinking", "thinking": "hm"}], "hm"),
    "Databricks": (
        [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm", "signature": "seal"}]}],
        "hm",
    ),
    "none": (["a", {"type": "reference"}], ""),
}


@pytest.mark.parametrize(("parts", "thought"), THOUGHTS.values(), ids=THOUGHTS.keys())
def test_content_in_parts_holds_reasoning_and_text(parts: list[Any], thought: str) -> None:
    last = answer(chunk({"content": parts}), chunk({"content": ["b"]}, "stop"))
    assert "".join(block.text for block in last.content if isinstance(block, Thinking)) == thought
    assert [block.text for block in last.content if isinstance(block, Text)] == ["ab" if "a" in parts else "b"]


def test_reasoning_of_copilot_is_shown() -> None:
    assert reduce(chunk({"reasoning_text": "hm"}), chunk({"content": "a"}, "stop"))[0] == ThinkingPart("hm")


def test_a_mark_of_the_end_may_have_blanks_and_a_message_that_repeats_the_answer_adds_nothing() -> None:
    again = {"choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]}
    last = answer(chunk({"content": "a"}), chunk({"content": "b"}), again, b"[DONE] ")
    assert last.content == (Text(text="ab"),)


def test_seals_of_calls_and_thinking_blocks_go_back_to_the_model_that_made_them() -> None:
    thinking = [
        {"type": "thinking", "thinking": "h", "signature": None},
        {"type": "thinking", "thinking": "m", "signature": "seal"},
        {"type": "thinking", "thinking": "next", "signature": ""},
    ]
    extra = {"google": {"thought_signature": "seal"}}
    pieces = [piece(0, "x", "f", "{}"), piece(1, "y", "g", '{"a":1}') | {"extra_content": extra}]
    made = answer(
        *(chunk({"thinking_blocks": [each], "reasoning_content": each["thinking"]}) for each in thinking),
        calling(*pieces),
        chunk({}, "tool_calls"),
    )
    (_, sent) = messages_with(made, MODEL)
    assert sent["thinking_blocks"] == [
        {"type": "thinking", "thinking": "hm", "signature": "seal"},
        {"type": "thinking", "thinking": "next", "signature": ""},
    ]
    assert [call.get("extra_content") for call in sent["tool_calls"]] == [None, extra]
    (_, sent) = messages_with(made, "another-model")
    assert "thinking_blocks" not in sent
    assert [call.get("extra_content") for call in sent["tool_calls"]] == [None, None]


def messages_with(finished: Finished, model: str) -> list[dict[str, Any]]:
    """The messages of a request that follows an answer."""
    said = Message(id="m2", role="assistant", content=finished.content)
    asked = request(model)
    body = encode_body(replace(asked, system="", messages=[*asked.messages, said]), "lab", Dialect())
    messages: list[dict[str, Any]] = json.loads(body)["messages"]
    return messages


def test_pieces_of_reasoning_details_become_whole_entries() -> None:
    pieces: list[dict[str, Any]] = [
        {"type": "reasoning.text", "text": "a", "signature": "", "index": 0},
        {"type": "reasoning.text", "text": "b", "signature": "", "format": "f", "index": 0},
        {"type": "reasoning.text", "signature": "seal", "index": 0},
        {"type": "reasoning.text", "text": "", "signature": "", "index": 0},
        {"type": "reasoning.text", "text": "c", "index": 1},
        {"type": "reasoning.encrypted", "data": "x", "id": "1", "index": 0},
        {"type": "reasoning.encrypted", "data": "y", "id": "2", "index": 0},
        {"type": "reasoning.summary", "summary": "d"},
        {"type": "reasoning.summary", "summary": "e"},
    ]
    (opaque, _) = answer(*(chunk({"reasoning_details": [each]}) for each in pieces), chunk({}, "stop")).content
    assert isinstance(opaque, Opaque)
    assert opaque.raw["reasoning_details"] == [
        {"type": "reasoning.text", "text": "ab", "signature": "seal", "index": 0, "format": "f"},
        *pieces[4:],
    ]


def test_blocks_keep_their_order_and_empty_pieces_change_nothing() -> None:
    deltas: list[dict[str, Any] | None] = [
        {"reasoning": "a", "content": ""}, None, {}, {"reasoning": "b", "content": None}, {"content": "c"},
        {"content": [{"type": "text", "text": "d"}, {"type": "thinking", "thinking": [{"type": "text", "text": "e"}]}]},
        {"content": [{"type": "reference", "reference_ids": [1]}], "refusal": None, "tool_calls": None},
    ]  # fmt: skip
    second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    last = answer(*map(chunk, deltas), second, {"choices": None}, chunk(None, "stop"))
    thought = [Thinking(text=text, provider="lab", model=MODEL) for text in ("ab", "e")]
    assert last == Finished((thought[0], Text(text="cd"), thought[1]), None, "end_turn")


COUNTS: dict[str, tuple[dict[str, Any], Usage]] = {
    "plain": ({"total_tokens": 13}, Usage(input=9, output=4)),
    "DeepSeek": (
        {"prompt_cache_hit_tokens": 6, "prompt_cache_miss_tokens": 3},
        Usage(input=3, cache_read=6, output=4),
    ),
    "Moonshot": ({"cached_tokens": 5}, Usage(input=4, cache_read=5, output=4)),
    "OpenRouter": (
        {"prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}},
        Usage(input=4, cache_read=2, cache_write=3, output=4),
    ),
    "Databricks": (
        {"cache_read_input_tokens": 2, "cache_creation_input_tokens": 3},
        Usage(input=4, cache_read=2, cache_write=3, output=4),
    ),
    "cached tokens on top": ({"cache_read_input_tokens": 200}, Usage(input=9, cache_read=200, output=4)),
    "reasoning inside": (
        {"total_tokens": 13, "completion_tokens_details": {"reasoning_tokens": 3}},
        Usage(input=9, output=4, reasoning=3),
    ),
    "reasoning on top": (
        {"total_tokens": 16, "completion_tokens_details": {"reasoning_tokens": 3}},
        Usage(input=9, output=7, reasoning=3),
    ),
    "odd": ({"prompt_tokens": "9", "completion_tokens": -4, "prompt_tokens_details": 5}, Usage()),
}
"""Beside nine tokens of the prompt and four of the answer."""


@pytest.mark.parametrize(("counts", "usage"), COUNTS.values(), ids=COUNTS.keys())
def test_token_counts_become_disjoint(counts: dict[str, Any], usage: Usage) -> None:
    counts = {"prompt_tokens": 9, "completion_tokens": 4, **counts}
    end = chunk({}, "stop")
    in_choice: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": counts}]}
    nulled = {"choices": [], "usage": {**dict.fromkeys(counts), "prompt_tokens": None}}
    assert answer(end, {"choices": [], "usage": counts}).usage == usage
    assert answer(in_choice).usage == usage
    assert answer(chunk({}, "stop", x_groq={"usage": counts})).usage == usage
    assert answer(chunk({"content": "a"}, usage=counts), nulled, end).usage == usage


def test_an_answer_is_done_with_its_end_mark_or_with_counts_after_its_finish_reason() -> None:
    reducer, seen = a_reducer(), list[tuple[bool, bool]]()
    counted: dict[str, Any] = {"usage": {"prompt_tokens": 1}}
    for event in (chunk({}, **counted), chunk({}, "stop", **counted), chunk({"content": "b"}), chunk({}, "stop"),
                  {"choices": [], **counted}):  # fmt: skip
        reducer.take(json.dumps(event).encode())
        seen.append((reducer.is_ending, reducer.is_done))
    assert seen == [(False, False), (True, False), (False, False), (True, False), (True, True)]
