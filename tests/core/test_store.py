"""The sessions on disk: made whole or not at all, found by name, listed at the cost of what is new."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.errors import AmbiguousPrefix, NotFound, StorageUnavailable, Unprocessable
from agentcore.events import Notice, SessionUpdated
from agentcore.session import Settings
from agentcore.sessions import listing
from agentcore.sessions.journal import FILE_NAME, Journal
from agentcore.sessions.records import Prompt
from agentcore.sessions.store import OpenSession, SessionStore
from agentcore.settings.private import add_allow_rule, user_file
from tests.fakes import FakeClock, house

ROOTS = (Path("/"),)

CWD = Path("/work")
PROMPT = Prompt(prompt_id="p", run_id="r", text="First line\nsecond", ts=1.0)


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "data" / "sessions", ROOTS, FakeClock())


def made(store: SessionStore, text: str | None = "hello") -> OpenSession:
    """A session with one prompt that nobody holds any more."""
    session = store.create(CWD, Settings())
    if text is not None:
        session.log.record(PROMPT.model_copy(update={"text": text}))
    session.log.close()
    return session


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def fail(number: int) -> Callable[..., None]:
    def failing(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return failing


# --- creation ---


def test_every_folder_on_the_way_to_a_session_is_private(store: SessionStore, tmp_path: Path) -> None:
    folder = made(store).directory
    while folder != tmp_path:
        assert folder.stat().st_mode & 0o777 == 0o700, folder
        folder = folder.parent
    add_allow_rule(user_file(tmp_path / "config" / "deep"), "bash(ls)")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("config", "config/deep")] == [0o700] * 2


def test_a_new_session_is_durable_with_every_folder_that_leads_to_it(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(str(Path(f"/proc/self/fd/{file}").readlink())))
    directory = made(store).directory
    folders = [tmp_path, *(tmp_path / "data" / name for name in ("", "sessions", f"sessions/{directory.parent.name}"))]
    assert {str(folder) for folder in (*folders, directory)} <= set(synced)
    assert synced[-3].startswith(f"{directory}/journal")


def only_the_journal(fails: Callable[..., None]) -> Callable[..., int]:
    real = os.open
    return lambda path, *more, **named: fails() if "journal" in str(path) else real(path, *more, **named)


FULL = fail(errno.ENOSPC)
CUTS = [
    (os, "open", only_the_journal(fail(errno.EMFILE))),
    (os, "write", FULL),
    (os, "write", lambda file, data: 5),
    (os, "fsync", FULL),
    (Path, "rename", FULL),
]


@pytest.mark.parametrize(("where", "name", "cut"), CUTS)
def test_a_creation_that_fails_leaves_nothing_behind(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch, where: object, name: str, cut: Callable[..., object]
) -> None:
    session, before = made(store), descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(where, name, cut)
        with pytest.raises(StorageUnavailable):
            store.create(CWD, Settings())
    assert (list(session.directory.parent.iterdir()), descriptors()) == ([session.directory], before)


def test_opening_that_fails_lets_go_of_the_session(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    session, before = made(store), descriptors()
    for name in ("pread", "open"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fail(errno.EIO))
            with pytest.raises(StorageUnavailable):
                Journal.open(session.directory)
    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", fail(errno.ENOLCK))
        with pytest.raises(StorageUnavailable):
            Journal.open(session.directory)
    assert descriptors() == before
    store.open(session.id).log.close()


async def test_settings_that_cannot_be_read_leave_no_session_behind(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        (tmp_path / "config").mkdir()
        (tmp_path / "config" / "settings.toml").write_text("nonsense")
        with pytest.raises(Unprocessable):
            await home.session()
        assert await home.app.summaries() == []


@pytest.mark.parametrize("left", [None, 0, 1, 20])
def test_what_a_cut_creation_left_is_no_session(store: SessionStore, left: int | None) -> None:
    whole, cut = made(store), made(store)
    path = cut.directory / FILE_NAME
    if left is None:
        path.unlink()
    else:
        os.truncate(path, left)
    os.utime(whole.directory / FILE_NAME, (1, 1))
    fresh = SessionStore(store._directory, ROOTS, FakeClock())
    assert [summary.id for summary in fresh.summaries()] == [whole.id]
    assert (fresh.resolve("latest"), fresh.newest_of(CWD)) == (whole.id, whole.id)
    assert fresh.resolve(whole.id[:16]) == whole.id
    for ask in (fresh.resolve, fresh.open, lambda name: fresh.lines_after(name, 0, 1)):
        with pytest.raises(NotFound):
            ask(cut.id)


# --- names ---


def test_a_session_is_found_by_its_id_a_prefix_and_as_the_latest(store: SessionStore) -> None:
    first, second = made(store), made(store)
    os.utime(first.directory / FILE_NAME, (1, 1))
    assert store.resolve(first.id) == first.id
    assert (store.resolve("latest"), store.newest_of(CWD)) == (second.id, second.id)
    with pytest.raises(AmbiguousPrefix):
        store.resolve(first.id[:8])
    for unknown in ("", "x", "../..", "20000101-000000-aaaaaa"):
        with pytest.raises(NotFound):
            store.resolve(unknown)


def test_a_session_that_is_gone_is_not_found_where_it_was(store: SessionStore) -> None:
    session = made(store)
    store.display(session.id, None, 0, None)
    (session.directory / FILE_NAME).unlink()
    with pytest.raises(NotFound):
        store.display(session.id, None, 0, None)


# --- the list ---


@pytest.mark.parametrize("line", ['{"type":"prompt","prompt_id":"q","te', '{"type":"session_updated","seq":9,"tit'])
def test_a_torn_last_line_leaves_the_session_in_the_list(store: SessionStore, line: str) -> None:
    session = made(store)
    with (session.directory / FILE_NAME).open("a") as file:
        file.write(line)
    [summary] = store.summaries()
    assert (summary.id, summary.title) == (session.id, "hello")


def test_the_title_is_the_last_one_given_and_else_the_first_prompt(store: SessionStore) -> None:
    session = store.create(CWD, Settings())
    titles = []
    for step in (
        lambda: session.log.emit(Notice(level="info", code="x", text="y")),
        lambda: session.log.record(PROMPT),
        lambda: session.log.record(PROMPT.model_copy(update={"text": "later"})),
        lambda: session.log.emit(SessionUpdated(mode="plan")),
        lambda: session.log.emit(SessionUpdated(title="Given")),
        lambda: session.log.emit(SessionUpdated(title="Given again")),
    ):
        step()
        titles.append(store.summaries()[0].title)
        assert store.summaries() == SessionStore(store._directory, ROOTS, FakeClock()).summaries()
    assert titles == [None, "First line", "First line", "First line", "Given", "Given again"]


def test_the_list_reads_only_what_was_appended(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    session, reads = store.create(CWD, Settings()), []
    store.summaries()
    size, real = session.log.size, listing.read_lines
    monkeypatch.setattr(
        listing, "read_lines", lambda path, end, start: reads.append((start, end)) or real(path, end, start)
    )
    session.log.record(PROMPT)
    for _ in range(3):
        assert store.summaries()[0].title == "First line"
    assert reads == [(size, session.log.size)]


def test_a_journal_that_was_replaced_is_read_again_and_one_that_is_gone_is_forgotten(store: SessionStore) -> None:
    first, second = made(store, "first"), made(store, "second")
    assert len(store.summaries()) == 2
    path = first.directory / FILE_NAME
    path.with_name("restored").write_bytes(path.read_bytes().replace(b"first", b"other, and longer"))
    path.with_name("restored").rename(path)
    (second.directory / FILE_NAME).unlink()
    assert [summary.title for summary in store.summaries()] == ["other, and longer"]
    assert len(store._listing._seen) == 1


def test_what_killed_creations_left_behind_is_swept_when_it_is_old(store: SessionStore) -> None:
    kept = store.create(CWD, Settings())
    kept.log.close()
    project = kept.directory.parent
    for name, age in (("20200101-000000-aaaaaa", 3600), ("20200101-000000-bbbbbb", 1)):
        half_made = project / name
        half_made.mkdir()
        (half_made / "journal.new").write_bytes(b"{")
        os.utime(half_made, (FakeClock().now() - age,) * 2)
    store.sweep()
    assert sorted(path.name for path in project.iterdir()) == ["20200101-000000-bbbbbb", kept.id]


@pytest.mark.parametrize("content", [b"", b'{"type":"me'])
def test_a_session_whose_first_line_is_not_whole_is_not_found(store: SessionStore, content: bytes) -> None:
    session = store.create(CWD, Settings())
    session.log.close()
    (session.directory / FILE_NAME).write_bytes(content)
    with pytest.raises(NotFound):
        store.open(session.id)


def test_a_last_line_that_is_nested_without_end_is_set_aside(store: SessionStore) -> None:
    session = store.create(CWD, Settings())
    session.log.close()
    with (session.directory / FILE_NAME).open("ab") as file:
        file.write(b'{"type":"x","y":' + b"[" * 100_000 + b"\n")
    again = store.open(session.id)
    again.log.close()
    assert again.repaired is not None
