"""What a start removes: what a cut creation left, and nothing else; and what it cannot look at stops nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.errors import JournalDamaged, NotFound, StorageUnavailable
from agentcore.session import Settings
from agentcore.sessions.lease import Lease
from agentcore.sessions.store import SessionStore
from tests.fakes import FakeClock

CWD = Path("/work")
OLD = "20200101-000000-aaaaaa"
BLOB = "0123456789abcdef" * 4


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions", (Path("/"),), FakeClock())


@pytest.fixture
def session(store: SessionStore) -> Path:
    """The folder of a session that nobody holds."""
    made = store.create(CWD, Settings())
    made.log.close()
    return made.directory


def left(session: Path, *names: str) -> Path:
    """A folder beside a session's, old enough to be swept, with these files in it."""
    folder = session.with_name(OLD)
    folder.mkdir()
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"{")
    os.utime(folder, (1, 1))
    return folder


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["lease"],
        ["lease", "lease.door"],
        ["lease", "journal.new"],
        ["lease", "journal.new", f"blobs/{BLOB}", "blobs/0123456789abcdef.tmp"],
    ],
)
def test_what_a_cut_creation_left_is_removed(store: SessionStore, session: Path, names: list[str]) -> None:
    folder = left(session, *names)
    store.sweep()
    assert not folder.exists()
    assert session.exists()


@pytest.mark.parametrize(
    "names",
    [
        ["lease", "lease.door", "journal.jsonl.damaged"],  # put aside by a person, as our own error says
        ["lease", "lease.2", "segments.json", "journal.2.jsonl"],
        ["lease", "checkpoints/run-000001-r.json"],
        ["lease", f"blobs/{BLOB}"],
        ["lease", "torn-12"],
        ["lease", "journal.new", "notes.txt"],
        ["lease", "journal.new", "blobs/picture.png"],
        ["lease", "journal.new/x", f"blobs/{BLOB}"],
    ],
)
def test_a_folder_with_anything_else_in_it_stays_as_it_is(store: SessionStore, session: Path, names: list[str]) -> None:
    folder = left(session, *names)
    store.sweep()
    assert {name for name in names if (folder / name).exists()} == set(names)


def test_a_session_whose_disk_is_not_there_stays_as_it_is(store: SessionStore, session: Path) -> None:
    (session / "journal.jsonl").unlink()
    (session / "journal.jsonl").symlink_to("/not-mounted/journal.jsonl")
    os.utime(session, (1, 1))
    store.sweep()
    assert (session / "journal.jsonl").is_symlink()


def test_no_link_is_followed_by_what_is_removed(store: SessionStore, session: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / BLOB).write_bytes(b"kept")
    folder = left(session, "lease", "journal.new")
    (folder / "blobs").symlink_to(tmp_path / "elsewhere")
    os.utime(folder, (1, 1))
    store.sweep()
    assert (tmp_path / "elsewhere" / BLOB).read_bytes() == b"kept"
    assert (folder / "journal.new").exists()


def test_a_creation_that_is_going_on_is_left_alone_however_old(store: SessionStore, session: Path) -> None:
    folder = left(session, "journal.new")
    lease = Lease.take(folder, 1)
    os.utime(folder, (1, 1))
    store.sweep()
    assert (folder / "journal.new").exists()
    lease.close()


def closed(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let nobody look into a folder, as its permissions would for whoever is not root."""

    def guarded(name: str, *, is_listing: bool) -> None:
        real: Callable[..., object] = getattr(os, name)

        def call(path: object = ".", *more: object, **named: object) -> object:
            if isinstance(path, str | Path):
                inside = Path(path) if is_listing else Path(path).parent
                if inside == folder or folder in inside.parents:
                    raise PermissionError(13, "Permission denied", str(path))
            return real(path, *more, **named)

        patch.setattr(os, name, call)

    for name in ("listdir", "scandir"):
        guarded(name, is_listing=True)
    for name in ("stat", "lstat", "open", "utime", "unlink"):
        guarded(name, is_listing=False)


ODD = {
    "a dangling link": lambda path: path.symlink_to("/nonexistent"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a file": lambda path: path.write_bytes(b""),
    "a pipe": os.mkfifo,
    "a folder that is closed": Path.mkdir,
}


@pytest.mark.parametrize("where", ["project", "session"])
@pytest.mark.parametrize("odd", ODD)
def test_what_cannot_be_looked_into_hides_no_other_session(
    store: SessionStore, session: Path, monkeypatch: pytest.MonkeyPatch, where: str, odd: str
) -> None:
    path = session.with_name(OLD) if where == "session" else session.parent.with_name("aaaa")
    ODD[odd](path)
    half_made = session.with_name("20200101-000000-zzzzzz")
    half_made.mkdir()
    os.utime(half_made, (1, 1))
    if "closed" in odd:
        closed(path, monkeypatch)
    store.sweep()
    assert not half_made.exists()
    assert [summary.id for summary in store.summaries()] == [session.name]
    assert [store.resolve(name) for name in ("latest", session.name[:17], session.name)] == [session.name] * 3
    assert store.newest_of(CWD) == session.name
    assert store.directories() == [session]
    store.open(session.name).log.close()
    with pytest.raises(NotFound):
        store.open("20200101-000000-bbbbbb")


def test_a_session_whose_folder_is_closed_says_so(
    store: SessionStore, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed(session, monkeypatch)
    reads: list[Callable[[], object]] = [
        lambda: store.open(session.name),
        lambda: store.display(session.name, None, 0, None),
        lambda: store.fork(session.name, None, None, {}),
        lambda: store.lines_after(session.name, 0, 1),
    ]
    for read in reads:
        with pytest.raises((JournalDamaged, StorageUnavailable), match="Permission denied"):
            read()


def test_two_servers_that_start_at_once_sweep_the_same_folders(
    store: SessionStore, session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is always too late for some."""
    folders = [session.with_name(f"20200101-00000{number}-aaaaaa") for number in range(3)]
    for folder in folders:
        folder.mkdir()
        os.utime(folder, (1, 1))
    real = SessionStore._sweep_one

    def too_late(store: SessionStore, folder: Path) -> None:
        if folder.exists() and len(list(session.parent.iterdir())) == 4:
            folder.rmdir()
        real(store, folder)

    monkeypatch.setattr(SessionStore, "_sweep_one", too_late)
    store.sweep()
    assert list(session.parent.iterdir()) == [session]
