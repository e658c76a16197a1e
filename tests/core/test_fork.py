"""Forks: what comes along, what stays behind, and where a conversation can be split."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentcore.errors import BadRequest, NotFound, ProviderError, StorageUnavailable, Unprocessable
from agentcore.events import Cleared
from agentcore.messages import Block, Image, Message, Text
from agentcore.session import HistoryMessage
from agentcore.sessions import fork as forking
from agentcore.sessions.blobs import BlobStore
from agentcore.sessions.fold import fold
from agentcore.sessions.reading import read_lines
from agentcore.sessions.records import Load, Meta, Reserve, encode_record
from server.live import LiveSession
from server.problems import Problem
from server.schemas import AnswerBody
from tests.crash.stories import check_journal
from tests.fakes import House, Turn, call, house, kinds, say, use
from tests.pictures import picture

pytestmark = pytest.mark.anyio

ALWAYS = AnswerBody(allow=True, scope="session")


def directory_of(home: House, session: str) -> Path:
    [path] = (home.root / "data" / "sessions").glob(f"*/{session}")
    return path


def journal_of(home: House, session: str) -> list[dict[str, object]]:
    text = (directory_of(home, session) / "journal.jsonl").read_bytes()
    check_journal(text)
    return [json.loads(line) for line in text.splitlines()]


async def shown(home: House, session: str) -> list[HistoryMessage]:
    return (await home.app.display(session))[0]


def said(messages: Sequence[HistoryMessage]) -> list[tuple[object, ...]]:
    """Everything but the number, which is each session's own."""
    return [(one.index, one.id, one.role, one.content, one.source, one.prompt_id) for one in messages]


Told: TypeAlias = list[tuple[str, tuple[Block, ...]]]
"""Role and content of each message that the model is sent."""


def transcript_of(home: House, session: str) -> Told:
    """What a load would give the model."""
    lines = read_lines(directory_of(home, session) / "journal.jsonl")
    return [(one.role, one.content) for one in fold(lines).transcript.messages]


async def request_after(home: House, live: LiveSession) -> Told:
    """What the model is sent with the next prompt, without that prompt; it may stand in one message with results."""
    home.listen(live)
    home.provider.script(say("And so on."))
    await home.run(live, "next")
    *before, last = [(one.role, one.content) for one in home.provider.requests[-1].messages]
    assert last[1][-1] == Text(text="next")
    return [*before, (last[0], last[1][:-1])] if len(last[1]) > 1 else before


async def two_runs(home: House, **settings: object) -> LiveSession:
    """A session with a call that was allowed for the session in its first run, and a plain second one."""
    live = await home.session(**settings)
    home.provider.script(use(call("bash", "c1", command="echo one"), text="I look."), say("One."), say("Two."))
    await home.run(live, "first", [ALWAYS])
    await home.run(live, "second")
    return live


async def test_a_fork_goes_on_where_the_original_stands_and_leaves_it_alone(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home, mode="accept-edits", title="mine")
        before = journal_of(home, live.id)
        forked, message = await home.hub.fork(live.id, None, {"effort": "low"})
        assert message is None
        assert said(await shown(home, forked.id)) == said(await shown(home, live.id))
        assert journal_of(home, live.id) == before
        state = forked.state()
        assert (state.fork_of, state.title, state.mode, state.effort) == (live.id, "mine", "accept-edits", "low")
        assert await request_after(home, forked) == await request_after(home, live)


