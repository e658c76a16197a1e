"""Killed behind every line of a story in which everything waits: a queue that is edited, reordered and cut, a message
to a run, a suspension, a call that was deferred and one that waits for a person, a prompt that interrupts.

Whatever line was the last one: what was accepted and not taken back runs, once, and the session comes to an end.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.ports.models import ModelRequest
from agentcore.sessions.fold import fold
from server.live import LiveSession
from server.schemas import AnswerBody
from tests.core.test_deferral import FakeDeferringTool, hand_over
from tests.crash.stories import check_journal, kinds, of_kind
from tests.fakes import FakeProvider, House, call, house, say, use

pytestmark = pytest.mark.anyio
__all__ = ["hand_over"]

CALLS = use(call("hand_over", "a", token="t-a"), call("bash", "b", command="echo once >> ran.txt"), text="I begin.")


class OnceProvider(FakeProvider):
    """Asks for the two calls once in a conversation, and ends every other turn."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        has_called = any(message.tool_calls for message in request.messages)
        self.turns = [say("Done.") if has_called else CALLS]
        async with super().stream(request) as parts:
            yield parts


FIRST_LINES = 2  # `meta` and `load`
ALLOW = AnswerBody(allow=True)


def scripted(home: House) -> None:
    home.app.providers.provider = OnceProvider()  # type: ignore[attr-defined]


async def tell(home: House) -> LiveSession:
    live = await home.session(unattended="defer")
    live.prompt("go")
    first, _, third = (live.prompt(text, when_busy="queue").prompt_id for text in ("one", "two", "three"))
    live.queue.edit(first, "one, changed")
    live.queue.reorder([third])
    live.queue.remove(first)
    live.prompt("steered", when_busy="steer")
    live.suspend()
    await home.until_idle(live)
    await go_on(home, live)
    live.prompt("never mind")
    live.prompt("instead", when_busy="interrupt")
    await home.until_idle(live)
    return live


async def go_on(home: House, live: LiveSession) -> None:
    """Give every answer that is waited for and resume what is left, until nothing is."""
    with anyio.fail_after(10):
        while True:
            await home.until_idle(live)
            state = live.state()
            if live.requests.open:
                live.answer(live.requests.open[0].request_id, ALLOW)
            elif state.deferred:
                live.answer_deferred(state.deferred[0].token, "Here.", is_error=False)
            elif state.interrupted or state.suspended or state.queued_prompts:
                live.resume_run()
            else:
                return


async def cancel(home: House, live: LiveSession) -> None:
    live.cancel()
    await go_on(home, live)


async def prompt_instead(home: House, live: LiveSession) -> None:
    live.prompt("something else", when_busy="interrupt")
    await go_on(home, live)


def accepted(lines: list[bytes]) -> Iterator[str]:
    """Ids of the prompts that these lines accept and do not take back."""
    for line in map(json.loads, lines):
        if line["type"] == "prompt":
            yield line["prompt_id"]


def removed(lines: list[bytes]) -> set[str]:
    """Ids of the prompts that were in the queue, and left it without having begun."""
    waited: set[str] = set()
    gone: set[str] = set()
    begun: set[str] = set()
    for line in map(json.loads, lines):
        if line["type"] == "begin":
            begun.add(line["prompt_id"])
        elif line["type"] == "queue_update":
            now = {prompt["prompt_id"] for prompt in line["queue"]}
            gone |= waited - now - begun
            waited = now
    return gone


@pytest.mark.parametrize("way", [go_on, cancel, prompt_instead])
async def test_a_kill_behind_any_line_loses_no_prompt_and_repeats_no_effect(
    tmp_path: Path, hand_over: FakeDeferringTool, way: Callable[[House, LiveSession], Awaitable[None]]
) -> None:
    async with house(tmp_path) as home:
        scripted(home)
        session = (await tell(home)).id
        [path] = (tmp_path / "data" / "sessions").glob(f"*/{session}/journal.jsonl")
    whole = path.read_bytes().splitlines(keepends=True)
    assert {"begin", "deferred", "queue_update"} <= {json.loads(line)["type"] for line in whole}
    for count in range(FIRST_LINES, len(whole) + 1):
        told = f"killed behind line {count}: {whole[count - 1][:80]!r}"
        before = revive(path, whole[:count])
        (tmp_path / "work" / "ran.txt").unlink(missing_ok=True)
        hand_over.runs.clear()
        async with house(tmp_path) as home:
            scripted(home)
            live = await home.reload(session)
            await way(home, live)
            assert (live.state().busy, live.state().queued_prompts, live.state().deferred) == (False, 0, ()), told
            check_same_as_its_journal(live, path, told)
        lines = path.read_bytes().splitlines(keepends=True)
        after = check_journal(path.read_bytes())
        said = [event["prompt_id"] for event in of_kind(after, "user_message")]
        assert sorted(said) == sorted(set(accepted(lines)) - removed(whole[:count])), told
        dones = {event["prompt_id"] for event in of_kind(after, "done") if event["stop_reason"] != "suspended"}
        own = {event["prompt_id"] for event in of_kind(after, "user_message") if event["source"] == "prompt"}
        assert dones == own, told
        assert len(of_kind(after, "turn_start")) == len(of_kind(after, "turn_end")), told
        check_effects(before, tmp_path, hand_over, told)


def revive(path: Path, lines: list[bytes]) -> list[bytes]:
    """Leave a journal as a kill would."""
    path.write_bytes(b"".join(lines))
    for left in path.parent.glob("torn-*"):
        left.unlink()
    return lines


def check_effects(before: list[bytes], root: Path, hand_over: FakeDeferringTool, told: str) -> None:
    """What had begun before the kill is not begun again, but for what only reads and was not deferred yet."""
    file = root / "work" / "ran.txt"
    runs = file.read_text().count("once") if file.exists() else 0
    has_begun = any(b'"type":"tool_start"' in line and b'"bash"' in line for line in before)
    assert runs <= (0 if has_begun else 1), told
    was_deferred = any(line.startswith(b'{"type":"deferred"') for line in before)
    assert len(hand_over.runs) <= (0 if was_deferred else 1), told


def check_same_as_its_journal(live: LiveSession, path: Path, told: str) -> None:
    """The live session keeps the same facts as the fold over its journal."""
    history = fold(path.read_bytes().splitlines())
    assert facts(history) == facts(live.agent.history), told
    assert tuple(history.pending.values()) == live.requests.open, told


def facts(history: Any) -> tuple[Any, ...]:
    return (
        history.transcript.messages,
        history.queue.prompts,
        history.inbox.waiting,
        history.deferrals.open,
        history.run,
        history.resolved,
        history.ledger.turns,
        history.ledger.run_turns,
        history.ledger.total,
    )


async def test_a_session_that_is_stopped_while_everything_waits_keeps_the_same_facts(
    tmp_path: Path, hand_over: FakeDeferringTool
) -> None:
    async with house(tmp_path) as home:
        scripted(home)
        live = await home.session(unattended="defer")
        live.prompt("go")
        live.prompt("queued", when_busy="queue")
        await home.until_idle(live)
        assert live.state().suspended
        [path] = (tmp_path / "data" / "sessions").glob(f"*/{live.id}/journal.jsonl")
        check_same_as_its_journal(live, path, "suspended")
        live.cancel()
        live.prompt("steered", when_busy="steer")
        check_same_as_its_journal(live, path, "running")
        await home.until_idle(live)
        assert kinds(check_journal(path.read_bytes()))[-1] == "status"
