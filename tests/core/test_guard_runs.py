"""The guard in whole runs: whatever enters a transcript has passed it, and what it took out is nowhere else either."""

import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from agentcore.events import Compacted, Done, NumberedEvent, ToolEnd, ToolOutputDelta, UserMessage
from agentcore.guard.guard import WITHHELD
from agentcore.guard.scanning import Finding
from agentcore.messages import Text
from agentcore.ports.tools import Outcome, Tool, ToolRoom, ToolSpec
from agentcore.session import Submission
from agentcore.sessions.fold import fold
from agentcore.sessions.listing import Listing
from agentcore.sessions.store import project_of
from agentcore.sessions.waiting import HIDDEN
from agentcore.tools.catalogue import builtin_tools
from agentcore.turn import INTERRUPTED
from server.live import LiveSession
from server.schemas import AnswerBody
from tests.core.test_hooks_runs import notices, of_kind, script
from tests.core.test_queue import busy
from tests.fakes import House, call, house, say, use

pytestmark = pytest.mark.anyio

MAIL = "jane@example.com"
TAGGED = "[EMAIL REDACTED]"
MODES = ("redact", "reject")


class What(BaseModel):
    does: str = "return"


class Teller:
    """A tool that says an address, in each of the ways that a tool has."""

    spec = ToolSpec(name="tell", description="Tell.", input=What, read_only=True)

    def __init__(self) -> None:
        self.has_said = anyio.Event()

    async def run(self, input: What, room: ToolRoom) -> Outcome:
        room.say(f"printed {MAIL}")
        self.has_said.set()
        if input.does == "wait":
            await anyio.sleep_forever()
        return Outcome(f"returned {MAIL}", display=f"shown {MAIL}")

    def preview(self, input: What) -> str | None:
        return None


@pytest.fixture(autouse=True)
def teller(monkeypatch: pytest.MonkeyPatch) -> Teller:
    tool = Teller()

    def with_it(*parts: Any, **named: Any) -> list[Tool]:
        return [*builtin_tools(*parts, **named), tool]

    monkeypatch.setattr("agentcore.makers.builtin_tools", with_it)
    return tool


def guarding(root: Path, mode: str, more: str = "") -> None:
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "settings.toml").write_text(f'[guard]\nmode = "{mode}"\n{more}')


def hook(event: str, command: str) -> str:
    """A hook as it stands in the settings."""
    return f"[[hooks.{event}]]\n[[hooks.{event}.hooks]]\ntype = 'command'\ncommand = '{command}'\n"


def untagged(text: str) -> str:
    """Without the four characters that tell one value from another."""
    return re.sub(r" [0-9a-f]{4} REDACTED\]", " REDACTED]", text)


def sent(home: House, request: int = -1) -> list[str]:
    """The texts of the last message that the model got."""
    return [untagged(one.text) for one in home.provider.requests[request].messages[-1].content if isinstance(one, Text)]


def asked_with(home: House) -> str:
    """All that the model ever got."""
    return "".join(one.system + "".join(m.model_dump_json() for m in one.messages) for one in home.provider.requests)


def journal(root: Path) -> list[str]:
    """The lines that hold the address."""
    [path] = (root / "data" / "sessions").glob("*/*/journal.jsonl")
    return [line for line in path.read_text().splitlines() if MAIL in line]


def keeps(events: Sequence[NumberedEvent]) -> bool:
    """Whether no event holds the address."""
    return all(MAIL not in event.model_dump_json() for event in events)


async def same_after_reload(home: House, live: LiveSession) -> LiveSession:
    before = live.agent.history.transcript.messages
    await home.hub.close(live, "test")
    again = await home.reload(live.id)
    assert again.agent.history.transcript.messages == before
    return again


# --- what people say ---


async def test_a_guard_that_is_off_lets_everything_through(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("tell")), say("Done."))
        events = await home.run(live, f"write to {MAIL}")
    [end] = of_kind(events, ToolEnd)
    assert (end.output, end.display) == (f"returned {MAIL}", f"shown {MAIL}")
    assert [delta.text for delta in of_kind(events, ToolOutputDelta)] == [f"printed {MAIL}"]
    assert notices(events, "guard_found") == []


