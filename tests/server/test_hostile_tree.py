"""A project with everything hostile at once, before a real daemon: opened and worked in, it runs nothing and leads
nobody out of it."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.daemon import Daemon, running
from tests.server.test_approvals_http import plant

pytestmark = pytest.mark.anyio

IN_ACCESS, IN_OPEN = 0x1, 0x20
SECRET = "sk-very-secret"


class Opened:
    """What is opened or read in a folder, by whichever process, as the kernel tells it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def names(self) -> set[str]:
        found = set[str]()
        try:
            while data := os.read(self._descriptor, 65_536):
                while data:
                    size = int.from_bytes(data[12:16], "little")
                    found.add(data[16 : 16 + size].rstrip(b"\0").decode())
                    data = data[16 + size :]
        except BlockingIOError:
            return found
        return found


@contextmanager
def watching(folder: Path) -> Iterator[Opened]:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert libc.inotify_add_watch(descriptor, os.fsencode(folder), IN_ACCESS | IN_OPEN) >= 0
    try:
        yield Opened(descriptor)
    finally:
        os.close(descriptor)


CALLS: list[dict[str, Any]] = [
    {"name": "ls", "input": {"path": "."}},
    {"name": "glob", "input": {"pattern": "**/*"}},
    {"name": "grep", "input": {"pattern": "sk-very", "output_mode": "content"}},
    {"name": "read", "input": {"file_path": "AGENTS.md"}},
    {"name": "read", "input": {"file_path": "key"}},
    {"name": "read", "input": {"file_path": "away/secret.json"}},
    {"name": "read", "input": {"file_path": "pipe"}},
    {"name": "write", "input": {"file_path": "a.py", "content": "import os\n"}},
    {"name": "write", "input": {"file_path": "away/b.py", "content": "x\n"}},
    {"name": "bash", "input": {"command": "ls"}},
    {"name": "bash", "input": {"command": "git status; git -C nested status; git -C endless status; git log"}},
    {"name": "bash", "input": {"command": "git diff"}},
    {"name": "skill", "input": {"name": "evil"}},
    {"name": "evil", "input": {}},
]


async def prompt(http: httpx.AsyncClient, session: str, text: str) -> httpx.Response:
    return await http.post(f"/v1/sessions/{session}/prompt", json={"text": text, "wait": True}, timeout=60)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="the kernel that tells of opened files is Linux")
@pytest.mark.parametrize("inside", [".", "nested", "endless"])
async def test_a_hostile_project_runs_nothing_and_leads_nobody_out(tmp_path: Path, inside: str) -> None:
    outside, ran = tmp_path / "outside", tmp_path / "ran"
    outside.mkdir()
    secret = outside / "secret.json"
    secret.write_text(f'{{"key": "{SECRET}"}}')
    daemon = Daemon(tmp_path)
    plant(daemon.cwd, ran, secret)
    model = daemon.script("calls", {"turns": [{"tool_calls": CALLS}, {"text": "Done."}, {"text": "Done."}]})
    with watching(outside) as opened, running(tmp_path, "--debug", "--model", model) as daemon:
        async with daemon.client() as http:
            with anyio.fail_after(60):
                asked = {"cwd": str(daemon.cwd / inside), "mode": "accept-edits", "unattended": "deny"}
                made = await http.post("/v1/sessions", json=asked)
                assert made.status_code == 201, made.text
                session = made.json()["id"]
                done = await prompt(http, session, f"Look at @key and @away/secret.json and @{secret} and @pipe")
                assert (done.status_code, done.json().get("stop_reason")) == (200, "end_turn"), done.text
                await prompt(http, session, "/evil")
                daemon.restart()
            async with daemon.client() as again:
                await again.get(f"/v1/sessions/{session}")
                await prompt(again, session, "go on")
        assert opened.names() == set()
        events = daemon.events(session)
    assert not ran.exists()
    ended = [event for event in events if event["type"] == "tool_end"]
    assert sorted(event["tool_name"] for event in ended[: len(CALLS)]) == sorted(one["name"] for one in CALLS)
    kept = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert [path.name for path in kept if SECRET.encode() in path.read_bytes()] == []
    assert list(outside.iterdir()) == [secret]
