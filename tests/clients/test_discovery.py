"""Finding the running server of a folder."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentcore_client.client import Client
from agentcore_client.discovery import find_server, start_of, state_dir
from agentcore_client.errors import NoServer
from tests.clients.unruly import TOKEN, Unruly
from tests.zombies import ended

PARENT = os.getppid()
"""Lives as long as this test, and is another process."""


def announce(state: Path, root: Path, *, pid: int = 0, name: str = "", **more: Any) -> Path:
    """Leave a file as a server does."""
    pid = pid or os.getpid()
    folder = state / "servers"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name or pid}.json"
    values = {"url": f"http://{root.name}", "token": TOKEN, "pid": pid, "version": "1", "cwd": str(root)}
    path.write_text(json.dumps({**values, "roots": [str(root)], "newer": 1, **more}))
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "home" / "project"
    (project / "src").mkdir(parents=True)
    return project


def test_server_is_found_from_below_its_root(tmp_path: Path, project: Path) -> None:
    announce(tmp_path, project)
    found = find_server(project / "src", state=tmp_path)
    assert (found.url, found.token, found.pid) == ("http://project", TOKEN, os.getpid())


def test_nearest_root_wins(tmp_path: Path, project: Path) -> None:
    announce(tmp_path, project)
    announce(tmp_path, project.parent, pid=PARENT)
    assert find_server(project / "src", state=tmp_path).url == "http://project"
    assert find_server(project.parent, state=tmp_path).url == "http://home"


def test_youngest_of_equal_roots_wins(tmp_path: Path, project: Path) -> None:
    os.utime(announce(tmp_path, project, name="1", url="http://old"), (1, 1))
    announce(tmp_path, project, pid=PARENT, url="http://new")
    assert find_server(project, state=tmp_path).url == "http://new"


def test_folder_outside_every_root_has_no_server(tmp_path: Path, project: Path) -> None:
    announce(tmp_path, project)
    (sibling := project.parent / "project-2").mkdir()
    with pytest.raises(NoServer):
        find_server(sibling, state=tmp_path)


def test_dead_server_is_passed_over(tmp_path: Path, project: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    announce(tmp_path, project, pid=process.pid)
    with pytest.raises(NoServer):
        find_server(project, state=tmp_path)


@pytest.mark.skipif(
    start_of(os.getpid()) is None, reason="only /proc tells a process that has ended from one that lives"
)
def test_a_server_that_has_ended_and_was_not_waited_for_is_passed_over(tmp_path: Path, project: Path) -> None:
    with ended() as zombie:
        announce(tmp_path, project, pid=zombie, started=start_of(zombie))
        with pytest.raises(NoServer):
            find_server(project, state=tmp_path)


@pytest.mark.skipif(start_of(os.getpid()) is None, reason="only /proc tells two processes of one number apart")
def test_number_that_went_to_another_process_is_passed_over(tmp_path: Path, project: Path) -> None:
    announce(tmp_path, project, started="some-boot:1")
    with pytest.raises(NoServer):
        find_server(project, state=tmp_path)
    announce(tmp_path, project, started=start_of(os.getpid()))
    assert find_server(project, state=tmp_path).pid == os.getpid()


def test_damaged_file_is_passed_over(tmp_path: Path, project: Path) -> None:
    announce(tmp_path, project)
    (tmp_path / "servers" / "0.json").write_text('{"url":')
    assert find_server(project, state=tmp_path).url == "http://project"


def test_state_dir_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTCORE_STATE_DIR", str(tmp_path))
    assert state_dir() == tmp_path
    monkeypatch.delenv("AGENTCORE_STATE_DIR")
    assert state_dir().name == "agentcore"


def test_client_connects_by_the_file(
    tmp_path: Path, project: Path, unruly: Unruly, monkeypatch: pytest.MonkeyPatch
) -> None:
    unruly.replies["GET /v1/health"] = (200, {"ok": True})
    monkeypatch.setenv("AGENTCORE_STATE_DIR", str(tmp_path))
    announce(tmp_path, project, url=unruly.url)
    with Client.connect(project / "src") as client:
        assert client.health()


def test_token_is_not_shown_when_the_server_is_printed(tmp_path: Path, project: Path) -> None:
    announce(tmp_path, project)
    assert TOKEN not in repr(find_server(project, state=tmp_path))
