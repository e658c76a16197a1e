"""A session is taken from one server by another: the old owner has no further effect, nothing is lost or doubled.

Two real servers on one data folder, and below them two owners of one journal that race.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import httpx
import pytest

from agentcore.errors import JournalDamaged, SessionLocked, StorageUnavailable, TakenOver
from agentcore.session import Settings
from agentcore.sessions import segments
from agentcore.sessions.journal import Journal
from agentcore.sessions.listing import Listing
from agentcore.sessions.reading import last_number, read_after, read_lines, whole_size
from agentcore.sessions.segments import FILE_NAME, fixed_sizes, path_of
from agentcore.sessions.store import SessionStore
from tests.crash.stories import STRIDE, check_journal, of_kind
from tests.crash.test_killed_server import is_running
from tests.daemon import WAIT_S, Daemon, Stream, numbered, running
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio

STORY = {
    "scenes": [
        {"match": "sleep", "turns": [{"tool_calls": [{"name": "bash", "input": {"command": "echo $$; sleep 61.25"}}]}]},
        {"match": "hello", "turns": [{"text": "Hello."}]},
        {
            "turns": [
                {"text": "I ask.", "tool_calls": [{"name": "bash", "input": {"command": "echo once >> ran.txt"}}]},
                {"text": "Done."},
            ]
        },
    ]
}
LAST_WORDS = ["permission_resolved", "done", "status", "session_closed"]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Daemon, Daemon]]:
    """Two servers on the same folders."""
    daemon = Daemon(tmp_path, ("--model", "scripted/story.json", "--allow-yolo"))
    daemon.script("story", STORY)
    with ExitStack() as stack:
        old, new = (stack.enter_context(running(tmp_path, *daemon.arguments)) for _ in range(2))
        yield old, new


async def begin(server: Daemon, **settings: object) -> str:
    async with server.client() as http:
        return str((await http.post("/v1/sessions", json=settings)).json()["id"])


async def ask_on(server: Daemon, session: str, stream: Stream) -> None:
    """Send a prompt and wait until its command waits for a person."""
    await stream.until("snapshot")
    async with server.client() as http:
        assert (await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go"})).status_code == 202
    await stream.until("permission_request")


async def load(server: Daemon, session: str, **more: object) -> httpx.Response:
    async with server.client() as http:
        return await http.post("/v1/sessions", json={"resume": session, **more})


async def allow(server: Daemon, session: str) -> httpx.Response:
    async with server.client() as http:
        return await http.post(f"/v1/sessions/{session}/permissions/perm-1", json={"allow": True})


def whole_journal(server: Daemon, session: str) -> bytes:
    return b"".join(line + b"\n" for line in read_lines(server.journal(session)))


async def test_a_second_server_is_refused_until_it_takes_over_and_then_the_old_one_ends(
    servers: tuple[Daemon, Daemon],
) -> None:
    old, new = servers
    session = await begin(old)
    async with old.stream(session) as stream:
        await ask_on(old, session, stream)
        before = old.lines(session)
        refused = await load(new, session)
        assert (refused.status_code, refused.json()["code"]) == (423, "session_locked")
        taken = await load(new, session, takeover=True)
        assert taken.status_code == 201
        assert (taken.json()["interrupted"], taken.json()["pending_permissions"]) == (True, 1)
        told = numbered(await stream.to_end())
    assert [frame.event for frame in told] == LAST_WORDS
    assert told[0].json["resolution"] == "cancelled"
    assert told[1].json["stop_reason"] == "taken_over"
    assert told[3].json["reason"] == "taken over by another server"
    assert old.lines(session) == before  # the closing words are in no journal

    assert (await allow(old, session)).status_code in (404, 410)
    assert (await load(old, session)).status_code == 423
    async with new.stream(session) as stream:
        await stream.until("snapshot")
        assert (await allow(new, session)).status_code == 204
        await stream.until_idle()
    events = check_journal(whole_journal(new, session))
    assert [event["stop_reason"] for event in of_kind(events, "done")] == ["end_turn"]
    assert (new.cwd / "ran.txt").read_text() == "once\n"


async def test_a_stopped_server_that_wakes_up_has_no_effect_any_more(servers: tuple[Daemon, Daemon]) -> None:
    old, new = servers
    session = await begin(old)
    async with old.stream(session) as stream, anyio.create_task_group() as group:
        await ask_on(old, session, stream)
        old.signal(signal.SIGSTOP)
        assert (await load(new, session, takeover=True)).status_code == 201
        answers: list[httpx.Response] = []

        async def answer_the_stopped_one() -> None:
            answers.append(await allow(old, session))

        group.start_soon(answer_the_stopped_one)  # before it can look: it has to notice by itself
        async with new.client() as http:
            done = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "hello", "wait": True})
        assert done.json()["text"] == "Hello."
        old.signal(signal.SIGCONT)
        told = numbered(await stream.to_end())
    assert [frame.event for frame in told] == LAST_WORDS
    assert [answer.status_code in (404, 410, 423) for answer in answers] == [True]
    assert not (new.cwd / "ran.txt").exists()
    events = check_journal(whole_journal(new, session))
    assert [event["stop_reason"] for event in of_kind(events, "done")] == ["interrupted", "end_turn"]


async def test_a_command_that_runs_ends_with_the_old_owner_and_is_told_as_unknown(
    servers: tuple[Daemon, Daemon],
) -> None:
    old, new = servers
    session = await begin(old, mode="yolo")
    async with old.stream(session) as stream, old.client() as http:
        await stream.until("snapshot")
        await http.post(f"/v1/sessions/{session}/prompt", json={"text": "sleep"})
        group = int((await stream.until("tool_output_delta"))[-1].json["text"])
        assert (await load(new, session, takeover=True)).status_code == 201
        told = await stream.to_end()
    assert "tool_end" not in [frame.event for frame in told]  # nothing is published that the journal does not have
    with anyio.fail_after(WAIT_S):
        while is_running(group):
            await anyio.lowlevel.checkpoint()
    async with new.stream(session) as stream, new.client() as http:
        await stream.until("snapshot")
        await http.post(f"/v1/sessions/{session}/resume", json={})
        await stream.until_idle()
    [end] = of_kind(check_journal(whole_journal(new, session)), "tool_end")
    assert end["output"].startswith("outcome unknown")


async def test_it_can_be_taken_back_and_every_message_is_there_for_every_reader(servers: tuple[Daemon, Daemon]) -> None:
    old, new = servers
    session, owners = await begin(old), (old, new, old, new)
    bases = []
    for at, owner in enumerate(owners):
        loaded = await load(owner, session, takeover=True)
        assert loaded.status_code == (200 if at == 0 else 201)
        bases.append(loaded.json()["last_seq"] // STRIDE)
        async with owner.client() as http:
            done = await http.post(f"/v1/sessions/{session}/prompt", json={"text": f"hello {at}", "wait": True})
            assert done.json()["text"] == "Hello."
    assert bases == [0, 1, 2, 3]
    events = check_journal(whole_journal(new, session))
    assert len(of_kind(events, "done")) == 4
    async with old.client() as other, new.client() as http:
        for client in (other, http):
            messages = (await client.get(f"/v1/sessions/{session}/messages")).json()["messages"]
            assert len(messages) == 8
            [listed] = (await client.get("/v1/sessions")).json()["sessions"]
            assert (listed["id"], listed["title"]) == (session, "hello 0")
        assert listed["loaded"] is True
        async with new.stream(session, after=0) as stream:
            await stream.until("gap")
            sent = numbered(await stream.until_seq(events[-1]["seq"]))
    assert [frame.data for frame in sent if frame.event != "text_delta"] == [
        line for line in whole_journal(new, session).splitlines() if b'"seq":' in line[:60]
    ]


async def test_a_takeover_of_a_free_or_own_session_is_a_load(servers: tuple[Daemon, Daemon]) -> None:
    old, new = servers
    session = await begin(old)
    assert (await load(old, session, takeover=True)).status_code == 200
    old.kill()
    with anyio.fail_after(5):
        assert (await load(new, session, takeover=True)).status_code == 201
    assert fixed_sizes(new.journal(session).parent) == ()
    async with new.client() as http:
        alone = await http.post("/v1/sessions", json={"takeover": True})
        assert (alone.status_code, alone.json()["code"]) == (400, "bad_request")


# --- two owners of one journal ---


META = b'{"type":"meta","format":1,"session":"s","cwd":"/w","created":1.0,"settings":{}}'


def event(number: int) -> bytes:
    return b'{"type":"notice","seq":%d,"session":"s","ts":1.0,"text":"%s"}' % (number, b"x" * (number % 300))


def begun(directory: Path) -> Journal:
    return Journal.create(directory, [META])


def lines_of(directory: Path) -> list[bytes]:
    return list(read_lines(directory / FILE_NAME))


def test_what_a_stale_owner_appends_is_refused_and_what_it_had_begun_is_ignored(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    old = begun(directory)
    old.append(event(1))
    new, tail = Journal.open(directory, takeover=True)
    assert (new.lease.generation, tail.start, tail.size) == (2, old.size, old.size)
    with pytest.raises(TakenOver):
        old.append(event(2))
    with path_of(directory, 1).open("ab") as late:
        late.write(event(3) + b"\n")  # as if it had looked before, and wrote after
    new.append(event(STRIDE + 1))
    path = directory / FILE_NAME
    assert lines_of(directory) == [META, event(1), event(STRIDE + 1)]
    assert read_after(path, 0, 2 * STRIDE) == lines_of(directory)[1:]
    assert read_after(path, 1, 2 * STRIDE) == [event(STRIDE + 1)]
    assert [last_number(path, end) for end in (whole_size(path), tail.size)] == [STRIDE + 1, 1]
    assert (new.size, whole_size(path)) == (tail.size + len(event(STRIDE + 1)) + 1,) * 2
    assert list(read_lines(path, start=tail.size)) == [event(STRIDE + 1)]
    assert list(read_lines(path, end=tail.size)) == [META, event(1)]
    old.close()
    new.close()
    assert Journal.open(directory)[0].lease.generation == 2


def test_the_list_follows_a_takeover(tmp_path: Path) -> None:
    directory, listing = tmp_path / "s", Listing()
    old = begun(directory)
    old.append(event(1) * 3)
    titles = [listing.summaries([directory / FILE_NAME])[0].title]
    new, _ = Journal.open(directory, takeover=True)
    new.append(b'{"type":"prompt","text":"Later"}')
    titles.append(listing.summaries([directory / FILE_NAME])[0].title)
    assert titles == [None, "Later"]


@pytest.mark.parametrize("chance", range(20))
def test_every_line_that_was_acknowledged_counts_however_the_takeover_falls(tmp_path: Path, chance: int) -> None:
    directory, kept = tmp_path / "s", [META]
    old = begun(directory)
    started = threading.Event()

    def write() -> None:
        with suppress(TakenOver):
            for number in range(1, 1_000_000):
                old.append(event(number))
                kept.append(event(number))
                if number == 10 * (chance + 1):
                    started.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert started.wait(5)
    new, tail = Journal.open(directory, takeover=True)
    writer.join(5)
    assert not writer.is_alive()
    found = lines_of(directory)
    assert found[: len(kept)] == kept
    assert len(found) - len(kept) <= 1  # at most the one that it could not know about
    new.append(event(STRIDE + 1))
    assert lines_of(directory) == [*found, event(STRIDE + 1)]
    assert tail.torn == b""


def test_of_takeovers_at_once_one_owner_is_left(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    owners, locked = [begun(directory)], []
    for _ in range(10):
        barrier = threading.Barrier(4)

        def take(barrier: threading.Barrier = barrier) -> None:
            barrier.wait(5)
            try:
                owners.append(Journal.open(directory, takeover=True)[0])
            except SessionLocked as error:
                locked.append(error)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(5)
        assert [owner for owner in owners if not owner.lease.is_lost] == [
            max(owners, key=lambda owner: owner.lease.generation)
        ]
    generations = [owner.lease.generation for owner in owners]
    assert sorted(generations) == list(range(1, len(owners) + 1))
    assert len(owners) + len(locked) == 41
    for owner in owners:
        owner.close()


def test_nobody_else_becomes_the_owner_between_reading_the_generation_and_taking_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a takeover in between, and the end of the first owner, leave a second owner of an old generation."""
    directory, others = tmp_path / "s", []
    old, real = begun(directory), fixed_sizes

    def read_then_others_come(where: Path) -> tuple[int, ...]:
        sizes = real(where)
        monkeypatch.undo()
        with suppress(SessionLocked):
            others.append(Journal.open(where, takeover=True)[0])
        old.close()
        return sizes

    monkeypatch.setattr("agentcore.sessions.journal.fixed_sizes", read_then_others_come)
    owners = [*others, Journal.open(directory)[0], *others]
    assert (others, [owner.lease.generation for owner in owners]) == ([], [1])
    owners[0].close()


