"""The store of blobs: what is kept, under which names, and what a full disk or a kill leaves."""

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from agentcore.errors import StorageUnavailable
from agentcore.ports.blobs import Blobs
from agentcore.sessions.blobs import BlobStore
from tests.fakes import MemoryBlobs, house

DATA = b"\x89PNG and more"
NAME = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path)


@pytest.mark.parametrize("kind", [BlobStore, MemoryBlobs])
def test_what_was_put_is_got_by_its_hash(tmp_path: Path, kind: type) -> None:
    store: Blobs = BlobStore(tmp_path) if kind is BlobStore else MemoryBlobs()
    assert [store.put(DATA), store.put(DATA), store.get(NAME)] == [NAME, NAME, DATA]
    with pytest.raises(KeyError):
        store.get("0" * 64)


def test_the_same_content_is_one_private_file(store: BlobStore, tmp_path: Path) -> None:
    store.put(DATA)
    inode = (tmp_path / "blobs" / NAME).stat().st_ino
    store.put(DATA)
    store.put(b"other")
    assert sorted(path.name for path in (tmp_path / "blobs").iterdir()) == sorted(
        [NAME, hashlib.sha256(b"other").hexdigest()]
    )
    file = (tmp_path / "blobs" / NAME).stat()
    assert (file.st_ino, stat.S_IMODE(file.st_mode)) == (inode, 0o600)
    assert stat.S_IMODE((tmp_path / "blobs").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "name", ["", "..", "../journal.jsonl", "/etc/passwd", NAME.upper(), NAME[:-1], NAME + "\n", f"./{NAME}", "\0" * 64]
)
def test_a_name_that_is_none_reaches_no_file(store: BlobStore, tmp_path: Path, name: str) -> None:
    store.put(DATA)
    (tmp_path / "journal.jsonl").write_bytes(b"line")
    with pytest.raises(KeyError):
        store.get(name)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("broken", ["fsync", "open"])
def test_a_full_disk_is_said_and_leaves_nothing(
    store: BlobStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, is_first: bool
) -> None:
    before = [] if is_first else [store.put(b"earlier")]

    def fail(*_args: object, **_options: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, broken, fail)
    with pytest.raises(StorageUnavailable, match="No space left"):
        store.put(DATA)
    monkeypatch.undo()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == before
    assert store.put(DATA) == NAME


def test_a_folder_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable):
        BlobStore(tmp_path / "deleted").put(DATA)
    assert not (tmp_path / "deleted").exists()


@pytest.mark.anyio
async def test_loading_a_session_removes_what_a_kill_left_half_made(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        live = await home.session()
        session, folder = live.id, next((tmp_path / "data").rglob("journal.jsonl")).parent
        BlobStore(folder).put(DATA)
        (folder / "blobs" / "0123456789abcdef.tmp").write_bytes(b"half")
    async with house(tmp_path) as home:
        await home.reload(session)
        assert [path.name for path in (folder / "blobs").iterdir()] == [NAME]
        assert await home.app.blob(session, NAME) == DATA


def test_what_the_disk_damaged_is_no_blob_until_it_is_put_again(store: BlobStore, tmp_path: Path) -> None:
    store.put(DATA)
    for damaged in (b"other", DATA[:-1], b""):
        (tmp_path / "blobs" / NAME).write_bytes(damaged)
        with pytest.raises(KeyError):
            store.get(NAME)
        assert (store.put(DATA), store.get(NAME)) == (NAME, DATA)


def test_a_blob_that_was_damaged_is_made_anew_for_one_session_and_not_through_its_fork(tmp_path: Path) -> None:
    """Both have the same file."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = BlobStore(tmp_path / "a"), BlobStore(tmp_path / "b")
    one.put(DATA)
    other.adopt(one)
    (tmp_path / "a" / "blobs" / NAME).write_bytes(b"damaged")
    one.put(DATA)
    assert one.get(NAME) == DATA
    with pytest.raises(KeyError):
        other.get(NAME)
