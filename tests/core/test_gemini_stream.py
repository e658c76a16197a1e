"""Recorded answers of Gemini, over a socket: what the adapter makes of the bytes."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

from agentcore.caps import MAX_INPUT_DEPTH
from agentcore.encoding import encode
from agentcore.errors import ProviderError
from agentcore.events import EVENTS, AssistantMessage
from agentcore.messages import Block, Message, Opaque, Text, Thinking, ToolCall
from agentcore.ports.models import Finished, ModelRequest, StreamPart, TextPart, ThinkingPart, ToolCallPart
from agentcore.providers.endpoint import Endpoint, Key
from agentcore.providers.faults import Faults
from agentcore.providers.gemini import stream
from agentcore.providers.gemini.provider import GeminiProvider
from agentcore.providers.gemini.reducer import Reducer
from agentcore.usage import Usage
from tests.core.test_caps import nested
from tests.recordings import CannedServer, event_stream, http_answer, names, needs_recordings, recording, replay_module
from tests.streams import asking, assert_cancelling_closes, assert_leaving_closes, collected, read

pytestmark = pytest.mark.anyio

MODEL = "gemini-3-flash-preview"
KEY = "AIza-test-key"
WHOLE = [name for name in names("gemini-") if recording(name)["expect"]["error"] is None]
FAILURES = [name for name in names("gemini-") if recording(name)["expect"]["error"]]
MODES = ["chunk=whole", "chunk=byte", "chunk=midline", "chunk=utf8", "chunk=random:7", "chunk=event,framing=close"]
STOPS = {
    "MAX_TOKENS": "max_tokens",
    "SAFETY": "refusal",
    "blocked:SAFETY": "refusal",
    "MALFORMED_FUNCTION_CALL": "MALFORMED_FUNCTION_CALL",
}
REPEATS_ITS_END = "gemini-utf8-crlf"  # every event of it has a finish reason, so a cut between two cannot be seen


@pytest.fixture(scope="module")
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


def endpoint_at(url: str) -> Endpoint:
    key = Key(KEY, source="GEMINI_API_KEY")
    return Endpoint(name="gemini", title="Gemini", base_url=url, key=key, vendor="gemini")


def provider_at(url: str) -> GeminiProvider:
    return GeminiProvider(endpoint_at(url))


def request(model: str = MODEL) -> ModelRequest:
    return asking(model)


async def collect(url: str) -> list[StreamPart]:
    return await collected(provider_at(url), request())


async def failure_at(url: str) -> ProviderError:
    provider = provider_at(url)
    with anyio.fail_after(20), pytest.raises(ProviderError) as caught:
        await read(provider, request(), into=[])
    await provider.close()
    return caught.value


async def answered(*answers: bytes) -> list[StreamPart]:
    async with CannedServer(answers) as server:
        return await collect(server.url)


def signatures(content: tuple[Block, ...]) -> list[Any]:
    """Every signature that is kept, in order."""
    return [
        block.raw["thoughtSignature"] if isinstance(block, Opaque) else block.signature
        for block in content
        if (isinstance(block, Opaque) and "thoughtSignature" in block.raw)
        or (isinstance(block, Thinking) and block.signature)
    ]


def described(parts: list[StreamPart]) -> dict[str, Any]:
    """The answer in the words of the recordings."""
    *before, last = parts
    assert isinstance(last, Finished)
    assert not any(isinstance(part, Finished) for part in before)
    thinking = [block for block in last.content if isinstance(block, Thinking)]
    calls = [block for block in last.content if isinstance(block, ToolCall)]
    assert "".join(part.text for part in before if isinstance(part, ThinkingPart)) == "".join(t.text for t in thinking)
    shown = "".join(part.text for part in before if isinstance(part, TextPart))
    assert "".join(block.text for block in last.content if isinstance(block, Text)) == shown
    assert [part.call_id for part in before if isinstance(part, ToolCallPart) and not part.size_bytes] == [
        call.id for call in calls
    ]
    return {
        "text": shown,
        "thinking_text": "".join(block.text for block in thinking),
        "signatures": signatures(last.content),
        "tool_calls": [{"name": call.name, "input": call.input} for call in calls],
        "stop_reason": last.stop,
        "usage": last.usage,
    }


def expected(name: str) -> dict[str, Any]:
    expect = recording(name)["expect"]
    tokens = expect["usage"] or {}
    stop = "tool_use" if expect["tool_calls"] else "end_turn"
    sealed = [part["thoughtSignature"] for part in recorded_parts(name) if "thoughtSignature" in part]
    assert len(sealed) == expect.get("signatures", 0)
    return {
        "text": expect["text"],
        "thinking_text": expect.get("thinking_text", ""),
        "signatures": sealed,
        "tool_calls": [{key: call[key] for key in ("name", "input")} for call in expect["tool_calls"]],
        "stop_reason": STOPS.get(expect["stop_reason"], stop),
        "usage": Usage(
            # All that was read and written is the total; what was written is known, the rest was read.
            input=tokens.get("totalTokenCount", 0) - written(tokens) - tokens.get("cachedContentTokenCount", 0),
            output=written(tokens),
            cache_read=tokens.get("cachedContentTokenCount", 0),
            reasoning=tokens.get("thoughtsTokenCount", 0),
        )
        if tokens
        else None,
    }


def written(tokens: dict[str, int]) -> int:
    return tokens.get("candidatesTokenCount", 0) + tokens.get("thoughtsTokenCount", 0)


def recorded_parts(name: str) -> list[dict[str, Any]]:
    """All parts of a recorded answer, as the vendor sent them."""
    lines = recording(name)["body"].replace("\r\n", "\n").split("\n")
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    candidates = [candidate for event in events for candidate in event.get("candidates", ())]
    return [part for candidate in candidates for part in candidate["content"].get("parts", ())]


# --- recorded answers ---------------------------------------------------------------------------------------------


@needs_recordings
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WHOLE)
async def test_a_recorded_answer_gives_what_it_holds_however_it_is_cut(replay: Any, name: str, mode: str) -> None:
    parts = await collect(replay.url_for(name, mode))
    assert described(parts) == expected(name)
    assert [entry["warnings"] for entry in replay.requests()[-1:]] == [[]]


@needs_recordings
@pytest.mark.parametrize("name", WHOLE)
async def test_a_call_keeps_the_id_it_came_with_and_gets_one_where_there_is_none(replay: Any, name: str) -> None:
    last = (await collect(replay.url_for(name)))[-1]
    assert isinstance(last, Finished)
    given = [call.get("id") for call in recording(name)["expect"]["tool_calls"]]
    ids = [block.id for block in last.content if isinstance(block, ToolCall)]
    assert [id if known else None for id, known in zip(ids, given, strict=True)] == given
    assert all(ids)
    assert len(set(ids)) == len(ids)


@needs_recordings
@pytest.mark.parametrize("name", FAILURES)
async def test_a_recorded_failure_gets_its_kind(replay: Any, name: str) -> None:
    error, expect = await failure_at(replay.url_for(name)), recording(name)["expect"]["error"]
    assert error.kind in expect.get("accept_kinds", [expect["kind"]])
    assert error.retry_after_s == (48.0 if name == "gemini-error-429-retryinfo" else None)
    assert "Gemini" in str(error)
    assert KEY not in str(error)


@needs_recordings
@pytest.mark.parametrize("how", ["end", "fin", "rst"])
@pytest.mark.parametrize("name", [name for name in WHOLE if name != REPEATS_ITS_END])
async def test_a_cut_answer_is_never_finished(replay: Any, name: str, how: str) -> None:
    size = recording(name)["bytes"]
    word = b'"blockReason"' if b'"blockReason"' in (body := recording(name)["body"].encode()) else b'"finishReason"'
    provider = provider_at(replay.url)
    for cut in [0, 1, *range(40, body.rindex(word), max(1, size // 12)), body.rindex(word) + 10, size - 30]:
        parts: list[StreamPart] = []
        with pytest.raises(ProviderError) as caught:
            await read(provider, request(model=f"{name},cut={cut},how={how}"), into=parts)
        assert caught.value.kind == ("stream_truncated" if how == "end" else "network"), cut
        assert not any(isinstance(part, Finished) for part in parts), cut
    await provider.close()


@needs_recordings
@pytest.mark.parametrize("how", ["end", "fin"])
async def test_an_answer_that_announces_its_end_early_is_not_finished_by_that(replay: Any, how: str) -> None:
    size = recording(REPEATS_ITS_END)["bytes"]
    provider = provider_at(replay.url)
    for cut in range(30, size - 10, 100):
        with pytest.raises(ProviderError) as caught:
            await read(provider, request(model=f"{REPEATS_ITS_END},cut={cut},how={how}"), into=[])
        assert caught.value.kind == ("stream_truncated" if how == "end" else "network"), cut
    await provider.close()


@needs_recordings
async def test_leaving_early_closes_the_connection(replay: Any) -> None:
    provider = provider_at(replay.url_for("gemini-thinking-text", "chunk=event,pause=0.02"))
    first = await assert_leaving_closes(provider, request(), replay, sent_less_than=5_000)
    assert isinstance(first, ThinkingPart)


@needs_recordings
async def test_cancelling_a_silent_answer_closes_the_connection(replay: Any) -> None:
    provider = provider_at(replay.url_for("gemini-thinking-text", "stall=900,hold=30"))
    await assert_cancelling_closes(provider, request(), replay, sent_less_than=901)


# --- how the body comes -------------------------------------------------------------------------------------------


def event(*parts: dict[str, Any], stop: str | None = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if stop is not None:
        candidate["finishReason"] = stop
    return {"candidates": [candidate], **fields}


async def test_a_body_that_stays_open_after_the_end_holds_the_call_only_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream, "QUIET_S", 0.05)
    events = (event({"text": "h"}), event({"text": "i"}, stop="STOP", usageMetadata={"promptTokenCount": 2}))
    body = event_stream(*events).partition(b"\r\n\r\n")[2]
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n\r\n"
    parts = await answered(head + body)
    assert parts == [TextPart("h"), TextPart("i"), Finished((Text(text="hi"),), Usage(input=2), "end_turn")]


@pytest.mark.parametrize(
    ("events", "is_sure"),
    [
        ([event({"text": "h"}), event({"text": "i"}, stop="STOP")], True),
        ([event({"text": "h"}), event(stop="STOP"), {"usageMetadata": {"promptTokenCount": 2}}], True),
        ([{"promptFeedback": {"blockReason": "SAFETY"}}], True),
        ([event({"text": "h"}, stop="STOP")], False),
        ([event({"text": "h"}, stop="STOP"), event({"text": "i"}, stop="STOP")], False),
        ([event({"text": "h"}), event(stop="STOP"), event({"text": "i"}, stop="STOP")], False),
    ],
)
def test_a_reason_to_end_is_sure_where_it_does_not_stand_on_every_event(
    events: list[dict[str, Any]], is_sure: bool
) -> None:
    reducer = Reducer("gemini", MODEL, Faults(endpoint_at("http://127.0.0.1:1")))
    for each in events:
        reducer.take(json.dumps(each).encode())
    assert (reducer.has_ended, reducer.is_end_sure) == (True, is_sure)


async def test_a_pause_in_an_answer_that_repeats_its_reason_is_not_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "QUIET_S", 0.02)
    reducer = Reducer("gemini", MODEL, Faults(endpoint_at("http://127.0.0.1:1")))
    for text in ("h", "i"):
        reducer.take(json.dumps(event({"text": text}, stop="STOP")).encode())

    async def rest() -> AsyncIterator[bytes]:
        await anyio.sleep(0.1)
        yield b"the rest"

    assert [piece async for piece in stream.Chunks(rest(), reducer)] == [b"the rest"]


async def test_an_error_without_data_after_good_events_is_the_error() -> None:
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    for bare in (json.dumps(error), json.dumps(error, indent=2) + "\n"):
        body = b"data: " + json.dumps(event({"text": "h"})).encode() + b"\r\n\r\n" + bare.encode()
        async with CannedServer([http_answer(200, body, "text/event-stream")]) as server:
            assert (await failure_at(server.url)).kind == "overloaded"


async def test_turns_share_one_connection() -> None:
    async with CannedServer([event_stream(event({"text": "hi"}, stop="STOP"))] * 3) as server:
        provider = provider_at(server.url)
        for _ in range(3):
            async with provider.stream(request()) as parts:
                async for part in parts:
                    if isinstance(part, Finished):
                        break
        await provider.close()
    assert (len(server.bodies), server.connections) == (3, 1)


EVENTS_OF_AN_ANSWER = [event({"text": "two "}), event({"text": "words"}, stop="STOP")]
TWO_WORDS = [TextPart("two "), TextPart("words"), Finished((Text(text="two words"),), None, "end_turn")]


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(EVENTS_OF_AN_ANSWER).encode(),
        b"\xef\xbb\xbf\r\n" + json.dumps(EVENTS_OF_AN_ANSWER, indent=2).encode() + b"\n",
    ],
)
@pytest.mark.parametrize("media_type", ["application/json; charset=UTF-8", "text/event-stream"])
async def test_an_array_of_events_is_an_answer_as_well(body: bytes, media_type: str) -> None:
    assert await answered(http_answer(200, body, media_type)) == TWO_WORDS


async def test_the_last_event_may_lack_its_blank_line_and_comments_may_follow() -> None:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\r\n\r\n" for event in EVENTS_OF_AN_ANSWER)
    assert await answered(http_answer(200, body.rstrip(), "text/event-stream")) == TWO_WORDS
    assert await answered(http_answer(200, body + b": bye\n", "text/event-stream")) == TWO_WORDS


@pytest.mark.parametrize(
    ("media_type", "body", "kind"),
    [
        ("application/json", json.dumps(EVENTS_OF_AN_ANSWER).encode()[:-1], "stream_truncated"),
        ("application/json", b"[]", "stream_truncated"),
        ("application/json", b"", "stream_truncated"),
        ("application/json", b'{"detail": "what?"}', "not_found"),
        ("text/html", b"<html>", "not_found"),
        ("application/json", b'[{"error": {"code": 503, "status": "UNAVAILABLE", "message": "Full"}}]', "overloaded"),
        ("text/event-stream", b'data: {"error": {"code": 503, "status": "UNAVAILABLE"}}\n\n', "overloaded"),
        ("text/event-stream", b"data: {'\n\n", "server_error"),
        ("text/event-stream", b"data: 5\n\n", "server_error"),
        ("text/event-stream", b'data: {"candidates": [5]}\n\n', "server_error"),
        ("text/event-stream", b'data: {"candidates": [{"content": {"parts": [5]}}]}\n\n', "server_error"),
        ("text/event-stream", b'data: {"usageMetadata": {"totalTokenCount": 5}}\n\n', "stream_truncated"),
    ],
)
async def test_a_body_that_is_no_answer_gets_its_kind(media_type: str, body: bytes, kind: str) -> None:
    async with CannedServer([http_answer(200, body, media_type)]) as server:
        assert (await failure_at(server.url)).kind == kind


async def test_an_endless_document_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_EVENT_BYTES", 100)
    async with CannedServer([http_answer(200, b"[" + b" " * 101)]) as server:
        assert (await failure_at(server.url)).kind == "server_error"


def quota_failure(*quota_ids: str) -> bytes:
    violations = [{"quotaId": quota_id} for quota_id in quota_ids]
    details = [
        {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations},
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"},
    ]
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your quota", "details": details}
    return http_answer(429, json.dumps({"error": error}).encode())


@pytest.mark.parametrize(
    ("quota_ids", "kind"),
    [
        (["GenerateRequestsPerMinutePerProjectPerModel-FreeTier"], "rate_limit"),
        (["GenerateRequestsPerDayPerProjectPerModel-FreeTier"], "quota"),
        (["GenerateRequestsPerMinutePerProject", "GenerateRequestsPerDayPerProject"], "quota"),
    ],
)
async def test_a_quota_of_the_day_is_not_a_rate_of_the_minute(quota_ids: list[str], kind: str) -> None:
    async with CannedServer([quota_failure(*quota_ids)]) as server:
        error = await failure_at(server.url)
    assert (error.kind, error.retry_after_s) == (kind, 7.0)


# --- the reducer, event by event ----------------------------------------------------------------------------------


def reduce(*events: Any) -> list[StreamPart]:
    reducer = Reducer("gemini", MODEL, Faults(endpoint_at("http://x")))
    parts = [part for event in events for part in reducer.take(json.dumps(event).encode())]
    return [*parts, reducer.finish()]


def content_of(*parts: dict[str, Any]) -> tuple[Block, ...]:
    last = reduce(*(event(part) for part in parts), event(stop="STOP"))[-1]
    assert isinstance(last, Finished)
    return last.content


def kept(**raw: Any) -> Opaque:
    return Opaque(provider="gemini", model=MODEL, raw=raw)


@pytest.mark.parametrize(
    ("reason", "with_calls", "stop"),
    [
        ("STOP", False, "end_turn"),
        ("STOP", True, "tool_use"),
        ("MAX_TOKENS", False, "max_tokens"),
        ("MAX_TOKENS", True, "max_tokens"),
        ("SAFETY", True, "refusal"),
        *((reason, False, "refusal") for reason in ("RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT")),
        *((reason, False, "refusal") for reason in ("SPII", "MODEL_ARMOR", "ESCALATION", "IMAGE_SAFETY")),
        *((reason, False, "refusal") for reason in ("IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION")),
        *((reason, True, reason) for reason in ("OTHER", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "NEW")),
    ],
)
def test_a_reason_to_end_is_told_in_the_neutral_word(reason: str, with_calls: bool, stop: str) -> None:
    parts = [{"functionCall": {"name": "ls", "args": {}}}] if with_calls else []
    last = reduce(event({"text": "t"}, *parts, stop=reason))[-1]
    assert isinstance(last, Finished)
    assert last.stop == stop
    assert last.content[0] == Text(text="t")


def test_a_refused_prompt_is_a_refusal_without_any_invented_text() -> None:
    feedback = {"blockReason": "OTHER", "blockReasonMessage": "Reasons"}
    assert reduce({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 9}}) == [
        Finished((), Usage(input=9), "refusal", detail="OTHER: Reasons")
    ]


@pytest.mark.parametrize("reason", [None, "", "FINISH_REASON_UNSPECIFIED"])
def test_an_answer_without_a_reason_to_end_is_cut_off(reason: str | None) -> None:
    with pytest.raises(ProviderError) as caught:
        reduce(event({"text": "all there is"}), event(stop=reason))
    assert caught.value.kind == "stream_truncated"


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ([], None),
        ([{"promptTokenCount": 10, "candidatesTokenCount": 4}], Usage(input=10, output=4)),
        (
            [
                {"promptTokenCount": 90, "candidatesTokenCount": 1},
                {
                    "promptTokenCount": 100,
                    "cachedContentTokenCount": 60,
                    "candidatesTokenCount": 7,
                    "thoughtsTokenCount": 5,
                    "toolUsePromptTokenCount": 3,
                },
            ],
            Usage(input=43, output=12, cache_read=60, reasoning=5),
        ),
        ([{"promptTokenCount": 10}, {"trafficType": "ON_DEMAND"}], Usage(input=10)),
        ([{"promptTokenCount": "many", "candidatesTokenCount": -4, "thoughtsTokenCount": None}], Usage()),
        ([{"promptTokenCount": 5, "cachedContentTokenCount": 9}], Usage(cache_read=9)),
    ],
)
def test_the_last_counts_are_split_into_buckets_that_do_not_overlap(counts: list[Any], usage: Usage) -> None:
    events = [event({"text": "a"}, usageMetadata=count) for count in counts]
    assert reduce(*events, event(stop="STOP"))[-1] == Finished(
        (Text(text="a" * len(counts)),) * bool(counts), usage, "end_turn"
    )


def test_pieces_of_text_are_one_block_and_a_signature_keeps_its_own_part() -> None:
    assert content_of(
        {"text": "think ", "thought": True},
        {"text": "hard", "thought": True},
        {"text": "a"},
        {"text": "b"},
        {"text": "c", "thoughtSignature": "S1"},
        {"text": "d"},
        {"text": ""},
        {"text": "e"},
        {"text": "", "thoughtSignature": "S2"},
    ) == (
        Thinking(text="think hard", provider="gemini", model=MODEL),
        Text(text="ab"),
        kept(ofNextPart="text", thoughtSignature="S1"),
        Text(text="c"),
        Text(text="de"),
        kept(text="", thoughtSignature="S2"),
    )


def test_a_sealed_thought_ends_its_block() -> None:
    assert content_of({"text": "a", "thought": True, "thoughtSignature": "S"}, {"text": "b", "thought": True}) == (
        Thinking(text="a", signature="S", provider="gemini", model=MODEL),
        Thinking(text="b", provider="gemini", model=MODEL),
    )


def test_what_a_call_carries_stands_directly_before_it() -> None:
    assert content_of(
        {"functionCall": {"name": "ls", "args": {"a": 1}, "id": "x"}, "thoughtSignature": "S"},
        {"functionCall": {"name": "ls", "id": "y"}},
    ) == (
        kept(ofNextPart="functionCall", thoughtSignature="S"),
        kept(ofNextPart="functionCall", id="x"),
        ToolCall(id="x", name="ls", input={"a": 1}),
        kept(ofNextPart="functionCall", id="y"),
        ToolCall(id="y", name="ls", input={}),
    )


def test_parts_that_are_not_known_are_kept_as_they_came_and_media_is_left_out() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "S"}
    novelty = {"novelty": nested(MAX_INPUT_DEPTH - 1)}
    assert content_of(
        {}, code, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, novelty, {"novelty": nested(190)}
    ) == (kept(**code), kept(**novelty))


def test_only_the_first_candidate_and_what_is_known_of_an_event_count() -> None:
    second = {"content": {"parts": [{"text": "other"}]}, "index": 1, "finishReason": "SAFETY"}
    answer = event({"text": "one"}, stop="STOP", groundingMetadata={}, novelty=1)
    answer["candidates"].append(second)
    assert reduce({"novelty": True}, answer)[-1] == Finished((Text(text="one"),), None, "end_turn")


# --- the input of calls -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "input"),
    [
        ({"a": [1, 2.5, None, "ü"]}, {"a": [1, 2.5, None, "ü"]}),
        ({}, {}),
        (None, {}),
        ([1], None),
        ("text", None),
        (nested(MAX_INPUT_DEPTH + 1), None),
    ],
)
def test_only_an_object_of_bounded_depth_is_an_input(args: Any, input: dict[str, Any] | None) -> None:
    parts = reduce(event({"functionCall": {"name": "ls", "id": "x", "args": args}}, stop="STOP"))
    *shown, last = parts
    assert isinstance(last, Finished)
    assert last.content[-1] == ToolCall(id="x", name="ls", input=input)
    assert shown[0] == ToolCallPart("x", "ls", 0)
    if args is not None:
        size = len(json.dumps(args, separators=(",", ":"), ensure_ascii=False).encode())
        assert shown[1:] == [ToolCallPart("x", "ls", size)]


def text(path: str, value: str, *, more: bool = False) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": value} | ({"willContinue": True} if more else {})


def number(path: str, value: float) -> dict[str, Any]:
    return {"jsonPath": path, "numberValue": value}


@pytest.mark.parametrize(
    ("pieces", "input"),
    [
        ([], {}),
        ([text("$.id", "A")], {"id": "A"}),
        ([text("$.id", "A", more=True), text("$.id", "B", more=True), text("$.id", "")], {"id": "AB"}),
        ([text("$.id", "A", more=True), {"jsonPath": "$.id"}], {"id": "A"}),
        ([{"jsonPath": "$.id", "willContinue": True}, text("$.id", "A")], {"id": "A"}),
        ([text("$.a", "1", more=True), text("$.b", "2"), text("$.a", "3")], {"a": "13", "b": "2"}),
        (
            [number("$.n", 5), number("$.x", 2.5), {"jsonPath": "$.t", "boolValue": False}],
            {"n": 5, "x": 2.5, "t": False},
        ),
        ([{"jsonPath": "$.none", "nullValue": "NULL_VALUE"}], {"none": None}),
        ([text("$.l[0]", "a"), text("$.l[1]", "b")], {"l": ["a", "b"]}),
        (
            [text("$.l[0].name", "a"), number("$.l[0].n", 1), text("$.l[1].name", "b"), text("$.o.p.q", "c")],
            {"l": [{"name": "a", "n": 1}, {"name": "b"}], "o": {"p": {"q": "c"}}},
        ),
        ([number("$.m[0][0]", 1), number("$.m[0][1]", 2), number("$.m[1][0]", 3)], {"m": [[1, 2], [3]]}),
        ([text("$['a.b'][\"c d\"]", "x"), text("$.e-f", "y")], {"a.b": {"c d": "x"}, "e-f": "y"}),
        # what makes no sense
        ([text("$.id", "A", more=True)], None),
        ([text("$.id", "A"), text("$.id", "B")], None),
        ([text("$.id", "A"), text("$.id.deep", "B")], None),
        ([text("$.l[1]", "skips the first")], None),
        ([text("$.l[0]", "a"), text("$.l.name", "b")], None),
        ([text("$.l[0]", "a"), text("$.l[0]", "b")], None),
        ([text("$[0]", "the input is no list")], None),
        ([text("$", "all")], None),
        ([text("id", "A")], None),
        ([text("$..id", "A")], None),
        ([text("$.l[*]", "A")], None),
        ([text("$.l[-1]", "A")], None),
        ([text("$.a\n", "A"), text("$.b[0", "A")], None),
        ([{"jsonPath": "$.id"}], None),
        ([{"jsonPath": "$.id", "numberValue": 1, "boolValue": True}], None),
        ([number("$" + ".a" * (MAX_INPUT_DEPTH + 1), 1)], None),
    ],
)
def test_an_input_in_pieces_is_built_strictly(pieces: list[dict[str, Any]], input: dict[str, Any] | None) -> None:
    calls = [
        {"name": "ls", "id": "x", "willContinue": True},
        *({"partialArgs": [piece], "willContinue": True} for piece in pieces),
        {},
    ]
    *shown, last = reduce(*(event({"functionCall": call}) for call in calls), event(stop="STOP"))
    assert isinstance(last, Finished)
    assert last.content[-1] == ToolCall(id="x", name="ls", input=input)
    sizes = [part.size_bytes for part in shown if isinstance(part, ToolCallPart)]
    assert sizes == sorted(set(sizes))
    at_once = reduce(event({"functionCall": {"name": "ls", "id": "x", "partialArgs": pieces}}, stop="STOP"))[-1]
    assert at_once == last


@pytest.mark.parametrize(
    "calls",
    [
        [{"name": "ls", "willContinue": True}],
        [{"name": "ls", "willContinue": True}, {"partialArgs": [text("$.a", "b")], "willContinue": True}],
        [{"name": "ls", "willContinue": True}, {"name": "ls", "args": {}}],
        [{"name": "ls", "args": {"a": 1}, "willContinue": True}, {"args": {"b": 2}}],
    ],
)
def test_a_call_that_never_ended_has_no_input(calls: list[dict[str, Any]]) -> None:
    first = next(
        block for block in content_of(*({"functionCall": call} for call in calls)) if isinstance(block, ToolCall)
    )
    assert first.input is None


@pytest.mark.parametrize("call", [{"args": {"a": 1}}, {"name": 5}, {"name": "ls", "partialArgs": [{}]}, 5, ["x"]])
def test_a_call_against_the_protocol_ends_the_answer(call: Any) -> None:
    with pytest.raises((ValueError, TypeError, LookupError, AttributeError)):
        reduce(event({"functionCall": call}, stop="STOP"))


def test_empty_text_does_not_come_between_the_pieces_of_a_call() -> None:
    pieces = [{"name": "ls", "willContinue": True}, {"partialArgs": [text("$.a", "b")], "willContinue": True}, {}]
    first, second, third = ({"functionCall": piece} for piece in pieces)
    content = content_of(first, {"text": ""}, second, {"text": "", "thought": True}, third, {"functionCall": {}})
    assert [block.input for block in content if isinstance(block, ToolCall)] == [{"a": "b"}]


def test_what_is_kept_of_an_answer_can_be_journaled_and_read_back() -> None:
    content = content_of(
        {"functionCall": {"name": "ls", "args": nested(MAX_INPUT_DEPTH)}, "thoughtSignature": "S"},
        {"functionCall": {"name": "ls", "args": nested(180)}},
        {"functionCall": {"name": "ls", "partialArgs": [number("$" + ".a" * 180, 1)]}},
        {"novelty": nested(MAX_INPUT_DEPTH - 1)},
        {"novelty": nested(190)},
    )
    said = AssistantMessage(message=Message(id="m", role="assistant", content=content), final=True)
    read_back = EVENTS.validate_json(encode(said, 1, "s", 1.0))
    assert read_back == said.model_copy(update={"seq": 1, "session": "s", "ts": 1.0})
    assert len(content) == 5