KILLER = """
import os, signal, sys
from pathlib import Path
at = int(sys.argv[2])
def counted(real):
    def call(*given, **named):
        global at
        at -= 1
        if at < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)
    return call
from agentcore.sessions.journal import Journal
for name in ("open", "pwrite", "fsync", "write"):
    setattr(os, name, counted(getattr(os, name)))
Path.rename = counted(Path.rename)
Journal.open(Path(sys.argv[1]), takeover=True)
"""


def test_a_kill_at_any_step_of_a_takeover_leaves_a_session_that_can_be_loaded(tmp_path: Path) -> None:
    generations = set()
    for step in range(100):
        directory = tmp_path / str(step)
        old, kept = begun(directory), [META, event(1)]
        old.append(event(1))
        ended = subprocess.run([sys.executable, "-c", KILLER, directory, str(step)], check=False, timeout=WAIT_S)
        if not old.lease.is_lost:  # nobody has told it: it goes on, and nobody else may load the session
            old.append(event(2))
            kept.append(event(2))
            if not fixed_sizes(directory):
                with pytest.raises(SessionLocked):
                    Journal.open(directory)
        with suppress(TakenOver):
            old.append(event(3))
            kept.append(event(3))
        taken, _ = Journal.open(directory, takeover=True)  # while the old owner has not let go
        taken.append(event(STRIDE + 1))
        assert old.lease.is_lost
        assert lines_of(directory) == [*kept, event(STRIDE + 1)]
        taken.close()
        old.close()
        again, _ = Journal.open(directory)
        assert again.lease.generation == taken.lease.generation
        again.close()
        generations.add(taken.lease.generation)
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL
    assert step > 10
    assert generations == {2}


