"""Prompts that came to nothing are not told to the model again after a load; people still see them."""

from pathlib import Path

import anyio
import pytest

from agentcore.errors import ProviderError
from agentcore.events import Compacted
from agentcore.messages import Message, Text
from agentcore.ports.models import TextPart
from tests.fakes import House, Turn, house, say

pytestmark = pytest.mark.anyio

REFUSED = Turn(refuses=ProviderError("auth", "The key is wrong."))
CUT = Turn([TextPart("I was")], fails=ProviderError("auth", "The key is wrong."))


def told(home: House) -> list[list[str]]:
    """The texts of each message of the last request."""
    messages = home.provider.requests[-1].messages
    return [[block.text for block in message.content if isinstance(block, Text)] for message in messages]


async def shown(home: House, session: str) -> list[str]:
    messages, _ = await home.app.display(session)
    return [block.text for message in messages for block in message.content if isinstance(block, Text)]


async def test_a_prompt_that_failed_is_told_while_the_context_lasts_and_left_out_after_a_load(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Hello."), REFUSED, REFUSED, say("Now."))
        for text in ("first", "failed", "failed too"):
            await home.run(live, text)
        await home.run(live, "then")
        assert told(home) == [["first"], ["Hello."], ["failed", "failed too", "then"]]
        home.provider.script(REFUSED)
        await home.run(live, "failed at last")
    for _ in range(2):  # the same every time
        async with house(tmp_path) as home:
            live = await home.reload(live.id)
            home.provider.script(REFUSED)
            await home.run(live, "failed again")
            assert told(home) == [["first"], ["Hello."], ["then"], ["Now."], ["failed again"]]
            home.provider.requests.clear()
    async with house(tmp_path) as home:
        all_shown = await shown(home, live.id)
        assert (
            all_shown
            == ["first", "Hello.", "failed", "failed too", "then", "Now.", "failed at last"] + ["failed again"] * 2
        )


async def test_a_prompt_that_failed_before_any_other_leaves_an_empty_transcript(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(REFUSED)
        await home.run(live, "failed")
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert live.agent.history.transcript.messages == ()
        await home.run(live, "again")
        assert told(home) == [["again"]]


async def test_what_had_any_answer_and_what_a_person_interrupted_stays(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(CUT)
        await home.run(live, "cut")
        home.provider.script(Turn(opens=anyio.Event()))
        live.prompt("interrupted")
        with anyio.fail_after(5):
            while not home.provider.requests[1:]:
                await anyio.lowlevel.checkpoint()
        live.cancel()
        await home.until_idle(live)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        await home.run(live, "then")
        assert told(home) == [["cut"], ["I was"], ["interrupted", "then"]]


async def test_an_unfinished_run_goes_on_with_its_prompt_alone(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(REFUSED, Turn(opens=anyio.Event()))
        await home.run(live, "failed")
        live.prompt("unfinished")
        with anyio.fail_after(5):
            while not home.provider.requests[1:]:
                await anyio.lowlevel.checkpoint()
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(REFUSED)
        live.resume_run()
        await home.until_idle(live)
        assert told(home) == [["unfinished"]]
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert live.agent.history.transcript.messages == ()  # it failed as well


async def test_a_compaction_after_a_load_is_read_back_without_what_came_to_nothing(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(REFUSED)
        await home.run(live, "failed")
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Now."))
        await home.run(live, "then")
        transcript = live.agent.history.transcript
        kept = tuple(message.id for message in transcript.messages)
        summary = Message(id="summary", role="user", content=(Text(text="In short."),))
        tokens = {"before_tokens": 2, "after_tokens": 1}
        live.agent.log.emit(Compacted(strategy="keep_recent", ok=True, message=summary, kept=kept, **tokens))
        transcript.compact(summary, kept)
        before = transcript.messages
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        assert live.agent.history.transcript.messages == before


async def test_a_prompt_that_failed_is_left_out_after_a_load_though_a_compaction_held_it_aside(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Hello."), REFUSED, say("In short."))
        await home.run(live, "first")
        await home.run(live, "failed")
        with anyio.fail_after(5):
            await live.compact().wait()
        await home.until_idle(live)
        [summary] = live.agent.history.transcript.messages
        assert summary.content[-1] == Text(text="failed")
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        await home.run(live, "then")
        assert told(home)[0][1:] == ["then"]


async def test_a_prompt_that_failed_after_its_run_was_suspended_is_left_out_after_a_load(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Hello."), REFUSED)
        await home.run(live, "first")
        live.prompt("failed")
        live.suspend()
        await home.until_idle(live)
        live.resume_run()
        await home.until_idle(live)
    async with house(tmp_path) as home:
        live = await home.reload(live.id)
        home.provider.script(say("Now."))
        await home.run(live, "then")
        assert told(home) == [["first"], ["Hello."], ["then"]]
