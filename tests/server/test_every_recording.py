"""Every recorded answer of every real service, played to a whole run over HTTP, however its bytes are cut.

What the adapters make of the bytes is tested one by one in `tests/core`; here a real daemon runs a prompt against each
recording, and what its clients see is held against what the recording is known to say. Where the answer calls tools,
a second answer of the same service ends the run; the request for it must hold what was said before, unchanged.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentcore.errors import RETRYABLE
from tests.daemon import Daemon, numbered, running
from tests.recordings import FOLDER, names, needs_recordings, recording, replay_module

pytestmark = [pytest.mark.anyio, needs_recordings, pytest.mark.timeout(180)]

MODES = ("chunk=whole", "chunk=byte", "chunk=midline", "chunk=utf8", "chunk=random:7")
MODEL_OF = {
    "anthropic": "anthropic/claude-sonnet-4-5",
    "openai-responses": "openai/gpt-5",
    "openai-chat": "lab/some-model",
    "gemini": "gemini/gemini-2.5-flash",
    "ollama": "ollama/qwen3",
}
GOES_ON_WITH = {
    "anthropic": "anthropic-text",
    "openai-responses": "responses-text",
    "openai-chat": "chat-text",
    "gemini": "gemini-text",
    "ollama": "ollama-text",
}
ENDS = {
    # the service's own word: how the run ends when no tool is called
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "stop": "end_turn",
    "STOP": "end_turn",
    "completed": "end_turn",
    "pause_turn": "end_turn",  # of the answer that follows
    "max_tokens": "max_tokens",
    "length": "max_tokens",
    "MAX_TOKENS": "max_tokens",
    "incomplete:max_output_tokens": "max_tokens",
    "refusal": "refusal",
    "SAFETY": "refusal",
    "blocked:SAFETY": "refusal",
    "MALFORMED_FUNCTION_CALL": "error",
}
MADE_WITHOUT_STREAMING = {"ollama-tool-json": ["request stream=True, recording stream=False"]}
SEAL = re.compile(r'"(?:signature|encrypted_content|thoughtSignature)"\s*:\s*"([^"]{20,})"')
LISTS = ("messages", "input", "contents")
"""Where the requests of the services hold the conversation."""


@pytest.fixture(scope="module")
def replay() -> Iterator[Any]:
    with replay_module().ReplayThread([FOLDER]) as server:
        yield server


@pytest.fixture(scope="module")
def served(replay: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder: Path = tmp_path_factory.mktemp("recorded")
    settings = folder / "config" / "agentcore" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'[providers.lab]\ntype = "openai-compatible"\nbase_url = "{replay.url}/v1"\n')
    environment = {
        "ANTHROPIC_API_KEY": "sk-ant-not-a-key",
        "ANTHROPIC_BASE_URL": replay.url,
        "OPENAI_API_KEY": "sk-not-a-key",
        "OPENAI_BASE_URL": f"{replay.url}/v1",
        "GEMINI_API_KEY": "AIza-not-a-key",
        "GOOGLE_GEMINI_BASE_URL": replay.url,
        "OLLAMA_HOST": replay.url,
    }
    with running(folder, "--mode", "deny", **environment) as daemon:
        ask_ollama_once(daemon, replay)
        yield daemon


def ask_ollama_once(daemon: Daemon, replay: Any) -> None:
    """Before its first call Ollama is asked about the model, and that request takes an entry off the queue."""
    replay.push("ollama-text", "ollama-text")
    headers = {"Authorization": f"Bearer {daemon.token}"}
    with httpx.Client(base_url=daemon.url, headers=headers, timeout=20, trust_env=False) as http:
        session = http.post("/v1/sessions", json={"model": MODEL_OF["ollama"]}).json()["id"]
        http.post(f"/v1/sessions/{session}/prompt", json={"text": "go", "wait": True}).raise_for_status()


@pytest.mark.parametrize("name", names(""))
async def test_a_run_gives_what_the_service_said(served: Daemon, replay: Any, name: str) -> None:
    for mode in MODES:
        await check(served, replay, name, mode)


async def check(served: Daemon, replay: Any, name: str, mode: str) -> None:
    data = recording(name)
    expect, service = data["expect"], data["provider"]
    async with httpx.AsyncClient(trust_env=False) as http:
        await http.post(f"{replay.url}/__replay/reset")
    replay.push(f"{name},{mode}")
    if continues(expect) or expect["error"]:
        replay.push(GOES_ON_WITH[service])
    events = await run(served, MODEL_OF[service], cancels_retry=bool(expect["error"]))
    done = of(events, "done")[-1]
    assert len(of(events, "done")) == 1
    assert shown(events) == said(expect), mode
    if expect["error"]:
        check_failure(events, expect)
    else:
        assert done["stop_reason"] == how_it_ends(expect), (mode, [error["text"] for error in of(events, "error")])
        check_calls(events, expect, service)
        assert thought(events) == expect.get("thinking_text", thought(events) if expect["thinking"] else "")
        spent = of(events, "usage")[0]["spent"]
        assert {name: spent[name] for name in BUCKETS} == buckets(service, expect["usage"] or {}), mode
        check_server_tools(events, expect)
    sent = [request for request in replay.requests() if request["protocol"] == service]
    assert [warning for request in sent for warning in request["warnings"]] == MADE_WITHOUT_STREAMING.get(name, [])
    if continues(expect):
        check_continuation(sent, data)


def check_failure(events: list[dict[str, Any]], expect: dict[str, Any]) -> None:
    """The error has its kind; it is tried again only if that helps and nothing was shown."""
    kinds = expect["error"].get("accept_kinds", [expect["error"]["kind"]])
    codes = ["context_window_exceeded" if kind == "context_overflow" else kind for kind in kinds]
    retried = [notice for notice in of(events, "notice") if notice["code"] == "model_retry"]
    if set(kinds) & RETRYABLE and not shown(events) and not of(events, "thinking_delta"):
        assert any(f"({kind})" in retried[0]["text"] for kind in kinds), retried[0]["text"]
        check_wait(events, expect["error"].get("retry_after"))
        return
    assert not retried
    assert len(of(events, "model_start")) == 1
    [error] = of(events, "error")
    assert error["code"] in codes
    assert "not-a-key" not in str(events)


def check_wait(events: list[dict[str, Any]], retry_after: str | None) -> None:
    """It is not asked again before the time that the service wants."""
    if retry_after is not None:
        waiting = next(event for event in of(events, "waiting") if event["waiting_for"] == "retry")
        assert waiting["detail"]["until"] - waiting["since"] >= float(retry_after)


def check_server_tools(events: list[dict[str, Any]], expect: dict[str, Any]) -> None:
    """The tools that the service ran by itself are kept as they came, and are no calls of ours."""
    [message, *_] = of(events, "assistant_message") or [{"message": {"content": []}}]
    kept = json.dumps([block for block in message["message"]["content"] if block["type"] == "opaque"])
    for tool in expect.get("server_tools", []):
        assert tool in kept


def check_calls(events: list[dict[str, Any]], expect: dict[str, Any], service: str) -> None:
    """Calls come as they were made; one whose input is incomplete never runs."""
    calls = [block for event in of(events, "assistant_message")[:1] for block in event["message"]["content"]]
    calls = [block for block in calls if block["type"] == "tool_use"]
    if not continues(expect):
        assert not calls
        assert not of(events, "tool_start")
        return
    assert [(call["name"], call.get("input")) for call in calls] == [
        (call["name"], as_object(call["input"])) for call in expect["tool_calls"]
    ]
    given = [call.get("id") for call in expect["tool_calls"]]
    if service != "gemini" and len(set(given)) == len(given):
        assert [call["id"] for call in calls] == [id or call["id"] for id, call in zip(given, calls, strict=True)]
    assert len({call["id"] for call in calls}) == len(calls)
    assert [end["call_id"] for end in of(events, "tool_end")] == [call["id"] for call in calls]
    broken = {call["id"] for call in calls if call.get("input") is None}
    assert not broken & {start["call_id"] for start in of(events, "tool_start")}


BUCKETS = ("input", "output", "cache_read", "cache_write")


def buckets(service: str, tokens: dict[str, Any]) -> dict[str, int]:
    """The tokens of a recording, as they have to be split. What was read is what the service counted in all without
    what was written, where it tells both."""

    def told(*path: str) -> int:
        value: Any = tokens
        for name in path:
            value = (value or {}).get(name)
        return value or 0

    match service:
        case "anthropic":
            names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
            return dict(zip(BUCKETS, map(told, names), strict=True))
        case "openai-responses":
            total, read, written = told("total_tokens"), told("input_tokens_details", "cached_tokens"), 0
            output = told("output_tokens")
        case "openai-chat":
            total, read, written = told("total_tokens"), told("prompt_tokens_details", "cached_tokens"), 0
            output = total - told("prompt_tokens")
        case "gemini":
            total, read, written = told("totalTokenCount"), told("cachedContentTokenCount"), 0
            output = told("candidatesTokenCount") + told("thoughtsTokenCount")
        case _:
            read, written, output = 0, 0, told("eval_count")
            total = output + told("prompt_eval_count")
    return {"input": total - output - read, "output": output, "cache_read": read, "cache_write": written}


def as_object(value: Any) -> Any:
    """A tool's input as ours take it: a call whose input is free text has it in a field."""
    return {"input": value} if isinstance(value, str) else value


