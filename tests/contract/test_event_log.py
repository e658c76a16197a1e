"""The contract of every event log."""

import errno
import os
from pathlib import Path

import pytest

from agentcore.encoding import head_of
from agentcore.errors import StorageUnavailable, TakenOver
from agentcore.events import EVENTS, Done, Status, TextDelta, UserMessage
from agentcore.messages import Text
from agentcore.sessions.journal import FILE_NAME, Journal
from agentcore.sessions.log import STRIDE, JournalLog
from agentcore.sessions.reading import read_lines
from agentcore.sessions.records import Grant
from agentcore.usage import Usage
from tests.fakes import FakeClock

pytestmark = pytest.mark.anyio

DONE = Done(run_id="r", stop_reason="end_turn", text="", usage=Usage(), turns=1)


def make(tmp_path: Path, base: int = 0) -> JournalLog:
    return JournalLog("20260101-000000-aaaaaa", Journal.create(tmp_path / "s"), base, FakeClock())


async def test_numbers_are_given_in_order_and_only_durable_events_are_journaled(tmp_path: Path) -> None:
    log, heard = make(tmp_path), []
    log.listen(lambda seq, kind, line: heard.append((seq, kind, line)))
    assert [log.emit(Status(busy=True)), log.emit(TextDelta(text="x")), log.emit(DONE)] == [1, 2, 3]
    assert log.last_seq == 3
    assert [(seq, kind) for seq, kind, _ in heard] == [(1, "status"), (2, "text_delta"), (3, "done")]
    # the same bytes in the journal and on the stream
    assert list(read_lines(tmp_path / "s" / FILE_NAME)) == [line for seq, _, line in heard if seq != 2]


async def test_an_event_reads_back_as_it_was_with_its_envelope(tmp_path: Path) -> None:
    log, heard = make(tmp_path), []
    log.listen(lambda seq, kind, line: heard.append(line))
    text = 'quote " slash \\ \u2028\u2029\u0085 \U0001f600'
    event = UserMessage(id="m", content=(Text(text=text),), turn=3)
    log.emit(event)
    read = EVENTS.validate_json(heard[0])
    assert read == event.model_copy(update={"seq": 1, "session": "20260101-000000-aaaaaa", "ts": 1_800_000_000.0})
    assert head_of(heard[0]) == ("user_message", 1)
    assert len(heard[0].decode().splitlines()) == 1


async def test_a_failing_listener_is_left_out_and_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, heard = make(tmp_path), []

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    log.listen(fail)
    log.listen(lambda seq, kind, line: heard.append(seq))
    log.emit(Status(busy=True))
    log.emit(Status(busy=False))
    assert heard == [1, 2]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_a_listener_may_leave_while_being_told(tmp_path: Path) -> None:
    log, heard = make(tmp_path), []

    def once(seq: int, kind: str, line: bytes) -> None:
        heard.append(("once", seq))
        leave()

    leave = log.listen(once)
    log.listen(lambda seq, kind, line: heard.append(("always", seq)))
    log.emit(Status(busy=True))
    log.emit(Status(busy=False))
    assert heard == [("once", 1), ("always", 1), ("always", 2)]


async def test_a_write_that_fails_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, heard = make(tmp_path), []
    log.listen(lambda seq, kind, line: heard.append(seq))
    log.emit(Status(busy=True))
    monkeypatch.setattr(os, "write", lambda file, data: 3)
    with pytest.raises(StorageUnavailable):
        log.emit(DONE)
    assert (heard, log.last_seq) == ([1], 1)
    log.say_last(DONE)  # the closing words go to the listeners alone
    assert (heard, len(list(read_lines(tmp_path / "s" / FILE_NAME)))) == ([1, 2], 1)
    with pytest.raises(StorageUnavailable):
        await log.sync()


async def test_a_further_million_is_reserved_before_its_first_number(tmp_path: Path) -> None:
    log = make(tmp_path, base=0)
    log._last = STRIDE - 2  # a session that has come this far
    log.emit(Status(busy=True))
    assert b'"reserve"' not in (tmp_path / "s" / FILE_NAME).read_bytes()
    log.emit(TextDelta(text="over"))
    assert b'{"type":"reserve","until":1999999}' in (tmp_path / "s" / FILE_NAME).read_bytes()
    assert log.last_seq == STRIDE


