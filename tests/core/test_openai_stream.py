"""Recorded answers of real Responses services, through the real SDK, over a socket: what the adapter makes of them."""

import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
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
from agentcore.providers.openai.provider import OpenAIProvider
from agentcore.providers.openai.reducer import Reducer
from agentcore.usage import Usage
from tests.core.test_caps import nested
from tests.recordings import CannedServer, event_stream, http_answer, names, needs_recordings, recording, replay_module
from tests.streams import asking, assert_cancelling_closes, assert_leaving_closes, collected, read

pytestmark = pytest.mark.anyio

MODEL = "gpt-5.5"
KEY = "sk-proj-secret-secret"
WHOLE = [name for name in names("responses-") if recording(name)["expect"]["error"] is None]
FAILURES = [name for name in names("responses-") if recording(name)["expect"]["error"]]
MODES = ["chunk=whole", "chunk=byte", "chunk=midline", "chunk=utf8", "chunk=random:7", "chunk=event,framing=close"]
NEUTRAL_STOPS = {"incomplete:max_output_tokens": "max_tokens", "incomplete:content_filter": "refusal"}


@pytest.fixture(scope="module", autouse=True)
def _loaded_sdk() -> None:
    """Load the SDK before any deadline runs: the first time it takes seconds."""
    importlib.import_module("openai")


@pytest.fixture(scope="module")
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


def endpoint_at(url: str) -> Endpoint:
    return Endpoint(name="openai", title="OpenAI", base_url=f"{url}/v1", key=Key(KEY, source="OPENAI_API_KEY"))


def provider_at(url: str) -> OpenAIProvider:
    return OpenAIProvider(endpoint_at(url))


def request(model: str = MODEL) -> ModelRequest:
    return asking(model)


async def collect(url: str) -> list[StreamPart]:
    return await collected(provider_at(url), request())


def shown(parts: list[StreamPart], kind: type[TextPart] | type[ThinkingPart]) -> str:
    return "".join(part.text for part in parts if isinstance(part, kind))


def sealed(block: Block) -> bool:
    return isinstance(block, Opaque) and block.raw["type"] == "reasoning"


def described(parts: list[StreamPart]) -> dict[str, Any]:
    """The answer in the words of the recordings."""
    *before, last = parts
    assert isinstance(last, Finished)
    assert not any(isinstance(part, Finished) for part in before)
    calls = [block for block in last.content if isinstance(block, ToolCall)]
    assert [part.call_id for part in before if isinstance(part, ToolCallPart) and not part.size_bytes] == [
        call.id for call in calls
    ]
    text = "".join(block.text for block in last.content if isinstance(block, Text))
    thinking = "".join(block.text for block in last.content if isinstance(block, Thinking))
    assert (shown(before, TextPart), shown(before, ThinkingPart)) == (text, thinking)
    raw = [block.raw for block in last.content if isinstance(block, Opaque)]
    return {
        "text": text,
        "thinking_text": thinking,
        "encrypted_reasoning": sum(map(sealed, last.content)),
        "server_tools": [item["type"] for item in raw if str(item["type"]).endswith("_call")],
        "tool_calls": [{"name": call.name, "id": call.id, "input": call.input} for call in calls],
        "stop_reason": last.stop,
        "usage": last.usage,
    }


