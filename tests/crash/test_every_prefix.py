"""Killed behind every line of a run's journal, one after the other: what is left goes on, ends, or is cancelled.

The page cache survives SIGKILL, so what a kill leaves is a prefix of the journal; here every one of them is loaded.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.events import TextDelta
from agentcore.ports.models import ModelRequest
from agentcore.providers.scripted.provider import ScriptedProvider
from agentcore.providers.scripted.script import Script
from server.live import LiveSession
from server.schemas import AnswerBody
from tests.crash.stories import check_journal, kinds, of_kind
from tests.fakes import House, house

pytestmark = pytest.mark.anyio

STORY = Script.model_validate(
    {
        "turns": [
            {
                "text": "I look, then I write.",
                "tool_calls": [
                    {"name": "read", "input": {"file_path": "here.txt"}},
                    {"name": "bash", "input": {"command": "echo once >> ran.txt"}},
                ],
            },
            {"text": "Done."},
        ]
    }
)
ALLOW = AnswerBody(allow=True)
FIRST_LINES = 2  # `meta` and `load`: a session that has no prompt yet


class CountingProvider(ScriptedProvider):
    """Plays the story and counts the calls of each turn."""

    def __init__(self) -> None:
        super().__init__(STORY)
        self.answered: list[int] = []
        """How many answers of the model each call came with."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        self.answered.append(sum(message.role == "assistant" for message in request.messages))
        async with super().stream(request) as parts:
            yield parts


@dataclass
class Crashed:
    """One session and the lines that its first, undisturbed run wrote."""

    root: Path
    session: str
    path: Path
    lines: list[bytes]

    def kill_behind(self, count: int) -> list[dict[str, Any]]:
        """Leave the first so many lines; return the events among them."""
        for left in self.path.parent.glob("torn-*"):
            left.unlink()
        self.path.write_bytes(b"".join(self.lines[:count]))
        (self.root / "work" / "ran.txt").unlink(missing_ok=True)
        return check_journal(self.path.read_bytes())

    @property
    def runs(self) -> int:
        """How often the command took effect since the kill."""
        file = self.root / "work" / "ran.txt"
        return file.read_text().count("once") if file.exists() else 0


@asynccontextmanager
async def restarted(root: Path) -> AsyncIterator[tuple[House, CountingProvider]]:
    async with house(root) as home:
        provider = CountingProvider()
        home.app.providers.provider = provider  # type: ignore[attr-defined, assignment]
        yield home, provider


@pytest.fixture
async def crashed(tmp_path: Path) -> Crashed:
    async with restarted(tmp_path) as (home, _):
        (tmp_path / "work" / "here.txt").write_text("It is here.\n")
        live = await home.session()
        await home.run(live, "go", [ALLOW])
        [path] = (tmp_path / "data" / "sessions").glob(f"*/{live.id}/journal.jsonl")
    return Crashed(tmp_path, live.id, path, path.read_bytes().splitlines(keepends=True))


async def until_idle(live: LiveSession) -> None:
    """Let the run that was just started go on to its end, and allow whatever it asks."""
    with anyio.fail_after(10):
        while live.is_busy:
            if live.requests.open:
                live.answer(live.requests.open[0].request_id, ALLOW)
            await anyio.lowlevel.checkpoint()


async def go_on(live: LiveSession) -> None:
    if live.requests.open:
        live.answer(live.requests.open[0].request_id, ALLOW)
    else:
        live.resume_run()
    await until_idle(live)


async def cancel(live: LiveSession) -> None:
    assert live.cancel()
    assert not live.is_busy


async def prompt_instead(live: LiveSession) -> None:
    live.prompt("something else")
    await until_idle(live)


@pytest.mark.parametrize("way", [go_on, cancel, prompt_instead])
async def test_a_kill_behind_any_line_loses_nothing_and_repeats_no_effect(
    crashed: Crashed, way: Callable[[LiveSession], Any]
) -> None:
    for count in range(FIRST_LINES, len(crashed.lines) + 1):
        before = crashed.kill_behind(count)
        told = f"killed behind line {count}: {crashed.lines[count - 1][:60]!r}"
        was_open = b'"type":"prompt"' in b"".join(crashed.lines[:count]) and "done" not in kinds(before)
        async with restarted(crashed.root) as (home, provider):
            live = await home.reload(crashed.session)
            assert live.state().interrupted == was_open, told
            if was_open:
                await way(live)
            check_way(way, crashed, before, provider, told)
            await prompt_instead(live)
            assert (live.state().busy, live.state().interrupted) == (False, False), told
        after = check_journal(crashed.path.read_bytes())
        assert after[: len(before)] == before, told
        assert kinds(after)[-1] == "status", told
        assert len(of_kind(after, "done")) == len(of_kind(after, "user_message")), told


