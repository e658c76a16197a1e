"""The journal: one write a line, a torn tail set aside, any other damage refused, one owner."""

import errno
import os
from pathlib import Path

import pytest

from agentcore.errors import JournalDamaged, SessionLocked, StorageUnavailable, TakenOver
from agentcore.session import Settings
from agentcore.sessions.fold import fold
from agentcore.sessions.journal import FILE_NAME, Journal
from agentcore.sessions.reading import read_lines
from agentcore.sessions.records import Load, Meta, Prompt, encode_record

META = encode_record(Meta(session="s", cwd="/w", created=1.0, settings=Settings()))
PROMPT = encode_record(Prompt(prompt_id="p", run_id="r", text="line\u2028break", ts=2.0))


def journal_with(directory: Path, *lines: bytes) -> Path:
    journal = Journal.create(directory)
    for line in lines:
        journal.append(line)
    journal.close()
    return directory / FILE_NAME


def test_files_are_private_to_the_user(tmp_path: Path) -> None:
    file = journal_with(tmp_path / "p" / "s", META)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_separators_inside_a_text_never_end_a_line(tmp_path: Path) -> None:
    file = journal_with(tmp_path / "s", META, PROMPT)
    assert len(file.read_text().splitlines()) == 2


@pytest.mark.parametrize("kept", range(len(PROMPT) + 1))
def test_a_line_torn_at_any_byte_is_set_aside_and_the_rest_is_intact(tmp_path: Path, kept: int) -> None:
    file = journal_with(tmp_path / "s", META, PROMPT)
    whole = len(META) + 1
    os.truncate(file, whole + kept)
    journal, tail = Journal.open(tmp_path / "s")
    journal.append(encode_record(Load(base=0, ts=3.0)))
    journal.close()
    assert tail.torn == PROMPT[:kept]
    assert list(read_lines(tmp_path / "s" / FILE_NAME)) == [META, encode_record(Load(base=0, ts=3.0))]
    aside = list((tmp_path / "s").glob("torn-*"))
    assert [path.read_bytes() for path in aside] == ([PROMPT[:kept]] if kept else [])


@pytest.mark.parametrize("bad", [b"", b"{", b'{"type":"prompt"}', b"\x00\x00", b'{"seq":1}', b"[]"])
def test_any_other_damage_refuses_the_load_and_names_the_line(bad: bytes) -> None:
    with pytest.raises(JournalDamaged, match="Line 2 "):
        fold([META, bad, PROMPT])


def test_unknown_records_are_passed_over_and_newer_formats_refused() -> None:
    history = fold([META, b'{"type":"from_the_future","x":1}', PROMPT])
    assert history.run is not None
    newer = Meta(format=2, session="s", cwd="/w", created=1.0, settings=Settings())
    with pytest.raises(JournalDamaged, match="update"):
        fold([encode_record(newer)])


def test_an_event_that_only_a_newer_version_knows_moves_the_number_and_nothing_else() -> None:
    history = fold([META, b'{"type":"from_the_future","seq":7,"session":"s","ts":1.0,"x":1}', PROMPT])
    assert (history.last_seq, history.run is not None) == (7, True)
    for bad in (b'{"type":"from_the_future","seq":7,"x"', b'{"type":"done","seq":7,"session":"s","ts":1.0}'):
        with pytest.raises(JournalDamaged, match="Line 2 "):
            fold([META, bad, PROMPT])


def test_an_unknown_field_of_a_newer_writer_is_passed_over() -> None:
    assert fold([META, PROMPT[:-1] + b',"new":1}']).run is not None


def test_what_is_set_aside_is_durable_before_it_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = journal_with(tmp_path / "s", META, PROMPT[:-5])
    os.truncate(file, file.stat().st_size - 1)
    steps: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: steps.append(Path(f"/proc/self/fd/{file}").readlink().name))
    real = os.ftruncate
    monkeypatch.setattr(os, "ftruncate", lambda file, size: (steps.append("cut"), real(file, size)))
    Journal.open(tmp_path / "s")[0].close()
    aside = f"torn-{len(META) + 1}"
    assert steps == [aside, "s", "cut"]
    assert (tmp_path / "s" / aside).stat().st_mode & 0o777 == 0o600


def test_a_first_line_that_cannot_be_read_is_left_where_it_is(tmp_path: Path) -> None:
    file = journal_with(tmp_path / "s", b"garbage")
    journal, tail = Journal.open(tmp_path / "s")
    journal.close()
    assert (tail.torn, file.read_bytes()) == (b"", b"garbage\n")


def test_a_second_owner_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path / "s")
    journal.append(META)
    with pytest.raises(SessionLocked):
        Journal.open(tmp_path / "s")
    journal.close()
    Journal.open(tmp_path / "s")[0].close()


@pytest.mark.parametrize("written", [0, 5, -1])
def test_a_full_disk_leaves_no_partial_line_and_breaks_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    journal = Journal.create(tmp_path / "s")
    journal.append(META)
    real = os.write

    def full(file: int, data: bytes) -> int:
        if written < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(file, data[:written])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageUnavailable, match="space"):
        journal.append(PROMPT)
    monkeypatch.undo()
    with pytest.raises(StorageUnavailable):
        journal.append(PROMPT)
    with pytest.raises(StorageUnavailable):
        journal.sync()
    journal.close()
    assert list(read_lines(tmp_path / "s" / FILE_NAME)) == [META]


@pytest.mark.parametrize("text", [b"", b"0", b"x" * 300])
def test_a_lease_that_somebody_cut_or_wrote_over_is_lost_and_ends_no_process(tmp_path: Path, text: bytes) -> None:
    journal = Journal.create(tmp_path / "s")
    journal.append(META)
    (tmp_path / "s" / "lease").write_bytes(text)
    with pytest.raises(TakenOver):
        journal.append(PROMPT)
    assert list(read_lines(tmp_path / "s" / FILE_NAME)) == [META]
    journal.close()
    Journal.open(tmp_path / "s")[0].close()