def test_a_holder_of_an_older_version_is_not_taken_over(tmp_path: Path) -> None:
    """It would never look."""
    directory = tmp_path / "s"
    old = begun(directory)
    os.truncate(directory / "lease", 0)
    (directory / "lease").write_bytes(b" " * 20)
    with pytest.raises(SessionLocked, match="older version"):
        Journal.open(directory, takeover=True)
    assert fixed_sizes(directory) == ()
    old.close()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"sizes":[-1]}', b'{"sizes":[true]}', b'{"sizes":3}'])
def test_ends_that_cannot_be_read_refuse_the_load(tmp_path: Path, text: bytes) -> None:
    begun(tmp_path / "s").close()
    (tmp_path / "s" / "segments.json").write_bytes(text)
    with pytest.raises(JournalDamaged, match=r"segments\.json"):
        Journal.open(tmp_path / "s")
    assert Listing().summaries([tmp_path / "s" / FILE_NAME]) == []


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_file_that_does_not_hold_what_was_fixed_refuses_the_load_and_is_named(tmp_path: Path, damage: str) -> None:
    directory = tmp_path / "s"
    old = begun(directory)
    new, tail = Journal.open(directory, takeover=True)
    old.close()
    new.close()
    if damage == "cut":
        os.truncate(path_of(directory, 1), tail.start - 1)
    else:
        path_of(directory, 1).unlink()
    with pytest.raises(JournalDamaged, match=rf"journal\.jsonl .* {tail.start} bytes"):
        Journal.open(directory)


