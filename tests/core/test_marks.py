"""Whom the sweep for orphans spares, on a /proc of the test's own."""

import os
import signal
from pathlib import Path

import pytest

from agentcore import marks

DEAD, PARENT, ORPHAN = "999999.1.abc", 400_001, 400_002


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


def put_process(proc: Path, pid: int, parent: int, mark: str) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "environ").write_bytes(f"A=1\0{marks.MARK}={mark}\0".encode())
    (folder / "stat").write_text(f"{pid} (a ) name) S {parent} " + "0 " * 17 + "77 0 0\n")


def test_orphans_are_killed_but_not_the_server_that_looks_for_them(tmp_path: Path, killed: list[int]) -> None:
    put_process(tmp_path, 1, 0, "")
    put_process(tmp_path, PARENT, 1, DEAD)
    put_process(tmp_path, os.getpid(), PARENT, DEAD)
    put_process(tmp_path, ORPHAN, PARENT, DEAD)
    marks.kill_orphans()
    assert killed == [ORPHAN]


@pytest.mark.parametrize("mark", [f"{PARENT}.77.abc", "", "nonsense", "1.x.y"])
def test_what_a_living_server_started_is_no_orphan(tmp_path: Path, killed: list[int], mark: str) -> None:
    put_process(tmp_path, PARENT, 1, "")
    put_process(tmp_path, ORPHAN, PARENT, mark)
    marks.kill_orphans()
    assert killed == []
