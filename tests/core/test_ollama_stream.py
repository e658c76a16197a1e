"""Recorded answers of Ollama over a socket, and single lines through the reducer: what the adapter makes of them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agentcore.caps import MAX_INPUT_DEPTH
from agentcore.errors import ProviderError
from agentcore.messages import Text, Thinking, ToolCall
from agentcore.ports.models import Finished, ModelRequest, StreamPart, TextPart, ThinkingPart, ToolCallPart
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.faults import Faults
from agentcore.providers.ollama.provider import OllamaProvider
from agentcore.providers.ollama.reducer import Reducer
from agentcore.usage import Usage
from tests.recordings import CannedServer, http_answer, names, needs_recordings, recording, replay_module
from tests.streams import asking, assert_cancelling_closes, assert_leaving_closes, collected, read

pytestmark = pytest.mark.anyio

MODEL = "qwen3.6:latest"
WINDOW = 1000
WHOLE = [name for name in names("ollama-") if recording(name)["status"] == 200]
REFUSED = [name for name in names("ollama-") if recording(name)["status"] != 200]
MODES = ["chunk=whole", "chunk=byte", "chunk=midline", "chunk=utf8", "chunk=random:7", "chunk=event,framing=close"]
STOPS = {"stop": "end_turn", "length": "max_tokens"}


@pytest.fixture(scope="module")
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread() as server:
        yield server


def endpoint(url: str) -> Endpoint:
    return Endpoint(name="ollama", title="Ollama", base_url=url, url_source="OLLAMA_HOST")


def request(model: str = MODEL) -> ModelRequest:
    return asking(model)


async def collect(url: str) -> list[StreamPart]:
    return await collected(OllamaProvider(endpoint(url)), request())


def chats(replay: Any) -> list[dict[str, Any]]:
    """The model calls that the server got: what a model can do is asked on another path."""
    return [entry for entry in replay.requests() if entry["path"] == "/api/chat"]


def described(parts: list[StreamPart]) -> dict[str, Any]:
    """The answer in the words of the recordings."""
    *before, last = parts
    assert isinstance(last, Finished)
    assert not any(isinstance(part, Finished) for part in before)
    calls = [block for block in last.content if isinstance(block, ToolCall)]
    thinking = "".join(block.text for block in last.content if isinstance(block, Thinking))
    assert "".join(part.text for part in before if isinstance(part, ThinkingPart)) == thinking
    return {
        "text": "".join(part.text for part in before if isinstance(part, TextPart)),
        "same_text": "".join(block.text for block in last.content if isinstance(block, Text)),
        "thinking_text": thinking,
        "tool_calls": [{"name": call.name, "id": call.id, "input": call.input} for call in calls],
        "begun": [part.call_id for part in before if isinstance(part, ToolCallPart) and not part.size_bytes],
        "stop": last.stop,
        "usage": last.usage,
    }


def expected(name: str) -> dict[str, Any]:
    expect = recording(name)["expect"]
    calls = [{key: call[key] for key in ("name", "id", "input")} for call in expect["tool_calls"]]
    return {
        "text": expect["text"],
        "same_text": expect["text"],
        "thinking_text": expect.get("thinking_text", ""),
        "tool_calls": calls,
        "begun": [call["id"] for call in calls],
        "stop": "tool_use" if calls else STOPS[expect["stop_reason"]],
        "usage": Usage(input=expect["usage"]["prompt_eval_count"], output=expect["usage"]["eval_count"]),
    }


@needs_recordings
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", WHOLE)
async def test_a_recorded_answer_gives_what_it_holds_however_it_is_cut(replay: Any, name: str, mode: str) -> None:
    assert described(await collect(replay.url_for(name, mode))) == expected(name)
    # An answer that was recorded in one piece was asked for so; we always ask for a stream.
    asked_otherwise = [] if recording(name)["stream"] else ["request stream=True, recording stream=False"]
    assert chats(replay)[-1]["warnings"] == asked_otherwise


@needs_recordings
@pytest.mark.parametrize("name", REFUSED)
async def test_a_recorded_refusal_has_its_kind(replay: Any, name: str) -> None:
    error = recording(name)["expect"]["error"]
    with pytest.raises(ProviderError) as caught:
        await collect(replay.url_for(name))
    assert caught.value.kind in error.get("accept_kinds", [error["kind"]])
    assert chats(replay)[-1]["warnings"] == []


@needs_recordings
async def test_a_model_that_is_not_there_is_named_with_the_way_to_get_it(replay: Any) -> None:
    provider = OllamaProvider(endpoint(replay.url_for("ollama-error-404")))
    with pytest.raises(ProviderError, match=r"`ollama pull nonexistent-model:latest`") as caught:
        await read(provider, request("nonexistent-model:latest"), into=[])
    await provider.close()
    assert caught.value.kind == "not_found"


@needs_recordings
@pytest.mark.parametrize("how", ["end", "fin", "rst"])
@pytest.mark.parametrize("name", WHOLE)
async def test_a_cut_answer_is_never_finished(replay: Any, name: str, how: str) -> None:
    body = recording(name)["body"].encode()
    size = len(body.rstrip(b"\n")) - 1  # the last line is whole without its end
    provider = OllamaProvider(endpoint(replay.url))
    for cut in [0, 1, *range(40, size, max(1, size // 25)), size]:
        parts: list[StreamPart] = []
        with pytest.raises(ProviderError) as caught:
            await read(provider, request(model=f"{name},cut={cut},how={how}"), into=parts)
        assert caught.value.kind == ("stream_truncated" if how == "end" else "network"), cut
        assert not any(isinstance(part, Finished | ToolCallPart) for part in parts), cut
    await provider.close()


@needs_recordings
async def test_leaving_early_closes_the_connection(replay: Any) -> None:
    provider = OllamaProvider(endpoint(replay.url_for("ollama-text", "chunk=line,pause=0.02")))
    first = await assert_leaving_closes(provider, request(), replay, sent_less_than=3_000)
    assert isinstance(first, TextPart)


@needs_recordings
async def test_cancelling_a_silent_answer_closes_the_connection(replay: Any) -> None:
    provider = OllamaProvider(endpoint(replay.url_for("ollama-text", "stall=900,hold=30")))
    await assert_cancelling_closes(provider, request(), replay, sent_less_than=901)


def ndjson(*lines: dict[str, Any]) -> bytes:
    """A whole HTTP answer that streams these lines."""
    return http_answer(200, b"".join(json.dumps(line).encode() + b"\n" for line in lines), "application/x-ndjson")


DONE = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}


async def test_turns_share_one_connection() -> None:
    no_show = http_answer(501, b"")
    async with CannedServer([no_show, *[ndjson(DONE)] * 3]) as server:
        provider = OllamaProvider(endpoint(server.url))
        for _ in range(3):
            await read(provider, request(), into=[])
        await provider.close()
    assert (len(server.bodies), server.connections) == (4, 1)


async def test_a_page_of_another_service_is_named() -> None:
    page = http_answer(200, b"<html>Welcome</html>", "text/html")
    async with CannedServer([page, page]) as server:
        provider = OllamaProvider(endpoint(server.url))
        with pytest.raises(ProviderError, match="OLLAMA_HOST") as caught:
            await read(provider, request(), into=[])
        await provider.close()
    assert caught.value.kind == "not_found"


async def test_no_server_is_a_network_error_that_names_what_to_look_at() -> None:
    async with CannedServer([]) as server:
        url = server.url
    provider = OllamaProvider(endpoint(url))
    with pytest.raises(ProviderError, match=r"Check that it runs.*OLLAMA_HOST") as caught:
        await read(provider, request(), into=[])
    await provider.close()
    assert caught.value.kind == "network"


# --- the reducer, line by line ------------------------------------------------------------------------------------


def reduce(*lines: Any) -> list[StreamPart]:
    reducer = Reducer("ollama", MODEL, Faults(endpoint("http://127.0.0.1")), WINDOW)
    parts = [part for line in lines for part in reducer.take(json.dumps(line).encode())]
    return [*parts, reducer.finish()]


def said(**message: Any) -> dict[str, Any]:
    return {"model": MODEL, "message": {"role": "assistant", "content": "", **message}, "done": False}


def done(reason: str | None = "stop", **fields: Any) -> dict[str, Any]:
    line = {**said(), "done": True, **fields}
    return line if reason is None else {**line, "done_reason": reason}


def calling(name: str = "ls", **fields: Any) -> dict[str, Any]:
    call = {"function": {"name": name, "arguments": fields.pop("arguments", {})}, **fields}
    return said(tool_calls=[call])


def test_a_whole_answer() -> None:
    first = {"id": "c1", "function": {"index": 0, "name": "read", "arguments": {"path": "a"}}}
    second = {"id": "c2", "function": {"index": 1, "name": "ls", "arguments": {}}}
    assert reduce(
        said(thinking="Hm"),
        said(thinking=" ok"),
        said(content="I "),
        said(content="look."),
        said(tool_calls=[first, second]),
        done(prompt_eval_count=20, eval_count=9),
    ) == [
        ThinkingPart("Hm"),
        ThinkingPart(" ok"),
        TextPart("I "),
        TextPart("look."),
        ToolCallPart("c1", "read", 0),
        ToolCallPart("c1", "read", 12),
        ToolCallPart("c2", "ls", 0),
        ToolCallPart("c2", "ls", 2),
        Finished(
            content=(
                Thinking(text="Hm ok", provider="ollama", model=MODEL),
                Text(text="I look."),
                ToolCall(id="c1", name="read", input={"path": "a"}),
                ToolCall(id="c2", name="ls", input={}),
            ),
            usage=Usage(input=20, output=9),
            stop="tool_use",
        ),
    ]


@pytest.mark.parametrize(
    ("arguments", "input"),
    [
        ({"a": 1}, {"a": 1}),
        ({}, {}),
        (None, {}),
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ('{"a": 1', None),
        ([], None),
        ([1], None),
        ("text", None),
        (5, None),
        ({"a": float("nan")}, None),
    ],
)
def test_only_one_whole_object_is_an_input(arguments: Any, input: dict[str, Any] | None) -> None:
    last = reduce(calling(id="c1", arguments=arguments), done())[-1]
    assert last == Finished((ToolCall(id="c1", name="ls", input=input),), None, "tool_use")


def test_an_input_deeper_than_any_journal_can_hold_is_none() -> None:
    arguments: dict[str, Any] = {}
    for _ in range(MAX_INPUT_DEPTH + 1):
        arguments = {"a": arguments}
    last = reduce(calling(id="c1", arguments=arguments), done())[-1]
    assert last == Finished((ToolCall(id="c1", name="ls", input=None),), None, "tool_use")


def test_calls_without_an_id_get_one_each() -> None:
    last = reduce(calling(), calling(id=""), calling(id="c9"), done())[-1]
    assert isinstance(last, Finished)
    assert [block.id for block in last.content if isinstance(block, ToolCall)] == ["call-0", "call-1", "c9"]


@pytest.mark.parametrize(
    ("last", "has_call", "stop"),
    [
        (done("stop"), False, "end_turn"),
        (done("stop"), True, "tool_use"),
        (done(None), False, "end_turn"),
        (done(None), True, "tool_use"),
        (done("length", prompt_eval_count=500, eval_count=499), False, "max_tokens"),
        (done("length", prompt_eval_count=500, eval_count=499), True, "max_tokens"),
        (done("length", prompt_eval_count=500, eval_count=500), False, "model_context_window_exceeded"),
        (done("load"), False, "load"),
        (done("unload"), False, "unload"),
        (done("brand_new"), True, "brand_new"),
    ],
)
def test_stop_reasons(last: dict[str, Any], has_call: bool, stop: str) -> None:
    finished = reduce(said(content="a"), *([calling()] if has_call else []), last)[-1]
    assert isinstance(finished, Finished)
    assert finished.stop == stop


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("an error was encountered while running the model: unexpected EOF", "server_error"),
        ("model 'x' not found", "not_found"),
        ("the input length exceeds the context length", "context_overflow"),
        ('{"error":{"code":400,"message":"request (351 tokens) exceeds the available context size (256 tokens), try'
         ' increasing it","type":"exceed_context_size_error","n_prompt_tokens":351,"n_ctx":256}}', "context_overflow"),
        ({"message": "slow down", "type": "rate_limit_error"}, "rate_limit"),
    ],
)  # fmt: skip
def test_an_error_in_the_stream_ends_it_with_its_kind(error: Any, kind: str) -> None:
    with pytest.raises(ProviderError) as caught:
        reduce(said(content="a"), {"error": error}, done())
    assert caught.value.kind == kind
    assert '{"' not in str(caught.value)


@pytest.mark.parametrize(
    "line",
    [
        [1],
        5,
        said(content=5),
        said(thinking=["a"]),
        calling(name=5),  # type: ignore[arg-type] # what must not come
        calling(id=5),
        said(tool_calls=[{"id": "c1"}]),
        said(tool_calls=["ls"]),
        {"message": "hello", "done": False},
    ],
)
async def test_a_line_against_the_protocol_ends_the_answer(line: Any) -> None:
    async with CannedServer([http_answer(501, b""), ndjson(said(content="a"), line, done())]) as server:
        provider, parts = OllamaProvider(endpoint(server.url)), list[StreamPart]()
        with pytest.raises(ProviderError) as caught:
            await read(provider, request(), into=parts)
        await provider.close()
    assert (caught.value.kind, parts) == ("server_error", [TextPart("a")])


async def test_what_is_no_json_ends_the_answer() -> None:
    body = json.dumps(said(content="a")).encode() + b'\n{"message": \n'
    async with CannedServer([http_answer(501, b""), http_answer(200, body, "application/x-ndjson")]) as server:
        provider, parts = OllamaProvider(endpoint(server.url)), list[StreamPart]()
        with pytest.raises(ProviderError) as caught:
            await read(provider, request(), into=parts)
        await provider.close()
    assert (caught.value.kind, parts) == ("server_error", [TextPart("a")])


def test_odd_token_counts_and_unknown_fields_do_not_spoil_an_answer() -> None:
    last = reduce({"status": "loading"}, said(content="a", novelty=1), done(prompt_eval_count="9", eval_count=-1))[-1]
    assert last == Finished((Text(text="a"),), Usage(), "end_turn")


def test_an_answer_of_nothing_is_empty() -> None:
    assert reduce(said(), done()) == [Finished((), None, "end_turn")]
