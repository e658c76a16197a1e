"""The discovery files: whole, private, gone after a clean stop, and never mistaken."""

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from server import discovery
from server.discovery import Running
from server.settings import CannotStart
from tests.zombies import ended

ME = os.getpid()


@pytest.fixture
def server(tmp_path: Path) -> Running:
    return Running(
        url="http://127.0.0.1:4765",
        token="t0ken",
        pid=ME,
        version="0.1.0",
        cwd=str(tmp_path / "work"),
        roots=(str(tmp_path / "work"), str(tmp_path / "more")),
        started=discovery.process_start(ME),
    )


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_file_is_the_start_line_and_belongs_to_the_user_alone(tmp_path: Path, server: Running) -> None:
    path = discovery.publish(tmp_path / "a" / "state", server)
    assert path == tmp_path / "a" / "state" / "servers" / f"{ME}.json"
    assert (mode(path), mode(path.parent), mode(path.parent.parent)) == (0o600, 0o700, 0o700)
    line = json.loads(server.start_line())
    assert list(line) == ["url", "token", "pid", "version", "cwd", "roots"]
    assert json.loads(path.read_text()) == {**line, "started": server.started}
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_folder_that_others_can_read_is_closed(tmp_path: Path, server: Running) -> None:
    (tmp_path / "servers").mkdir(mode=0o755)
    assert mode(discovery.publish(tmp_path, server).parent) == 0o700


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path, server: Running) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "servers").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotStart):
        discovery.publish(tmp_path, server)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_state_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path, server: Running) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match="discovery file"):
        discovery.publish(tmp_path / "file", server)


def test_withdrawing_removes_our_file(tmp_path: Path, server: Running) -> None:
    path = discovery.publish(tmp_path, server)
    discovery.withdraw(path, server)
    assert not path.exists()


def test_withdrawing_leaves_the_file_of_a_later_server(tmp_path: Path, server: Running) -> None:
    path = discovery.publish(tmp_path, replace(server, token="later"))
    discovery.withdraw(path, server)
    assert path.exists()


def test_files_of_dead_processes_are_swept(tmp_path: Path, server: Running, dead: int) -> None:
    folder = discovery.publish(tmp_path, server).parent
    for name in (f"{dead}.json", "nonsense.json", f".{dead}.0a0a.tmp", f".{ME}.0a0a.tmp"):
        (folder / name).write_text("{")
    discovery.publish(tmp_path, replace(server, pid=dead))
    discovery.publish(tmp_path, server)
    assert {path.name for path in folder.iterdir()} == {f"{ME}.json", f".{ME}.0a0a.tmp"}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not say when a process started")
def test_the_file_of_a_process_whose_number_went_to_another_is_swept(tmp_path: Path, server: Running) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        started = discovery.process_start(other.pid)
        assert started not in (None, server.started)
        alive = discovery.publish(tmp_path, replace(server, pid=other.pid, started=started))
        mine = discovery.publish(tmp_path, server)
        assert set(mine.parent.iterdir()) == {alive, mine}
        discovery.publish(tmp_path, replace(server, pid=other.pid, started="another-boot:1"))
        discovery.publish(tmp_path, server)
        assert set(mine.parent.iterdir()) == {mine}
        other.communicate(b"\n")


DAMAGED = ["", "[]", "{}", '{"pid": "x"}', '{"pid": 99999999999999999999}', "\x00\xff"]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_goes_with_the_process_in_its_name(
    content: str, tmp_path: Path, server: Running, dead: int
) -> None:
    folder = discovery.publish(tmp_path, server).parent
    for name in ("1.json", f"{dead}.json"):
        (folder / name).write_text(content)
    discovery.publish(tmp_path, server)
    assert {path.name for path in folder.iterdir()} == {"1.json", f"{ME}.json"}


def test_the_file_of_a_process_that_has_ended_and_was_not_waited_for_is_swept(tmp_path: Path, server: Running) -> None:
    with ended() as zombie:
        gone = discovery.publish(tmp_path, replace(server, pid=zombie, started=discovery.process_start(zombie)))
        discovery.publish(tmp_path, server)
    assert not gone.exists()


def test_a_process_number_that_no_system_has_is_dead(tmp_path: Path, server: Running) -> None:
    path = discovery.publish(tmp_path, replace(server, pid=10**20))
    discovery.publish(tmp_path, server)
    assert not path.exists()


def test_the_token_is_not_in_what_is_printed(server: Running) -> None:
    assert "t0ken" not in repr(server)


def test_what_is_no_file_is_left_alone_and_does_not_stop_the_start(tmp_path: Path, server: Running, dead: int) -> None:
    folder = discovery.publish(tmp_path, server).parent
    (folder / f"{dead}.json").mkdir()
    (folder / "nonsense.json").symlink_to(tmp_path / "precious")
    os.mkfifo(folder / "1.json")  # nobody writes to it: opening it would wait for ever
    os.mkfifo(folder / f".{dead}.0a0a.tmp")
    discovery.publish(tmp_path, server)
    names = {path.name for path in folder.iterdir()}
    assert names == {f"{dead}.json", "nonsense.json", "1.json", f".{dead}.0a0a.tmp", f"{ME}.json"}


def test_a_link_to_a_file_of_ours_is_not_read(tmp_path: Path, server: Running) -> None:
    path = discovery.publish(tmp_path, server)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    discovery.withdraw(path, server)
    assert path.is_symlink()
