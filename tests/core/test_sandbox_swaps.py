"""A folder becomes a link while a sandbox is built around a command: what the link leads to must not come in.

The program that stands for bubblewrap here bends the project, as a command that runs already could, and then goes on
as bubblewrap itself.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from agentcore.permissions.workspace import Workspace
from agentcore.ports.sandbox import SandboxProfile
from agentcore.sandbox import bubblewrap, gate
from agentcore.sandbox.bubblewrap import Bubblewrap
from agentcore.sandbox.gate import CHANGED
from tests.core.test_sandbox_escapes import KEY, Cell, cell, probed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is there for Linux"),
]
__all__ = ["cell", "probed"]

Bent = Callable[[str], Cell]


@pytest.fixture
def bent(tmp_path: Path) -> Bent:
    """A workbench for which a line of shell runs in the project behind each look at it."""

    def make(line: str) -> Cell:
        program = tmp_path / "bwrap"
        real = bubblewrap.find()
        flag = tmp_path / "ready"
        assert real is not None
        program.write_text(
            f'#!/bin/sh\n[ -e {flag} ] && (cd {tmp_path}/project && {line})\nexec {shlex.quote(real)} "$@"\n'
        )
        program.chmod(0o755)
        sandbox = Bubblewrap(str(program))
        anyio.run(sandbox.probe)
        if not sandbox.is_available:
            pytest.skip(f"the sandbox cannot run here: {sandbox.why_not}")
        flag.touch()
        return Cell(tmp_path, sandbox)

    return make


SWAPS = {
    "above a protected place": ".config",
    "a protected place": ".vscode",
    "above a hidden one": "etc",
    "a hidden one": "keys",
    "one with a git folder": ".git",
}


@pytest.mark.parametrize("name", SWAPS.values(), ids=SWAPS)
@pytest.mark.parametrize("leads_to", ["home", "home/.ssh", "outside", ""])
def test_a_folder_that_becomes_a_link_keeps_the_command_from_running(bent: Bent, name: str, leads_to: str) -> None:
    cell = bent(f"mv {name} was && ln -s ../{leads_to} {name}")
    for folder in (".config/git", ".vscode", "etc/git", "keys/git"):
        (cell.root / folder).mkdir(parents=True, exist_ok=True)
    for folder in (".config/git", "git", ".ssh/git"):
        (cell.home / folder).mkdir(parents=True, exist_ok=True)
    said = anyio.run(cell.run, f"touch {cell.root}/ran {name}/ran; cat {name}/id {name}/.ssh/id {cell.home}/.ssh/id")
    assert KEY not in said
    assert "did not run" in said
    assert "folder changed while" in said
    assert not list(cell.root.parent.rglob("ran"))


def test_a_root_that_becomes_a_link_keeps_the_command_from_running(bent: Bent) -> None:
    cell = bent("mv sub was && ln -s ../outside sub")
    sub = cell.root / "sub"
    sub.mkdir(exist_ok=True)
    cell.use(Workspace(sub, (sub,)))
    said = anyio.run(cell.run, f"touch {cell.outside}/ran {sub}/ran")
    assert "[exit code 0]" not in said
    assert not list(cell.root.parent.rglob("ran"))


def test_what_changes_elsewhere_is_in_nobodys_way(bent: Bent) -> None:
    cell = bent("mkdir new && ln -s new way && mv etc/token etc/t && mv etc/t etc/token")
    assert anyio.run(cell.run, "ls -d new way") == "new\nway\n[exit code 0]"


def test_a_folder_that_is_a_link_before_the_command_is_started_is_refused(cell_of_links: Cell) -> None:
    said = anyio.run(cell_of_links.run, "touch ran")
    assert said == f"the command could not be started: {CHANGED}"


@pytest.fixture
def cell_of_links(bent: Bent) -> Cell:
    """Its root is given by a path that a link is part of."""
    cell = bent(":")
    way = cell.root.parent / "way"
    way.symlink_to(cell.root)
    cell.use(Workspace(cell.root, (cell.root, way / "sub")))
    (cell.root / "sub").mkdir(exist_ok=True)
    return cell


# --- the first process ---

LIBC = "import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\n"
TRACES = {
    "seized": "syscall(101, 0x4206, 1, 0, 0)",
    "attached": "syscall(101, 16, 1, 0, 0)",
    "by a wide number": "syscall(101, ctypes.c_long(0x4206), ctypes.c_long(1 << 32 | 1), 0, 0)",
    "read": "syscall(310, 1, 0, 0, 0, 0, 0)",
    "written": "syscall(311, 1, 0, 0, 0, 0, 0)",
}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of the calls are those of x86-64")
@pytest.mark.parametrize("call", TRACES.values(), ids=TRACES)
async def test_bubblewraps_own_process_is_not_traced(cell: Cell, call: str) -> None:
    code = f"{LIBC}if libc.{call} >= 0:\n    print('ESCAPED')\nelse:\n    print(errno.errorcode[ctypes.get_errno()])"
    assert await cell.python(code) == "EPERM"


@pytest.mark.parametrize("name", ["mem", "task/1/mem", "environ", "fd", "root", "cwd"])
async def test_nothing_of_bubblewraps_own_process_is_opened(cell: Cell, name: str) -> None:
    assert await cell.python(f"os.open('/proc/1/{name}', os.O_RDONLY)\nprint('ESCAPED')") == "ENOENT"
    assert "mem" not in await cell.run("mv /proc/1 /proc/x; rmdir /proc/1; ls -A /proc/1 /proc/x")


async def test_a_command_traces_its_own_children(cell: Cell) -> None:
    code = "p = os.fork()\nif p == 0:\n    import time; time.sleep(5); os._exit(0)\n"
    assert await cell.python(f"{LIBC}{code}print(libc.ptrace(16, p, 0, 0))\nos.kill(p, 9)") == "0"


async def test_the_first_process_is_gone_behind_the_call_whatever_it_has_become(tmp_path: Path) -> None:
    """Here it dies with nobody, and hears no request to end."""
    script = """while [ $# -gt 0 ]; do [ "$1" = --info-fd ] && fd=$2; shift; done; [ -z "$fd" ] && exit 0
        sh -c "trap '' TERM HUP INT; while :; do sleep 0.05; done" >&- 2>&- &
        echo '"child-pid": '$! > /proc/self/fd/$fd; echo $!"""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    sandbox = Bubblewrap(str(program))
    await sandbox.probe()
    async with sandbox.around(["true"], tmp_path, os.environ, SandboxProfile((tmp_path,))) as boxed:
        started = partial(
            subprocess.run, boxed.argv, env=boxed.environ, pass_fds=boxed.keep_fds, check=True, stdout=subprocess.PIPE
        )
        first = int((await to_thread.run_sync(started)).stdout)
        os.kill(first, 0)
    status = Path(f"/proc/{first}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


async def test_what_was_made_is_set_aside_though_the_first_process_takes_its_time(cell: Cell, monkeypatch: Any) -> None:
    monkeypatch.setattr(gate, "GONE_S", 0)
    assert ".envrc.unapproved" in await cell.run("touch .envrc")