def check_continuation(sent: list[dict[str, Any]], data: dict[str, Any]) -> None:
    """The second request begins with the first one's conversation and holds every seal of the answer."""
    first, second = (request["body"] for request in sent)
    place = next(place for place in LISTS if place in first)
    assert unmarked(second[place])[: len(first[place])] == unmarked(first[place])
    assert len(second[place]) > len(first[place])
    assert second.get("tools") == first.get("tools")
    replayed = json.dumps(second)
    for seal in seals(data):
        assert seal in replayed


def seals(data: dict[str, Any]) -> set[str]:
    """Signatures and encrypted reasoning of the answer, as they stood when their block was complete."""
    body: str = data["body"]
    if data["provider"] == "openai-responses":  # an item is whole only when it is done
        body = "\n".join(line for line in body.split("\n") if '"type":"response.output_item.done"' in line)
    return {json.loads(f'"{seal}"') for seal in SEAL.findall(body)}


def unmarked(messages: Any) -> Any:
    """Without the marks for the vendor's cache, which move on from turn to turn."""
    if isinstance(messages, list):
        return [unmarked(one) for one in messages]
    if isinstance(messages, dict):
        return {name: unmarked(value) for name, value in messages.items() if name != "cache_control"}
    return messages


def continues(expect: dict[str, Any]) -> bool:
    """Whether the run goes on after this answer."""
    if expect["error"]:
        return False
    ends_early = ENDS.get(str(expect["stop_reason"])) in ("max_tokens", "refusal", "error")
    return expect["stop_reason"] == "pause_turn" or (bool(expect["tool_calls"]) and not ends_early)