def expected(name: str) -> dict[str, Any]:
    expect = recording(name)["expect"]
    usage = expect["usage"]
    read, wrote = usage["input_tokens_details"], usage["output_tokens_details"]
    calls = [
        {
            "name": call["name"],
            "id": call["id"],
            "input": {"input": call["input"]} if call.get("custom") else call["input"],
        }
        for call in expect["tool_calls"]
    ]
    stop = "tool_use" if calls else "refusal" if expect.get("refusal") else "end_turn"
    cached, written = read["cached_tokens"], read.get("cache_write_tokens", 0)
    assert usage["input_tokens"] + usage["output_tokens"] == usage["total_tokens"]
    return {
        "text": expect["text"] or expect.get("refusal", ""),
        "thinking_text": expect.get("thinking_text", ""),
        "encrypted_reasoning": expect.get("encrypted_reasoning", 0),
        "server_tools": expect.get("server_tools", []),
        "tool_calls": calls,
        "stop_reason": NEUTRAL_STOPS.get(expect["stop_reason"], stop),
        "usage": Usage(
            input=usage["total_tokens"] - usage["output_tokens"] - cached - written,
            output=usage["output_tokens"],
            cache_read=cached,
            cache_write=written,
            reasoning=wrote["reasoning_tokens"],
        ),
    }


@needs_recordings
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WHOLE)
async def test_a_recorded_answer_gives_what_it_holds_however_it_is_cut(replay: Any, name: str, mode: str) -> None:
    assert described(await collect(replay.url_for(name, mode))) == expected(name)
    assert [entry["warnings"] for entry in replay.requests()[-1:]] == [[]]


@needs_recordings
async def test_blocks_stand_in_the_order_of_their_items(replay: Any) -> None:
    def kinds(parts: list[StreamPart]) -> list[object]:
        last = parts[-1]
        assert isinstance(last, Finished)
        return [block.raw["type"] if isinstance(block, Opaque) else block.type for block in last.content]

    assert kinds(await collect(replay.url_for("responses-phase"))) == ["reasoning", "message", "text", "tool_use"]
    assert kinds(await collect(replay.url_for("responses-web-search"))) == ["web_search_call", "text"]
    assert kinds(await collect(replay.url_for("responses-lmstudio-tool"))) == ["thinking", "text", "tool_use"]
    summary = await collect(replay.url_for("responses-reasoning-summary-tool"))
    assert kinds(summary) == ["thinking", "reasoning", "tool_use"]


def done_items(name: str) -> list[dict[str, Any]]:
    """The items of `response.output_item.done`, read from the recording without the adapter."""
    lines = [line[6:] for line in recording(name)["body"].splitlines() if line.startswith("data: {")]
    return [event["item"] for event in map(json.loads, lines) if event["type"] == "response.output_item.done"]


@needs_recordings
@pytest.mark.parametrize("name", ["responses-phase", "responses-reasoning-summary-tool", "responses-web-search"])
async def test_an_opaque_item_is_the_one_that_was_done_and_not_the_one_that_was_added(replay: Any, name: str) -> None:
    last = (await collect(replay.url_for(name)))[-1]
    assert isinstance(last, Finished)
    opaque = [block.raw for block in last.content if isinstance(block, Opaque) and block.raw["type"] != "message"]
    assert opaque == [item for item in done_items(name) if item["type"] in ("reasoning", "web_search_call")]


@needs_recordings
@pytest.mark.parametrize("name", FAILURES)
async def test_a_recorded_failure_gets_its_kind_and_names_no_key(replay: Any, name: str) -> None:
    expect = recording(name)["expect"]["error"]
    parts: list[StreamPart] = []
    provider = provider_at(replay.url_for(name))
    with anyio.fail_after(10), pytest.raises(ProviderError) as caught:
        await read(provider, request(), into=parts)
    await provider.close()
    assert caught.value.kind in expect.get("accept_kinds", [expect["kind"]])
    assert caught.value.retry_after_s == expect.get("retry_after")
    assert KEY not in str(caught.value)
    assert shown(parts, TextPart) == recording(name)["expect"]["text"]
    assert not any(isinstance(part, Finished) for part in parts)


