"""bash with real processes: what it answers, what it streams, and that nothing outlives it."""

import os
import subprocess
import tracemalloc
from pathlib import Path
from typing import Any

import anyio
import pytest

from agentcore.processes import Command, running
from agentcore.tools.output import MAX_SHOWN_BYTES, LiveOutput
from tests.core.test_tools import Workbench

pytestmark = pytest.mark.anyio

NOTHING_LEFT = "sleep 300 & echo $! >> pids; setsid sleep 300 & echo $! >> pids; echo $$ >> pids; "


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path)


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


async def gone(path: Path, count: int) -> None:
    """Return when all `count` processes named in the file have ended."""
    pids = [int(line) for line in path.read_text().split()]
    assert len(pids) == count
    with anyio.fail_after(5):
        while any(map(is_alive, pids)):  # noqa: ASYNC110 - other processes raise no events
            await anyio.sleep(0.01)


async def appeared(path: Path) -> None:
    with anyio.fail_after(5):
        while not path.exists():  # noqa: ASYNC110 - other processes raise no events
            await anyio.sleep(0.01)


# --- the answer ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo ok", "ok\n[exit code 0]"),
        ("true", "(no output)\n[exit code 0]"),
        ("echo out; echo err >&2; exit 3", "out\nerr\n[exit code 3]"),
        ("printf 'no end'", "no end\n[exit code 0]"),
        ("kill -9 $$", "(no output)\n[ended by SIGKILL]"),
        ("cat", "(no output)\n[exit code 0]"),
        ("pwd | sed 's:.*/::'", "project\n[exit code 0]"),
        ("printf 'a\\0b\\377\\303\\251'", "a\ufffdb\ufffdé\n[exit code 0]"),
        ("printf 'a\\303'", "a\ufffd\n[exit code 0]"),
        ("[[ a == a ]] && echo bash", "bash\n[exit code 0]"),
        ("exec >&- 2>&-; sleep 0.05; exit 4", "(no output)\n[exit code 4]"),
    ],
)
async def test_a_command_answers_with_its_output_and_exit_code(bench: Workbench, command: str, output: str) -> None:
    outcome = await bench.call("bash", command=command, description="a test")
    assert (outcome.output, outcome.is_error) == (output, False)
    printed = output.removeprefix("(no output)").rpartition("\n[")[0]
    assert "".join(bench.said).removesuffix("\n") == printed


@pytest.mark.parametrize("command", ["-n", "--version", "-c echo"])
async def test_a_command_that_begins_with_a_dash_is_no_flag(bench: Workbench, command: str) -> None:
    assert "[exit code 127]" in await bench.output("bash", command=command)


@pytest.mark.parametrize(
    ("command", "words"),
    [("echo a\0b", "embedded null byte"), ("true " + "x" * 200_000, "Argument list too long")],
)
async def test_what_cannot_be_started_says_why(bench: Workbench, command: str, words: str) -> None:
    assert words in await bench.error("bash", command=command)


async def test_a_missing_working_directory_is_told(bench: Workbench) -> None:
    bench.root.rmdir()
    assert "working directory" in await bench.error("bash", command="true")


async def test_commands_get_the_environment_without_secrets(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "EDITOR": "vi", "OPENAI_API_KEY": "k", "gh_token": "k", "AGENTCORE_URL": "k"}
    output = await Workbench(tmp_path, environ).output("bash", command="env")
    names = {line.partition("=")[0] for line in output.split("\n")[:-1]}
    told = {name for name in names if name.startswith("GIT_CONFIG_")}
    assert names - {"PWD", "SHLVL", "_"} - told == {"PATH", "EDITOR", "AGENTCORE_CALL"}


async def test_git_runs_nothing_that_came_with_the_files(tmp_path: Path) -> None:
    """A monitor in the configuration, and a repository that is ordinary files of the project."""
    hostile, inner = tmp_path / "project", tmp_path / "project" / "docs" / "api"
    for folder in (hostile, inner):
        folder.mkdir(parents=True, exist_ok=True)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GIT_CONFIG_COUNT": "1",
    }  # the rest was a secret's name
    settings = f"git config core.fsmonitor 'touch {tmp_path}/ran; false'"
    bare = f"git init -q --bare . && git config core.bare false && git config core.worktree .. && {settings}"
    subprocess.run(["sh", "-c", f"git init -q . && {settings}"], cwd=hostile, check=True)
    subprocess.run(["sh", "-c", bare], cwd=inner, check=True)
    bench = Workbench(tmp_path, environ)
    assert "[exit code 0]" in await bench.output("bash", command="git status")
    assert "bare repository" in await bench.output("bash", command="cd docs/api && git status")
    assert not (tmp_path / "ran").exists()


# --- the end of the tree ------------------------------------------------------------------------------------------


async def test_children_in_the_background_end_with_the_call(bench: Workbench) -> None:
    with anyio.fail_after(10):
        output = await bench.output("bash", command=NOTHING_LEFT + "echo done")
    assert output == "done\n[exit code 0]"
    await gone(bench.root / "pids", 3)


async def test_a_child_that_forks_on_and_hides_in_sessions_is_found(bench: Workbench) -> None:
    fork = (
        "setsid bash -c 'echo $$ >> pids; setsid bash -c \"echo \\$\\$ >> pids; touch ready; exec sleep 300\" & wait' &"
    )
    with anyio.fail_after(10):
        await bench.output("bash", command=f"{fork} until [ -e ready ]; do sleep 0.01; done")
    await gone(bench.root / "pids", 2)