async def test_a_million_that_could_not_be_reserved_is_not_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, heard = make(tmp_path), []
    log.listen(lambda seq, kind, line: heard.append(seq))
    log._last = STRIDE - 1

    def fail(file: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", fail)
    for event in (TextDelta(text="x"), TextDelta(text="y"), DONE):
        with pytest.raises(StorageUnavailable):
            log.emit(event)
    assert (log.say_last(DONE), heard) == (STRIDE - 1, [])


async def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log, heard = make(tmp_path), []
    log.listen(lambda seq, kind, line: heard.append(seq))
    log.emit(Status(busy=True))
    log.close()
    log.emit(Status(busy=False))
    await log.sync()
    assert heard == [1]
    assert len(list(read_lines(tmp_path / "s" / FILE_NAME))) == 1


async def test_a_log_that_was_taken_over_publishes_nothing_more(tmp_path: Path) -> None:
    log, heard = make(tmp_path), []
    log.listen(lambda seq, kind, line: heard.append(seq))
    log.emit(Status(busy=True))
    new, _ = Journal.open(tmp_path / "s", takeover=True)
    for say in (
        lambda: log.emit(DONE),
        lambda: log.emit(TextDelta(text="x")),
        lambda: log.record(Grant(rule="bash(ls)")),
    ):
        with pytest.raises(TakenOver):
            say()
    assert (heard, log.last_seq, log.is_taken_over) == ([1], 1, True)
    with pytest.raises(TakenOver):
        await log.sync()
    log.say_last(DONE)  # the closing words go to the listeners alone
    assert (heard, len(list(read_lines(tmp_path / "s" / FILE_NAME)))) == ([1, 2], 1)
    log.close()
    with pytest.raises(TakenOver):
        await log.sync()  # also when it was closed meanwhile: what the caller does next may be an effect
    assert not new.lease.is_lost


@pytest.mark.parametrize("at", ["write", "fdatasync"])
async def test_a_takeover_in_the_middle_is_seen_before_anything_follows_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The line is written or synced already, and whoever takes over may have read up to a place before it."""
    log, heard = make(tmp_path), []
    log.listen(lambda seq, kind, line: heard.append(seq))
    log.emit(Status(busy=True))
    real = getattr(os, at)

    def take_over_first(*given: object) -> object:
        monkeypatch.undo()
        Journal.open(tmp_path / "s", takeover=True)
        return real(*given)

    async def emit() -> None:
        log.emit(DONE)

    monkeypatch.setattr(os, at, take_over_first)
    with pytest.raises(TakenOver):
        await (emit() if at == "write" else log.sync())
    assert heard == [1]
    assert len(list(read_lines(tmp_path / "s" / FILE_NAME))) == 1


@pytest.mark.parametrize("way", ["deleted", "replaced", "moved", "unlocked"])
async def test_a_journal_that_is_gone_below_the_session_is_noticed_at_the_next_barrier(
    tmp_path: Path, way: str
) -> None:
    log, heard = make(tmp_path), []
    log.listen(lambda seq, kind, line: heard.append(seq))
    log.emit(Status(busy=True))
    await log.sync()
    path = tmp_path / "s" / FILE_NAME
    if way == "deleted":
        path.unlink()
    elif way == "replaced":
        path.with_name("other").write_bytes(path.read_bytes())
        path.with_name("other").rename(path)
    elif way == "moved":
        path.parent.rename(tmp_path / "elsewhere")
    else:
        (tmp_path / "s" / "lease").unlink()  # a second process would believe the session free
    log.emit(Status(busy=False))
    with pytest.raises(StorageUnavailable, match="deleted, moved or replaced"):
        await log.sync()
    assert log.is_broken
    with pytest.raises(StorageUnavailable):
        log.emit(DONE)
    log.say_last(DONE)
    assert heard == [1, 2, 3]  # the stream goes on to its last words


async def test_sync_reaches_the_disk_once_for_all_that_was_emitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, syncs, real = make(tmp_path), [], os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda file: (syncs.append(file), real(file)))
    log.emit(Status(busy=True))
    log.emit(DONE)
    await log.sync()
    await log.sync()
    assert len(syncs) == 1


async def test_a_log_that_trusts_the_page_cache_waits_for_no_disk_and_still_notices_a_lost_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, syncs = make(tmp_path), []
    log.trust_page_cache()
    monkeypatch.setattr(os, "fdatasync", syncs.append)
    log.emit(Status(busy=True))
    await log.sync()
    assert syncs == []
    [path] = tmp_path.rglob("*.jsonl")
    path.unlink()
    log.emit(DONE)
    with pytest.raises(StorageUnavailable):
        await log.sync()
