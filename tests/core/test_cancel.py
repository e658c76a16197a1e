"""Cancelling: immediate, nothing that was shown is lost, every call has its result, `done` comes once."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from agentcore.ports.models import TextPart
from server.schemas import AnswerBody
from tests.fakes import Turn, call, house, kinds, say, use

pytestmark = pytest.mark.anyio


async def idle(live) -> None:
    with anyio.fail_after(5):
        while live.is_busy:
            await anyio.lowlevel.checkpoint()


async def test_streaming_text_is_kept_and_marked(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn([TextPart("Half a sent")], holds=anyio.Event()), say("Again."))
        live.prompt("tell me")
        await home.provider.streaming.wait()
        assert live.cancel()
        await idle(live)
        events = home.events(live)
        assert home.provider.open_streams == 0
        assert events[-2].stop_reason == "interrupted"
        assert live.agent.history.transcript.messages[-1].text == "Half a sent\n\n[interrupted by user]"
        assert kinds(events).count("done") == 1
        again = await home.run(live, "go on")
        assert again[-2].stop_reason == "end_turn"


async def test_a_cancel_in_the_step_of_the_prompt_ends_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Never said."))
        live.prompt("go")
        assert live.cancel()
        await idle(live)
        assert home.events(live)[-2].stop_reason == "interrupted"
        assert live.agent.history.transcript.messages[-1].text == "go"


async def test_a_waiting_request_is_cancelled_and_its_call_paired(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", "a", command="true"), call("bash", "b", command="true")))
        live.prompt("go")
        await home.until_asked(live)
        assert live.cancel()
        assert live.requests.open == ()
        await idle(live)
        resolved = [event.resolution for event in home.events(live) if event.type == "permission_resolved"]
        ends = [(event.call_id, event.cancelled) for event in home.events(live) if event.type == "tool_end"]
        assert resolved == ["cancelled"]
        assert ends == [("a", True), ("b", True)]
        assert live.agent.history.transcript.open_calls == ()


def command_lines() -> Iterator[str]:
    """Of all processes; one that ends meanwhile has none."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield file.read_bytes().replace(b"\0", b" ").decode(errors="replace")


async def test_a_running_command_keeps_what_it_printed_and_dies(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        duration = f"60.{uuid4().int}"  # a command that nobody else runs
        command = f"echo printed; sleep {duration}"
        home.provider.script(use(call("bash", command=command)))
        live.prompt("go")
        with anyio.fail_after(5):
            while not any(event.type == "tool_output_delta" for event in home.events(live)):
                await anyio.lowlevel.checkpoint()
        assert live.cancel()
        await idle(live)
        end = next(event for event in home.events(live) if event.type == "tool_end")
        assert end.output.startswith("printed")
        assert "[interrupted by user]" in end.output
        assert not any(duration in words for words in command_lines())


async def test_cancelling_an_idle_session_does_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        assert not live.cancel()
        assert home.events(live) == []


async def test_calls_behind_a_running_one_are_closed_as_not_started(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", "a", command="echo on; sleep 60"), call("bash", "b", command="true")))
        live.prompt("go")
        request = await home.until_asked(live)
        live.answer(request.request_id, AnswerBody(allow=True))
        await home.until(live, type(home.events(live)[-1]))
        with anyio.fail_after(5):
            while not any(event.type == "tool_output_delta" for event in home.events(live)):
                await anyio.lowlevel.checkpoint()
        live.cancel()
        await idle(live)
        ends = {event.call_id: event.cancelled for event in home.events(live) if event.type == "tool_end"}
        assert ends == {"a": False, "b": True}
