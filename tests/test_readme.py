"""What the README tells people to paste works as pasted."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.daemon import WAIT_S, Daemon

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
RUN, SECOND_TERMINAL, THIRD_TERMINAL, TEST, HEADLESS = BLOCKS


def environment(daemon: Daemon) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH",)}
    return {**kept, "HOME": str(daemon.root / "home"), "AGENTCORE_STATE_DIR": str(daemon.state_dir)}


def test_the_commands_are_the_ones_that_everything_else_calls() -> None:
    assert "pip install -q . && .venv/bin/agentcore serve" in RUN
    assert TEST.strip() in (ROOT / ".ci" / "run").read_text()
    assert (ROOT / "README.md").read_text().index("agentcore serve") < 700


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="the recipe is written for bash")
def test_the_recipe_goes_from_a_session_to_the_answer(daemon: Daemon) -> None:
    """Two terminals: the first follows the stream while the second answers."""
    first = subprocess.Popen(
        ["/bin/bash", "-c", SECOND_TERMINAL + "\nwait"],
        cwd=ROOT,
        env=environment(daemon),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert first.stdout is not None
    try:
        lines = iter(first.stdout.readline, "")
        seen = [next(line for line in lines if line.startswith("event: permission_request"))]
        second = subprocess.run(
            ["/bin/bash", "-c", THIRD_TERMINAL],
            cwd=ROOT,
            env=environment(daemon),
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=True,
        )
        assert '"request_id":"perm-1"' in second.stdout
        assert second.stderr == ""
        for line in lines:
            seen.append(line)
            if line.startswith('data: {"type":"status"') and '"busy":false' in line:
                break
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        first.stdout.close()
    events = [line.removeprefix("event: ").strip() for line in seen if line.startswith("event: ")]
    assert [event for event in events if event.startswith("permission")] == [
        "permission_request",
        "permission_resolved",
    ]
    assert events[-2:] == ["done", "status"]
    assert '"stop_reason":"end_turn"' in "".join(seen)


def test_the_headless_command_prints_the_answer(tmp_path: Path) -> None:
    ran = subprocess.run(
        ["/bin/sh", "-c", HEADLESS.replace(".venv/bin/agentcore", "agentcore")],
        cwd=tmp_path,
        env={"PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert '{"type":"done"' in ran.stdout