async def test_a_fork_is_loaded_again_as_it_was(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        forked, _ = await home.hub.fork(live.id, None, {})
        await home.hub.close(forked, "done with it")
        again = await home.reload(forked.id)
        assert again.state().fork_of == live.id
        assert {one.id: one.fork_of for one in await home.app.summaries()} == {live.id: None, forked.id: live.id}
        assert await request_after(home, again) == await request_after(home, live)


async def test_a_session_that_is_not_loaded_is_forked(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        await home.hub.close(live, "not needed")
        forked, _ = await home.hub.fork("latest", 4, {})
        assert said(await shown(home, forked.id)) == said(await shown(home, live.id))[:4]
        assert home.hub.find(live.id) is None


async def test_what_was_spent_granted_and_asked_stays_behind(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        forked, _ = await home.hub.fork(live.id, None, {})
        copied = {str(line["type"]) for line in journal_of(home, forked.id)}
        assert copied <= {*forking.COPIED, "meta", "load"}
        assert forked.state().usage.input == 0
        home.listen(forked)
        home.provider.script(use(call("bash", "c2", command="echo one")), say("Again."))
        events = await home.run(forked, "again", [AnswerBody(allow=False)])
        assert "permission_request" in kinds(events)
        assert [one.request_id for one in events if one.type == "permission_request"] == ["perm-1"]


async def test_the_events_of_a_fork_keep_their_time_and_get_its_numbers(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        forked, _ = await home.hub.fork(live.id, None, {})

        def copies(session: str) -> list[dict[str, object]]:
            return [line for line in journal_of(home, session) if line["type"] in forking.COPIED]

        ours = {"seq": 0, "session": ""}
        assert [one | ours for one in copies(forked.id)] == [one | ours for one in copies(live.id)]
        assert [one["seq"] for one in copies(forked.id)] == list(range(1, len(copies(live.id)) + 1))
        assert {one["session"] for one in copies(forked.id)} == {forked.id}
        assert forked.bus.head == 1_000_000
        assert journal_of(home, forked.id)[0]["fork_at"] == journal_of(home, live.id)[-1]["seq"]


def test_a_fork_with_more_than_a_million_events_reserves_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "STRIDE", 3)
    line = b'{"type":"notice","seq":%d,"session":"old","ts":1.000,"level":"info"}'
    meta = Meta.model_validate({"session": "new", "cwd": "/", "created": 2.0, "settings": {}})
    point, move = forking.ForkPoint(9), forking.Move(Path("/old"), Path("/new"))
    lines = list(forking.fork_lines(meta, [line % seq for seq in (7, 8, 9, 10)], point, move))
    copies = [line.replace(b"old", b"new") % seq for seq in (1, 2, 3)]
    records = [encode_record(one) for one in (meta, Load(base=0, ts=2.0), Reserve(until=5), Load(base=6, ts=2.0))]
    assert lines == [records[0], records[1], *copies[:2], records[2], copies[2], records[3]]


# --- where ---


BORDERS = [(0, 0), (3, 4), (4, 4), (5, 6), (6, 6)]
"""`at` as an index of `two_runs`, and how many messages come along."""


@pytest.mark.parametrize(("at", "kept"), BORDERS)
@pytest.mark.parametrize("by_id", [False, True])
async def test_a_border_of_a_run_is_a_place_to_fork(tmp_path: Path, at: int, kept: int, by_id: bool) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        history = await shown(home, live.id)
        place = history[at].id if by_id and at < len(history) else at
        forked, message = await home.hub.fork(live.id, place, {})
        assert said(await shown(home, forked.id)) == said(history)[:kept]
        typed = {0: "first", 4: "second"}.get(at)
        assert (None if message is None else message.typed_text) == typed


@pytest.mark.parametrize("at", [1, 2, 7, "msg_none", "-1"])
async def test_anything_else_is_none(tmp_path: Path, at: int | str) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        with pytest.raises(BadRequest):
            await home.hub.fork(live.id, at, {})
        assert [one.id for one in await home.app.summaries()] == [live.id]


async def test_the_title_of_a_prompt_that_is_taken_back_goes_with_it(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        titles = [(await home.hub.fork(live.id, at, {}))[0].state().title for at in (0, 4)]
        named = await two_runs(home, title="mine")
        titles.append((await home.hub.fork(named.id, 0, {}))[0].state().title)
        assert titles == [None, "first", "mine"]


async def test_no_fork_while_a_run_is_going_on(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(Turn(say("Well").parts, holds=anyio.Event()))
        live.prompt("go")
        with pytest.raises(Problem) as refused:
            await home.hub.fork(live.id, 0, {})
        assert refused.value.code == "session_busy"


async def test_a_run_that_a_crash_left_open_is_no_end(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(say("One."), use(call("bash", command="true")))
        await home.run(live, "first")
        live.prompt("second")
        await home.until_asked(live)
    async with house(tmp_path) as home:
        with pytest.raises(BadRequest):
            await home.hub.fork(live.id, None, {})
        forked, message = await home.hub.fork(live.id, 2, {})
        assert message is not None
        assert (message.typed_text, len(await shown(home, forked.id))) == ("second", 2)
        assert (forked.state().interrupted, forked.state().pending_permissions) == (False, 0)


async def test_a_fresh_context_before_the_place_is_one_in_the_fork(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        live.clear()
        assert isinstance(home.events(live)[-1], Cleared)
        forked, _ = await home.hub.fork(live.id, None, {})
        behind_the_run, _ = await home.hub.fork(live.id, 5, {})
        assert await request_after(home, forked) == []
        assert len(await request_after(home, behind_the_run)) == 6


async def test_a_note_that_waits_for_the_next_prompt_comes_along(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        live.agent.add_note("The first thing.")
        home.provider.script(say("One."))
        await home.run(live, "first")
        live.agent.add_note("The files were restored.")
        rewound, message = await home.hub.fork(live.id, 0, {})
        assert message is not None
        assert message.typed_text == "first"
        noted, _ = await home.hub.fork(live.id, None, {})
        assert rewound.agent.history.notes == ["The first thing."]
        assert noted.agent.history.notes == ["The files were restored."]


async def test_a_run_that_was_suspended_and_went_on_is_one(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", "c1", command="echo one")), say("One."))
        live.prompt("first")
        await home.until_asked(live)
        live.suspend()
        await home.until_idle(live)
        with pytest.raises(BadRequest):
            await home.hub.fork(live.id, None, {})
        live.answer("perm-1", AnswerBody(allow=True))
        await home.until_idle(live)
        forked, _ = await home.hub.fork(live.id, None, {})
        assert transcript_of(home, forked.id) == transcript_of(home, live.id)
        assert await request_after(home, forked) == await request_after(home, live)
        with pytest.raises(BadRequest):
            await home.hub.fork(live.id, 1, {})


async def test_what_was_said_to_a_run_that_was_going_on_is_no_place_to_fork(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        home.provider.script(use(call("bash", "c1", command="echo one")), say("One."))
        live.prompt("first")
        await home.until_asked(live)
        live.prompt("rather not", when_busy="steer")
        await home.until_idle(live)
        [steered] = [one.id for one in await shown(home, live.id) if one.source == "steer"]
        with pytest.raises(BadRequest):
            await home.hub.fork(live.id, steered, {})


# --- what is not whole ---


async def test_a_last_line_that_a_power_cut_tore_is_no_part_of_a_fork(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        whole = await shown(home, live.id)
        journal = directory_of(home, live.id) / "journal.jsonl"
        await home.hub.close(live, "not needed")
        for torn in (b'{"type":"no', b'{"type":"notice","seq":\0\0\0\n'):
            before = journal.read_bytes()
            journal.write_bytes(before + torn)
            forked, _ = await home.hub.fork(live.id, None, {})
            assert said(await shown(home, forked.id)) == said(whole)
            assert journal.read_bytes() == before + torn
            journal.write_bytes(before)


async def test_a_transcript_that_a_load_would_mend_is_mended_in_the_fork_and_stays_so(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
    journal = directory_of(home, live.id) / "journal.jsonl"
    lines = [line for line in journal.read_bytes().splitlines(keepends=True) if b'"tool_end"' not in line]
    journal.write_bytes(b"".join(lines))
    async with house(tmp_path) as home:
        forked, _ = await home.hub.fork(live.id, None, {})
        copied = (directory_of(home, forked.id) / "journal.jsonl").read_bytes().splitlines()
        assert [json.loads(line)["type"] for line in copied[-2:]] == ["repair", "notice"]
        told = await request_after(home, forked)
        await home.hub.close(forked, "done with it")
        assert transcript_of(home, forked.id)[: len(told)] == told


# --- rights and files ---


async def test_a_fork_has_the_mode_of_now_and_no_mode_that_is_off(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home, mode="yolo")
    async with house(tmp_path, allow_yolo=False) as home:
        forked, _ = await home.hub.fork(live.id, 0, {})
        assert forked.state().mode == "default"


async def test_a_session_of_another_folder_is_not_forked(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        home.app._store._roots = (tmp_path / "elsewhere",)
        with pytest.raises(Unprocessable):
            await home.hub.fork(live.id, 0, {})
        with pytest.raises(NotFound):
            await home.hub.fork("20200101-000000-aaaaaa", 0, {})


@pytest.mark.parametrize("is_mended", [False, True])
async def test_a_compacted_context_names_the_journal_of_the_fork(tmp_path: Path, is_mended: bool) -> None:
    async with house(tmp_path) as home:
        live = await two_runs(home)
        home.provider.script(say("<summary>One and two.</summary>"))
        assert await live.compact().wait() == "One and two."
        await home.until_idle(live)
        if is_mended:
            unanswered = Message(id="m", role="assistant", content=(call("bash", "c9", command="true"),))
            live.agent.history.transcript._messages.append(unanswered)
            home.provider.script(say("Mended."))
            await home.run(live, "third")
        forked, _ = await home.hub.fork(live.id, None, {})
        again, _ = await home.hub.fork(forked.id, None, {})
        for one in (forked, again):
            folder = f"is kept in {directory_of(home, one.id)}/journal*.jsonl"
            assert folder in one.agent.history.transcript.messages[0].content[0].text
            home.listen(one)
            path = str(directory_of(home, one.id))
            home.provider.script(use(call("grep", pattern="second", path=path, output_mode="content")), say("Found."))
            events = await home.run(one, "what did I say?")
            [end] = [event for event in events if event.type == "tool_end"]
            assert (end.is_error, "second" in end.output) == (False, True)


@pytest.mark.parametrize("can_link", [True, False])
async def test_attachments_come_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_link: bool) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no links here")

    if not can_link:
        monkeypatch.setattr(os, "link", refuse)
    async with house(tmp_path) as home:
        live = await home.session()
        kept = await live.agent.attachments.store(picture(), "image/png")
        block = await live.agent.attachments.of_blob(kept.blob)
        home.provider.script(say("A picture."))
        live.prompt("look", (block,))
        await home.until_idle(live)
        forked, message = await home.hub.fork(live.id, 0, {})
        assert message is not None
        assert message.typed_text == "look"
        assert [one.blob for one in message.content if isinstance(one, Image)] == [kept.blob]
        held = await home.app.blob(forked.id, kept.blob)
        assert held == await home.app.blob(live.id, kept.blob)
        assert (directory_of(home, forked.id) / "blobs" / kept.blob).stat().st_nlink == (2 if can_link else 1)


async def test_a_disk_that_is_full_leaves_no_half_fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: BlobStore, other: BlobStore) -> None:
        raise OSError(28, "No space left on device")

    async with house(tmp_path) as home:
        live = await two_runs(home)
        monkeypatch.setattr(BlobStore, "adopt", fail)
        with pytest.raises(StorageUnavailable):
            await home.hub.fork(live.id, None, {})
        assert [path.name for path in directory_of(home, live.id).parent.iterdir()] == [live.id]


# --- any story ---


STEPS = ["say", "tool", "deny", "fail", "cancel", "clear"]


async def play(home: House, live: LiveSession, step: str) -> None:
    match step:
        case "say":
            home.provider.script(say("Well."))
            await home.run(live, "talk")
        case "tool" | "deny":
            home.provider.script(use(call("bash", command="echo x")), say("So."))
            await home.run(live, step, [AnswerBody(allow=step == "tool")])
        case "fail":
            home.provider.script(Turn(refuses=ProviderError("quota", "Nothing left.")))
            await home.run(live, "fail")
        case "cancel":
            home.provider.script(use(call("bash", command="echo y")))
            live.prompt("stop")
            await home.until_asked(live)
            live.cancel()
            await home.until_idle(live)
        case _:
            live.clear()


async def borders_of(root: Path, steps: Sequence[str]) -> int:
    """Play the story, fork it at every message and prompt each fork; return at how many that could be."""
    async with house(root) as home:
        live = await home.session()
        told: dict[int, list[Told]] = {0: [[]]}
        for step in steps:
            await play(home, live, step)
            told.setdefault(len(await shown(home, live.id)), []).append(transcript_of(home, live.id))
        history = await shown(home, live.id)
        borders = 0
        for at in range(len(history) + 1):
            try:
                forked, message = await home.hub.fork(live.id, at, {})
            except BadRequest:
                continue
            borders += 1
            kept = await shown(home, forked.id)
            assert said(kept) == said(history)[: len(kept)]
            assert len(kept) in (at, at + 1)
            assert message is None or len(kept) == at
            before = transcript_of(home, forked.id)
            assert before in told[len(kept)]  # several, where a context was cleared
            assert await request_after(home, forked) == before
            check_journal((directory_of(home, forked.id) / "journal.jsonl").read_bytes())
        return borders


@given(steps=st.lists(st.sampled_from(STEPS), max_size=5))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_fork_at_any_border_of_any_story_can_be_prompted(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    runs = sum(step != "clear" for step in steps)
    assert anyio.run(borders_of, tmp_path_factory.mktemp("story"), steps) > runs