def test_a_damaged_line_of_a_later_file_is_named_with_its_file(tmp_path: Path) -> None:
    store = SessionStore(tmp_path, (Path("/"),), FakeClock())
    session = store.create(Path("/w"), Settings())
    taken = store.open(session.id, takeover=True)
    for one in (session, taken):
        one.log.close()
    path = path_of(session.directory, 2)
    lines = path.read_bytes().splitlines(keepends=True)
    assert [json.loads(line)["type"] for line in lines] == ["lease", "load"]
    path.write_bytes(b"".join([lines[0], b"?\n", lines[1]]))
    with pytest.raises(JournalDamaged, match=r"^Line 2 of journal\.2\.jsonl "):
        store.open(session.id)


def test_a_torn_line_is_set_aside_in_a_later_file_too(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    old = begun(directory)
    new, tail = Journal.open(directory, takeover=True)
    old.close()
    new.append(event(STRIDE + 1))
    new.close()
    path = path_of(directory, 2)
    for kept in range(len(event(STRIDE + 1)) + 1):
        path.write_bytes(event(STRIDE + 1)[:kept])
        again, found = Journal.open(directory)
        again.close()
        assert (found.torn, found.size) == (event(STRIDE + 1)[:kept], tail.start)
        assert lines_of(directory) == [META]
    assert (directory / f"torn-{tail.start}").read_bytes() == event(STRIDE + 1)


def test_a_full_disk_leaves_the_session_with_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "s"
    old = begun(directory)

    def full(*_: object) -> int:
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(StorageUnavailable):
            Journal.open(directory, takeover=True)
    old.append(event(1))
    assert lines_of(directory) == [META, event(1)]
    old.close()


def test_looking_costs_next_to_nothing_and_a_takeover_is_seen_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "s"
    old = begun(directory)
    assert not old.lease.is_lost
    segments.fix_sizes(directory, (0,))  # not what the owner looks at
    assert not old.lease.is_lost
    (directory / "segments.json").unlink()
    Journal.open(directory, takeover=True)[0].close()
    assert old.lease.is_lost
    old.close()
    assert old.lease.is_lost  # also when it has let go