def how_it_ends(expect: dict[str, Any]) -> str:
    if continues(expect):
        return "end_turn"
    return "refusal" if expect.get("refusal") else ENDS[expect["stop_reason"]]


def said(expect: dict[str, Any]) -> str:
    refusal = expect.get("refusal")
    text: str = expect["text"] or ""
    return text or (refusal if isinstance(refusal, str) and refusal not in ("refusal", "safety") else "")


def shown(events: list[dict[str, Any]]) -> str:
    """The text that the first model call showed."""
    end = next((place for place, event in enumerate(events) if event["type"] == "model_end"), len(events))
    return "".join(event["text"] for event in events[:end] if event["type"] == "text_delta")


def thought(events: list[dict[str, Any]]) -> str:
    """The reasoning that the first model call showed."""
    end = next((place for place, event in enumerate(events) if event["type"] == "model_end"), len(events))
    return "".join(event["text"] for event in events[:end] if event["type"] == "thinking_delta")


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


async def run(daemon: Daemon, model: str, *, cancels_retry: bool) -> list[dict[str, Any]]:
    """Run one prompt in a new session to its end; return its numbered events. A retry is not waited for."""
    async with daemon.client() as http:
        created = await http.post("/v1/sessions", json={"model": model})
        assert created.status_code == 201, created.text
        session = created.json()["id"]
        async with daemon.stream(session) as stream:
            accepted = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})
            assert accepted.status_code == 202, accepted.text
            frames = []
            while True:
                frame = await stream.next()
                frames.append(frame)
                if frame.event == "notice" and cancels_retry and frame.json["code"] == "model_retry":
                    await http.post(f"/v1/sessions/{session}/cancel", json={})
                if frame.event == "status" and not frame.json["busy"]:
                    break
        await http.delete(f"/v1/sessions/{session}")
    return [frame.json for frame in numbered(frames)]
