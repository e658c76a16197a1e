"""Whom the sweep for orphans spares, on a /proc of the test's own."""

import os
import signal
from pathlib import Path

import pytest

from agentcore import marks

DEAD, PARENT, ORPHAN, OTHER = "999999.1.0.abc", 400_001, 400_002, 400_003


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The processes that got SIGKILL. Here a process is a folder; killing it empties its environment."""
    killed: list[int] = []

    def kill(descriptor: int, number: int) -> None:
        environ = Path(f"/proc/self/fd/{descriptor}").readlink()
        assert number == signal.SIGKILL
        killed.append(int(environ.parent.name))
        environ.write_bytes(b"")

    monkeypatch.setattr(marks, "PROC", tmp_path)
    monkeypatch.setattr(os, "pidfd_open", lambda pid: os.open(tmp_path / str(pid) / "environ", os.O_RDONLY))
    monkeypatch.setattr(signal, "pidfd_send_signal", kill)
    return killed


def put_process(proc: Path, pid: int, parent: int, mark: str, session: int = 0) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "environ").write_bytes(f"A=1\0{marks.MARK}={mark}\0".encode())
    (folder / "stat").write_text(f"{pid} (a ) name) S {parent} 0 {session} " + "0 " * 15 + "77 0 0\n")


def test_orphans_are_killed_but_not_the_server_that_looks_for_them(tmp_path: Path, killed: list[int]) -> None:
    put_process(tmp_path, 1, 0, "")
    put_process(tmp_path, PARENT, 1, DEAD)
    put_process(tmp_path, os.getpid(), PARENT, DEAD)
    put_process(tmp_path, ORPHAN, PARENT, DEAD)
    marks.kill_orphans()
    assert killed == [ORPHAN]


@pytest.mark.parametrize("mark", [f"{PARENT}.77.0.abc", "", "nonsense", "1.x.0.y", "999999.1.4026531836.abc"])
def test_what_a_living_server_started_is_no_orphan(tmp_path: Path, killed: list[int], mark: str) -> None:
    """Nor is what one in another container started, whose ids mean other processes here."""
    put_process(tmp_path, PARENT, 1, "")
    put_process(tmp_path, ORPHAN, PARENT, mark)
    marks.kill_orphans()
    assert killed == []


def test_what_has_no_mark_goes_with_the_session_of_what_has_one(tmp_path: Path, killed: list[int]) -> None:
    put_process(tmp_path, 1, 0, "", session=1)
    put_process(tmp_path, PARENT, 1, DEAD, session=PARENT)
    put_process(tmp_path, ORPHAN, PARENT, "", session=PARENT)
    put_process(tmp_path, OTHER, 1, "", session=OTHER)
    put_process(tmp_path, os.getpid(), 1, "", session=1)
    assert gone(tmp_path, killed) == {PARENT, ORPHAN}


def test_what_is_dead_and_not_yet_reaped_is_not_looked_for(tmp_path: Path, killed: list[int]) -> None:
    put_process(tmp_path, 1, 0, "", session=1)
    put_process(tmp_path, os.getpid(), 1, "", session=1)
    put_process(tmp_path, PARENT, 1, DEAD, session=PARENT)
    put_process(tmp_path, ORPHAN, PARENT, "", session=PARENT)
    stat = tmp_path / str(ORPHAN) / "stat"
    stat.write_text(stat.read_text().replace(") S ", ") Z "))
    assert gone(tmp_path, killed) == {PARENT}


def test_the_session_of_who_looks_is_spared(tmp_path: Path, killed: list[int]) -> None:
    put_process(tmp_path, 1, 0, "", session=1)
    put_process(tmp_path, PARENT, 1, DEAD, session=PARENT)
    put_process(tmp_path, os.getpid(), PARENT, DEAD, session=PARENT)
    put_process(tmp_path, OTHER, PARENT, "", session=PARENT)
    assert gone(tmp_path, killed) == set()


def gone(proc: Path, killed: list[int]) -> set[int]:
    """What is killed; other than for real the processes stay there to be found again."""
    marks.kill_orphans()
    return set(killed)


@pytest.mark.parametrize(("start", "is_same"), [(77, True), (78, False), (0, False)])
def test_a_group_is_killed_only_while_its_leader_is_the_one_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int, is_same: bool
) -> None:
    groups: list[int] = []
    monkeypatch.setattr(marks, "PROC", tmp_path)
    monkeypatch.setattr(os, "killpg", lambda group, number: groups.append(group))
    put_process(tmp_path, PARENT, 1, "")
    marks.kill_group(PARENT, start)
    marks.kill_group(OTHER, start)  # there is no such process
    assert groups == ([PARENT] if is_same else [])