@needs_recordings
@pytest.mark.parametrize("how", ["end", "fin", "rst"])
@pytest.mark.parametrize("name", ["responses-tool", "responses-phase", "responses-web-search"])
async def test_a_cut_answer_is_never_finished(replay: Any, name: str, how: str) -> None:
    size = recording(name)["bytes"]
    end = recording(name)["body"].encode().rindex(b"data: {") + 7
    provider = provider_at(replay.url)
    for cut in [0, 1, *range(40, end, max(1, size // 25)), end, size - 3]:
        parts: list[StreamPart] = []
        with anyio.fail_after(20), pytest.raises(ProviderError) as caught:
            await read(provider, request(model=f"{name},cut={cut},how={how}"), into=parts)
        assert caught.value.kind == ("stream_truncated" if how == "end" else "network"), cut
        assert not any(isinstance(part, Finished) for part in parts), cut
    await provider.close()


@needs_recordings
async def test_leaving_early_closes_the_connection(replay: Any) -> None:
    provider = provider_at(replay.url_for("responses-reasoning-summary-tool", "chunk=event,pause=0.02"))
    first = await assert_leaving_closes(provider, request(), replay, sent_less_than=15_000)
    assert isinstance(first, ThinkingPart)


@needs_recordings
async def test_cancelling_a_silent_answer_closes_the_connection(replay: Any) -> None:
    stalled_at = recording("responses-incomplete-max-tokens")["body"].index("response.output_text.delta") + 900
    provider = provider_at(replay.url_for("responses-incomplete-max-tokens", f"stall={stalled_at},hold=30"))
    await assert_cancelling_closes(provider, request(), replay, sent_less_than=stalled_at + 1)


async def test_what_follows_the_terminal_event_is_not_waited_for() -> None:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in answer_with(message("hi")))
    held_open = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + body  # no length: ends when closed
    async with CannedServer([held_open]) as server:
        with anyio.fail_after(3):
            parts = await collect(server.url)
    assert parts[-1] == finished(Text(text="hi"))


async def test_turns_share_one_connection_and_one_client() -> None:
    answer = event_stream(*answer_with(message("hi")))
    async with CannedServer([answer] * 3) as server:
        provider = provider_at(server.url)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(provider.warm)
            tasks.start_soon(provider.warm)
        client = provider._client
        for _ in range(3):
            await read(provider, request(), into=[])
        assert provider._client is client
        await provider.close()
        await provider.close()
    assert (len(server.bodies), server.connections) == (3, 1)


async def test_comments_missing_event_names_and_a_done_mark_do_no_harm() -> None:
    events = answer_with(message("hi"))
    lines = [b": OPENROUTER PROCESSING\n\n", *(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)]
    body = b"".join([*lines, b"data: [DONE]\n\n"])
    broken_off = b"".join([*lines[:-1], b"data: [DONE]\n\n"])
    answers = [http_answer(200, data, "text/event-stream") for data in (body, broken_off)]
    async with CannedServer(answers) as server:
        assert (await collect(server.url))[-1] == finished(Text(text="hi"))
        with pytest.raises(ProviderError) as caught:
            await collect(server.url)
    assert caught.value.kind == "stream_truncated"


# --- the reducer, event by event ----------------------------------------------------------------------------------


def message(*texts: str, refusal: str = "", **fields: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    if refusal:
        content.append({"type": "refusal", "refusal": refusal})
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content, **fields}


def a_call(arguments: Any = "{}", **fields: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read", "arguments": arguments}
    return {**item, "status": "completed", **fields}


def unfinished(item: dict[str, Any]) -> dict[str, Any]:
    """The item as `added` has it."""
    empty = {"content": [], "summary": [], "arguments": "", "input": "", "encrypted_content": "early"}
    return {key: empty.get(key, value) for key, value in item.items()}


def added(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": unfinished(item)}


def done(item: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(kind: str, text: Any, index: int = 0, **place: int) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": text, **place}


def ending(event: str = "completed", **response: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "output_tokens": 9}
    whole = {"status": event, "output": [], "usage": usage, **response}
    return {"type": f"response.{event}", "response": whole}


def answer_with(*items: dict[str, Any], end: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    pairs = [(added(item, index), done(item, index)) for index, item in enumerate(items)]
    return [{"type": "response.created", "response": {}}, *(event for pair in pairs for event in pair), end or ending()]


def finished(*content: Block, stop: str = "end_turn") -> Finished:
    return Finished(content=content, usage=Usage(input=5, output=9), stop=stop)


def opaque(raw: dict[str, Any]) -> Opaque:
    return Opaque(provider="openai", model=MODEL, raw=raw)


def reduce(events: list[Any]) -> list[StreamPart]:
    reducer = Reducer("openai", MODEL, Faults(endpoint_at("http://127.0.0.1:1")))
    parts = [part for event in events for part in reducer.take(json.dumps(event).encode())]
    return [*parts, reducer.finish()]


@pytest.mark.parametrize(
    ("text", "input"),
    [
        ("", {}),
        ("{}", {}),
        ('{"a": "\\ud83e\\udd9c"}', {"a": "🦜"}),
        ('{"a": 1', None),
        ('{"a": 1}}', None),
        ('{"a": 1} {"b": 2}', None),
        ("[1]", None),
        ("null", None),
        ('{"a": NaN}', None),
        ("{'a': 1}", None),
        ("{" * 3000, None),
        ('{"a":' * (MAX_INPUT_DEPTH + 1) + "1" + "}" * (MAX_INPUT_DEPTH + 1), None),
    ],
)
def test_only_one_whole_object_is_an_input(text: str, input: dict[str, Any] | None) -> None:
    item, half = a_call(text), len(text) // 2
    kind = "function_call_arguments"
    events = [added(item), delta(kind, text[:half]), delta(kind, text[half:]), done(item), ending()]
    *parts, last = reduce(events)
    assert last == finished(ToolCall(id="call_1", name="read", input=input), stop="tool_use")
    assert parts[0] == ToolCallPart("call_1", "read", 0)
    sizes = [part.size_bytes for part in parts if isinstance(part, ToolCallPart)]
    assert sizes == sorted({0, len(text[:half].encode()), len(text.encode())})  # none is told twice


def test_a_call_that_did_not_end_has_no_input() -> None:
    whole = delta("function_call_arguments", '{"a": 1}')
    without = finished(ToolCall(id="call_1", name="read", input=None), stop="tool_use")
    assert reduce([added(a_call()), whole, ending()])[-1] == without
    assert reduce([added(a_call()), whole, done(a_call('{"a": 1}', status="incomplete")), ending()])[-1] == without


def test_a_call_without_deltas_shows_its_length_all_the_same() -> None:
    shown = [ToolCallPart("call_1", "read", 0), ToolCallPart("call_1", "read", 9)]
    last = finished(ToolCall(id="call_1", name="read", input={"ü": 1}), stop="tool_use")
    item = a_call('{"ü": 1}')
    assert reduce([added(item), done(item), ending()]) == [*shown, last]
    assert reduce([done(item), ending()]) == [*shown, last]


def test_a_call_without_ids_gets_one() -> None:
    items = [{**a_call(), "call_id": call_id, "id": id} for call_id, id in [("", "fc_7"), (None, None), ("c", "fc_8")]]
    last = reduce(answer_with(*items))[-1]
    assert isinstance(last, Finished)
    assert [block.id for block in last.content if isinstance(block, ToolCall)] == ["fc_7", "call_1", "c"]


def test_items_are_ordered_by_their_index() -> None:
    first, second = message("first"), a_call()
    events = [added(second, 1), added(first), done(second, 1), done(first), ending()]
    assert reduce(events)[-1] == finished(
        Text(text="first"), ToolCall(id="call_1", name="read", input={}), stop="tool_use"
    )


def test_reasoning_is_shown_as_thinking_and_kept_whole_where_it_can_be_sent_back() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}], "content": []}
    sealed = {**item, "encrypted_content": "late"}
    deltas = [
        delta("reasoning_summary_text", "one", summary_index=0),
        delta("reasoning_summary_text", "", summary_index=0),
    ]
    deltas += [delta("reasoning_summary_text", "two", summary_index=1), delta("reasoning_text", "raw", content_index=0)]
    thinking = Thinking(text="one\n\ntwo\n\nraw", provider="openai", model=MODEL)
    *parts, last = reduce([added(sealed), *deltas, done(sealed), ending()])
    assert (parts, last) == (
        [ThinkingPart("one"), ThinkingPart("\n\ntwo"), ThinkingPart("\n\nraw")],
        finished(thinking, opaque(sealed)),
    )
    assert reduce([added(item), *deltas, done(item), ending()])[-1] == finished(thinking)
    assert reduce([added(sealed), *deltas, ending()])[-1] == finished(thinking)
    silent = reduce([added(sealed), done(sealed), ending()])
    assert silent == [ThinkingPart("a"), finished(Thinking(text="a", provider="openai", model=MODEL), opaque(sealed))]


def test_text_of_an_item_that_did_not_end_is_kept() -> None:
    deltas = [delta("output_text", "half a "), delta("output_text", "sentence")]
    end = ending("incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert reduce([added(message()), *deltas, end]) == [
        TextPart("half a "),
        TextPart("sentence"),
        finished(Text(text="half a sentence"), stop="max_tokens"),
    ]


def test_the_phase_of_a_message_stands_before_its_text() -> None:
    frame = opaque({"type": "message", "role": "assistant", "phase": "commentary"})
    assert reduce(answer_with(message("a", "b", phase="commentary")))[-1] == finished(frame, Text(text="ab"))
    assert reduce(answer_with(message(phase="commentary")))[-1] == finished()
    assert reduce(answer_with(message("a", phase=None)))[-1] == finished(Text(text="a"))


INCOMPLETE = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
    "max_messages": "incomplete:max_messages",
    "steered": "incomplete:steered",
    None: "max_tokens",
}


@pytest.mark.parametrize(("reason", "stop"), INCOMPLETE.items())
def test_an_incomplete_answer_stops_for_its_reason(reason: str | None, stop: str) -> None:
    detail = reason if reason is not None and stop == "refusal" else ""
    for end in ("incomplete", "completed"):  # some servers have one terminal event for both
        response = {"status": "incomplete", "incomplete_details": {"reason": reason}}
        events = answer_with(message("a"), end=ending(end, **response))
        assert reduce(events)[-1] == replace(finished(Text(text="a"), stop=stop), detail=detail)
    bare = {"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}}
    last = reduce(answer_with(message("a"), end=bare))[-1]
    assert last == Finished(content=(Text(text="a"),), usage=None, stop=stop, detail=detail)


HI = message("hi")
CALL = a_call('{"a": 1}')
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]}


def placeless(*events: dict[str, Any]) -> list[dict[str, Any]]:
    return [{key: value for key, value in event.items() if key != "output_index"} for event in events]


FORMS: dict[str, tuple[list[dict[str, Any]], list[Any]]] = {
    "items in the last event alone": ([ending(output=[HI, CALL])], [Text(text="hi"), "call"]),
    "deltas without items": ([delta("output_text", "h"), delta("output_text", "i"), ending()], [Text(text="hi")]),
    "the last event repeats the deltas": ([delta("output_text", "hi"), ending(output=[HI])], [Text(text="hi")]),
    "no index": (
        placeless(added(HI), delta("output_text", "hi"), done(HI), added(CALL), done(CALL), ending()),
        [Text(text="hi"), "call"],
    ),
    "one index for all": (
        [added(REASONING), done(REASONING), added(HI), delta("output_text", "hi"), done(HI), done(CALL), ending()],
        ["thinking", Text(text="hi"), "call"],
    ),
    "no ids": (
        [kind(message(text, id=None)) for text in "hi" for kind in (added, done)] + [ending()],
        [Text(text="h"), Text(text="i")],
    ),
    "a call that only the last event has whole": (
        [added(CALL), delta("function_call_arguments", '{"a": 1}'), ending(output=[CALL])],
        ["call"],
    ),
    "an item that only the last event has": (
        [*answer_with(HI)[:-1], ending(output=[HI, CALL])],
        [Text(text="hi"), "call"],
    ),
    "a last event of something else": ([*answer_with(HI)[:-1], ending(output=[CALL])], [Text(text="hi")]),
    "arguments as an object": (answer_with(a_call({"a": 1})), ["call"]),
    "a call with its id and name at the end": (
        [added({"type": "function_call", "id": "fc_1"}), done(CALL), ending()],
        ["call"],
    ),
    "the answer in one piece": ([{"object": "response", "status": "completed", "output": [HI, CALL],
                                  "usage": {"input_tokens": 5, "output_tokens": 9}}], [Text(text="hi"), "call"]),
    "another last event": ([*answer_with(HI)[:-1], ending() | {"type": "response.done"}], [Text(text="hi")]),
}  # fmt: skip


@pytest.mark.parametrize(("events", "content"), FORMS.values(), ids=FORMS.keys())
def test_the_forms_of_other_servers_are_taken(events: list[dict[str, Any]], content: list[Any]) -> None:
    blocks = {
        "call": ToolCall(id="call_1", name="read", input={"a": 1}),
        "thinking": Thinking(text="hm", provider="openai", model=MODEL),
    }
    *parts, last = reduce(events)
    stop = "tool_use" if "call" in content else "end_turn"
    assert last == finished(*(blocks[each] if isinstance(each, str) else each for each in content), stop=stop)
    assert isinstance(last, Finished)
    assert "".join(part.text for part in parts if isinstance(part, TextPart)) == "".join(
        block.text for block in last.content if isinstance(block, Text)
    )
    begun = [part.call_id for part in parts if isinstance(part, ToolCallPart) and not part.size_bytes]
    assert begun == [block.id for block in last.content if isinstance(block, ToolCall)]


def test_a_call_without_arguments_has_those_that_were_shown() -> None:
    shown = [added(CALL), delta("function_call_arguments", '{"a": 1}'), done(a_call(None)), ending()]
    for events, input in ((shown, {"a": 1}), (answer_with(a_call(None)), {})):
        call = ToolCall(id="call_1", name="read", input=input)
        assert reduce(events)[-1] == finished(call, stop="tool_use")


def test_a_refusal_keeps_its_text_and_stops_the_run() -> None:
    refused = message("Well. ", refusal="I can't.")
    last = reduce(answer_with(refused, a_call()))[-1]
    assert last == finished(Text(text="Well. I can't."), ToolCall(id="call_1", name="read", input={}), stop="refusal")


def test_an_item_that_is_not_known_is_kept_as_it_came_and_other_events_are_passed_over() -> None:
    item = {"type": "novelty_call", "id": "n_1", "data": {"deep": [1, "ü"]}}
    events = answer_with(item)
    events[2:2] = [
        {"type": "keepalive", "sequence_number": 2},
        {"type": "response.queued", "response": {}},
        {"type": "response.novelty_call.searching", "output_index": 0, "error": None},
        {"type": "response.code_interpreter_call_code.delta", "output_index": 0, "delta": "print"},
        {"type": "response.audio.delta", "delta": "UklGRg=="},
    ]
    assert reduce(events) == [finished(opaque(item))]
    assert reduce([added(item), ending()]) == [finished()]


def test_what_is_kept_of_an_answer_can_be_journaled_and_read_back() -> None:
    deep = {"type": "novelty", "data": nested(MAX_INPUT_DEPTH - 1)}
    items = [a_call(json.dumps(nested(199))), deep, {**deep, "data": nested(190)}]
    last = reduce(answer_with(*items))[-1]
    assert isinstance(last, Finished)
    event = AssistantMessage(message=Message(id="m", role="assistant", content=last.content), final=True)
    again = event.model_copy(update={"seq": 1, "session": "s", "ts": 1.0})
    assert EVENTS.validate_json(encode(event, 1, "s", 1.0)) == again
    kept = [block.raw if isinstance(block, Opaque) else block.type for block in last.content]
    assert kept == ["tool_use", deep]
    assert [block.input for block in last.content if isinstance(block, ToolCall)] == [None]


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "flat": ({"type": "error", "code": "rate_limit_exceeded", "message": "Slow", "param": None}, "rate_limit"),
    "nested": ({"type": "error", "error": {"code": "insufficient_quota", "message": "No"}}, "quota"),
    "bare": ({"error": {"code": "context_length_exceeded", "message": "Long"}}, "context_overflow"),
    "failed": (ending("failed", error={"code": "rate_limit_exceeded", "message": "Slow"}), "rate_limit"),
    "failed for the prompt": (ending("failed", error={"code": "invalid_prompt", "message": "No"}), "invalid_request"),
    "failed without a word": (ending("failed", error=None), "server_error"),
    "without a type": ({"code": "rate_limit_exceeded", "message": "Slow"}, "rate_limit"),
    "ended well but failed": (ending(status="failed", error={"code": "insufficient_quota", "message": "No"}), "quota"),
    "overloaded": ({"type": "error", "code": "server_is_overloaded", "message": "Full"}, "overloaded"),
    "blocked": (ending("failed", error={"code": "misalignment_policy_violation", "message": "No"}), "invalid_request"),
    "image": (ending("failed", error={"code": "image_too_large", "message": "Big"}), "invalid_request"),
}