async def test_a_prompt_is_rewritten_for_the_model_and_for_people(tmp_path: Path) -> None:
    guarding(tmp_path, "redact")
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("Done."))
        events = await home.run(live, f"write to {MAIL}")
        assert sent(home) == [f"write to {TAGGED}"]
        [message] = of_kind(events, UserMessage)
        assert untagged(message.typed_text) == f"write to {TAGGED}"
        assert keeps(events)
        assert [json.loads(line)["type"] for line in journal(tmp_path)] == ["prompt"]
        await same_after_reload(home, live)


async def test_a_rejected_prompt_ends_its_run_blocked_and_reaches_nobody(tmp_path: Path) -> None:
    guarding(tmp_path, "reject")
    async with house(tmp_path) as home:
        live = await home.session()
        events = await home.run(live, f"write to {MAIL}")
        assert [done.stop_reason for done in of_kind(events, Done)] == ["blocked"]
        [told] = notices(events, "prompt_blocked")
        assert told == "The guard does not let this prompt through: it holds email. Send it without."
        assert (home.provider.requests, of_kind(events, UserMessage)) == ([], [])
        assert keeps(events)
        assert [json.loads(line)["type"] for line in journal(tmp_path)] == ["prompt"]
        again = await same_after_reload(home, live)
        assert (again.is_busy, again.agent.open_run) == (False, None)
        await home.run(again, "hello")
        assert sent(home) == ["hello"]


@pytest.mark.parametrize("mode", MODES)
async def test_an_address_in_a_mentioned_file_counts_as_said(tmp_path: Path, mode: str) -> None:
    guarding(tmp_path, mode)
    async with house(tmp_path) as home:
        (tmp_path / "work" / "a.txt").write_text(f"{MAIL}\n")
        live = await home.session()
        events = await home.run(live, "read @a.txt")
    assert keeps(events)
    assert MAIL not in asked_with(home)
    if mode == "reject":
        assert [done.stop_reason for done in of_kind(events, Done)] == ["blocked"]
    else:
        [message] = of_kind(events, UserMessage)
        assert (message.display_text, sent(home)[-1]) == ("read @a.txt", "read @a.txt")
        assert TAGGED in sent(home)[0]


@pytest.mark.parametrize("mode", MODES)
async def test_what_is_said_to_a_run_that_is_going_on_passes_as_well(tmp_path: Path, mode: str) -> None:
    guarding(tmp_path, mode)
    async with house(tmp_path) as home:
        live = await home.session()
        _, gate = await busy(home, live)
        submission = Submission(key="k", body_sha256="0")
        steered = live.prompt(f"write to {MAIL}", submission=submission, when_busy="steer")
        outcome = live.outcome_of(steered.prompt_id)
        gate.set()
        await home.until_idle(live)
        ended = await outcome.wait()
        assert ended is not None
        assert ended.stop_reason == "end_turn"
        again = live.agent.submitted(submission)
        assert again is not None
        assert again.result is not None
        assert again.result.stop_reason == "end_turn"
        events = home.events(live)
        assert MAIL not in asked_with(home)
        assert keeps(events)
        assert [done.stop_reason for done in of_kind(events, Done)] == ["end_turn"]
        messages = [untagged(one.typed_text) for one in of_kind(events, UserMessage)]
        assert messages == ["first", f"write to {TAGGED}"] if mode == "redact" else ["first"]
        assert len(notices(events, "prompt_blocked")) == (mode == "reject")
        reloaded = await same_after_reload(home, live)
        assert reloaded.state().queued_prompts == 0
        assert not reloaded.is_busy


@dataclass
class Slow:
    """Finds nothing, and takes until it is let go."""

    looks: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)

    def scan(self, text: str) -> Sequence[Finding]:
        self.looks.set()
        self.goes_on.wait()
        return []


async def test_a_prompt_that_is_cancelled_while_it_is_looked_at_is_shown_to_nobody(tmp_path: Path) -> None:
    guarding(tmp_path, "redact")
    slow = Slow()
    async with house(tmp_path, scanners=[slow]) as home:
        live = await home.session()
        live.prompt(f"write to {MAIL}")
        with anyio.fail_after(5):
            while not slow.looks.is_set():
                await anyio.lowlevel.checkpoint()
        live.cancel()
        await home.until_idle(live)
        slow.goes_on.set()
        events = home.events(live)
        assert [done.stop_reason for done in of_kind(events, Done)] == ["interrupted"]
        assert (home.provider.requests, keeps(events)) == ([], True)
        await same_after_reload(home, live)


