"""How an answer ends, and what people are told about it: refusals, limits, unknown words, nonsense, cancels."""

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.events import NumberedEvent
from agentcore.messages import Text
from agentcore.ports.models import Finished, StreamPart, TextPart, ToolCallPart
from agentcore.providers.compatible.provider import CompatibleProvider
from agentcore.providers.endpoint import Endpoint
from agentcore.providers.gemini.provider import GeminiProvider
from agentcore.stops import Next, judge
from tests.core.test_hostile_answers import REQUEST, serving
from tests.fakes import Turn, house, say
from tests.recordings import event_stream

pytestmark = pytest.mark.anyio


async def events_of(root: Path, turn: Turn) -> list[NumberedEvent]:
    async with house(root) as home:
        home.provider.script(turn)
        return await home.run(await home.session(), "go")


def told(events: list[NumberedEvent], kind: str) -> list[tuple[str, str]]:
    return [(event.code, event.text) for event in events if event.type == kind]


async def test_a_refusal_is_told_with_the_vendors_reason(tmp_path: Path) -> None:
    turn = say("No.", "refusal")
    turn.detail = "cyber: It asks for an exploit"
    events = await events_of(tmp_path, turn)
    ((code, text),) = told(events, "notice")
    assert code == "refused"
    assert text.startswith("fake/fake refused to answer (cyber: It asks for an exploit). ")
    assert [event.type for event in events][-5:] == ["assistant_message", "notice", "turn_end", "done", "status"]


async def test_a_refusal_without_a_reason_is_told_as_well(tmp_path: Path) -> None:
    ((code, text),) = told(await events_of(tmp_path, Turn(stop="refusal")), "notice")
    assert (code, text.partition(".")[0]) == ("refused", "fake/fake refused to answer")


async def test_an_answer_that_was_cut_is_told(tmp_path: Path) -> None:
    ((code, text),) = told(await events_of(tmp_path, say("And so", "max_tokens")), "notice")
    assert (code, "fake/fake" in text, "max_tokens" in text) == ("cut_at_max_tokens", True, True)


async def test_an_answer_that_ends_well_is_not_talked_about(tmp_path: Path) -> None:
    turn = say("Fine.")
    turn.detail = "STOP"
    assert told(await events_of(tmp_path, turn), "notice") == []


@pytest.mark.parametrize(
    ("stop", "said"),
    [
        ("MALFORMED_FUNCTION_CALL", "fake/fake made a tool call that could not be read. Send the prompt again."),
        ("{curly}", "fake/fake stopped for a reason that is not known here: '{curly}'."),
    ],
)
async def test_a_stop_that_is_unexpected_names_the_model_and_what_to_do(tmp_path: Path, stop: str, said: str) -> None:
    ((code, text),) = told(await events_of(tmp_path, say("Hm", stop)), "error")
    assert code == "unexpected_stop_reason"
    assert text.startswith(said)
    assert "end the prompt again" in text


def test_without_a_name_the_sentence_stands_as_well() -> None:
    verdict = judge("NEW", ())
    assert (verdict.next, verdict.text.split(":")[0]) == (
        Next.FAIL,
        "The model stopped for a reason that is not known here",
    )


NONSENSE: Any = 5


@pytest.mark.parametrize("part", [TextPart(NONSENSE), ToolCallPart("c", NONSENSE, 0)])
async def test_a_part_that_makes_no_event_is_a_failure_of_the_provider(tmp_path: Path, part: StreamPart) -> None:
    ((code, text),) = told(await events_of(tmp_path, Turn([TextPart("So far."), part])), "error")
    assert (code, text.split()[0]) == ("server_error", "fake")


# --- a cancel after the end ---------------------------------------------------------------------------------------

OPEN = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n\r\n"
ENDED = {
    "gemini": [
        {"candidates": [{"content": {"parts": [{"text": "h"}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "i"}]}, "finishReason": "STOP"}]},
    ],
    "compatible": [
        {"choices": [{"index": 0, "delta": {"content": "hi"}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ],
}


@pytest.mark.parametrize("kind", ENDED)
async def test_a_cancel_after_the_end_does_not_cut_the_answer(kind: str) -> None:
    body = event_stream(*ENDED[kind]).partition(b"\r\n\r\n")[2]
    found: list[Finished] = []
    sent = anyio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(OPEN + body)
        await writer.drain()
        sent.set()
        await asyncio.sleep(60)

    async with serving(answer) as service:
        endpoint = Endpoint("lab", "Lab", service.url)
        provider = GeminiProvider(endpoint) if kind == "gemini" else CompatibleProvider(endpoint)
        await provider.warm()
        began = anyio.current_time()
        shown = ""
        with anyio.CancelScope() as scope:
            async with provider.stream(REQUEST) as parts:
                async for part in parts:
                    if isinstance(part, Finished):
                        found.append(part)
                        break
                    shown += getattr(part, "text", "")
                    if shown == "hi":
                        await sent.wait()
                        asyncio.get_running_loop().call_later(0.2, scope.cancel)
        assert anyio.current_time() - began < 5
        await provider.close()
    assert [each.content for each in found] == [(Text(text="hi"),)]
