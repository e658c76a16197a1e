"""Work on hostile bytes costs at most its bounds, and never the process that asked for it."""

import os
import resource
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from agentcore.confined import Bounds, Confinement, TooMuch
from agentcore.errors import Unprocessable

pytestmark = pytest.mark.anyio

BOUNDS = Bounds(memory_bytes=512 * 1024 * 1024, cpu_s=5, wall_s=20.0)


def work(name: str, bounds: Bounds = BOUNDS) -> Confinement:
    return Confinement(f"tests.work:{name}", bounds)


async def test_bytes_go_in_and_come_out() -> None:
    data = bytes(range(256)) * 10_000
    assert await work("reverse").run(data) == data[::-1]
    assert await work("reverse").run(b"") == b""


async def test_a_refusal_comes_back_as_it_is() -> None:
    with pytest.raises(Unprocessable, match=r"^not this one ü$"):
        await work("refuse").run("this one ü".encode())


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("fail", BOUNDS),
        ("die", BOUNDS),
        ("grow", BOUNDS),
        ("spin", Bounds(BOUNDS.memory_bytes, cpu_s=1, wall_s=20.0)),
        ("spin", Bounds(BOUNDS.memory_bytes, cpu_s=100, wall_s=0.5)),
    ],
    ids=["bug", "abort", "memory", "cpu", "wall"],
)
async def test_what_takes_too_much_or_dies_is_told_and_the_next_piece_is_done(name: str, bounds: Bounds) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with anyio.fail_after(20), pytest.raises(TooMuch):
        await work(name, bounds).run(b"")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
    assert await work("reverse").run(b"ab") == b"ba"


async def test_work_that_nobody_waits_for_is_ended(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work("wait").run, str(begun).encode())
            while not begun.exists() or not begun.read_text():
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        pid = int(begun.read_text())
        while is_alive(pid):
            await anyio.lowlevel.checkpoint()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_it_sees_nothing_of_the_servers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    assert b"KEY" not in await work("environment").run(b"")