@pytest.mark.parametrize("stubborn", ["", "trap '' TERM; "])
async def test_a_timeout_is_an_error_with_the_output_so_far(bench: Workbench, stubborn: str) -> None:
    with anyio.fail_after(10):
        outcome = await bench.call("bash", command=f"{stubborn}echo begun; {NOTHING_LEFT} wait", timeout=300)
    assert (outcome.output, outcome.is_error) == ("begun\n[timed out after 300 ms and was ended]", True)
    assert "".join(bench.said) == "begun\n"
    await gone(bench.root / "pids", 3)


@pytest.mark.parametrize("timeout", [0, 600_001])
def test_timeouts_beyond_the_bounds_are_refused(bench: Workbench, timeout: int) -> None:
    with pytest.raises(ValueError, match="timeout"):
        bench.tools["bash"].spec.input.model_validate({"command": "true", "timeout": timeout})


async def test_a_cancelled_command_has_said_all_it_printed(bench: Workbench) -> None:
    command = f"trap 'echo last words; exit' TERM; echo one; {NOTHING_LEFT} echo two; touch ready; wait"
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: bench.call("bash", command=command))
            await appeared(bench.root / "ready")
            group.cancel_scope.cancel()
    assert "".join(bench.said) == "one\ntwo\nlast words\n"
    await gone(bench.root / "pids", 3)


async def test_a_command_cancelled_while_it_starts_leaves_nothing(bench: Workbench) -> None:
    for _ in range(5):
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: bench.call("bash", command="echo $$ >> pids; exec sleep 300"))
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    started = (bench.root / "pids").read_text().split() if (bench.root / "pids").exists() else []
    assert not any(is_alive(int(pid)) for pid in started)


async def test_output_behind_the_command_still_arrives(bench: Workbench) -> None:
    command = "echo through > >(sed s/^/piped-/)"
    assert await bench.output("bash", command=command) == "piped-through\n[exit code 0]"


async def test_the_end_leaves_no_descriptor_open(bench: Workbench) -> None:
    await bench.output("bash", command="true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        await bench.output("bash", command="sleep 300 & true")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


async def test_without_an_exit_descriptor_the_tree_ends_as_well(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentcore.processes._exit_descriptor", lambda pid: None)
    assert await bench.output("bash", command=NOTHING_LEFT + "exit 5") == "(no output)\n[exit code 5]"
    await gone(bench.root / "pids", 3)


async def test_an_error_inside_ends_the_command_too(bench: Workbench) -> None:
    async def fail_inside() -> None:
        command = Command(("sh", "-c", "echo $$ > pids; touch ready; sleep 300"), bench.root, os.environ)
        async with running(command, lambda chunk: None):
            await appeared(bench.root / "ready")
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        await fail_inside()
    await gone(bench.root / "pids", 1)


# --- the stream ---------------------------------------------------------------------------------------------------


async def test_output_is_said_while_the_command_runs(bench: Workbench) -> None:
    async def answer() -> None:
        with anyio.fail_after(5):
            while "ready?\n" not in bench.said:  # noqa: ASYNC110 - a list raises no events
                await anyio.sleep(0.01)
        bench.put("go")

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(answer)
            await bench.output("bash", command="echo ready?; until [ -e go ]; do sleep 0.01; done; echo bye")
    assert bench.said == ["ready?\n", "bye\n"]


async def test_pieces_that_come_fast_are_said_together() -> None:
    said: list[str] = []
    output = LiveOutput(said.append)
    async with anyio.create_task_group() as group:
        group.start_soon(output.show)
        for _ in range(1000):
            output.take(b"x")
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    output.close()
    assert "".join(said) == "x" * 1000
    assert len(said) < 100


async def test_many_small_writes_are_said_in_few_pieces(bench: Workbench) -> None:
    await bench.output("bash", command="for i in {1..20000}; do echo $i; done")
    assert "".join(bench.said) == "".join(f"{number}\n" for number in range(1, 20_001))
    assert len(bench.said) < 500


async def test_a_character_cut_by_the_pipe_is_said_whole(bench: Workbench) -> None:
    await bench.output("bash", command="printf 'a\\303'; sleep 0.15; printf '\\251b'")
    assert "".join(bench.said) == "aéb"
    assert len(bench.said) == 2


async def test_a_flood_is_bounded_in_memory_events_and_result(bench: Workbench) -> None:
    tracemalloc.start()
    try:
        with anyio.fail_after(60):
            output = await bench.output("bash", command="yes 0123456789 | head -c 200000000; echo; echo end")
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    size_bytes = 200_000_000 + len("\nend\n")
    assert peak_bytes < 8 * 1024 * 1024
    assert output.startswith("0123456789\n")
    assert output.endswith("\nend\n[exit code 0]")
    assert f"[… {size_bytes - 28_000} bytes, " in output
    assert len(output.encode()) < 30_000
    said = "".join(bench.said)
    assert said.endswith("\nend\n")
    assert f"[… {size_bytes - MAX_SHOWN_BYTES - 14_000} bytes not shown …]" in said
    assert len(said) < MAX_SHOWN_BYTES + 20_000
    assert len(bench.said) < 500


async def test_a_flood_without_end_is_stopped_by_its_timeout(bench: Workbench) -> None:
    with anyio.fail_after(10):
        outcome = await bench.call("bash", command="yes & yes", timeout=300)
    assert outcome.is_error
    assert len(outcome.output.encode()) < 30_000


async def test_binary_output_stays_bounded_as_text(bench: Workbench) -> None:
    output = await bench.output("bash", command="head -c 3000000 /dev/urandom; head -c 100000 /dev/zero")
    assert "\0" not in output + "".join(bench.said)
    assert len(output.encode()) < 30_000
