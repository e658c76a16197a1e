"""Language servers behind a real daemon: of the user's settings, in the result of a change, in `/v1/info`, and what is
left of them after a SIGKILL."""

import sys
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.daemon import Daemon, running
from tests.mcp.test_servers import is_alive

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).parent.parent / "language_server.py"


def settings(log: Path, *traits: str) -> str:
    words = ", ".join(f'"{word}"' for word in (sys.executable, str(PROGRAM), str(log), *traits))
    return f'[lsp.fake]\ncommand = [{words}]\nsuffixes = [".fake"]\n'


def writing(text: str) -> dict[str, Any]:
    return {
        "turns": [{"tool_calls": [{"name": "write", "input": {"file_path": "a.fake", "content": text}}]}, {"text": "."}]
    }


async def changed(daemon: Daemon, http: httpx.AsyncClient, model: str) -> str:
    """The result of the write in a session of its own."""
    made = await http.post("/v1/sessions", json={"model": model, "mode": "accept-edits"})
    assert made.status_code == 201, made.text
    session = str(made.json()["id"])
    answer = await http.post(f"/v1/sessions/{session}/prompt", json={"text": "go", "wait": True})
    assert answer.status_code == 200, answer.text
    [end] = [event for event in daemon.events(session) if event["type"] == "tool_end"]
    assert not end["is_error"]
    return str(end["output"])


def working(log: Path) -> set[int]:
    """All processes that carry the name of this test's log: a server, and what it started."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(log).encode() in line:
                found.add(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc").exists(), reason="marks are found through /proc")
async def test_what_a_killed_daemon_left_of_language_servers_is_ended_by_the_next(tmp_path: Path) -> None:
    daemon, log = Daemon(tmp_path), tmp_path / "language.log"
    daemon.configure(settings(log, "stays", "child"))
    model = daemon.script("write", writing("BAD"))
    with running(tmp_path, "--model", model) as daemon:
        async with daemon.client() as http:
            assert "a.fake:1:1: error: BAD here" in await changed(daemon, http, model)
        pids = working(log)
        assert len(pids) == 2
        daemon.kill()
        assert all(is_alive(pid) for pid in pids)
        daemon.start()
        with anyio.fail_after(20):
            while any(is_alive(pid) for pid in pids):  # noqa: ASYNC110 - they are no children of ours
                await anyio.sleep(0.01)


async def test_a_language_server_that_does_not_run_is_told_with_the_change_and_in_the_info(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.configure(settings(tmp_path / "language.log", "die-at-start"))
    model = daemon.script("write", writing("BAD"))
    with running(tmp_path, "--model", model) as daemon:
        async with daemon.client() as http:
            name = Path(sys.executable).name
            why = f"The language server {name} does not run: it ended"
            assert f"[problems are not known yet: {why}]" in await changed(daemon, http, model)
            [shown] = (await http.get("/v1/info")).json()["lsp"]
            assert (shown["language"], shown["server"], shown["error"]) == ("fake", name, why)
            assert shown["state"] in ("restarting", "starting")