@pytest.mark.parametrize(("mode", "expected"), [("redact", f"ask {TAGGED}"), ("reject", WITHHELD)])
async def test_a_note_is_rewritten_and_its_prompt_goes_on(tmp_path: Path, mode: str, expected: str) -> None:
    guarding(tmp_path, mode)
    async with house(tmp_path) as home:
        live = await home.session()
        live.agent.add_note(f"ask {MAIL}")
        events = await home.run(live, "hello")
        assert sent(home) == [f"<system-note>\n{expected}\n</system-note>", "hello"]
        assert keeps(events)
        await same_after_reload(home, live)


# --- what is derived of what people say ---


def titles(home: House, live: LiveSession) -> list[str | None]:
    """As the session, its reader, and the list of all sessions have it."""
    [path] = (home.root / "data" / "sessions").glob("*/*/journal.jsonl")
    read, [listed] = fold(path.read_bytes().splitlines()), Listing().summaries([path])
    return [title and untagged(title) for title in (live.state().title, read.settings.title, listed.title)]


@pytest.mark.parametrize(("mode", "title"), [("redact", f"write to {TAGGED}"), ("reject", None)])
async def test_a_title_is_made_of_what_was_let_through(tmp_path: Path, mode: str, title: str | None) -> None:
    guarding(tmp_path, mode)
    async with house(tmp_path) as home:
        live = await home.session()
        live.prompt(f"write to {MAIL}\nand more")
        assert titles(home, live) == [None] * 3
        await home.until_idle(live)
        assert titles(home, live) == [title] * 3
        await home.run(live, "hello")
        assert titles(home, live) == [title or "hello"] * 3
        again = await same_after_reload(home, live)
        assert titles(home, again) == [title or "hello"] * 3


async def test_a_prompt_that_a_hook_blocks_gives_no_title(tmp_path: Path) -> None:
    no = script(tmp_path, "no.py", "import json, sys; sys.exit(2 * ('first' in json.load(sys.stdin)['prompt']))")
    guarding(tmp_path, "off", hook("UserPromptSubmit", no))
    async with house(tmp_path) as home:
        live = await home.session()
        await home.run(live, "the first")
        assert titles(home, live) == [None] * 3
        await home.run(live, "the second")
        assert titles(home, live) == ["the second"] * 3


async def test_without_guard_and_hooks_a_session_has_its_title_at_once(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        live.prompt("hello")
        assert titles(home, live) == ["hello"] * 3
        await home.until_idle(live)


async def test_a_title_that_a_hook_gives_is_checked(tmp_path: Path) -> None:
    said = json.dumps({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "sessionTitle": f"To {MAIL}"}})
    guarding(tmp_path, "redact", hook("UserPromptSubmit", script(tmp_path, "title.py", f"print({said!r})")))
    async with house(tmp_path) as home:
        live = await home.session()
        events = await home.run(live, "hello")
        assert titles(home, live) == [f"To {TAGGED}"] * 3
        assert keeps(events)


@pytest.mark.parametrize(("mode", "expected"), [("redact", f"write to {TAGGED}"), ("reject", WITHHELD)])
async def test_a_queue_shows_no_text_and_one_prompt_of_it_what_was_let_through(
    tmp_path: Path, mode: str, expected: str
) -> None:
    guarding(tmp_path, mode)
    async with house(tmp_path) as home:
        live = await home.session()
        _, gate = await busy(home, live)
        ids = [live.prompt(text, when_busy="queue").prompt_id for text in (f"write to {MAIL}", f"say {MAIL}")]
        live.queue.reorder(list(reversed(ids)))
        live.queue.edit(ids[0], f"write to {MAIL}")
        hidden = [(one.text, one.is_cut) for one in live.snapshot().queue]
        assert hidden == [(HIDDEN, True)] * 2
        assert untagged(await live.agent.looked_at(live.queue.get(ids[0]).text)) == expected
        told = len(notices(home.events(live), "guard_found"))
        assert told == 0
        gate.set()
        await home.until_idle(live)
        assert keeps(home.events(live))
        again = await same_after_reload(home, live)
        assert again.state().queued_prompts == 0


