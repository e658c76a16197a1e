"""Servers whose owner was killed: the next start ends what they left running."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentcore.marks import kill_orphans
from tests.mcp.test_servers import is_alive

ROOT = Path(__file__).parents[2]
OWNER = """
import anyio
from tests.mcp.serving import odd, pool, ready

async def main():
    async with pool() as servers:
        server = await ready(servers, odd("stays", "forks"))
        print((await server.connection(1)).process_id, flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="marks are found through /proc")
def test_what_a_killed_owner_left_running_is_ended_at_the_next_start() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    child = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert is_alive(pid)
    assert is_alive(child)
    kill_orphans()
    assert not is_alive(pid)
    assert not is_alive(child)
