"""A stdout that takes nothing more: every command ends, says no more than it has to, and its code tells why."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcore.events import EVENTS
from tests.daemon import COMMAND

SCRIPTED = ["--model", "scripted/demo"]
COMMANDS = [
    ["--help"],
    ["--version"],
    ["serve", "--help"],
    ["serve", "--port", "0", *SCRIPTED],
    ["run", "-p", "x", *SCRIPTED],
    ["run", "-p", "x", "--output", "json", *SCRIPTED],
    ["models"],
    ["models", "--json"],
    ["config"],
    ["hooks"],
    ["mcp", "list"],
    ["doctor", "latest"],
    ["trace", "latest"],
    ["selfcheck"],
]
NOBODY_READS = 141


def ran(root: Path, *command: str, stdout: int, **environment: str) -> subprocess.CompletedProcess[str]:
    folders = {"HOME": str(root), "XDG_CONFIG_HOME": str(root / "config"), "AGENTCORE_STATE_DIR": str(root / "state")}
    return subprocess.run(
        command,
        cwd=root,
        env={"PATH": os.environ["PATH"], **folders, **environment},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a session in it."""
    folder = tmp_path_factory.mktemp("home")
    assert ran(folder, COMMAND, "run", "-p", "x", *SCRIPTED, stdout=subprocess.DEVNULL).returncode == 0
    return folder


@pytest.fixture
def unread() -> Iterator[int]:
    """The end of a pipe that nobody reads."""
    read, write = os.pipe()
    os.close(read)
    yield write
    os.close(write)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_that_has_left_ends_a_command_quietly(
    root: Path, unread: int, command: list[str], unbuffered: str
) -> None:
    done = ran(root, COMMAND, *command, stdout=unread, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == NOBODY_READS
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.stderr == "" or command[0] == "run"


@pytest.mark.parametrize("command", [["config"], ["run", "-p", "x", *SCRIPTED]], ids=" ".join)
def test_a_full_disk_is_told_in_a_sentence(root: Path, command: list[str]) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    done = ran(root, COMMAND, *command, stdout=full)
    os.close(full)
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, last) == (1, "agentcore: The output could not be written: No space left on device.")
    assert "Traceback" not in done.stderr


def test_without_any_stdout_a_command_does_its_work(root: Path) -> None:
    closed = 'exec "$@" >&- 2>&-'
    done = ran(root, "sh", "-c", closed, "sh", COMMAND, "mcp", "add", "unseen", "--", "x", stdout=subprocess.DEVNULL)
    assert done.returncode == 0
    assert "unseen" in (root / "config" / "agentcore" / "settings.toml").read_text()


def test_a_run_whose_reader_leaves_is_ended_in_good_order(tmp_path: Path) -> None:
    script = tmp_path / "slow.json"
    script.write_text('{"delta_delay_ms": 50, "turns": [{"text": "' + "One two three. " * 400 + '"}]}')
    line = f"{COMMAND} run -p x --output json --model scripted/{script}"
    done = ran(tmp_path, "bash", "-c", f"{line} | head -3; exit ${{PIPESTATUS[0]}}", stdout=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (NOBODY_READS, "agentcore: the run ended early: interrupted\n")
    journal = next((tmp_path / "state").rglob("journal.jsonl")).read_bytes().splitlines()
    events = [EVENTS.validate_json(line) for line in journal if b',"seq":' in line[:60]]
    assert [event.stop_reason for event in events if event.type == "done"] == ["interrupted"]
    assert events[-1].type == "session_closed"