@pytest.mark.parametrize(("event", "kind"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_in_the_stream_is_told_by_its_code(event: dict[str, Any], kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        reduce([*answer_with(message("a"))[:-1], event])
    assert caught.value.kind == kind


BROKEN: dict[str, list[Any]] = {
    "second answer": [*answer_with()[:-1], {"type": "response.created", "response": {}}],
    "delta after the item": [*answer_with(message("a"))[:-1], delta("output_text", "a")],
    "item begins twice": [added(message()), added(message())],
    "item ends twice": [*answer_with(a_call())[:-1], done(a_call())],
    "text is a number": [added(message()), delta("output_text", 5)],
    "reasoning is a number": [added({"type": "reasoning"}), delta("reasoning_text", 5)],
    "call without name": answer_with({"type": "function_call", "call_id": "c", "arguments": "{}"}),
    "id is a number": answer_with(a_call(call_id=5)),
    "arguments are a list": answer_with(a_call([1])),
    "no object": [[1]],
    "end without an answer": [{"type": "response.completed"}],
}


@pytest.mark.parametrize("events", BROKEN.values(), ids=BROKEN.keys())
async def test_an_event_against_the_protocol_ends_the_answer(events: list[Any]) -> None:
    async with CannedServer([event_stream(*events)]) as server:
        with pytest.raises(ProviderError) as caught:
            await collect(server.url)
    assert caught.value.kind == "server_error"


def test_odd_token_counts_do_not_spoil_an_answer() -> None:
    details = {"cached_tokens": 3, "cache_write_tokens": 1, "novel_tokens": 9}
    cases: list[tuple[Any, Usage | None]] = [
        (
            {"input_tokens": 5, "input_tokens_details": details, "output_tokens": 2},
            Usage(input=1, output=2, cache_read=3, cache_write=1),
        ),
        ({"input_tokens": 2, "input_tokens_details": details}, Usage(cache_read=3, cache_write=1)),
        ({"input_tokens": "5", "output_tokens": -1, "input_tokens_details": None}, Usage()),
        (None, None),
    ]
    for usage, counted in cases:
        last = reduce(answer_with(end=ending(usage=usage)))[-1]
        assert last == Finished(content=(), usage=counted, stop="end_turn")