# --- what a context begins with ---

KEY = "ghp_" + "a1B2" * 9


def surround(root: Path) -> None:
    """The address and a key in all that a context begins with; beside each of them something harmless."""
    written = {
        "work/AGENTS.md": f"Ask {MAIL} or @{MAIL}\nKey {KEY}",
        "config/AGENTS.md": "Be brief.",
        "home/.claude/skills/mine/SKILL.md": f"---\ndescription: Mail {MAIL}\n---\nx",
        "home/.claude/skills/other/SKILL.md": "---\ndescription: Another way\n---\nx",
    }
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_context_begins_with_is_checked(tmp_path: Path, mode: str) -> None:
    guarding(tmp_path, mode)
    async with house(tmp_path) as home:
        surround(tmp_path)
        live = await home.session(system_append=f"Answer {MAIL}.", mode="yolo")
        notes = tmp_path / "data" / "memory" / project_of(live.agent.cwd) / "MEMORY.md"
        notes.parent.mkdir(parents=True)
        notes.write_text(f"- The owner is {MAIL}\n")
        events = await home.run(live, "go")
        system = untagged(home.provider.requests[-1].system)
        assert (MAIL in system, KEY in system, keeps(events)) == (False, False, True)
        assert [json.loads(line)["type"] for line in journal(tmp_path)] == ["meta"]  # the settings as they were given
        assert "Be brief." in system
        assert "- other: Another way" in system
        shown = ("owner is", "- mine: Mail", f"Answer {TAGGED}.", f"Ask {TAGGED} or")
        assert [words in system for words in shown] == [mode == "redact"] * len(shown)
        assert system.count(WITHHELD) == (0 if mode == "redact" else 4)
        assert len(notices(events, "guard_found")) == 1
        home.provider.script(say("Done."))
        await home.run(live, "go on")
        assert untagged(home.provider.requests[-1].system) == system


async def test_a_run_that_goes_on_says_nothing_of_files_that_it_does_not_show(tmp_path: Path) -> None:
    guarding(tmp_path, "redact")
    async with house(tmp_path) as home:
        live = await home.session()
        live.prompt("go")
        home.provider.script(use(call("bash", command="make")))
        await home.until_asked(live)
        name = live.id
        live.finish()  # as a SIGKILL would leave it
    (tmp_path / "work" / "AGENTS.md").write_text(f"Ask {MAIL}.")
    async with house(tmp_path) as home:
        again = await home.reload(name)
        again.answer(again.requests.open[0].request_id, AnswerBody(allow=False))
        await home.until_idle(again)
        assert len(home.provider.requests) == 1
        assert notices(home.events(again), "guard_found") == []


# --- what tools say ---


@pytest.mark.parametrize(
    ("mode", "output", "display"),
    [("redact", f"returned {TAGGED}", f"shown {TAGGED}"), ("reject", WITHHELD, None)],
)
async def test_a_result_is_checked_with_what_people_are_shown_of_it(
    tmp_path: Path, mode: str, output: str, display: str | None
) -> None:
    guarding(tmp_path, mode)
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("tell", "a"), call("tell", "b")), say("Done."))
        events = await home.run(live, "go")
        ends = [(untagged(end.output), end.display and untagged(end.display)) for end in of_kind(events, ToolEnd)]
        assert ends == [(output, display)] * 2
        assert of_kind(events, ToolOutputDelta) == []
        assert keeps(events)
        assert journal(tmp_path) == []
        await same_after_reload(home, live)


@pytest.mark.parametrize(("mode", "expected"), [("redact", f"printed {TAGGED}\n{INTERRUPTED}"), ("reject", WITHHELD)])
async def test_what_a_cancelled_call_had_printed_is_checked(
    tmp_path: Path, teller: Teller, mode: str, expected: str
) -> None:
    guarding(tmp_path, mode)
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("tell", does="wait")))
        live.prompt("go")
        with anyio.fail_after(5):
            await teller.has_said.wait()
        live.cancel()
        await home.until_idle(live)
        events = home.events(live)
        assert [untagged(end.output) for end in of_kind(events, ToolEnd)] == [expected]
        assert keeps(events)
        await same_after_reload(home, live)


