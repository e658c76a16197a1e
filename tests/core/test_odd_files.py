"""Something else in the place of a session's file: it is said, and nothing waits for it for ever or breaks with it."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcore.checkpoints.vault import Vault
from agentcore.doctor import examine
from agentcore.errors import AgentError, JournalDamaged, NotFound, StorageUnavailable
from agentcore.redaction import Redactor
from agentcore.session import Settings
from agentcore.sessions.blobs import BlobStore
from agentcore.sessions.store import SessionStore
from tests.fakes import FakeClock, house

ROOTS = (Path("/"),)
CWD = Path("/work")
DATA = b"\x89PNG and more"


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    return tmp_path / "sessions"


def made(sessions: Path) -> Path:
    """The folder of a session that nobody holds, with a blob."""
    session = SessionStore(sessions, ROOTS, FakeClock()).create(CWD, Settings())
    session.blobs.put(DATA)
    session.log.close()
    return session.directory


def outcome(work: Callable[[], object]) -> str:
    """The code of what it raises, "" for nothing; within five seconds, in a thread that may be left hanging."""
    ends: list[str] = []

    def run() -> None:
        try:
            work()
        except AgentError as error:
            ends.append(error.code)
        except (OSError, KeyError, ValueError) as error:
            ends.append(repr(error))
        else:
            ends.append("")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(5)
    assert ends, "it waits for ever"
    return ends[0]


KINDS: dict[str, Callable[[Path], object]] = {"pipe": os.mkfifo, "folder": Path.mkdir}
NAMES = ["journal.jsonl", "segments.json", "lease", "lease.door", "journal.2.jsonl", "blobs", "segments.new"]
ASKED: dict[str, Callable[[SessionStore, str], object]] = {
    "open": lambda store, session: store.open(session).log.close(),
    "take over": lambda store, session: store.open(session, takeover=True).log.close(),
    "display": lambda store, session: store.display(session, None, 0, None),
    "export": lambda store, session: list(store.export(session, None, "jsonl", Redactor(()))),
    "fork": lambda store, session: store.fork(session, None, None, {})[0].log.close(),
    "lines": lambda store, session: store.lines_after(session, 0, 9),
    "blob": lambda store, session: store.blob(session, "0" * 64),
    "list": lambda store, _session: store.summaries(),
    "latest": lambda store, _session: store.resolve("latest"),
    "sweep": lambda store, _session: store.sweep(),
}
FINE = {"", "not_found", "journal_damaged", "storage_unavailable", "session_locked", repr(KeyError("0" * 64))}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_it_is_an_answer_and_no_wait(sessions: Path, name: str, kind: str) -> None:
    directory = made(sessions)
    other = made(sessions).name
    path = directory / name
    if path.exists():
        path.rename(directory / "aside")
    KINDS[kind](path)
    store = SessionStore(sessions, ROOTS, FakeClock())
    for what, ask in ASKED.items():
        assert outcome(lambda ask=ask: ask(store, directory.name)) in FINE, what
    assert outcome(lambda: examine(sessions, directory.name)) in FINE
    assert other in [summary.id for summary in store.summaries()]
    store.open(other).log.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_takeover_does_not_wait_for_it(sessions: Path, kind: str) -> None:
    directory = made(sessions)
    KINDS[kind](directory / "journal.2.jsonl")
    store = SessionStore(sessions, ROOTS, FakeClock())
    held = store.open(directory.name)
    assert outcome(lambda: store.open(directory.name, takeover=True)) == "storage_unavailable"
    assert not held.log.is_taken_over  # nobody was told before it was known to work
    held.log.close()


@pytest.mark.parametrize("kind", [*KINDS, "link"])
def test_a_torn_line_is_never_kept_in_anything_but_a_file_of_its_own(sessions: Path, tmp_path: Path, kind: str) -> None:
    directory = made(sessions)
    path = directory / "journal.jsonl"
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b'{"type":"to')
    aside = directory / f"torn-{size}"
    (tmp_path / "precious").write_bytes(b"kept")
    {**KINDS, "link": lambda path: path.symlink_to(tmp_path / "precious")}[kind](aside)
    store = SessionStore(sessions, ROOTS, FakeClock())
    assert outcome(lambda: store.open(directory.name).log.close()) in ("", "storage_unavailable")
    assert (tmp_path / "precious").read_bytes() == b"kept"
    torn = [one.read_bytes() for one in (path, *directory.glob("torn-*")) if one.is_file() and not one.is_symlink()]
    assert any(b'{"type":"to' in one for one in torn)


@pytest.mark.parametrize("kind", KINDS)
def test_among_the_blobs_it_is_no_blob(sessions: Path, tmp_path: Path, kind: str) -> None:
    directory = made(sessions)
    store, blobs = SessionStore(sessions, ROOTS, FakeClock()), BlobStore(directory)
    name = blobs.put(DATA)
    (directory / "blobs" / name).unlink()
    KINDS[kind](directory / "blobs" / name)
    assert outcome(lambda: blobs.get(name)) == repr(KeyError(name))
    copy = tmp_path / "copy"
    copy.mkdir()
    assert outcome(lambda: BlobStore(copy).adopt(blobs)) == ""
    assert not list(copy.rglob(name))
    forked, _ = store.fork(directory.name, None, None, {})
    forked.log.close()
    if kind == "pipe":
        assert (blobs.put(DATA), blobs.get(name)) == (name, DATA)
    else:
        with pytest.raises(StorageUnavailable):
            blobs.put(DATA)


@pytest.mark.parametrize("kind", ["pipe", "folder", "file"])
def test_pruning_stops_at_nothing(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "checkpoints"
    if kind == "file":
        folder.write_bytes(b"")
    else:
        folder.mkdir()
        KINDS[kind](folder / "run-000001-r.json")
    assert outcome(lambda: Vault(folder).prune(1e12)) == ""
    assert outcome(lambda: Vault(folder).numbers()) == ""


@pytest.mark.anyio
@pytest.mark.parametrize("kind", ["pipe", "file"])
async def test_a_session_is_loaded_though_its_checkpoints_cannot_be_looked_at(tmp_path: Path, kind: str) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        await home.hub.close(live, "deleted")
        [directory] = (tmp_path / "data" / "sessions").glob(f"*/{live.id}")
        {"pipe": os.mkfifo, "file": Path.touch}[kind](directory / "checkpoints")
        again = await home.reload(live.id)
        await home.run(again, "go on")


def test_a_session_whose_journal_is_none_is_not_hidden(sessions: Path) -> None:
    """It is there, so it is not `not found`: it says what is wrong."""
    directory = made(sessions)
    (directory / "journal.jsonl").rename(directory / "aside")
    os.mkfifo(directory / "journal.jsonl")
    store = SessionStore(sessions, ROOTS, FakeClock())
    with pytest.raises((JournalDamaged, StorageUnavailable), match="regular file"):
        store.open(directory.name)
    (directory / "journal.jsonl").unlink()
    with pytest.raises(NotFound):
        store.open(directory.name)
