"""A server on a Unix socket: found and talked to like any other."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcore_client.async_client import AsyncClient
from agentcore_client.client import Client
from tests.daemon import COMMAND, WAIT_S


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The state folder of a running server; short, since the path of a socket has 107 bytes at most."""
    with tempfile.TemporaryDirectory() as folder:
        command = [COMMAND, "serve", "--uds", f"{folder}/s", "--state-dir", folder, "--model", "scripted/demo"]
        environ = {"PATH": os.environ["PATH"], "HOME": folder}
        server = subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert server.stdout is not None
        assert server.stdout.readline()
        monkeypatch.setenv("AGENTCORE_STATE_DIR", folder)
        yield Path(folder)
        server.terminate()
        assert server.wait(WAIT_S) == 0
        server.stdout.close()


def test_a_prompt_runs_over_the_socket(state: Path) -> None:
    with Client.connect(state) as client:
        session = client.create_session(cwd=str(state))
        events = [event.type for event in session.prompt("Show me.", on_permission=lambda request: True)]
    assert events[-1] == "done"


@pytest.mark.anyio
async def test_the_async_client_reaches_it_too(state: Path) -> None:
    async with AsyncClient.connect(state) as client:
        assert await client.list_sessions()