def check_way(
    way: object, crashed: Crashed, before: list[dict[str, Any]], provider: CountingProvider, told: str
) -> None:
    """What each way does with the rest of the run, as far as the lines before the kill say."""
    after = check_journal(crashed.path.read_bytes())
    if "done" in kinds(before) or b'"type":"prompt"' not in crashed.path.read_bytes():
        return
    reason = of_kind(after, "done")[0]["stop_reason"]
    answers = len(of_kind(before, "assistant_message"))
    started = {event["call_id"] for event in of_kind(before, "tool_start") if event["tool_name"] == "bash"}
    ended = {event["call_id"] for event in of_kind(before, "tool_end")}
    has_begun = "user_message" in kinds(before)
    if way is prompt_instead and not has_begun:
        assert reason == "end_turn", told  # what was accepted runs, and before what comes after it
    elif way is not go_on:
        assert reason == "interrupted", told
        assert all(event["resolution"] != "expired" for event in of_kind(after, "permission_resolved")), told
    if way is cancel:
        assert (crashed.runs, provider.answered) == (0, []), told
    if way is go_on:
        assert reason == "end_turn", told
        assert provider.answered == list(range(answers, 2)), told  # no model call is paid for twice
        assert crashed.runs == (0 if started else 1), told
    [result] = [event for event in of_kind(after, "tool_end") if event["tool_name"] == "bash"][:1] or [None]
    if result is not None and started - ended:
        assert result["output"].startswith("outcome unknown"), told
        assert result["is_error"], told


async def test_an_answer_that_was_given_is_not_asked_for_again(crashed: Crashed) -> None:
    at = next(i for i, line in enumerate(crashed.lines) if line.startswith(b'{"type":"permission_resolved"'))
    before = crashed.kill_behind(at + 1)
    async with restarted(crashed.root) as (home, _):
        live = await home.reload(crashed.session)
        assert live.requests.open == ()
        await go_on(live)
    after = check_journal(crashed.path.read_bytes())[len(before) :]
    assert of_kind(after, "permission_request") == []
    assert crashed.runs == 1


async def test_a_read_that_was_going_on_runs_again(crashed: Crashed) -> None:
    at = next(i for i, line in enumerate(crashed.lines) if line.startswith(b'{"type":"tool_start"'))
    crashed.kill_behind(at + 1)
    async with restarted(crashed.root) as (home, _):
        live = await home.reload(crashed.session)
        await go_on(live)
    [read, _] = of_kind(check_journal(crashed.path.read_bytes()), "tool_end")
    assert (read["tool_name"], read["is_error"]) == ("read", False)
    assert "It is here." in read["output"]


async def test_a_kill_before_the_result_loses_the_grant_for_the_session(crashed: Crashed) -> None:
    """A crash never widens rights: the rule of the answer is not in force for the next run."""
    async with restarted(crashed.root) as (home, _):
        live = await home.session()
        live.prompt("go")
        request = await home.until_asked(live)
        live.answer(request.request_id, AnswerBody(allow=True, scope="session"))
        [path] = (crashed.root / "data" / "sessions").glob(f"*/{live.id}/journal.jsonl")
    assert b'"type":"grant"' not in path.read_bytes()
    async with restarted(crashed.root) as (home, _):
        live = await home.reload(live.id)
        live.resume_run()
        await until_idle(live)
        live.prompt("go")
        assert await home.until_asked(live)
        assert live.cancel()
        await until_idle(live)
    check_journal(path.read_bytes())


async def test_the_numbers_of_a_second_million_are_reserved_before_they_are_given_out(
    crashed: Crashed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ("log", "fold", "store"):
        monkeypatch.setattr(f"agentcore.sessions.{room}.STRIDE", 10)
    bases = []
    for _ in range(3):
        async with restarted(crashed.root) as (home, _):
            live = await home.reload(crashed.session)
            bases.append(live.bus.head)
            for text in "abcdefghijklm":
                live.agent.log.emit(TextDelta(text=text))  # no line of the journal tells of these numbers
            assert live.bus.head == bases[-1] + 13
    assert [base % 10 for base in bases] == [0, 0, 0]
    assert bases[1] > bases[0] + 13
    assert bases[2] > bases[1] + 13
