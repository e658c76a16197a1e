"""What is on disk before the next step of a load and of a takeover is made: no power cut may come in between."""

import os
from pathlib import Path

import pytest

from agentcore.errors import TakenOver
from agentcore.session import Settings
from agentcore.sessions import journal as journal_module
from agentcore.sessions.journal import Journal
from agentcore.sessions.reading import read_lines
from agentcore.sessions.records import Meta, Prompt, encode_record
from agentcore.sessions.segments import FILE_NAME, fix_sizes, fixed_sizes
from agentcore.sessions.store import SessionStore
from tests.fakes import FakeClock

META = encode_record(Meta(session="s", cwd="/w", created=1.0, settings=Settings()))
PROMPT = encode_record(Prompt(prompt_id="p", run_id="r", text="hello", ts=2.0))


def name_of(file: int) -> str:
    return Path(f"/proc/self/fd/{file}").readlink().name


class Disk:
    """Notes what is made durable, and what names are given, in order; with the size of each file at that time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, str, int]] = []
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, lambda file: self.note("sync", name_of(file), os.fstat(file).st_size))
        real = Path.rename

        def rename(path: Path, target: Path) -> Path:
            self.note("rename", Path(target).name, 0)
            return real(path, target)

        patch.setattr(Path, "rename", rename)

    def note(self, what: str, name: str, size: int) -> None:
        self.steps.append((what, name, size))

    @property
    def names(self) -> list[tuple[str, str]]:
        return [(what, name) for what, name, _ in self.steps]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "s"


@pytest.fixture
def old(directory: Path) -> Journal:
    """The journal of an owner that is alive."""
    journal = Journal.create(directory, [META])
    journal.append(PROMPT)
    return journal


@pytest.mark.parametrize("takeover", [False, True])
def test_what_a_load_reserves_is_durable_before_a_number_is_given_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takeover: bool
) -> None:
    store = SessionStore(tmp_path / "sessions", (Path("/"),), FakeClock())
    session = store.create(Path("/work"), Settings())
    if not takeover:
        session.log.close()
    disk = Disk(monkeypatch)
    again = store.open(session.id, takeover=takeover)
    last = sorted(again.directory.glob("journal*.jsonl"), key=lambda path: path.stat().st_mtime_ns)[-1]
    assert ("sync", last.name, last.stat().st_size) in disk.steps
    assert b'{"type":"load","base":1000000,' in last.read_bytes()
    again.log.close()
    session.log.close()


def test_what_the_old_owner_wrote_is_durable_before_its_end_is_fixed(
    directory: Path, old: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    new, _ = Journal.open(directory, takeover=True)
    fixed = disk.names.index(("rename", "segments.json"))
    assert ("sync", FILE_NAME) in disk.names[:fixed]
    assert disk.steps[disk.names.index(("sync", FILE_NAME))][2] == old.size
    assert disk.names.index(("sync", directory.name)) < fixed  # the name of the new file
    assert ("sync", directory.name) in disk.names[fixed:]
    new.close()
    old.close()


def test_the_ends_are_durable_before_they_are_in_force(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory.mkdir()
    disk = Disk(monkeypatch)
    fix_sizes(directory, [5])
    assert disk.names == [("sync", "segments.new"), ("rename", "segments.json"), ("sync", directory.name)]
    assert disk.steps[0][2] > len('{"sizes":[5]}')
    assert fixed_sizes(directory) == (5,)


def test_every_line_up_to_the_moment_in_which_the_old_owner_is_told_counts(
    directory: Path, old: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is looked for only then: any line before that was acknowledged."""
    real = journal_module.tell_loss

    def tell(directory: Path, generation: int) -> None:
        old.append(PROMPT)
        real(directory, generation)
        with pytest.raises(TakenOver):
            old.append(PROMPT)

    monkeypatch.setattr(journal_module, "tell_loss", tell)
    new, _ = Journal.open(directory, takeover=True)
    assert list(read_lines(directory / FILE_NAME)) == [META, PROMPT, PROMPT]
    new.close()
    old.close()