@pytest.mark.parametrize(("mode", "expected"), [("redact", f"ask {TAGGED}"), ("reject", WITHHELD)])
async def test_why_a_person_refused_a_call_is_checked(tmp_path: Path, mode: str, expected: str) -> None:
    guarding(tmp_path, mode)
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", command="true")), say("Done."))
        no = AnswerBody(allow=False, reason=f"ask {MAIL}")
        events = await home.run(live, "go", [no])
    [end] = of_kind(events, ToolEnd)
    assert expected in untagged(end.output)
    assert MAIL not in asked_with(home)


async def test_a_run_tells_once_what_was_found_and_the_next_one_tells_again(tmp_path: Path) -> None:
    guarding(tmp_path, "redact")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        for _ in range(2):
            home.provider.script(use(call("tell", "a"), call("tell", "b")), say("Done."))
            events = await home.run(live, f"write to {MAIL}")
            assert len(notices(events, "guard_found")) == 1


async def test_of_a_cancelled_call_nothing_is_told_where_looking_takes_too_long(
    tmp_path: Path, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentcore.call.GUARD_GRACE_S", 0.0)
    guarding(tmp_path, "redact")
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("tell", does="wait")))
        live.prompt("go")
        with anyio.fail_after(5):
            await teller.has_said.wait()
        live.cancel()
        await home.until_idle(live)
        assert [end.output for end in of_kind(home.events(live), ToolEnd)] == [INTERRUPTED]


# --- what hooks and summaries say ---


@pytest.mark.parametrize(("mode", "expected"), [("redact", f"ask {TAGGED}"), ("reject", WITHHELD)])
async def test_what_a_hook_puts_in_the_place_of_a_result_is_checked(tmp_path: Path, mode: str, expected: str) -> None:
    said = json.dumps({"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": f"ask {MAIL}"}})
    guarding(tmp_path, mode, hook("PostToolUse", script(tmp_path, "replace.py", f"print({said!r})")))
    async with house(tmp_path) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("bash", command="true")), say("Done."))
        events = await home.run(live, "go")
        assert [untagged(end.output) for end in of_kind(events, ToolEnd)] == [expected]
        assert keeps(events)


@pytest.mark.parametrize(("mode", "expected"), [("redact", f"ask {TAGGED}"), ("reject", WITHHELD)])
async def test_what_a_hook_adds_is_checked(tmp_path: Path, mode: str, expected: str) -> None:
    command = script(tmp_path, "context.py", f"print('ask {MAIL}')")
    guarding(tmp_path, mode, hook("UserPromptSubmit", command))
    async with house(tmp_path) as home:
        live = await home.session()
        events = await home.run(live, "hello")
        assert sent(home) == [f'<hook-context event="UserPromptSubmit">\n{expected}\n</hook-context>', "hello"]
        assert keeps(events)
        await same_after_reload(home, live)


@pytest.mark.parametrize("mode", MODES)
async def test_a_summary_is_rewritten_in_either_mode(tmp_path: Path, mode: str) -> None:
    guarding(tmp_path, mode)
    async with house(tmp_path) as home:
        live = await home.session()
        for text in ("one", "two"):
            await home.run(live, text)
        home.provider.script(say(f"<summary>\nThey are {MAIL}.\n</summary>"))
        start = len(home.events(live))
        live.compact()
        await home.until_idle(live)
        events = home.events(live)[start:]
        [compacted] = of_kind(events, Compacted)
        assert (compacted.ok, untagged(compacted.summary or "")) == (True, f"They are {TAGGED}.")
        assert keeps(events)
        await same_after_reload(home, live)


# --- scanners ---


class Failing:
    def scan(self, text: str) -> Sequence[Finding]:
        raise ValueError("the cause")


async def test_where_a_scanner_fails_the_text_is_withheld_and_the_cause_stays_here(tmp_path: Path) -> None:
    guarding(tmp_path, "redact")
    async with house(tmp_path, scanners=[Failing()]) as home:
        live = await home.session(mode="yolo")
        home.provider.script(use(call("tell")), say("Done."))
        events = await home.run(live, "plain words")
    assert sent(home, 0) == [WITHHELD]
    [end] = of_kind(events, ToolEnd)
    assert (end.output, end.display) == (WITHHELD, WITHHELD)
    assert "the cause" not in "".join(event.model_dump_json() for event in events)
